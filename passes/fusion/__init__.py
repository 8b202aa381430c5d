"""Fusion: linear maps become `gemm.fused`, and what surrounds them moves into epilogues.

In order: `convert-linear-to-gemm`, tails (`fuse-pointwise`), pairs of columns (`pair-glu`,
`fuse-qk-norm`, `pair-rope`), losses, groups, sums of tiles (`split-reductions`, `fuse-finalize`),
and the rows that are read and stored (`fuse-gather`, `fuse-scatter`).
What remains becomes separate kernels (`outline-pointwise`), which look up the rows of embeddings
(`fuse-embedding`), GEMMs of one input become one (`merge-sibling-gemms`), and `report-unfused`
states why an operator stayed outside.
"""
