"""Fusion: turns linear maps into `gemm.fused`, and moves the operators around them into epilogues.

In order: `convert-linear-to-gemm`; pointwise code (`fuse-pointwise`); pairs of columns (`pair-glu`,
`fuse-qk-norm`, `pair-rope`); losses; groups; sums of tiles (`split-reductions`, `fuse-finalize`);
and rows that are gathered or scattered (`fuse-gather`, `fuse-scatter`). The remaining pointwise
code becomes separate kernels (`outline-pointwise`), which also load the rows of embeddings
(`fuse-embedding`). GEMMs of one input are merged (`merge-sibling-gemms`). `report-unfused` reports
why the other operators were not fused.
"""
