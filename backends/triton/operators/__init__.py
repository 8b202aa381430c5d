"""Emission of the operators of a function: a generated kernel, or a call of PyTorch."""
