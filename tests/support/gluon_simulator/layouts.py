"""Triton's layouts, which are plain data: the simulator passes them on and compares them."""

import importlib
from dataclasses import dataclass
from typing import Any, cast

_language: Any = importlib.import_module("triton.experimental.gluon.language")
_hopper: Any = importlib.import_module("triton.experimental.gluon.language.nvidia.hopper")

LAYOUTS: dict[str, Any] = {
    name: getattr(_language, name) for name in dir(_language) if name.endswith("Layout")
}
"""Every layout of `triton.experimental.gluon.language` by name."""
MBarrierLayout: Any = _hopper.mbarrier.MBarrierLayout


@dataclass(frozen=True)
class DerivedLayout:
    """The layout that Triton infers for the result of an operator; only its identity matters."""

    operator: str
    source: object


def items_of(value: object) -> list[Any]:
    """The items of a list or tuple, or `value` as the only item."""
    return list(cast("list[Any]", value)) if isinstance(value, list | tuple) else [value]


def sliced(layout: object, axis: int) -> Any:
    """The layout of a block after a reduction over an axis."""
    return LAYOUTS["SliceLayout"](axis, layout)


def expanded(layout: Any) -> object:
    """The layout of a block that gets a dimension."""
    return layout.parent if isinstance(layout, LAYOUTS["SliceLayout"]) else layout
