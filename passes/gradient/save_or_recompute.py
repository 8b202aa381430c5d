"""Pass `save-or-recompute`: split a joint function into a forward and a backward."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from coda_ir.diagnostics import LoweringError, OptionError
from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_bytes, shape_of
from coda_ir.dialects.coda.weights import is_weight
from coda_ir.dialects.gemm.scalar_code import is_pointwise, is_widening_cast
from coda_ir.dialects.torch import PRODUCTS, CallOp
from coda_ir.dominance import backward_slice, before
from coda_ir.passes.gradient.min_cut import VertexCut
from coda_ir.passes.gradient.norm_gradients import stats_of
from coda_ir.passes.gradient.transposed_attention import (
    read_transposed_attention,
    transposed_attention,
)
from coda_ir.passes.support.convolutions import Convolution
from coda_ir.passes.support.function_pass import FunctionRewriter, NamedPass
from coda_ir.passes.support.groups import is_of_small_groups
from coda_ir.passes.support.joint import Joint
from coda_ir.passes.support.jumps import computed_before_jump
from coda_ir.passes.support.legality import name_of
from coda_ir.passes.support.matching import Norm, is_row_norm
from coda_ir.passes.support.norms import apply_statistics, norm_stats
from coda_ir.passes.support.row_numbers import inverse_of, is_permutation
from coda_ir.passes.support.split_joint import is_expensive, split
from coda_ir.remarks import Remark, RemarkKind, checkpoint_of, emit_remark, format_location
from coda_ir.symbolic_shapes import SymbolicShapes, SymbolicSize
from coda_ir.symbolic_size import parse_sizes

NOMINAL_EXTENT = 256
"""The size of a symbolic extent where none is given: sizes have to be compared."""

_RECOMPUTABLE = (
    coda.ElementwiseOp,
    coda.CastOp,
    coda.ConstantOp,
    coda.GluOp,
    coda.PositionsOp,
    coda.ExtentOp,
    coda.ReshapeOp,
    coda.SliceOp,
    coda.ShiftOp,
    coda.TransposeOp,
)
"""Operators that cost next to nothing in the epilogue that needs them again, and views."""

_VIEWS = (coda.ReshapeOp, coda.SliceOp, coda.TransposeOp)

_LINEAR = (coda.LinearOp, coda.MatmulOp)

_ROW_STATISTICS = (coda.NormStatsOp, coda.ReduceOp)
"""A number per row: the forward has the row on chip, the backward would have to read it again."""


class SaveOrRecomputePass(NamedPass):
    """Splits @f_joint into @f_forward, which also returns the saved values, and @f_backward.

        @f_joint(x, w, d_y) -> (y, d_x, d_w)    ->    @f_forward(x, w) -> (y, saved...)
                                                      @f_backward(x, w, saved..., d_y) -> (d_x, d_w)

    Arguments and results of @f are available in any case. Of the other values that the backward
    needs, the pass saves those with the fewest bytes from which pointwise code can recompute, or
    GEMMs can gather, everything else. Among equal choices, it takes the one that leaves the least
    to compute. GEMMs and attention are recomputed only if `memory-budget` (bytes) requires it,
    beginning with those that free the most bytes per FLOP. Row statistics are always saved, because
    they are small and recomputing them takes a pass over the rows. The same holds for statistics of
    columns and blocks, such as the scales with which the backward quantizes, but not for those of
    heads, because a tile holds whole heads. Residual sums are saved even if the addends have fewer
    bytes (float32 sums of bfloat16 under autocast): the backward begins with the last sum, and
    would have to recompute and keep all of them. Only a budget changes that. Weights of products
    that the forward computes from parameters, such as rows of length one or the bfloat16 copies of
    autocast, are saved as well: the forward stores them, no tile of the backward has their
    elements, and they do not grow with the rows. So are operands of attention and of products that
    PyTorch runs, which the backward would have to store again: rounded otherwise, queries and keys
    would not have the sums of exponentials that the forward saves. Parts under activation
    checkpointing are recomputed, except for random numbers, for discontinuous functions of computed
    values, and for values that the rest of the forward reads, which are saved. Discontinuous
    functions of two computed values are saved in any case, and of one if a budget lets GEMMs run
    again. `save` and `recompute` name values that are saved or recomputed regardless of cost.
    `extents` ("B=8,T=2048") gives the sizes of symbols, which are 256 by default.

    The arguments of @f_backward have the `coda.name` of an argument or a result of @f_forward, or
    `d_` and the name of a result.
    """

    memory_budget: int | None = None
    save: tuple[str, ...] = ()
    recompute: tuple[str, ...] = ()
    extents: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.memory_budget is not None and self.memory_budget < 0:
            raise OptionError(
                f"{self.name}: memory-budget is {self.memory_budget}",
                "use a number of bytes, 0 or more",
            )
        extents = parse_sizes(self.extents, f"{self.name}: extents")
        joints = [Joint.of(func) for func in op.walk() if isinstance(func, FuncOp)]
        for joint in joints:
            if joint is not None:
                rewriter = FunctionRewriter(self.name, joint.func)
                read_transposed_attention(rewriter, joint.forward_ops())
                self._split(joint, extents)

    def _split(self, joint: Joint, extents: dict[str, int]) -> None:
        choice = _Choice(joint, self.save, self.recompute, extents)
        choice.name_values()
        choice.check_names()
        choice.check_operators()
        choice.decompose_norms()
        saved = choice.values_to_save(self.memory_budget)
        choice.report(saved, self.memory_budget)
        split(joint, saved, choice.instead)


class _Choice:
    """The choice of the values that a joint function saves."""

    def __init__(
        self,
        joint: Joint,
        save: Sequence[str],
        recompute: Sequence[str],
        extents: Mapping[str, int],
    ):
        self.joint = joint
        self.save, self.recompute = set(save), set(recompute)
        self.extents = extents
        self.forward = joint.forward_ops()
        self.free = {*joint.arguments, *joint.results}
        self.instead: dict[SSAValue, SSAValue] = {}
        """The value that the backward computes for the result of a norm of the forward."""

    def check_names(self) -> None:
        """Raise CodaError if the options name a value that the forward does not compute."""
        gradients = self.joint.gradient_values()
        names = {
            value.name_hint
            for op in self.joint.block.ops
            for value in op.results
            if value.name_hint and value not in gradients
        }
        for option, given in (("save", self.save), ("recompute", self.recompute)):
            for name in sorted(given - names):
                raise OptionError(
                    f"save-or-recompute: {option} names '{name}', which "
                    f"{self.joint.function} does not compute",
                    f"it computes {', '.join(sorted(names))}",
                )
        for name in sorted(self.save & self.recompute):
            raise OptionError(
                f"save-or-recompute: '{name}' is in both save and recompute", "name it once"
            )

    def check_operators(self) -> None:
        """Raise CodaError for an operator of both directions, such as a GEMM of merged siblings."""
        gradients = self.joint.gradient_values()
        for op in self.joint.block.ops:
            if op in self.forward and not gradients.isdisjoint(op.operands):
                raise LoweringError(
                    f"{format_location(op.location)}: save-or-recompute: {op.name} computes "
                    "results of the forward and of the backward",
                    "run the pass before coda-to-gemm, which merges operators",
                )

    def name_values(self) -> None:
        """Name the unnamed results of linear layers, for options and remarks."""
        for op in self.joint.block.ops:
            if op not in self.forward or not isinstance(op, _LINEAR):
                continue
            if op.result.name_hint is None and op.weight.name_hint is not None:
                op.result.name_hint = f"{op.weight.name_hint}_out"

    def decompose_norms(self) -> None:
        """Make the backward apply the statistics of norms whose results it needs."""
        rewriter = FunctionRewriter(SaveOrRecomputePass.name, self.joint.func)
        forward = [op for op in self.joint.block.ops if op in self.forward]
        self.product_operands = product_operands(forward)
        for op in rewriter.ops:
            if is_row_norm(op) and op not in self.product_operands:
                is_there = op.result in self.free or op.result.name_hint in self.save
                if op in self.forward and not is_there:
                    self._decompose(op, rewriter)
        self.shapes = SymbolicShapes(self.joint.func)
        self.residual_sums = residual_sums(forward, _is_light)
        self.computed_weights = computed_weights(forward, _is_light)

    def _decompose(self, norm: Norm, rewriter: FunctionRewriter) -> None:
        after = norm.next_op
        assert after is not None, "a function ends with its return"
        insert = rewriter.before(after, norm.location)
        known = stats_of(norm)
        if known is not None:
            rewriter.order.hoist(known.stats, after)
        stats = norm_stats(insert, norm) if known is None else known.stats
        value = apply_statistics(insert, norm, stats)
        value.name_hint = norm.result.name_hint
        self.instead[norm.result] = value

    def values_to_save(self, budget: int | None) -> list[SSAValue]:
        """Return the values to save, in the order in which they are computed."""
        repeatable: set[Operation] = set()
        saved = self._cut(repeatable)
        for ops in self._by_worth() if budget is not None else ():
            if budget is not None and self.size(saved) <= budget:
                break
            repeatable |= ops
            saved = self._cut(repeatable)
        saved = self._before_slices({self._before_transposes(value) for value in saved})
        return [v for op in self.joint.block.ops for v in op.results if v in saved]

    def _before_transposes(self, value: SSAValue) -> SSAValue:
        """Return the tensor in memory of which `value` is another view: the kernels of the backward
        know where its elements are. Attention is stored in the order in which it is read, and
        images in the order in which a convolution reads them.
        """
        while isinstance(value.owner, coda.TransposeOp) and value.name_hint not in self.save:
            if _has_channels_last(value.owner.x):
                return value
            value = value.owner.x
        is_named = value.name_hint in self.save
        transposed = None if is_named else transposed_attention(value, self.forward)
        return transposed or value

    def _before_slices(self, values: set[SSAValue]) -> set[SSAValue]:
        """Save a tensor in place of slices that are all of it and only read in another order."""
        slices: dict[SSAValue, list[SSAValue]] = {}
        for value in values:
            part, readers = value.owner, [use.operation for use in value.uses]
            if not isinstance(part, coda.SliceOp) or value.name_hint in self.save:
                continue
            if all(isinstance(op, coda.TransposeOp) for op in readers):
                slices.setdefault(part.x, []).append(value)
        for whole, parts in slices.items():
            if self.size(parts) >= self.size([whole]):
                values = values - {*parts} | {whole}
        return values

    def size(self, values: Iterable[SSAValue]) -> int:
        """Return the bytes of `values`, as far as extents are known."""
        return sum(self._number(self.shapes.bytes(value)) for value in values)

    def _number(self, size: SymbolicSize) -> int:
        return size.evaluate(
            {name: self.extents.get(name, NOMINAL_EXTENT) for name in size.symbols}
        )

    def _by_worth(self) -> list[set[Operation]]:
        """Return the candidates for recomputation if memory is scarce: computed weights, operands
        of products, residual sums, then GEMMs and attentions of the forward, by bytes saved per
        FLOP.
        """
        ops = [op for op in self.joint.block.ops if op in self.forward and is_expensive(op)]
        worth = {op: self.size(op.results) / max(1, self._flops(op)) for op in ops}
        by_worth = sorted(ops, key=lambda op: -worth[op])
        stored = [self.computed_weights, self.product_operands, self.residual_sums]
        return [*stored, *({op} for op in by_worth)]

    def _flops(self, op: Operation) -> int:
        inner = self.shapes.dims(op.operands[0])[-1:]
        factor = 2
        if isinstance(op, coda.AttentionOp):
            inner, factor = self.shapes.dims(op.operands[1])[-2:-1], 4
        return factor * self._number(self.shapes.numel(op.results[0]) * SymbolicSize.product(inner))

    def _cut(self, repeatable: set[Operation]) -> set[SSAValue]:
        """Return the cheapest values from which all inputs of the backward can be computed."""
        needed = self._needed()
        ops = backward_slice(needed, instead=self.instead)
        read = {self.instead.get(operand, operand) for op in ops for operand in op.operands}
        vertices = {*needed, *read, *(result for op in ops for result in op.results)}
        graph = VertexCut[SSAValue]()
        for value in vertices:
            graph.add(value, self._cost(value))
        for value in vertices:
            op = value.owner
            if not isinstance(op, Operation) or not self._is_repeatable(op, repeatable):
                graph.from_source(value)
                continue
            for operand in dict.fromkeys(op.operands):
                graph.connect(self.instead.get(operand, operand), value)
        for value in needed:
            graph.to_sink(value)
        return graph.cut() - self.free

    def _needed(self) -> set[SSAValue]:
        """Return the values that operators on gradients read but that depend on no gradient."""
        gradients = self.joint.gradient_values()
        wanted = self.joint.argument_gradients
        on_gradients = [
            op for op in backward_slice(wanted) if any(result in gradients for result in op.results)
        ]
        read = {operand for op in on_gradients for operand in op.operands}
        return {self.instead.get(value, value) for value in {*read, *wanted} - gradients}

    def _cost(self, value: SSAValue) -> int | None:
        if value in self.free or value.name_hint in self.save:
            return 0
        if value.name_hint in self.recompute:
            return None
        if self._is_checkpointed(value.owner):
            return None if self._is_inside_checkpoint(value) else 0
        if is_permutation(value):
            # What is computed from it is known to name rows only where it is known.
            return 1
        # Of equal bytes, the whole and not its parts: these are copied where it has other columns.
        return max(1, self.size([value])) + isinstance(value.owner, coda.SliceOp)

    def _is_repeatable(self, op: Operation, repeatable: set[Operation]) -> bool:
        """Return whether the backward may recompute the results of `op`."""
        if op in repeatable or any(result.name_hint in self.recompute for result in op.results):
            return True
        if op in self.forward and len(computed_before_jump(op)) > (0 if repeatable else 1):
            # One operand may be an element of the other; products may have other sums again.
            return False
        if self._is_checkpointed(op):
            return True
        if isinstance(op, _ROW_STATISTICS):
            return is_of_small_groups(op)
        stored = (self.residual_sums, self.computed_weights, self.product_operands)
        is_stored = any(op in ops for ops in stored)
        return op not in self.forward or (_is_light(op) and not is_stored)

    def _is_checkpointed(self, op: Operation | Block) -> bool:
        """Return whether `op` is in a checkpointed part and gives the same result again."""
        if not isinstance(op, Operation) or op not in self.forward:
            return False
        is_random = isinstance(op, CallOp) and op.random
        is_same = not is_random and not computed_before_jump(op)
        return checkpoint_of(op.location) is not None and is_same

    def _is_inside_checkpoint(self, value: SSAValue) -> bool:
        """Return whether `value` is used only inside one checkpointed part of the forward."""
        assert isinstance(value.owner, Operation)
        region = checkpoint_of(value.owner.location)
        users = [use.operation for use in value.uses if use.operation in self.forward]
        return all(checkpoint_of(user.location) == region for user in users)

    def report(self, saved: Sequence[SSAValue], budget: int | None) -> None:
        """Emit remarks on saved values, recomputed values, and whether they fit the budget."""
        for value in saved:
            self._emit("analysis", value, "is saved for the backward", self.shapes.bytes(value))
        there = {*saved, *self.free}
        backward = backward_slice(self.joint.argument_gradients, there, self.instead)
        applied = {value.owner for value in self.instead.values()}
        again = {op for op in backward if op in self.forward or op in applied}
        for op in self.joint.block.ops:
            if op in again and not isinstance(op, coda.ConstantOp):
                size = sum((self.shapes.bytes(v) for v in op.results), SymbolicSize())
                self._emit("passed", op.results[0], "is recomputed in the backward", size)
        total = sum((self.shapes.bytes(value) for value in saved), SymbolicSize())
        message = f"{self.joint.function} saves {len(saved)} values of {total} bytes"
        size = self.size(saved)
        if budget is not None and size > budget:
            self._remark(
                "missed",
                self.joint.func,
                f"{message}, {size} of the budget of {budget}: nothing else can be recomputed",
            )
        else:
            self._remark("analysis", self.joint.func, message)

    def _emit(self, kind: RemarkKind, value: SSAValue, message: str, size: SymbolicSize) -> None:
        """Emit a remark on a value with the bytes of memory that it takes, or does not take."""
        op = value.owner
        assert isinstance(op, Operation)
        emit_remark(
            Remark(
                kind,
                SaveOrRecomputePass.name,
                op.name,
                op.location,
                f"{name_of(value)} {message}",
                bytes=size,
                function=self.joint.function,
            )
        )

    def _remark(self, kind: RemarkKind, op: Operation, message: str) -> None:
        name, function = SaveOrRecomputePass.name, self.joint.function
        emit_remark(Remark(kind, name, op.name, op.location, message, function=function))


def _is_light(op: Operation) -> bool:
    """Return whether recomputing the results of `op` costs next to nothing."""
    is_light = isinstance(op, _RECOMPUTABLE) or is_pointwise(op)
    is_inverse = isinstance(op, coda.ScatterOp) and inverse_of(op.results[0]) is not None
    return is_light or _gathers_rows(op) or is_inverse


def _gathers_rows(op: Operation) -> bool:
    """Return whether `op` selects rows for grouped GEMMs, whose main loops can gather them."""
    if not isinstance(op, coda.IndexOp) or op.given["dim"] != 0:
        return False
    users = {use.operation for use in op.result.uses}
    readers = (coda.GroupedLinearMap, coda.GroupedWeightGradientOp)
    return bool(users) and all(isinstance(user, readers) for user in users)


def computed_weights(
    forward: Iterable[Operation], is_light: Callable[[Operation], bool]
) -> set[Operation]:
    """Return the operators that compute operands of products from weights alone, but for those that
    only widen or view one: products can read the weight itself.

    `forward` is in order; `is_light` says which operators could be computed again.
    """
    of_weights: dict[SSAValue, bool] = {}
    """True for a value computed from weights alone whose numbers differ from those of a weight."""
    found: set[Operation] = set()
    for op in forward:
        if isinstance(op, (*_LINEAR, coda.GroupedLinearMap)):
            read = [before(x, _VIEWS) for x in op.operands if of_weights.get(x)]
            found |= {x.owner for x in read if isinstance(x.owner, Operation) and is_light(x.owner)}
        known = [x for x in op.operands if x in of_weights or is_weight(x)]
        is_constant = isinstance(op, coda.ConstantOp)
        if (known or is_constant) and len(known) == len(op.operands):
            changes = not isinstance(op, (coda.ConstantOp, *_VIEWS)) and not _widens(op)
            changes |= any(of_weights.get(x, False) for x in known)
            of_weights |= dict.fromkeys(op.results, changes)
    return found


def product_operands(forward: Iterable[Operation]) -> set[Operation]:
    """Return the pointwise code and the norms of whose results PyTorch or attention computes
    products, but for widening casts.
    """
    read: list[SSAValue] = []
    for op in forward:
        if isinstance(op, coda.AttentionOp):
            read += (op.q, op.k, op.v)
        elif isinstance(op, CallOp) and op.callee.data in PRODUCTS:
            read += op.operands
    makers = {before(operand, _VIEWS).owner for operand in read}
    return {op for op in makers if isinstance(op, Norm) or (is_pointwise(op) and not _widens(op))}


def _widens(op: Operation) -> bool:
    """Return whether `op` converts to a type with more bytes."""
    is_cast = isinstance(op, coda.CastOp)
    return is_cast and element_bytes(op.result.type) > element_bytes(op.operand.type)


def _has_channels_last(value: SSAValue) -> bool:
    """Return whether `value` is a convolution of images (B x C x ...) whose channels come last in
    memory, as they then do in its result.
    """
    found = Convolution.of(value.owner) if isinstance(value.owner, Operation) else None
    images = None if found is None else found.input.owner
    rank = len(shape_of(value))
    is_view = isinstance(images, coda.TransposeOp) and rank > 3
    return is_view and images.permutation == (0, rank - 1, *range(1, rank - 1))


# Sums along a residual stream, of which computing one again takes all that came before it


def residual_sums(
    forward: Iterable[Operation], is_light: Callable[[Operation], bool]
) -> set[Operation]:
    """Return the sums of a value and an older one, which may be a sum itself.

    `forward` is in order; `is_light` says which operators could be computed again. The more others
    a value has after it, the younger it is. What depends on arguments alone is there at any time,
    such as a table of positions: it counts only if something narrower is added, which would seem
    cheaper to save than the sum.
    """
    age: dict[SSAValue, int] = {}
    found: set[Operation] = set()
    for op in forward:
        own = max((age.get(operand, 0) for operand in op.operands), default=0) + (not is_light(op))
        age.update((result, own) for result in op.results)
        if isinstance(op, coda.AddOp | coda.SubOp):
            whole = [each for each in op.operands if shape_of(each) == shape_of(op.result)]
            ages = {age.get(each, 0) for each in whole}
            if len(ages - {0}) > 1 or (len(ages) > 1 and any(map(_is_widened, whole))):
                found.add(op)
    return found


def _is_widened(value: SSAValue) -> bool:
    return isinstance(value.owner, Operation) and is_widening_cast(value.owner)
