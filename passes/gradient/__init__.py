"""Gradients: the backward of a function, derived at the block level (`differentiate`).

In order: `scale-rows-first` moves factors of rows, `derive-gradient` applies the rules of
`derivatives/`, `drop-zero-gradients` removes what is zero, `move-norm-gradient-sums` moves sums of
norms into epilogues, `save-or-recompute` chooses what the forward keeps, and `stream-logits` keeps
logits out of memory.
"""
