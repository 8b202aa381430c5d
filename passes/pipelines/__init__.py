"""Pipelines: passes that run other passes in a stated order.

`torch-to-coda` raises an imported PyTorch model to the block level, `differentiate` derives the
backward of a function, `coda-to-gemm` rewrites the block level as GEMM-plus-epilogue programs and
ends with `lower-leftovers`. `lower-to` runs all of it down to a named level.
"""
