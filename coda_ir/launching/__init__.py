"""The execution of kernels: compiled ahead of the first call, launched directly, in CUDA graphs."""
