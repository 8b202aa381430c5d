"""Random arguments of a function, for `coda-opt --run`, checks and tests."""

from coda_ir.random_inputs.draw import (
    Values as Values,
    bind_symbols as bind_symbols,
    random_arguments as random_arguments,
    random_inputs as random_inputs,
)
