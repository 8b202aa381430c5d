"""Gradients: the backward of a function, derived at the block level (`differentiate`).

In order: `scale-rows-first` moves row factors; `derive-gradient` applies the rules of
`derivatives/`; `drop-zero-gradients` removes computations with zero gradients;
`move-norm-gradient-sums` moves the sums of norm gradients into epilogues; `save-or-recompute`
chooses which values the forward saves; and `stream-logits` avoids storing logits.
"""
