"""Execution of kernels: compilation before the first call, direct launches, CUDA graphs."""
