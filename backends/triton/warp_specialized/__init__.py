"""Kernels of `gemm.fused` for Hopper in Gluon: dedicated warps load while others compute.

A program stays on its multiprocessor and computes tile after tile. One warp loads operands through
TMA, some steps ahead; two groups of four warps compute 64 rows of a tile each. Neither waits for
the other but for a free stage, so that the epilogue of one runs under the products of the other.
"""
