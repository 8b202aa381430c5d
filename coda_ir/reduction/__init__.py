"""Reduction of a module that shows a fault.

small = reduce_module(module, lambda candidate: crashes(candidate))
"""

from coda_ir.reduction.reducer import NotInterestingError, Progress, reduce_module

__all__ = ["NotInterestingError", "Progress", "reduce_module"]
