"""Random tensors that a function can be called with: for `coda-opt --run`, checks and tests."""

from coda_ir.random_inputs.draw import (
    DEFAULT_SIZE,
    UNNAMED,
    Values,
    bind_symbols,
    random_arguments,
    random_inputs,
    symbols_of,
)

__all__ = [
    "DEFAULT_SIZE",
    "UNNAMED",
    "Values",
    "bind_symbols",
    "random_arguments",
    "random_inputs",
    "symbols_of",
]
