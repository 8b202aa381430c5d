"""Estimates of a program as GEMMs with epilogues, and apart: the library's GEMMs, and a compiler's
kernels for what is between them.

Attention without a mask is the same in both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from coda_ir.cost_model.devices import DEVICES, Device
from coda_ir.cost_model.library import LibraryGemm
from coda_ir.cost_model.ranking import described
from coda_ir.dialects import coda, gemm, torch
from coda_ir.dialects.coda.attention import AttentionLike
from coda_ir.dialects.coda.scan import StateSpaceLike
from coda_ir.dialects.coda.shapes import element_bytes, shape_of
from coda_ir.storage import is_placed
from coda_ir.symbolic_shapes import SymbolicShapes, SymbolicSize
from coda_ir.traffic import is_executed

EXTENT = 2048
"""The size that a symbol is taken to have."""

KERNEL_US = 5.0
"""Microseconds of a kernel beside those of the bytes that it moves."""

MEMORY_EFFICIENCY = 0.85
"""Share of the peak rate of memory that kernels reach."""

CONVOLUTION_EFFICIENCY = 0.025
"""Share of the peak rate of convolutions over patches of an image. So that 64 images in patches of
16 x 16 or 32 x 32 and 768 channels take 600 us, as they did on an H100 (0.02 to 0.04 of that as
GEMMs)."""

ATTENTION_EFFICIENCY = 0.45
"""Share of the peak rate that kernels of attention reach."""

GRADIENT_PRODUCTS = 2.5
"""Products of the gradients of attention, for each of attention: five for two."""

SCORE_BYTES = 4 * 3
"""Bytes that are moved for each score: in float32, stored once and loaded twice."""

STATE_BYTES = 4 * 2
"""Bytes that a compiler moves for each state of a selective scan: in float32, stored and loaded."""

SSD_CHUNK = 256
"""Positions of a chunk of a state space model of heads in transformers."""

VIEWS = (coda.ReshapeOp, coda.TransposeOp, coda.SliceOp, coda.ConstantOp, coda.BarrierOp, ReturnOp)
ATTENTION = (coda.AttentionOp, coda.AttentionGradOp, gemm.AttentionSumOp)
LIBRARY = (
    *(coda.LinearOp, coda.MatmulOp, coda.GroupedLinearMap, coda.WeightGradientOp),
    coda.GroupedWeightGradientOp,
    gemm.LibraryOp,
)


@dataclass(frozen=True)
class HostCosts:
    """Microseconds of the host for what it launches. So that a graph of DiT with 9 programs takes
    2.2 ms, and Inductor's 1.8, as they did beside an H100; and that a step of its training takes
    longer as a program than by Inductor, as it did (10.4 and 8.0 ms with all that is around them).
    """

    library: float = 20.0
    kernel: float = 8.0
    """A kernel that a program launches."""
    compiled: float = 18.0
    """A kernel of a compiler, in a graph."""
    call: float = 20.0
    """A call of PyTorch, in a program."""
    graph: float = 60.0
    """A call of a graph."""
    program: float = 70.0
    """A call of a program, in a graph."""
    attention: float = 60.0
    """PyTorch's attention, in a graph."""
    own_attention: float = 170.0
    """The same in a program, with what splits and joins heads."""
    own_attention_gradient: float = 280.0
    sum: float = 45.0
    """A sum over some dimensions by PyTorch, in a program: the sum, a conversion and a view."""
    result: float = 5.0
    """The memory of a tensor that a program returns, such as a gradient or what is saved for it."""
    embedding_gradient: float = 150.0
    """The gradient of an embedding, for which indices are sorted."""
    scan_gradient: float = 6 * kernel + 3 * sum
    """The gradients of a selective scan: kernels, and sums of their parts."""


HOST = HostCosts()


@dataclass(frozen=True)
class Comparison:
    """Microseconds of a program both ways."""

    fused: float
    apart: float


def compare(
    before: FuncOp, after: FuncOp, programs: Mapping[str, FuncOp], device: Device
) -> Comparison:
    """Estimates of a function of the block level and of what became of it: the scheduled function
    `after`, and the `programs` that it calls by name.
    """
    apart, fused = _Cost(device), _Cost(device)
    apart.add_graph(before)
    fused.add_lowered(after, programs)
    return Comparison(fused.us, apart.us)


@dataclass
class _Cost:
    """The time of the GPU and of the host, which runs ahead of it."""

    device: Device
    gpu: float = 0.0
    host: float = 0.0

    @property
    def us(self) -> float:
        return max(self.gpu, self.host)

    def add_graph(self, func: FuncOp, programs: Mapping[str, FuncOp] | None = None) -> None:
        """A function whose operators between GEMMs a compiler makes few kernels of."""
        shapes = SymbolicShapes(func)
        levels = _levels(func.body.block)
        self.host += HOST.graph
        for op in func.body.block.ops:
            if isinstance(op, CallOp):
                self.host += HOST.program
                self.add_lowered((programs or {})[op.callee.string_value()], {})
            elif isinstance(op, LIBRARY):
                self._add_library(op, shapes, is_convolution=coda.PATCHES in op.attributes)
            elif _is_attention(op):
                self.host += HOST.attention
                self.gpu += self._attention(op) + self._moving(_stored_scores(op))
            elif isinstance(op, StateSpaceLike):
                self.gpu += self._moving(_states(op, shapes) * STATE_BYTES)
        left = [op for op in func.body.block.ops if _is_left(op)]
        for group in connected(left, lambda a, b: levels[a] == levels[b]):
            self._add_kernel(traffic(group, shapes))
            self.host += HOST.compiled
            for op in group:
                if isinstance(op, coda.GroupNormOp):
                    self._add_kernel(_size([op.x], shapes))
                    self.host += HOST.compiled

    def add_lowered(self, func: FuncOp, programs: Mapping[str, FuncOp]) -> None:
        """A function of the scheduled level: a program, or a graph that calls some."""
        if any(isinstance(op, CallOp) for op in func.body.block.ops):
            self.add_graph(func, programs)
            return
        shapes = SymbolicShapes(func)
        for op in func.body.block.ops:
            if isinstance(op, LIBRARY):
                self._add_library(op, shapes)
                continue
            if isinstance(op, gemm.FusedOp):
                assert op.schedule is not None, "a scheduled program"
                self.gpu += described(op, op.schedule, self.device, _rows(op.x, shapes)).us
            elif _is_attention(op):
                self.gpu += self._attention(op)
            elif _is_left(op) and is_executed(op):
                self._add_kernel(traffic([op], shapes))
                if before := _moved_before(op):
                    self._add_kernel(_size(before, shapes))
            self.host += _launching(op)

    def _add_kernel(self, bytes: int) -> None:
        self.gpu += KERNEL_US + self._moving(bytes)

    def _add_library(
        self, op: Operation, shapes: SymbolicShapes, *, is_convolution: bool = False
    ) -> None:
        m, n, k = _extents(op, shapes)
        self.host += HOST.library
        if is_convolution:
            rate = 1e6 * CONVOLUTION_EFFICIENCY * self.device.matrix_tflops
            self.gpu += 2 * m * n * k / rate
        else:
            size = element_bytes(op.operands[0].type)
            self.gpu += LibraryGemm(m, n, k, size, self.device, _groups(op)).us

    def _attention(self, op: Operation) -> float:
        """The time of the products of scores, or of those of their gradients."""
        # One of two kernels of the gradients counts for both.
        if not isinstance(op, coda.AttentionOp | coda.AttentionGradOp | gemm.AttentionDkvOp):
            return 0.0
        columns = op.head_dim.value.data + op.value_columns
        products = 2 * _scores(op) * columns / (2 if op.causal.value.data else 1)
        times = 1.0 if isinstance(op, coda.AttentionOp) else GRADIENT_PRODUCTS
        return times * products / (1e6 * ATTENTION_EFFICIENCY * self.device.matrix_tflops)

    def _moving(self, bytes: int) -> float:
        return bytes / (1e3 * MEMORY_EFFICIENCY * self.device.memory_gb_per_s)


def _launching(op: Operation) -> float:
    """Microseconds of the host for an operator of a program, but for the library's GEMMs."""
    if isinstance(op, ReturnOp):
        return HOST.result * len(op.operands)
    if isinstance(op, gemm.FusedOp | gemm.MapOp | gemm.FinalizeOp | gemm.AttentionSumOp):
        return HOST.kernel
    if isinstance(op, coda.SumToOp):
        return HOST.sum
    if isinstance(op, coda.EmbeddingGradOp):
        return HOST.embedding_gradient
    if isinstance(op, StateSpaceLike):
        is_forward = isinstance(op, coda.SelectiveScanOp | coda.SSDOp)
        return 3 * HOST.kernel if is_forward else HOST.scan_gradient
    if isinstance(op, torch.VjpOp):
        return 2 * HOST.call
    if not _is_attention(op):
        return HOST.call if _is_left(op) else 0.0
    is_gradient = isinstance(op, coda.AttentionGradOp) or (
        isinstance(op, torch.CallOp) and op.callee.data == torch.FUSED_ATTENTION_GRAD
    )
    return HOST.own_attention_gradient if is_gradient else HOST.own_attention


def _extents(op: Operation, shapes: SymbolicShapes) -> tuple[int, int, int]:
    """M, N and K of a product of the block level, or of the library."""
    x, y = op.operands[0], op.results[0]
    if isinstance(op, coda.WeightGradientOp):
        return _rows(y, shapes), _columns(y, shapes), _rows(x, shapes)
    if isinstance(op, coda.GroupedWeightGradientOp) or _has_ragged_depth(op):
        return _rows(y, shapes), _columns(y, shapes), -(-_rows(x, shapes) // _groups(op))
    return _rows(x, shapes), _columns(y, shapes), _columns(x, shapes)


def _has_ragged_depth(op: Operation) -> bool:
    return isinstance(op, gemm.LibraryOp) and op.has_ragged_depth


def _groups(op: Operation) -> int:
    """The number of groups of rows that a product has weights, or results, for."""
    if isinstance(op, coda.GroupedLinearMap):
        return max(1, shape_of(op.weight)[0])
    if isinstance(op, coda.GroupedWeightGradientOp) or _has_ragged_depth(op):
        return max(1, shape_of(op.results[0])[0])
    is_grouped = isinstance(op, gemm.LibraryOp) and op.groups is not None
    return max(1, shape_of(op.operands[1])[0]) if is_grouped else 1


def _rows(value: SSAValue, shapes: SymbolicShapes) -> int:
    return SymbolicSize.product(shapes.dims(value)[:-1]).evaluate(_Sizes())


def _columns(value: SSAValue, shapes: SymbolicShapes) -> int:
    return SymbolicSize.product(shapes.dims(value)[-1:]).evaluate(_Sizes())


def _is_attention(op: Operation) -> bool:
    if isinstance(op, torch.CallOp):
        return "attention" in op.callee.data
    return isinstance(op, ATTENTION)


def _stored_scores(op: Operation) -> int:
    """The bytes of scores that PyTorch stores and loads where attention has what its fast kernels
    have not.
    """
    if not isinstance(op, coda.AttentionOp | coda.AttentionGradOp):
        return 0
    if op.mask is None and op.sinks is None and op.softcap is None and op.window is None:
        return 0
    return SCORE_BYTES * _scores(op)


def _states(op: StateSpaceLike, shapes: SymbolicShapes) -> int:
    """The number of states of all channels at all positions; of a state space model of heads, which
    PyTorch computes in chunks, the number of decays between positions of a chunk.
    """
    if isinstance(op, coda.SSDLike):
        positions = SymbolicSize.product(shapes.dims(op.x)[:2]).evaluate(_Sizes())
        return op.heads * SSD_CHUNK * positions
    return op.state_count * SymbolicSize.product(shapes.dims(op.x)).evaluate(_Sizes())


def _scores(op: AttentionLike) -> int:
    """The number of scores."""
    return prod(EXTENT if extent == DYNAMIC_INDEX else extent for extent in op.scores_shape)


def spelled_attention_us(scores: int, head_dim: int, device: Device = DEVICES["sm_90"]) -> float:
    """Microseconds of attention that stores its scores, with products in float32."""
    computing = 4 * scores * head_dim / (1e6 * device.vector_tflops)
    moving = SCORE_BYTES * scores / (1e3 * MEMORY_EFFICIENCY * device.memory_gb_per_s)
    return computing + moving


def _moved_before(op: Operation) -> Sequence[SSAValue]:
    """The values that PyTorch moves in a kernel before that of `op`: a norm of groups reads its
    operand for the statistics, and a derivative computes the operator again.
    """
    if isinstance(op, coda.GroupNormOp):
        return [op.x]
    return op.operands if isinstance(op, torch.VjpOp) else ()


def _is_left(op: Operation) -> bool:
    """Return whether an operator is neither a GEMM nor attention, and moves something."""
    is_stored = isinstance(op, coda.ConcatOp) and all(map(is_placed, op.parts))
    return not (isinstance(op, VIEWS) or _is_waited_for(op) or is_stored)


def _levels(block: Block) -> dict[Operation, int]:
    """The number of GEMMs, calls and attentions that an operator waits for, one after the other."""
    levels: dict[Operation, int] = {}
    for op in block.ops:
        before = [value.owner for value in op.operands if isinstance(value.owner, Operation)]
        levels[op] = max(
            (levels[owner] + _is_waited_for(owner) for owner in before if owner in levels),
            default=0,
        )
    return levels


def _is_waited_for(op: Operation) -> bool:
    return isinstance(op, (*LIBRARY, CallOp, gemm.FusedOp)) or _is_attention(op)


def connected(
    ops: Sequence[Operation], joins: Callable[[Operation, Operation], bool]
) -> list[list[Operation]]:
    """The groups of operators that are connected by values, where `joins` allows it."""
    leader: dict[Operation, Operation] = {}

    def find(op: Operation) -> Operation:
        while leader[op] is not op:
            leader[op] = leader[leader[op]]
            op = leader[op]
        return op

    for op in ops:
        leader[op] = op
        for before in {value.owner for value in op.operands}:
            if isinstance(before, Operation) and before in leader and joins(before, op):
                leader[find(before)] = find(op)
    groups: dict[Operation, list[Operation]] = {}
    for op in ops:
        groups.setdefault(find(op), []).append(op)
    return list(groups.values())


class _Sizes(dict[str, int]):
    def __missing__(self, symbol: str) -> int:
        return EXTENT


def traffic(group: Iterable[Operation], shapes: SymbolicShapes) -> int:
    """The bytes that one kernel of the operators reads and writes."""
    members = set(group)
    operands = {value for op in members for value in shapes.read_whole(op)}
    read = {value for value in operands if value.owner not in members}
    results = [result for op in members for result in op.results]
    written = {r for r in results if any(use.operation not in members for use in r.uses)}
    by_number = sum(shapes.looked_up(op).evaluate(_Sizes()) for op in members)
    return _size(read | written, shapes) + by_number


def _size(values: Iterable[SSAValue], shapes: SymbolicShapes) -> int:
    """The bytes of the values, each of them once."""
    return sum(shapes.bytes(value).evaluate(_Sizes()) for value in set(values))
