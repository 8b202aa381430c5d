"""The arguments and results of a function of the IR, in PyTorch's terms.

PyTorch is imported on demand, because passes and emission do not need it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from coda_ir.diagnostics import InvalidProgramError
from coda_ir.dialects.coda.shapes import AnyTensor
from coda_ir.dialects.coda.weights import WEIGHT
from coda_ir.dialects.element_types import BY_ATTRIBUTE, ElementType
from coda_ir.equal_sizes import equal_sizes
from coda_ir.symbolic_shapes import SymbolicShapes, known_dims, stated_conditions

if TYPE_CHECKING:
    import torch

    from coda_ir.calls.arguments import Signature, TensorSpec


def stated_dtype(type: Attribute) -> torch.dtype:
    """Return the torch type of an element type, or of the elements of a tensor type.

    Raises CodaError for a type that PyTorch does not have.
    """
    import torch

    return getattr(torch, _element_type(type).torch)


def _element_type(type: Attribute) -> ElementType:
    # Not `isa`: it builds a constraint per call, which dominated the time of small programs.
    if isinstance(type, TensorType):
        type = cast(AnyTensor, type).element_type
    known = BY_ATTRIBUTE.get(type)
    if known is None:
        raise InvalidProgramError(
            f"element type {type} has no counterpart in PyTorch",
            "use bf16, f16, f32, f64, f8E4M3FN, f8E5M2, i1, i8, ui8, i16, i32 or i64",
        )
    return known


def entry_of(entries: ArrayAttr[DictionaryAttr] | None, index: int) -> DictionaryAttr:
    """Return the metadata of argument or result `index`; empty if there is none."""
    known = () if entries is None else entries.data
    return known[index] if index < len(known) else DictionaryAttr({})


def entry_name(entry: DictionaryAttr) -> str | None:
    """Return the `coda.name` of an argument or a result."""
    name = entry.data.get("coda.name")
    return name.data if isinstance(name, StringAttr) else None


def signature_of(func: FuncOp) -> Signature:
    """Return the signature, from the types, the metadata and the operators of `func`.

    Raises CodaError for an argument or a result that is not a tensor.
    """
    from coda_ir.calls.arguments import Signature

    types = func.function_type
    arguments = _specs(types.inputs.data, func.arg_attrs, "arg")
    results = _specs(types.outputs.data, func.res_attrs, "result")
    conditions = stated_conditions(func)
    if any(not isinstance(dim, int) for spec in arguments for dim in spec.dims):
        shapes = SymbolicShapes(func)
        pairs = equal_sizes(func, shapes)
        conditions += tuple(f"{a} == {b}" for a, b in pairs)
        if pairs:
            # Extents without a name get one, which conditions use.
            dims = map(shapes.dims, func.args)
            arguments = tuple(replace(x, dims=of) for x, of in zip(arguments, dims, strict=True))
    return Signature(func.sym_name.data, arguments, results, conditions)


def check_types(func: FuncOp) -> None:
    """Raise the errors of `signature_of`."""
    for types, prefix in (
        (func.function_type.inputs, "arg"),
        (func.function_type.outputs, "result"),
    ):
        for index, type in enumerate(types.data):
            _element_type(_tensor(type, f"{prefix}{index}"))


def _specs(
    types: Sequence[Attribute], entries: ArrayAttr[DictionaryAttr] | None, prefix: str
) -> tuple[TensorSpec, ...]:
    from coda_ir.calls.arguments import TensorSpec

    specs: list[TensorSpec] = []
    for index, type in enumerate(types):
        tensor, entry = _tensor(type, f"{prefix}{index}"), entry_of(entries, index)
        name, dims = entry_name(entry), known_dims(tensor, entry)
        is_weight = WEIGHT in entry.data
        specs.append(TensorSpec(name or f"{prefix}{index}", dims, stated_dtype(tensor), is_weight))
    return tuple(specs)


def _tensor(type: Attribute, name: str) -> AnyTensor:
    if not isinstance(type, TensorType):
        raise InvalidProgramError(
            f"{name} has type {type}, expected a tensor", "pass a scalar as a tensor<f32>"
        )
    return cast(AnyTensor, type)
