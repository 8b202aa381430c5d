"""Random tensors that a function can be called with: for `coda-opt --run`, checks and tests."""

from coda_ir.random_inputs.draw import (
    Values,
    bind_symbols,
    random_arguments,
    random_inputs,
)

__all__ = [
    "Values",
    "bind_symbols",
    "random_arguments",
    "random_inputs",
]
