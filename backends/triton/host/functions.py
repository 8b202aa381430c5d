"""Host functions of emitted modules; a module contains those that its `run` calls."""

import builtins
from collections.abc import Sequence
from functools import cache

from coda_ir.backends.triton.definitions import Definition, read_definitions, used_by
from coda_ir.backends.triton.names import symbols_of
from coda_ir.backends.triton.prelude import MODULE_HEADER, device_definitions

_FUNCTIONS = read_definitions(
    *("tensors", "launches", "packed_weights", "attention", "gradients", "attention_masks"),
    *("attention_gradient", "direct"),
)

ENTRIES = ("KERNELS", "run", "run_boxed")
"""Names that the importer of a module reads."""


@cache
def module_names() -> frozenset[str]:
    """Return names that a module may define or use besides its kernels, which get none of them."""
    definitions = {**_FUNCTIONS, **device_definitions()}
    used = {name for definition in definitions.values() for name in definition.uses}
    return frozenset({*definitions, *used, *symbols_of(MODULE_HEADER), *ENTRIES, *dir(builtins)})


def host_functions(text: str) -> list[Definition]:
    """Return the host functions that a text calls, and their dependences."""
    return used_by(text, _FUNCTIONS)


def standard_modules(definitions: Sequence[Definition]) -> list[str]:
    """Return the modules of the standard library that definitions need."""
    return sorted({module for definition in definitions for module in definition.modules})
