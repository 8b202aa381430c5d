"""Pass `fuse-groups`: fuse code on groups of columns where a tile holds whole groups."""

from collections.abc import Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType, f32
from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda, gemm
from coda_ir.dialects.coda.shapes import AnyTensor, element_type_of, shape_of, tensor_type
from coda_ir.dialects.gemm.places import joins_columns, splits_columns
from coda_ir.dialects.gemm.scalar_code import emit_scalar
from coda_ir.passes.fusion.split_reductions import make_finalize, rounded
from coda_ir.passes.support.editing import EpilogueEditor, Site, insert_map, recomputed
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter
from coda_ir.passes.support.group_legality import check_group_code, group_site
from coda_ir.passes.support.groups import (
    GroupCode,
    find_group_code,
    find_row_code,
    is_weight_gradient,
)
from coda_ir.passes.support.legality import kernel_name


class FuseGroupsPass(FunctionPass):
    """Fuses pointwise code and reductions over groups of columns into one epilogue or one kernel.

        %h = coda.reshape %z : (... x N) -> (... x N/G x G)
        %p = coda.mul %h, %dy                               %d, %p = gemm.map tile(%z, ...) {
        %s = coda.reduce %p {kind = "mean"}                   s = gemm.group_reduce add z·dy over G
        %d = coda.mul %h, %s                          ->      yield z·s/G, z·dy
        %g = coda.sum_to %p : (G)                           }
        %y = coda.reshape %d : (... x N)                    %g = gemm.finalize col (...)

    An example is the gradient of a norm of heads, which needs sums over each head. It joins the
    epilogue that computes one of its operands, also in pair mode, such as the rotation of the
    gradient of q or k. Another example is the gradient of a norm of whole rows that no GEMM has on
    chip: one kernel holds the row, computes it if possible, and reads it only once. A third is code
    on rows of a weight gradient and the weight, for example for weights of normalized length, which
    would read the weight once more in an epilogue. Legal iff a group fits into a tile (a row into
    registers); every other operand fits a port; the only sums of groups that other operators use
    are in float32 and stored by the kernel; and no operand depends on a result.

    Code on whole rows of few columns joins the epilogue of the GEMM that computes them, if one tile
    holds the rows: a norm that is stored or added to a residual, or the scaling of a row by its
    largest element. So does a softmax over the experts of a router or the classes of a classifier:

        %z = gemm.fused ... { yield acc }         %p = gemm.fused ... {
        %p = coda.softmax %z : (... x 8)     ->     m = gemm.group_reduce max acc over 8
                                                    e = exp(acc − m)
                                                    yield e / gemm.group_reduce add e over 8
                                                  }
    """

    softmax_kernels: bool = True
    """True if a softmax without an epilogue becomes a kernel together with the code around it."""

    of_weight_gradients: bool = False
    """True to take only code on whole rows of weight gradients: before parts of it join the
    epilogue, which would store what they compute in float32.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        if self.of_weight_gradients:
            gradients = filter(is_weight_gradient, rewriter.ops)
            shapes = {shape_of(result) for op in gradients for result in op.results}
            for code in find_row_code(rewriter.order, shapes):
                if _is_of_weights(code, rewriter):
                    self._fuse(code, rewriter)
            return
        while self._sweep(find_group_code(rewriter.ops), rewriter):
            pass
        for code in find_row_code(rewriter.order):
            self._fuse(code, rewriter)

    def _sweep(self, found: Sequence[GroupCode], rewriter: FunctionRewriter) -> bool:
        """Rewrite group codes that share no operator; return whether others remain to be found."""
        rewritten: set[Operation] = set()
        is_done = True
        for code in found:
            if not rewritten.isdisjoint(code.ops):
                is_done = False
            elif self._fuse(code, rewriter):
                rewritten.update(code.ops)
        return not is_done

    def _fuse(self, code: GroupCode, rewriter: FunctionRewriter) -> bool:
        """Rewrite group code, unless this is illegal or left to others; return whether it was."""
        code.ops.sort(key=rewriter.order.position)
        if self._is_left(code, rewriter) or check_group_code(code, rewriter.order) is not None:
            return False
        _rewrite(code, rewriter)
        return True

    def _is_left(self, code: GroupCode, rewriter: FunctionRewriter) -> bool:
        site = group_site(code, rewriter.order)
        if code.gemm is not None:
            return site is None or site.op is not code.gemm
        return site is None and code.has_softmax and not self.softmax_kernels


def _is_of_weights(code: GroupCode, rewriter: FunctionRewriter) -> bool:
    """Return whether code on a weight gradient becomes a kernel, as no tile holds its rows."""
    is_of_gradient = any(is_weight_gradient(base.owner) for base in code.bases)
    return is_of_gradient and group_site(code, rewriter.order) is None


def _rewrite(code: GroupCode, rewriter: FunctionRewriter) -> None:
    site = group_site(code, rewriter.order)
    where = f"fused into the epilogue of {kernel_name(site.op)}" if site else "becomes a kernel"
    company = f"with the other readers of groups of {code.group} columns"
    rewriter.passed(code.reductions[0], f"{where}, {company}")
    if code.is_split:
        _join_exits(code, rewriter)
    _Fusion(code, site or _empty_map(code, rewriter), rewriter).run()


def _join_exits(code: GroupCode, rewriter: FunctionRewriter) -> None:
    """Let outside readers use the values of the code as columns of (... x N)."""
    for op in list(code.ops):
        if splits_columns(op) or isinstance(op, coda.SumToOp) or not code.is_tile(op.results[0]):
            continue
        users = code.users_outside(op.results[0])
        if not all(map(joins_columns, users)):
            _join(op, [user for user in users if not joins_columns(user)], code, rewriter)


def _join(
    op: Operation, users: Sequence[Operation], code: GroupCode, rewriter: FunctionRewriter
) -> None:
    """Let `users` of the result of `op` read a view of it as (... x N)."""
    value, after = op.results[0], op.next_op
    assert after is not None, "a block ends with its terminator"
    insert = rewriter.before(after, op.location)
    split = insert.reshape(insert.reshape(value, code.shape), code.domain)
    value.replace_uses_with_if(split, lambda use: use.operation in users)


def _empty_map(code: GroupCode, rewriter: FunctionRewriter) -> Site:
    """Make a kernel over the columns that loads the operands that the code splits."""
    loaded = [base for base in code.bases if recomputed(base, code.shape) is None]
    rewriter.order.hoist(code.leaves, code.anchor)
    return insert_map(rewriter.order, code.anchor, code.reductions[0].location, loaded)


class _Fusion:
    """Moves group code into the epilogue at a site."""

    def __init__(self, code: GroupCode, site: Site, rewriter: FunctionRewriter):
        self.code, self.site, self.rewriter = code, site, rewriter
        self.lanes: dict[SSAValue, Sequence[SSAValue]] = {}

    def run(self) -> None:
        order, code = self.rewriter.order, self.code
        order.hoist([v for v in code.leaves if not self.site.holds(v)], self.site.op)
        moved = [op for op in code.ops if op not in code.repeated and not self._is_kept(op)]
        for op in moved:
            order.sink_users(op, self.site.op)
        self.editor = EpilogueEditor(self.site.op, order)
        for op in code.ops:
            self._emit(op)
        moved += self._add_tiles()
        sums = [op for op in code.ops if isinstance(op, coda.SumToOp)]
        of_groups = code.values_of_groups
        indices = [*map(self._add_column_sum, sums), *map(self._add_group, of_groups)]
        for op in moved:
            op.operands = ()
        stored = self.editor.commit_and_locate(self.site.segment, indices)
        for op, partial in zip(sums, stored[: len(sums)], strict=True):
            self._finalize(op, partial)
        for value, result in zip(of_groups, stored[len(sums) :], strict=True):
            self._show_groups(value, result)
        for op in reversed(moved):
            order.erase(op)
        for op in reversed([op for op in code.ops if op in code.repeated]):
            if not op.results[0].uses:
                order.erase(op)

    def _is_kept(self, op: Operation) -> bool:
        """Return whether others read groups of columns through the same view."""
        return splits_columns(op) and bool(self.code.users_outside(op.results[0]))

    # The code

    def _emit(self, op: Operation) -> None:
        if isinstance(op, coda.SumToOp):
            return
        value = op.results[0]
        if splits_columns(op):
            base = op.operands[0]
            self.lanes[value] = self._elements(base, self.code.shape)
            return
        if isinstance(op, coda.BroadcastOp):
            self.lanes[value] = self._operand(op.x)
            return
        builder = self.editor.builder(self.site.segment, op.location)
        if isinstance(op, coda.SoftmaxOp):
            self.lanes[value] = self._softmax(op, builder)
            return
        if isinstance(op, coda.ReduceOp | coda.NormStatsOp):
            for result, total in zip(op.results, self._reduced(op, builder), strict=True):
                total.name_hint = total.name_hint or result.name_hint
                self.lanes[result] = [total] * len(self._operand(op.x))
            return
        operands = [self._operand(v) for v in op.operands]
        count = max(map(len, operands))
        if not self.code.is_tile(value):
            single = emit_scalar(builder, op, [lanes[0] for lanes in operands])
            self.lanes[value] = [single] * count
            return
        self.lanes[value] = [
            emit_scalar(builder, op, [lanes[index] for lanes in operands]) for index in range(count)
        ]
        for lane in self.lanes[value]:
            lane.name_hint = lane.name_hint or value.name_hint

    def _operand(self, value: SSAValue) -> Sequence[SSAValue]:
        if value in self.lanes:
            return self.lanes[value]
        if self.code.is_split and self.code.is_of_groups(value):
            return self.editor.elements_of_groups(value, self.site.segment, half=self.site.is_half)
        if self.code.is_of_columns(value):
            return self._elements(self.editor.view(value, self.code.shape[-1:]), self.code.shape)
        return self._elements(value, (*self.code.shape[:-1], self.code.group))

    def _elements(self, value: SSAValue, domain: Sequence[int]) -> Sequence[SSAValue]:
        return self.editor.lanes_of(value, self.site.segment, domain, half=self.site.is_half)

    def _reduced(
        self, op: coda.ReduceOp | coda.NormStatsOp, builder: gemm.ScalarBuilder
    ) -> Sequence[SSAValue]:
        lanes, count = self._operand(op.x), self.code.group
        group = self.code.columns_of_group(self.site)

        def mean(values: Sequence[SSAValue]) -> SSAValue:
            return builder.divide_by(_total(builder, values, gemm.Combiner.ADD, group), count)

        if isinstance(op, coda.NormStatsOp):
            center = [mean(lanes)] if op.kind.data == "layer" else []
            spread = [builder.sub(v, center[0]) for v in lanes] if center else lanes
            variance = mean([builder.mul(v, v) for v in spread])
            return [
                builder.rsqrt(builder.add(variance, builder.constant(op.eps.value.data))),
                *center,
            ]
        if op.kind.data == "mean":
            total = mean(lanes)
        else:
            combiner = gemm.Combiner.MAX if op.kind.data == "max" else gemm.Combiner.ADD
            total = _total(builder, lanes, combiner, group)
        return [builder.result(total, element_type_of(op.result))]

    def _softmax(self, op: coda.SoftmaxOp, builder: gemm.ScalarBuilder) -> Sequence[SSAValue]:
        lanes, group = self._operand(op.x), self.code.columns_of_group(self.site)
        largest = _total(builder, lanes, gemm.Combiner.MAX, group)
        powers = [builder.exp(builder.sub(lane, largest)) for lane in lanes]
        total = _total(builder, powers, gemm.Combiner.ADD, group)
        type = element_type_of(op.result)
        return [builder.result(builder.div(power, total), type) for power in powers]

    # What leaves it

    def _add_tiles(self) -> list[Operation]:
        """Store values that are read outside; return the views whose results are replaced."""
        found: list[Operation] = []
        for op in self.code.ops:
            users = [] if op in self.code.repeated else self.code.users_outside(op.results[0])
            if not self.code.is_split:
                if users and self.code.is_tile(op.results[0]):
                    self._add_tile(op.results[0], op.results[0])
                continue
            # A number of each group, as (... x H x 1), has that shape after a view, too.
            for user in users if self.code.is_tile(op.results[0]) else ():
                if joins_columns(user):
                    self._add_tile(op.results[0], user.results[0])
                    found.append(user)
        return found

    def _add_tile(self, value: SSAValue, stored: SSAValue) -> None:
        """Store `value` of the code in place of `stored`."""
        lanes, type = self.lanes[value], tensor_type(stored)
        number = self.site.segment
        port = gemm.ResultPortAttr.half() if self.site.is_half else gemm.ResultPortAttr.tile()
        index = self.editor.add_result(number, port, type, lanes)
        self.editor.adopt(number, index, stored)

    def _add_column_sum(self, op: coda.SumToOp) -> int:
        type = TensorType(f32, (DYNAMIC_INDEX, self.code.columns))
        port = gemm.ResultPortAttr.partial_col(gemm.Combiner.ADD)
        return self.editor.add_result(self.site.segment, port, type, self.lanes[op.x])

    def _add_group(self, value: SSAValue) -> int:
        """Store a number of each group, which is the same on all of its columns."""
        code = self.code
        type = TensorType(f32, code.domain[:-1] if code.is_split else shape_of(value))
        port = gemm.ResultPortAttr.of_group(code.columns_of_group(self.site))
        return self.editor.add_result(self.site.segment, port, type, self.lanes[value][:1])

    def _show_groups(self, value: SSAValue, stored: SSAValue) -> None:
        """Let others read the stored numbers of groups as a column."""
        kernel = stored.owner
        assert isinstance(kernel, Operation) and kernel.next_op is not None
        stored.name_hint = value.name_hint
        if not self.code.is_split:
            value.replace_all_uses_with(stored)
            return
        insert = self.rewriter.before(kernel.next_op, kernel.location)
        value.replace_all_uses_with(insert.reshape(stored, shape_of(value)))

    def _finalize(self, op: coda.SumToOp, partial: SSAValue) -> None:
        """Add a finalize: the sum over the rows of every column, and over the groups."""
        partial.name_hint = "partial"
        columns, group = self.code.columns, self.code.group
        is_of_groups = shape_of(op.result) == (group,)
        element_type = f32 if is_of_groups else element_type_of(op.result)
        result = self._sum_of(op, partial, TensorType(element_type, (columns,)))
        insert = self.rewriter.before(op)
        if is_of_groups:
            groups = insert.reshape(result, (columns // group, group))
            result = self._sum_of(op, groups, tensor_type(op.result))
        else:
            result = insert.reshape(result, shape_of(op.result))
        result.name_hint = op.result.name_hint
        op.result.replace_all_uses_with(result)

    def _sum_of(self, op: coda.SumToOp, value: SSAValue, type: AnyTensor) -> SSAValue:
        partials, close = [(gemm.Combiner.ADD, value)], rounded(type.element_type)
        finalize = make_finalize(partials, [type], close, gemm.numerics_mode(op), "col")
        return self.rewriter.before(op).insert(finalize)


def _total(
    builder: gemm.ScalarBuilder, lanes: Sequence[SSAValue], combiner: gemm.Combiner, group: int
) -> SSAValue:
    """Return the reduction over a group; the columns of a pair are combined first."""
    value = lanes[0] if len(lanes) == 1 else builder.combine(combiner, *lanes)
    return builder.insert(gemm.GroupReduceOp(value, combiner, group))
