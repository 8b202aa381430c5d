"""How each operator of a function runs: a generated kernel, or a call of PyTorch."""
