"""Which kernels wait for the kernels before by themselves."""

DEPENDENT_ATTRIBUTE = "coda.dependent"
"""Name of the unit attribute of a `gemm.fused`, `gemm.map` or `gemm.finalize` whose kernel waits
for the kernels before in its own text, so that its launch may overlap with them."""
