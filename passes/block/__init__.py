"""Rewrites of the block level: cleanup, and changes of shape that involve no GEMM.

The `drop-*` passes remove operators that have no effect, or only one on gradients; `drop-places`
removes the places of maxima that nothing uses.
`cancel-transposes` removes transposes around code on heads. `flatten-groups` gives code on groups
of columns the shape of the GEMMs around it. `compose-views` minimizes the number of views.
`share-key-heads`, `split-packed-linear`, `split-concatenation` and `pad-rows` change the shapes of
linear maps, before and between the passes of `algebra`. `unroll-sums` rewrites sums over few rows.
`split-bias` moves the bias of a convolution into pointwise code, and `move-loss-slices` a slice of
logits past their loss. `store-operands` rounds what
discontinuous functions are computed from.
"""
