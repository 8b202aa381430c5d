"""Device functions that emitted kernels call; a module contains those that it uses."""

from collections.abc import Mapping
from types import MappingProxyType

from coda_ir.backends.triton.definitions import RUNTIME, Definition, read_definitions

MODULE_HEADER = (RUNTIME / "header.py").read_text().partition('"""\n\n')[2]
"""The imports and constants at the head of every emitted module."""

_HELPERS = read_definitions(
    "tile_order",
    "device",
    "reductions",
    "powers",
    "main_loops",
    "quantized",
    "attention_heads",
    "attention_tiles",
    "attention_outputs",
    "attention_mask_gradient",
    "delta_rule",
    "delta_rule_gradient",
)


def device_definitions() -> Mapping[str, Definition]:
    """Return all helpers, by name and in order."""
    return MappingProxyType(_HELPERS)
