"""Algebra across GEMMs: moves factors of rows and columns past linear maps.

In order: `split-group-norm` splits a GroupNorm into sums of columns and a scale and shift per
sample. `absorb-modulation` makes the scale and shift of each sample parameters of the norm.
`read-narrow-weights` applies the scale of an 8-bit weight after its GEMM. `defer-norms` applies the
statistics of a norm after the GEMM. `place-column-scale` applies the weight of the norm where the
input of the GEMM is computed. `move-scales` and `align-scales` move the remaining factors into
epilogues. `support.legality` has the conditions.
"""
