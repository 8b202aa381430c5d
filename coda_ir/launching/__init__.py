"""How kernels come to run: compiled ahead of the first call, launched directly, in CUDA graphs."""
