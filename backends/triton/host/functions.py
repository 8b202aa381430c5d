"""Host functions that emitted modules use; a module contains those that its `run` calls."""

from collections.abc import Sequence

from coda_ir.backends.triton.definitions import (
    Definition,
    read_definitions,
    used_names,
    with_uses,
)

_FUNCTIONS = read_definitions(
    *("tensors", "launches", "packed_weights", "attention", "gradients", "attention_gradient"),
    *("direct", "replay"),
)

HOST_NAMES = (*_FUNCTIONS, "KERNELS", "arguments", "call", "empty", "run", "run_boxed", "stream")
"""Names of a module that its kernels and variables must not take."""


def host_functions(text: str) -> list[Definition]:
    """The host functions that a text calls, and what these use."""
    return with_uses(_FUNCTIONS, used_names(text) & _FUNCTIONS.keys())


def standard_modules(definitions: Sequence[Definition]) -> list[str]:
    """The modules of the standard library that definitions need."""
    return sorted({module for definition in definitions for module in definition.modules})
