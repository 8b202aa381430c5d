"""The block level: cleaning up, and rewrites of shapes that need no GEMM.

The `drop-*` passes remove what has no effect, or none without a gradient.
`cancel-transposes` computes on heads where transposes would move them back, and `flatten-groups`
gives code on groups of columns the shape of the GEMMs around it. `compose-views` makes the fewest
views of a tensor that have the same elements.
`share-key-heads`, `split-packed-linear`, `split-concatenation` and `pad-rows` choose the shapes of
linear maps, around and between the passes of `algebra`; `unroll-sums` that of sums over few rows.
`split-bias` leaves the bias of a convolution to pointwise code.
"""
