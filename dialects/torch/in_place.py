"""Calls of PyTorch that can store their result in the memory of their first operand."""

import ast

from coda_ir.dialects.template import ArgumentTemplate

IN_PLACE = frozenset(
    {f"index_{name}.default" for name in ("add", "copy", "put")}
    | {f"index_fill.int_{value}" for value in ("Scalar", "Tensor")}
    | {f"masked_fill.{value}" for value in ("Scalar", "Tensor")}
    | {f"scatter.{value}" for value in ("src", "value")}
    | {"scatter_add.default", "add.Tensor", "sub.Tensor", "mul.Tensor"}
)
"""The operators of ATen, with their overloads, that have a variant in place."""


def has_variant_in_place(callee: str, arguments: ArgumentTemplate) -> bool:
    """Return whether a call changes its first argument, operand 0, and reads it nowhere else."""
    namespace, _, name = callee.partition(".")
    is_first = bool(arguments.call.args) and isinstance(arguments.call.args[0], ast.Set)
    is_first = is_first and arguments.operands[0] == 0 and arguments.operands.count(0) == 1
    return namespace == "aten" and name in IN_PLACE and is_first


def in_place(callee: str) -> str:
    """The name of the variant in place: `aten.index_put_.default` of `aten.index_put.default`."""
    namespace, name, overload = callee.split(".")
    return f"{namespace}.{name}_.{overload}"
