"""A GEMM in isolation, as it is measured, and the key of its stored results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    ModuleOp,
    StringAttr,
    TensorType,
    UnknownLoc,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from coda_ir.backends.triton import EmittedProgram, emit_program
from coda_ir.cache.decision import Form
from coda_ir.context import make_context
from coda_ir.cost_model.rows import RowCounts
from coda_ir.dialects.coda import BroadcastOp, ConcatOp, ReshapeOp
from coda_ir.dialects.coda.shapes import AnyTensor, element_type_of, shape_of, static_shape
from coda_ir.dialects.gemm import FusedOp, ResultPortAttr, ScheduleAttr, SegmentAttr
from coda_ir.dialects.gemm.places import part_of
from coda_ir.passes.layout.plan_buffers import PlanBuffersPass
from coda_ir.passes.layout.unfusing import BY, unfuse, why_not_unfused
from coda_ir.passes.support.fillers import filler
from coda_ir.random_inputs import random_arguments
from coda_ir.storage import place_of
from coda_ir.symbolic_shapes import Dim, SymbolicShapes, SymbolicSize, dims_attribute
from coda_ir.tuning.buckets import bucket

ENTRY = "gemm"


@dataclass(frozen=True, eq=False)
class Problem:
    """A GEMM as a separate function, with the sizes to measure it at."""

    module: ModuleOp
    """A function `gemm` with one `gemm.fused` without a schedule."""
    sizes: Mapping[str, int]
    """The sizes of the symbols of the arguments."""
    rows: int
    """M, or K where x is transposed."""

    @staticmethod
    def of(op: FusedOp, counts: RowCounts) -> Problem | None:
        """Make a problem; None if the sizes of `counts` do not determine the operands."""
        shapes, rows = counts.shapes(op), counts.exact(op)
        if shapes is None or rows is None or rows < 1:
            return None
        symbols = _Symbols(shapes, counts.sizes)
        operands = list(dict.fromkeys(op.operands))
        try:
            dims = [symbols.renamed(value) for value in operands]
        except KeyError:
            return None
        return Problem(_isolated(op, operands, dims, symbols), symbols.sizes, rows)

    @cached_property
    def op(self) -> FusedOp:
        return _gemm_of(self.module)

    @cached_property
    def text(self) -> str:
        """The key: equal for GEMMs that differ only in names and numbers of rows."""
        return str(self.module)

    @property
    def bucket(self) -> int:
        """The number of rows under which a result is stored."""
        return bucket(self.rows)

    def has_form(self, form: Form) -> bool:
        """Return whether the GEMM has this form."""
        return form == "fused" or why_not_unfused(self.op, BY[form]) is None

    def in_form(self, form: Form) -> ModuleOp:
        """Return a copy of the function in a form that it has."""
        module = self.module.clone()
        if form != "fused":
            unfuse(_gemm_of(module), BY[form])
        return module

    def scheduled(self, schedule: ScheduleAttr | None, form: Form = "fused") -> ModuleOp:
        """Return the function in a form, with the schedule of its kernel."""
        module = self.in_form(form)
        for op in module.walk():
            if isinstance(op, FusedOp):
                op.schedule = schedule
        PlanBuffersPass().apply(make_context(), module)
        return module

    def emit(self, schedule: ScheduleAttr | None, form: Form = "fused") -> EmittedProgram:
        """Emit the function as a Triton module. Raises CodaError if that is impossible."""
        return emit_program(self.scheduled(schedule, form), ENTRY)

    @property
    def func(self) -> FuncOp:
        func = self.op.parent_op()
        assert isinstance(func, FuncOp), "the GEMM stands in a function"
        return func


class _Symbols:
    """Symbols in canonical form: numbered by first occurrence."""

    def __init__(self, shapes: SymbolicShapes, sizes: Mapping[str, int]):
        self._shapes, self._known = shapes, sizes
        self._names: dict[str, str] = {}
        self.sizes: dict[str, int] = {}

    def renamed(self, value: SSAValue) -> tuple[Dim, ...]:
        """Return the dimensions of a value. Raises KeyError for a symbol of unknown size."""
        return tuple(map(self._renamed, self._shapes.dims(value)))

    def _renamed(self, dim: Dim) -> Dim:
        if isinstance(dim, int):
            return dim
        if dim not in self._names:
            size = SymbolicSize.of(dim).evaluate(self._known)
            self._names[dim] = f"S{len(self._names)}"
            self.sizes[self._names[dim]] = size
        return self._names[dim]


def _isolated(
    op: FusedOp, operands: list[SSAValue], dims: list[tuple[Dim, ...]], symbols: _Symbols
) -> ModuleOp:
    argument_types = [_sized(value, each) for value, each in zip(operands, dims, strict=True)]
    block = Block(arg_types=argument_types)
    copy = op.clone(dict(zip(operands, block.args, strict=True)))
    copy.schedule = None
    # The time does not depend on the row of a cache in which a result is stored.
    copy.segment_attrs = ArrayAttr(map(_without_rows, copy.segment_attrs))
    copy.attributes.clear()
    for inner in copy.walk():
        inner.location = UnknownLoc()
        for value in inner.results:
            value.name_hint = None
    for body in copy.bodies:
        for argument in body.block.args:
            argument.name_hint = None
    block.add_op(copy)
    results = [
        _in_place(old, new, symbols, block)
        for old, new in zip(op.results, copy.results, strict=True)
    ]
    block.add_op(ReturnOp(*results))
    attributes = [
        DictionaryAttr({"coda.name": StringAttr(f"x{index}"), "coda.dims": dims_attribute(each)})
        for index, each in enumerate(dims)
    ]
    types = FunctionType.from_lists(argument_types, [v.type for v in results])
    return ModuleOp([FuncOp(ENTRY, types, Region(block), arg_attrs=ArrayAttr(attributes))])


def _without_rows(segment: SegmentAttr) -> SegmentAttr:
    """Return the segment with separate results instead of rows of a cache."""
    ports = [
        ResultPortAttr.of(port.kind.data) if port.is_moved else port for port in segment.results
    ]
    kept = (segment.weights, segment.layout, segment.pairing, segment.ports)
    return SegmentAttr(*kept, ArrayAttr(ports))


def _in_place(old: SSAValue, new: SSAValue, symbols: _Symbols, block: Block) -> SSAValue:
    """Return a result, or the tensor that it is stored as a part of, with zeros beside it."""
    place, part = place_of(old), part_of(old)
    if place is None or (part is not None and part.number is not None):
        return new
    offset, width, period = place.numbers
    *rows, columns = symbols.renamed(old)
    assert isinstance(columns, int), "only known numbers of columns have a place"
    if (groups := columns // width * place.copies.data) > 1:
        rows.append(groups)
        shape = (*shape_of(new)[:-1], columns // width, width)
        new = _added(ReshapeOp(new, shape), block)
        if columns == width:
            new = _added(BroadcastOp(new, (*shape[:-2], groups, width)), block)
        columns = width
    dims, dim, unit = [*rows, columns], len(rows), 1
    while (extent := dims[dim]) != width // unit:
        assert isinstance(extent, int), "only known numbers of rows have a place"
        dim, unit = dim - 1, unit * extent
    parts = [new]
    for index, count in enumerate((offset, period - offset - width)):
        if count:
            beside = (*dims[:dim], count // unit, *dims[dim + 1 :])
            constant, zeros = filler(0.0, element_type_of(new), beside)
            _added(constant, block)
            parts.insert(index * len(parts), _added(zeros, block))
    return _added(ConcatOp(parts, dim), block)


def _added(op: Operation, block: Block) -> SSAValue:
    block.add_op(op)
    return op.results[0]


def _sized(value: SSAValue, dims: Sequence[Dim]) -> AnyTensor:
    """Return the type of a value with known extents; the number of partials is known."""
    return TensorType(element_type_of(value), static_shape(dims))


def _gemm_of(module: ModuleOp) -> FusedOp:
    return next(op for op in module.walk() if isinstance(op, FusedOp))


MAX_SETS = 8
SMALLEST_CACHE = 32 << 20
"""Bytes that an L2 cache is taken for where PyTorch does not say."""


def make_inputs(problem: Problem, device: torch.device) -> list[list[torch.Tensor]]:
    """Make as many sets of arguments as exceed twice the L2 cache of `device`."""

    def draw(seed: int) -> list[torch.Tensor]:
        return random_arguments(problem.func, problem.sizes, seed=seed, device=device)

    first = draw(0)
    size = sum(tensor.numel() * tensor.element_size() for tensor in first)
    sets = min(MAX_SETS, 1 + 2 * _cache_bytes(device) // max(1, size))
    return [first, *map(draw, range(1, sets))]


def _cache_bytes(device: torch.device) -> int:
    if device.type == "cpu":
        return SMALLEST_CACHE
    cuda: Any = torch.cuda  # its properties have no types
    properties = cuda.get_device_properties(device)
    return max(SMALLEST_CACHE, int(getattr(properties, "L2_cache_size", 0)))
