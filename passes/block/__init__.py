"""The block level: cleaning up, and rewrites of shapes that need no GEMM.

`canonicalize` and the `drop-*` passes remove what has no effect. `share-key-heads`,
`pad-vocabulary`, `split-packed-linear` and `split-concatenation` choose the shapes of linear maps,
before and between the passes of `algebra`.
"""
