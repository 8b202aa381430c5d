"""Algebra across GEMMs: factors of rows and columns move past a linear map.

In order: `split-group-norm` makes a GroupNorm sums of columns, and a scale and shift of each
sample, `absorb-modulation` makes scale and shift of each sample parameters of their norm,
`read-narrow-weights` moves the scale of a weight of 8 bits behind its GEMM, `defer-rms-norm`
and `defer-layer-norm` apply the statistics of a norm after the GEMM, `place-column-scale` gives the
weight of the norm to the producer, `move-scales` and `align-scales` bring the remaining factors to
where an epilogue takes them. Conditions are in `support.legality`.
"""
