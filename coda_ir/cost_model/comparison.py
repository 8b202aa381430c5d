"""Estimates of a program in two forms: as GEMMs with epilogues, and as the library's GEMMs with
kernels of a compiler between them. Attention without a mask is the same in both.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from coda_ir.cost_model.copies import (
    copies_rows,
    copy_us,
    is_copied,
    is_copied_by_others,
    is_read_in_place,
    transposed_parts,
)
from coda_ir.cost_model.devices import Device
from coda_ir.cost_model.library_gemm import VECTOR_EFFICIENCY, products_us, slowdown
from coda_ir.cost_model.memory_times import kernel_us, moving_us
from coda_ir.cost_model.operator_kinds import (
    LIBRARY,
    before_kernel,
    is_attention,
    is_left,
    is_product,
    is_waited_for,
)
from coda_ir.cost_model.operator_times import GRADIENT_PRODUCTS, SCORE_BYTES, OperatorTimes
from coda_ir.cost_model.packed_products import packed_products, saved_us
from coda_ir.cost_model.tables import table_us
from coda_ir.dialects import coda, gemm, torch
from coda_ir.dialects.coda.scan import StateSpaceLike, StateSpaceModel
from coda_ir.dialects.coda.shapes import element_bytes, element_type_of, shape_of
from coda_ir.numbered_elements import reads_all_ids
from coda_ir.small_products import SmallProduct
from coda_ir.storage import is_trained
from coda_ir.traffic import is_executed

MAX_READS = 4
"""Tensors of pointwise code that Inductor computes again in each kernel that reads its result."""

FULL_TILE = 64
"""Rows and columns of a tile of products of batches of matrices."""


@dataclass(frozen=True)
class HostCosts:
    """Microseconds that the host takes for each launch of inference, fitted to measurements beside
    an H100: a graph of DiT with 9 programs took 2.2 ms, and Inductor's 1.8.
    """

    base: float = 130.0
    """The time of a call beyond its launches, which is the same for both forms: beside an H200, the
    forwards of GPT-2, DiT and a cross-attention took 131 to 165 more than those of programs."""
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
    """PyTorch's attention, and in a graph its gradient. Beside processes that compile, 18 with 98
    other kernels of a program took 2.9 ms, and a step of CLIP with two 5.1 ms, 5.7 by Inductor."""
    own_attention_gradient: float = 280.0
    """The same gradient in a program, with what splits and joins heads."""
    sum: float = 45.0
    """A sum over some dimensions by PyTorch, in a program: the sum, a conversion and a view."""
    result: float = 5.0
    """The memory of a tensor that a program returns, such as a gradient or what is saved for it."""
    embedding_gradient: float = 150.0
    """The gradient of an embedding, for which indices are sorted."""
    mask_gradient: float = 600.0
    """The gradient of attention's mask in a program, and its forward: small kernels of PyTorch."""
    scan: float = 4 * kernel
    """A state space model: kernels."""
    scan_gradient: float = 10 * kernel + 3 * sum
    """The gradients of a state space model: kernels, and sums of their parts."""


HOST = HostCosts()

TRAINED_HOST = HostCosts(
    base=150.0,
    library=33.0,
    kernel=22.0,
    compiled=30.0,
    call=40.0,
    program=150.0,
    own_attention_gradient=400.0,
    mask_gradient=800.0,
    sum=60.0,
    result=8.0,
    scan=4 * 22.0,
    scan_gradient=10 * 22.0 + 3 * 60.0,
)
"""The same of each half of a step of training, which allocates what the backward reads, and whose
backward runs in a separate thread. Measured and estimated beside an H100, in ms: as programs,
blocks with 23, 44 and 75 kernels took 1.1 to 1.3, 1.6 to 2.0 and 2.3 to 2.4 (estimated 1.1, 1.6 and
2.0), and LTX with 226 took 5.9 to 7.4 (7.2); by Inductor, blocks of 42 to 52 kernels took 1.5 to
1.9. A step of mT5 with ten gradients of masks took 23.8 (23.9), and 20.1 to 23.0 by Inductor
(19.5); 162 of its 816 kernels have become ten since. A step of T5 took 10.8 since then (10.3).
`base` is from steps of nine blocks beside an H200, timed before any profiler, which slows launches:
with it, they are estimated to take 0.84 to 1.14 of what they took as programs, and 0.79 to 1.17 by
Inductor.
"""


class Estimates(NamedTuple):
    """Microseconds that the GPU and the host, which runs ahead of it, are estimated to take for a
    program, and for the library's GEMMs with a compiler's kernels between them.
    """

    fused_gpu: float
    fused_host: float
    apart_gpu: float
    apart_host: float
    masked: float = 0.0
    """Those of storing the scores of masked attention that both leave to PyTorch."""
    read: float = 0.0
    """The same of attention by own kernels that read a mask."""

    @property
    def fused(self) -> float:
        return max(self.fused_gpu, self.fused_host)

    @property
    def apart(self) -> float:
        return max(self.apart_gpu, self.apart_host)


def compare(
    before: FuncOp, after: FuncOp, programs: Mapping[str, FuncOp], device: Device
) -> Estimates:
    """Estimate a function of the block level, and its lowered form with the `programs` it calls."""
    costs = TRAINED_HOST if is_trained(before) else HOST
    apart, fused = (_Cost(device, costs, host=costs.base) for _ in range(2))
    apart.add_graph(before)
    fused.add_lowered(after, programs)
    return Estimates(fused.gpu, fused.host, apart.gpu, apart.host, fused.masked, fused.read)


@dataclass
class _Cost:
    """The time of the GPU and of the host."""

    device: Device
    costs: HostCosts
    gpu: float = 0.0
    host: float = 0.0
    masked: float = 0.0
    read: float = 0.0

    def add_graph(self, func: FuncOp, programs: Mapping[str, FuncOp] | None = None) -> None:
        """Add a function whose operators between GEMMs a compiler turns into few kernels."""
        times = OperatorTimes.of(func, self.device)
        levels = _levels(func.body.block)
        self.host += self.costs.graph
        for op in func.body.block.ops:
            if isinstance(op, CallOp):
                self.host += self.costs.program
                self.add_lowered((programs or {})[op.callee.string_value()], {})
            elif isinstance(op, LIBRARY):
                self.host += self.costs.library
                is_convolution = coda.PATCHES in op.attributes
                self.gpu += times.library_us(op, is_convolution=is_convolution, is_compiled=True)
            elif is_attention(op):
                self.host += self.costs.attention
                alone = times.attention_us(op) + times.masked_us(op)
                self.gpu += _attention_us(op, times) if programs is None else alone
                self.masked += _masked_us(op, times)
            elif isinstance(op, StateSpaceLike):
                self.gpu += times.stored_states_us(op)
            elif isinstance(op, coda.ConvolutionOp) or is_product(op):
                self.host += self.costs.call
                self.gpu += times.call_us(op, is_compiled=True)
            elif isinstance(op, coda.TransposeOp) and not is_copied_by_others(op, times.shapes):
                if is_copied(op, times.shapes, times.sizes):
                    self.gpu += copy_us(times.bytes([op.result]), self.device.memory_gb_per_s)
                    self.host += self.costs.compiled
                if copies_rows(op, times.shapes, times.sizes):
                    self.gpu += times.kernel_us(2 * times.bytes([op.result]))
                    self.host += self.costs.compiled
        for group in packed_products(func.body.block) if programs is None else ():
            self.gpu -= saved_us(group, times)
            self.host -= self.costs.library * (len(group) - 1)
        groups = _kernels(func.body.block, levels)
        grouped = {op for group in groups for op in group}
        repeated = _repeated(groups)
        for group in groups:
            readers = grouped if group[0] in repeated else ()
            if readers and not _is_stored(group, readers):
                continue
            self.gpu += times.compiled_us(group, _before(group, repeated), readers)
            self.host += self.costs.compiled
            for op in group:
                self.gpu += table_us(op, times, is_compiled=programs is None)
                self.gpu += times.topk_us(op)
                if isinstance(op, coda.GroupNormOp):
                    self.gpu += times.kernel_us(times.bytes([op.x]))
                    self.host += self.costs.compiled
            if any(isinstance(op, coda.SumToOp) for op in group):
                # Sums over rows take a second kernel for the sums of parts of them.
                self.gpu += times.kernel_us(0)
                self.host += self.costs.compiled

    def add_lowered(self, func: FuncOp, programs: Mapping[str, FuncOp]) -> None:
        """Add a function of the scheduled level: a program, or a graph that calls programs."""
        times = OperatorTimes.of(func, self.device)
        self._add_fixed_order(func, times)
        if any(isinstance(op, CallOp) for op in func.body.block.ops):
            self.add_graph(func, programs)
            return
        for op in func.body.block.ops:
            if isinstance(op, LIBRARY):
                self.host += self.costs.library
                self.gpu += times.library_us(op)
                continue
            if isinstance(op, gemm.FusedOp):
                self.gpu += times.fused_us(op)
            elif is_attention(op):
                self.gpu += times.attention_us(op) + times.masked_us(op)
                self.masked += _masked_us(op, times)
                self.read += _read_us(op, times)
            elif is_left(op) and is_executed(op):
                self.gpu += times.call_us(op) + table_us(op, times)
                if before := before_kernel(op):
                    self.gpu += times.kernel_us(times.bytes(before))
                for part in transposed_parts(op, times.shapes, times.sizes):
                    self.gpu += times.kernel_us(2 * times.bytes([part]))
            elif isinstance(op, coda.TransposeOp):
                bytes = times.bytes([op.result])
                if is_copied(op, times.shapes, times.sizes):
                    self.gpu += times.kernel_us(2 * bytes)
                    self.host += self.costs.kernel
                if copies_rows(op, times.shapes, times.sizes):
                    self.gpu += times.kernel_us(2 * bytes)
                    self.host += self.costs.kernel
            is_own_product = SmallProduct.of(op, times.shapes) is not None
            self.host += self.costs.kernel if is_own_product else _launching(op, self.costs)

    def _add_fixed_order(self, func: FuncOp, times: OperatorTimes) -> None:
        """Add what calls of PyTorch take longer that give the same bits in every run."""
        for op in func.body.block.ops:
            if us := times.fixed_order_us(op):
                is_mask = isinstance(op, coda.AttentionGradOp)
                self.gpu += us
                self.host += self.costs.mask_gradient if is_mask else self.costs.embedding_gradient


def _launching(op: Operation, costs: HostCosts) -> float:
    """Return the host's microseconds for an operator of a program, without the library's GEMMs."""
    if isinstance(op, ReturnOp):
        return costs.result * len(op.operands)
    if isinstance(op, gemm.FusedOp | gemm.MapOp | gemm.FinalizeOp | gemm.AttentionSumOp):
        return costs.kernel
    if isinstance(op, coda.GroupOrderOp):
        return 2 * costs.kernel
    if isinstance(op, coda.SumToOp):
        return costs.sum
    if isinstance(op, coda.EmbeddingGradOp):
        return costs.kernel if reads_all_ids(op) else costs.embedding_gradient
    if isinstance(op, StateSpaceLike):
        is_forward = isinstance(op, StateSpaceModel)
        return costs.scan if is_forward else costs.scan_gradient
    if isinstance(op, torch.VjpOp):
        return 2 * costs.call
    if not is_attention(op):
        is_copy = isinstance(op, coda.ConcatOp | coda.PadOp | coda.ShiftOp)
        once = costs.kernel if is_copy else costs.call
        return once if is_left(op) and is_executed(op) else 0.0
    is_gradient = isinstance(op, coda.AttentionGradOp) or (
        isinstance(op, torch.CallOp) and op.callee.data == torch.FUSED_ATTENTION_GRAD
    )
    return costs.own_attention_gradient if is_gradient else costs.attention


def decomposed_attention_us(
    scores: int, head_dim: int, device: Device, *, products: int = 2
) -> float:
    """Return the microseconds of attention that stores scores, with one product or both in f32."""
    computing = 2 * products * scores * head_dim / (1e6 * VECTOR_EFFICIENCY * device.vector_tflops)
    return computing + moving_us(SCORE_BYTES * scores, device)


def _attention_us(op: Operation, times: OperatorTimes) -> float:
    """Return the microseconds of attention in a compiler's graph, or of its gradient, which has no
    pattern for most attention that a model writes as products and a softmax.
    """
    scores_type = op.attributes.get(coda.DECOMPOSED)
    if not isinstance(op, coda.AttentionOp | coda.AttentionGradOp) or scores_type is None:
        return times.attention_us(op) + times.masked_us(op, is_compiled=True)
    if scores_type != element_type_of(op.q):
        return times.attention_us(op) + _wide_scores_us(op, times)
    us = times.attention_us(op) if op.mask is not None else _stored_us(op, times)
    return us + times.masked_us(op, is_compiled=True)


def _stored_us(op: coda.AttentionOp | coda.AttentionGradOp, times: OperatorTimes) -> float:
    """Return the microseconds of two products and a softmax that store scores, or of gradients. For
    matrices smaller than a tile, the library has kernels that take as long as their bytes.
    """
    queries, keys = (times.extents_of(x)[-2] for x in (op.q, op.k))
    element, scores = element_bytes(op.q.type), times.scores(op)
    moved = kernel_us(2 * element * scores, times.device)
    products = [
        products_us(
            scores // (queries * keys),
            extents,
            times.device,
            is_f32=element > 2,
            unaligned=slowdown(2 * keys),
        )
        for extents in ((queries, keys, op.head_dim.value.data), (queries, op.value_columns, keys))
        if min(queries, keys) >= FULL_TILE
    ]
    us = moved + max(moved, sum(products))
    return GRADIENT_PRODUCTS * us if isinstance(op, coda.AttentionGradOp) else us


def _wide_scores_us(op: Operation, times: OperatorTimes) -> float:
    """Return the microseconds of attention decomposed with scores in float32, beside its product in
    16 bits: a compiler has no pattern for it, stores the scores, and multiplies without tensor
    cores.
    """
    assert isinstance(op, coda.AttentionOp | coda.AttentionGradOp), "what may be decomposed"
    head_dim = op.head_dim.value.data
    us = decomposed_attention_us(times.scores(op), head_dim, times.device, products=1)
    return GRADIENT_PRODUCTS * us if isinstance(op, coda.AttentionGradOp) else us


def _masked_us(op: Operation, times: OperatorTimes) -> float:
    """Return the microseconds of masked attention for which PyTorch stores the scores; else 0."""
    if isinstance(op, coda.AttentionOp | coda.AttentionGradOp):
        is_gradient = isinstance(op, coda.AttentionGradOp)
        scores = 0 if op.mask is None else times.scores(op)
        us = decomposed_attention_us(scores, op.head_dim.value.data, times.device)
    elif isinstance(op, torch.CallOp) and (operands := torch.masked_operands(op)):
        is_gradient = op.callee.data == torch.FUSED_ATTENTION_GRAD
        *queries, width = times.extents_of(operands[0])
        keys = times.extents_of(operands[1])[-2]
        us = decomposed_attention_us(prod((*queries, keys)), width, times.device)
    else:
        return 0.0
    return GRADIENT_PRODUCTS * us if is_gradient else us


def _read_us(op: Operation, times: OperatorTimes) -> float:
    """Return the same for an own kernel that reads a mask; one of two kernels of the gradients
    counts for both.
    """
    forward, backward = gemm.FusedAttentionOp, gemm.AttentionDkvOp
    if not isinstance(op, (forward, backward)) or op.mask is None:
        return 0.0
    us = decomposed_attention_us(times.scores(op), op.head_dim.value.data, times.device)
    return us if isinstance(op, forward) else GRADIENT_PRODUCTS * us


def _levels(block: Block) -> dict[Operation, int]:
    """Return the length of the longest chain of GEMMs, calls, attentions before each operator."""
    levels: dict[Operation, int] = {}
    for op in block.ops:
        before = [value.owner for value in op.operands if isinstance(value.owner, Operation)]
        levels[op] = max(
            (levels[owner] + _is_called(owner) for owner in before if owner in levels), default=0
        )
    return levels


def _is_called(op: Operation) -> bool:
    """Return whether no kernel of a compiler contains `op`."""
    return is_waited_for(op) or is_product(op) or isinstance(op, coda.ConvolutionOp)


def _kernels(block: Block, levels: Mapping[Operation, int]) -> list[list[Operation]]:
    """Return the groups of operators of which a compiler makes one kernel each: connected ones that
    wait for the same operators, also through views of results, and those of as many elements that
    read the same tensor.
    """
    ops = dict[Operation, None]()
    for op in block.ops:
        owners = [value.owner for value in op.operands if isinstance(value.owner, Operation)]
        is_joined = any(owner in ops and levels[owner] == levels[op] for owner in owners)
        is_between = isinstance(op, coda.ReshapeOp | coda.TransposeOp | coda.SliceOp) and is_joined
        if (is_between and not is_read_in_place(op)) or (is_left(op) and not _is_called(op)):
            ops[op] = None
    readers: dict[tuple[int, SSAValue], list[Operation]] = {}
    for op in ops:
        for value in op.operands:
            if op.results and shape_of(value) == shape_of(op.results[0]):
                readers.setdefault((levels[op], value), []).append(op)
    beside = [(op, first) for first, *others in readers.values() for op in others]
    return connected(list(ops), lambda a, b: levels[a] == levels[b], beside)


def _repeated(groups: Sequence[list[Operation]]) -> set[Operation]:
    """Return the operators that a compiler computes again in each kernel that reads them: pointwise
    code on few tensors.
    """
    found = set[Operation]()
    for group in groups:
        within = set(group)
        read = {x for op in group for x in op.operands if x.owner not in within}
        tensors = [x for x in read if not isinstance(x.owner, coda.ConstantOp)]
        if len(tensors) <= MAX_READS and all(map(_is_cheap, group)):
            found |= within
    return found


def _is_stored(group: Iterable[Operation], grouped: Container[Operation]) -> bool:
    """Return whether other operators than those in kernels read a result of the group."""
    uses = [use for op in group for result in op.results for use in result.uses]
    return any(use.operation not in grouped for use in uses)


def _is_cheap(op: Operation) -> bool:
    return isinstance(op, coda.ElementwiseOp | coda.CastOp | coda.ReshapeOp)


def _before(group: Iterable[Operation], repeated: Container[Operation]) -> set[Operation]:
    """Return the operators of other groups that are computed again for a group."""
    own = set(group)
    found, pending = set[Operation](), [*own]
    while pending:
        for value in pending.pop().operands:
            op = value.owner
            if isinstance(op, Operation) and op in repeated and op not in found | own:
                found.add(op)
                pending.append(op)
    return found


def connected(
    ops: Sequence[Operation],
    joins: Callable[[Operation, Operation], bool],
    beside: Iterable[tuple[Operation, Operation]] = (),
) -> list[list[Operation]]:
    """Return the groups of operators that values connect where `joins` allows it, or `beside`."""
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
    for op, other in beside:
        leader[find(op)] = find(other)
    groups: dict[Operation, list[Operation]] = {}
    for op in ops:
        groups.setdefault(find(op), []).append(op)
    return list(groups.values())
