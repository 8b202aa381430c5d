"""The arguments of a node as the text that `torch.call` stores."""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx import Node
from xdsl.ir import SSAValue

from coda_ir.diagnostics import ModelError
from coda_ir.frontends.torch.types import expression_of, parameter_names, symbolic_text


def result_dtype(node: Node) -> torch.dtype:
    value = node.meta["val"]
    assert isinstance(value, torch.Tensor)
    return value.dtype


def arguments(node: Node) -> tuple[Any, ...]:
    """The positional arguments."""
    return node.args


def argument(node: Node, index: int, name: str, default: Any = None) -> Any:
    """An argument by position or by name."""
    return node.args[index] if len(node.args) > index else node.kwargs.get(name, default)


class ArgumentWriter:
    """Collects the tensor operands of a node while its arguments are written."""

    def __init__(
        self, tensor: Callable[[object], SSAValue], extents: Mapping[str, tuple[SSAValue, int]]
    ):
        """Set up the writer: `tensor` returns the value of a node, `extents` the computed value
        that has a symbol as an extent; other symbols are extents of arguments.
        """
        self._tensor = tensor
        self._extents = extents
        self.operands: list[SSAValue] = []

    def call(self, node: Node) -> str:
        """Return the arguments of `node`, by position, then by name, or raise CodaError."""
        parts = [self._text(argument) for argument in node.args]
        parts += [f"{name}={self._text(value)}" for name, value in node.kwargs.items()]
        if _makes_tensor(node) and "device" not in node.kwargs:
            # PyTorch would make a number on the CPU, where kernels of a GPU cannot read it.
            parts.append("device=device")
        return ", ".join(parts)

    def _text(self, argument: Any) -> str:
        match argument:
            case Node():
                return self._node(argument)
            case None | bool() | int() | str():
                return repr(argument)
            case float():
                return repr(argument) if math.isfinite(argument) else _non_finite(argument)
            case list() | tuple():
                return f"[{', '.join(map(self._text, argument))}]"  # pyright: ignore
            case torch.SymInt() | torch.SymFloat():
                return self._size(argument)
            case torch.dtype() | torch.layout() | torch.memory_format():
                return str(argument)
            case torch.device():
                return "device"
            case _:
                raise ModelError(
                    f"an operator has an argument of type {type(argument).__name__}",
                    "pass tensors and real numbers, or move it out of the compiled function",
                )

    def _node(self, node: Node) -> str:
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt | int) or _is_of_sizes(value):
            return self._size(value)
        if not isinstance(value, torch.Tensor):
            raise ModelError(
                f"an operator depends on {node.name}, a number that depends on data",
                "move operators such as item out of the compiled function",
            )
        return self._operand(self._tensor(node))

    def _operand(self, operand: SSAValue) -> str:
        if operand not in self.operands:
            self.operands.append(operand)
        return f"{{{self.operands.index(operand)}}}"

    def _size(self, value: object) -> str:
        """Write a symbolic size; an extent of a computed value is written as such."""

        def extent(match: re.Match[str]) -> str:
            if match[0] not in self._extents:
                return match[0]
            owner, axis = self._extents[match[0]]
            return f"size({self._operand(owner)}, {axis})"

        return re.sub(r"[^\W\d]\w*", extent, symbolic_text(value))


def _makes_tensor(node: Node) -> bool:
    """Return whether a node makes a tensor of no other, on a device of its choice."""
    if any(isinstance(given.meta.get("val"), torch.Tensor) for given in node.all_input_nodes):
        return False
    return "device" in parameter_names(node)


def _is_of_sizes(value: object) -> bool:
    """Return whether a number is computed from sizes, such as the ratio of two."""
    if not isinstance(value, torch.SymFloat):
        return False
    return all(symbol.is_integer for symbol in expression_of(value).free_symbols)


def _non_finite(number: float) -> str:
    if math.isnan(number):
        return "nan"
    return "inf" if number > 0 else "-inf"
