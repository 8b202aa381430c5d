"""The mapping from the operators of a program to the kernels that compute them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from xdsl.context import Context
from xdsl.dialects.builtin import (
    FileLineColLoc,
    IntAttr,
    LocationAttr,
    ModuleOp,
    StringAttr,
    UnknownLoc,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.passes import ModulePass

from coda_ir.diagnostics import CodaError
from coda_ir.dialects.coda import ConstantOp, ReshapeOp, SliceOp, TransposeOp
from coda_ir.dialects.gemm import PackWeightOp, ScaleWeightOp
from coda_ir.passes.pipelines.coda_to_gemm import CodaToGemmPass
from coda_ir.remarks import Remark, collect_remarks, leaf_locations

VIEWS = (ReshapeOp, SliceOp, TransposeOp)
"""Operators that move nothing."""

NOT_DRAWN = (ConstantOp, ReturnOp)

PREPARED = (PackWeightOp, ScaleWeightOp)
"""Operators that run once per weight."""

MARK = "operator"
"""File name of the locations that number the operators."""


@dataclass(frozen=True)
class Fusion:
    """The operators of a function, its kernels, and which kernels compute which operators."""

    func: FuncOp
    """The function before fusion."""
    fused: FuncOp
    """The function on the GEMM level; each operator is one kernel, or one call of a library."""
    operators: tuple[Operation, ...]
    kernels: tuple[Operation, ...]
    members: tuple[tuple[int, ...], ...]
    """For each kernel, the numbers of the operators that it computes, or computes a part of."""
    remarks: Mapping[int, tuple[Remark, ...]]
    """For each operator, why a pass refused to fuse it."""

    @cached_property
    def kernels_of(self) -> tuple[tuple[int, ...], ...]:
        """For each operator, the numbers of its kernels in order; () if none is left."""
        found: list[list[int]] = [[] for _ in self.operators]
        for kernel, members in enumerate(self.members):
            for member in members:
                found[member].append(kernel)
        return tuple(map(tuple, found))

    @cached_property
    def flows(self) -> frozenset[tuple[int, int]]:
        """The pairs of kernels in which the second reads what the first writes."""
        number = {op: index for index, op in enumerate(self.kernels)}
        return frozenset(
            (number[source], reader)
            for reader, kernel in enumerate(self.kernels)
            for operand in kernel.operands
            for source in _producers(operand)
            if source in number
        )

    @property
    def fused_module(self) -> ModuleOp:
        """The module of the function after fusion."""
        module = self.fused.parent_op()
        assert isinstance(module, ModuleOp), "functions are in modules"
        return module

    def reads_argument(self, kernel: int, index: int) -> bool:
        """Return whether a kernel reads argument `index` of the function."""
        argument = self.fused.args[index]
        return any(
            argument in (operand, *viewed(operand)) for operand in self.kernels[kernel].operands
        )


def analyze_fusion(module: ModuleOp, func: FuncOp, then: Sequence[ModulePass] = ()) -> Fusion:
    """Return what the pipeline `coda-to-gemm`, and passes after it, make of one function of a
    module, which stays as it is. Raises the CodaErrors of these passes.

    Each operator gets a number as its location, `MARK:number:0`; the passes carry locations to what
    they build, and emitted text to its comments.
    """
    before = module.clone()
    numbered = _function(before, func.sym_name.data)
    operators = tuple(op for op in numbered.body.block.ops if not isinstance(op, NOT_DRAWN))
    for op in before.walk():
        if not isinstance(op, FuncOp):
            op.location = UnknownLoc()
    for index, op in enumerate(operators):
        op.location = FileLineColLoc(StringAttr(MARK), IntAttr(index), IntAttr(0))
    after = before.clone()
    with collect_remarks() as remarks:
        CodaToGemmPass().apply(Context(), after)
    try:
        _apply(then, after)
    except CodaError:
        # The error of the same passes, with a place in the program instead of a number.
        _apply((CodaToGemmPass(), *then), module.clone())
        raise
    fused = _function(after, func.sym_name.data)
    kernels = tuple(op for op in fused.body.block.ops if not isinstance(op, (*VIEWS, *NOT_DRAWN)))
    return Fusion(
        func=func,
        fused=fused,
        operators=tuple(op for op in func.body.block.ops if not isinstance(op, NOT_DRAWN)),
        kernels=kernels,
        members=tuple(tuple(sorted(set(_numbers_inside(kernel)))) for kernel in kernels),
        remarks=_refusals(remarks),
    )


def _apply(passes: Sequence[ModulePass], module: ModuleOp) -> None:
    for step in passes:
        step.apply(Context(), module)


def _function(module: ModuleOp, name: str) -> FuncOp:
    return next(op for op in module.ops if isinstance(op, FuncOp) and op.sym_name.data == name)


def _refusals(remarks: Sequence[Remark]) -> Mapping[int, tuple[Remark, ...]]:
    found: dict[int, tuple[Remark, ...]] = {}
    for remark in remarks:
        if remark.kind == "missed":
            for number in _numbers(remark.location):
                found[number] = (*found.get(number, ()), remark)
    return found


def _numbers_inside(kernel: Operation) -> Iterator[int]:
    for op in kernel.walk():
        yield from _numbers(op.location)


def _numbers(location: LocationAttr) -> Iterator[int]:
    for leaf in leaf_locations(location):
        if isinstance(leaf, FileLineColLoc) and leaf.filename.data == MARK:
            yield leaf.line.data


def viewed(value: SSAValue) -> Iterator[SSAValue]:
    """Yield the values that a value is a view of, the nearest first."""
    while isinstance(value, OpResult) and isinstance(value.op, VIEWS):
        value = value.op.operands[0]
        yield value


def _producers(value: SSAValue) -> Iterator[Operation]:
    for each in (value, *viewed(value)):
        if isinstance(each, OpResult):
            yield each.op
