"""Splitting of a joint function into a forward and a backward."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr, UnitAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import Rewriter

from coda_ir.dialects import coda
from coda_ir.dialects.torch import CallOp, VjpOp
from coda_ir.dominance import backward_slice
from coda_ir.passes.support.joint import JOINT_ATTRIBUTE, Joint
from coda_ir.passes.support.row_numbers import PERMUTATION, is_permutation
from coda_ir.signatures import entry_name
from coda_ir.symbolic_shapes import SymbolicShapes, SymbolicSize, dims_attribute

FORWARD, BACKWARD = "forward", "backward"


Instead: TypeAlias = Mapping[SSAValue, SSAValue]
"""Values of the forward, and what the backward computes in their place."""


def split(
    joint: Joint, saved: Sequence[SSAValue], instead: Instead | None = None
) -> tuple[FuncOp, FuncOp]:
    """Replace `joint` by @f_forward and @f_backward.

    The forward takes all arguments of @f and returns its results, then `saved`; the backward
    takes what it needs of the arguments, the results, `saved` and the gradients of the results, in
    this order, and returns the gradients of the arguments.
    """
    saved_entries = _saved_entries(joint, saved)
    forward = _FunctionCopy(joint, FORWARD)
    for index, argument in enumerate(joint.arguments):
        forward.add_argument(argument, joint.argument_entry(index))
    result_entries = [_result_entry(joint, i) for i in range(joint.primal_results)]
    forward_op = forward.build([*joint.results, *saved], [*result_entries, *saved_entries])

    backward = _FunctionCopy(joint, BACKWARD, instead or {})
    available = _available(joint, saved, saved_entries)
    values = [value for value, _ in available]
    read = backward.read_by(joint.argument_gradients, values)
    read |= backward.tellers(joint.argument_gradients, read, values)
    for value, entry in available:
        if value in read:
            backward.add_argument(value, entry)
    offset = joint.primal_results
    entries = [joint.result_entry(offset + i) for i in range(len(joint.argument_gradients))]
    backward_op = backward.build(joint.argument_gradients, entries)

    Rewriter.replace_op(joint.func, [forward_op, backward_op])
    return forward_op, backward_op


def _available(
    joint: Joint, saved: Sequence[SSAValue], saved_entries: Sequence[DictionaryAttr]
) -> list[tuple[SSAValue, DictionaryAttr]]:
    """Return the possible arguments of a backward, and their metadata. Each value occurs once."""
    arguments = [(v, joint.argument_entry(i)) for i, v in enumerate(joint.arguments)]
    results = [(v, _result_entry(joint, i)) for i, v in enumerate(joint.results)]
    offset = joint.primal_arguments
    gradients = [
        (v, joint.argument_entry(offset + i)) for i, v in enumerate(joint.result_gradients)
    ]
    found: dict[SSAValue, DictionaryAttr] = {}
    for value, entry in (*arguments, *results, *zip(saved, saved_entries, strict=True), *gradients):
        found.setdefault(value, entry)
    return list(found.items())


def _result_entry(joint: Joint, index: int) -> DictionaryAttr:
    """Return the metadata of a result with its name, by which the backward finds it."""
    entry = joint.result_entry(index)
    return DictionaryAttr({**entry.data, "coda.name": StringAttr(joint.result_name(index))})


def _saved_entries(joint: Joint, saved: Sequence[SSAValue]) -> list[DictionaryAttr]:
    """Return unique names, and the extents."""
    count = len(joint.arguments) + len(joint.result_gradients)
    taken = {joint.argument_name(i) for i in range(count)}
    taken |= {joint.result_name(i) for i in range(joint.primal_results)}
    shapes = SymbolicShapes(joint.func)
    entries: list[DictionaryAttr] = []
    for value in saved:
        name = fresh_name(value.name_hint or "saved", taken)
        dims = dims_attribute(shapes.dims(value))
        marks = {PERMUTATION: UnitAttr()} if is_permutation(value) else {}
        entries.append(DictionaryAttr({"coda.name": StringAttr(name), "coda.dims": dims, **marks}))
    return entries


def fresh_name(name: str, taken: set[str]) -> str:
    """Return `name`, with a number if it is taken, and take it."""
    candidate, number = name, 0
    while candidate in taken:
        number += 1
        candidate = f"{name}_{number}"
    taken.add(candidate)
    return candidate


@dataclass
class _FunctionCopy:
    """A function into which operators of a joint are copied."""

    joint: Joint
    suffix: str
    instead: Instead = field(default_factory=dict[SSAValue, SSAValue])
    values: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    entries: list[DictionaryAttr] = field(default_factory=list[DictionaryAttr])
    block: Block = field(default_factory=Block)

    def add_argument(self, value: SSAValue, entry: DictionaryAttr) -> None:
        argument = self.block.insert_arg(value.type, len(self.block.args))
        name = entry_name(entry)
        # A name of the model may begin with a number, which names of the IR do not.
        is_valid = name is not None and SSAValue.is_valid_name(name)
        argument.name_hint = name if is_valid else value.name_hint
        self.values[value] = argument
        self.entries.append(entry)

    def read_by(self, wanted: Sequence[SSAValue], available: Iterable[SSAValue]) -> set[SSAValue]:
        """Return the values that computing `wanted` reads, and `wanted` itself."""
        ops = backward_slice(wanted, available, self.instead)
        return {self._source(v) for v in (*wanted, *(v for op in ops for v in op.operands))}

    def tellers(
        self, wanted: Sequence[SSAValue], read: set[SSAValue], available: Sequence[SSAValue]
    ) -> set[SSAValue]:
        """Return the values in `available` that are needed for sizes in the code of `wanted`."""
        shapes = SymbolicShapes(self.joint.func)
        known = {dim for value in available if value in read for dim in shapes.dims(value)}
        needed = sizes_in(backward_slice(wanted, available, self.instead), shapes)
        found: set[SSAValue] = set()
        for symbol in sorted(needed - known):
            tells = [value for value in available if symbol in shapes.dims(value)]
            if tells and not found & set(tells):
                found.add(tells[0])
        return found

    def _source(self, value: SSAValue) -> SSAValue:
        return self.instead.get(value, value)

    def build(self, results: Sequence[SSAValue], entries: Sequence[DictionaryAttr]) -> FuncOp:
        """Build the function that computes `results` from its arguments."""
        needed = backward_slice(results, self.values, self.instead)
        ops = [op for op in self.joint.block.ops if op in needed]
        for op in self._just_in_time(ops) if self.suffix == BACKWARD else ops:
            self._copy(op)
        self.block.add_op(ReturnOp(*[self.values[self._source(result)] for result in results]))
        source = self.joint.func
        func = FuncOp(
            f"{self.joint.function}_{self.suffix}",
            (list(self.block.arg_types), [result.type for result in results]),
            Region(self.block),
            arg_attrs=ArrayAttr(self.entries),
            res_attrs=ArrayAttr(entries),
        )
        func.location = source.location
        func.attributes |= _without_joint(source)
        return func

    def _just_in_time(self, ops: Sequence[Operation]) -> list[Operation]:
        """Return `ops` in order, but recomputed values of GEMMs right before their first use."""
        gradients = self.joint.gradient_values()
        if not any(is_expensive(op) and gradients.isdisjoint(op.results) for op in ops):
            return list(ops)
        position = {op: number for number, op in enumerate(ops)}
        slots: dict[Operation, int] = {}
        first_use: dict[Operation, int] = {}
        for op in reversed(ops):
            is_gradient = not gradients.isdisjoint(op.results)
            slot = position[op] if is_gradient else first_use.get(op, position[op])
            slots[op] = slot
            for operand in op.operands:
                before = self._source(operand).owner
                if isinstance(before, Operation):
                    first_use[before] = min(slot, first_use.get(before, slot))
        return sorted(ops, key=lambda op: (slots[op], position[op]))

    def _copy(self, op: Operation) -> None:
        known = {operand: self.values[self._source(operand)] for operand in op.operands}
        copy = op.clone(known)
        self.block.add_op(copy)
        for old, new in zip(op.results, copy.results, strict=True):
            # What is an argument stays one, where another result of the operator is needed.
            self.values.setdefault(old, new)


def is_expensive(op: Operation) -> bool:
    """Return whether `op` is a GEMM or attention."""
    return isinstance(op, coda.LinearOp | coda.MatmulOp | coda.ScaledLinearOp | coda.AttentionOp)


def sizes_in(ops: Iterable[Operation], shapes: SymbolicShapes) -> set[str]:
    """Return the symbols in the dimensions of results, and in the arguments of PyTorch calls."""
    dims = [dim for op in ops for result in op.results for dim in shapes.dims(result)]
    symbols = SymbolicSize.product(dims).symbols
    calls = [op for op in ops if isinstance(op, CallOp | VjpOp)]
    return {*symbols, *(symbol for call in calls for symbol in call.template.symbols)}


def _without_joint(func: FuncOp) -> dict[str, Attribute]:
    return {name: value for name, value in func.attributes.items() if name != JOINT_ATTRIBUTE}
