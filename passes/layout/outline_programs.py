"""Pass `outline-programs`: outline GEMMs as functions that the other operators call."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr, UnitAttr
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from coda_ir.dialects import coda, torch
from coda_ir.dialects.coda.weights import WEIGHT, is_weight
from coda_ir.dialects.gemm import FusedOp, numerics_mode
from coda_ir.passes.layout.leave_plain_gemms import is_plain
from coda_ir.passes.layout.leftover_cost import saved_us
from coda_ir.passes.support.function_pass import FunctionRewriter, NamedPass, Refusal
from coda_ir.passes.support.legality import name_of
from coda_ir.passes.support.split_joint import fresh_name, sizes_in
from coda_ir.storage import is_donated, place_of
from coda_ir.symbolic_shapes import SymbolicShapes, SymbolicSize, dims_attribute

VIEWS = (coda.ReshapeOp, coda.TransposeOp, coda.SliceOp)

LIBRARY = (coda.LinearOp, coda.GroupedLinearOp)
"""GEMMs that the library computes."""

LEFTOVERS = (
    *LIBRARY,
    coda.ElementwiseOp,
    coda.CastOp,
    coda.ConcatOp,
    coda.PadOp,
    coda.PositionsOp,
    coda.ExtentOp,
    coda.BroadcastOp,
    coda.SumToOp,
    coda.ReduceOp,
    coda.NormStatsOp,
    coda.RMSNormOp,
    coda.LayerNormOp,
    coda.SoftmaxOp,
    coda.GluOp,
    coda.RopeOp,
    coda.ActivationGradOp,
    coda.MaximumGradOp,
    coda.EmbeddingOp,
    coda.LibraryCallOp,
    coda.ShiftOp,
)
"""Operators that a compiler of pointwise code and reductions runs as well as own kernels do. The
gradient of an embedding is none: its kernel adds rows in a fixed order, which Inductor's does not.
"""

OUTSIDE = -1
"""The level of what is computed from arguments alone, before the first program."""

Levels = dict[Operation, int]

_NUMBERS = re.compile(r"[._]\d+(?=[._]|$)")


class OutlineProgramsPass(NamedPass):
    """Outlines the GEMMs between two runs of other operators as one function, and calls it.

        %h = gemm.fused %x ... {gelu}              %h  = func.call @f_program(%x, %w)
        %s = coda.add %h, %row             ->      %s  = coda.add %h, %row
        %y = gemm.fused %s ...                     %y  = func.call @f_program_1(%s, %v)

    The remaining operators are left to another compiler, such as Inductor. A function has all GEMMs
    that depend on equally many runs of other operators. Equal functions, such as those of equal
    layers, are merged. Constants, and views of arguments and results, are computed where they are
    read.

    Legal iff the sizes of the arguments and results of a function follow from the arguments of the
    program, and no result is stored as a part of another tensor. The number of tiles of a kernel,
    or a size that depends on data, does not follow from them. Other programs are unchanged, and so
    are programs that already call functions. `lower-leftovers` decides where outlining is worth it.
    """

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in [func for func in op.ops if isinstance(func, FuncOp) and _is_whole(func)]:
            rewriter = FunctionRewriter(self.name, func)
            levels = _levels(func.body.block)
            refused = _refused(_plans(func.body.block, levels), rewriter.shapes)
            if refused is None:
                _outline(rewriter, levels)
            else:
                value, refusal = refused
                at = value.owner if isinstance(value.owner, Operation) else func
                rewriter.missed(at, refusal)


def _is_whole(func: FuncOp) -> bool:
    """Return whether a function neither is a program nor calls one."""
    return func.sym_visibility is None and not any(isinstance(op, CallOp) for op in func.walk())


def _outline(rewriter: FunctionRewriter, levels: Levels) -> None:
    block = rewriter.func.body.block
    _copy_views(block, levels)
    plans = _plans(block, levels)
    if plans:
        rewriter.passed(rewriter.func, f"calls of programs: {len(plans)}")
    calls = _Outliner(rewriter.func, SymbolicShapes(rewriter.func), levels).calls(plans)
    _put_in_order(block, plans, calls, levels)


def why_no_graph(
    rewriter: FunctionRewriter, call_us: float, *, always: bool = False
) -> Refusal | None:
    """Return the reason why a function does not become a graph that calls programs, which takes
    `call_us` microseconds for each; without a suggestion if nothing is lost. With `always`, the
    estimated savings are ignored.
    """
    func = rewriter.func
    if numerics_mode(func).is_strict:
        return _ROUNDING
    if any(map(is_donated, func.args)):
        return _MEMORY
    levels = _levels(func.body.block)
    plans = _plans(func.body.block, levels)
    after = [op for op, level in levels.items() if level % 2 and level > OUTSIDE]
    leftovers = [op for op in after if not isinstance(op, (*VIEWS, *LIBRARY, ReturnOp))]
    is_worth_it = always or saved_us(leftovers, rewriter.shapes) > call_us * len(plans)
    has_epilogues = any(isinstance(op, FusedOp) and not is_plain(op) for op in levels)
    if not (has_epilogues and is_worth_it):
        return _COST
    refused = _refused(plans, rewriter.shapes)
    return None if refused is None else refused[1]


_ROUNDING = Refusal(
    "the compiler chooses the rounding between operators", "the program states where it rounds"
)

_MEMORY = Refusal(
    "the program does not overwrite its arguments",
    "the program stores results in the memory of an argument",
)

_COST = Refusal(
    "a graph saves more time than its calls take",
    "a graph would save less time than its calls of programs take",
)


def _refused(plans: Sequence[_Plan], shapes: SymbolicShapes) -> tuple[SSAValue, Refusal] | None:
    """Return a value that prevents outlining, and why."""
    for plan in plans:
        for value in (value for op in plan.ops for value in op.results):
            if place_of(value) is not None:
                return value, Refusal(
                    "a program returns whole tensors",
                    f"{name_of(value)} is stored as a part of another tensor",
                    "run outline-programs before place-parts",
                )
        for value in (*plan.inputs, *plan.outputs):
            if not shapes.are_declared(shapes.dims(value)):
                return value, Refusal(
                    "sizes between kernels and other operators follow from the arguments",
                    f"the size of {name_of(value)} does not follow from the arguments",
                    "no action is needed: each operator runs as a separate kernel or call",
                )
    return None


@dataclass(frozen=True)
class _Plan:
    """The operators of a program in order, its inputs, and its outputs."""

    level: int
    ops: list[Operation]
    inputs: list[SSAValue]
    outputs: Sequence[SSAValue]


def _levels(block: Block) -> Levels:
    """Return the first level at which each operator can run: even inside programs, odd outside."""
    levels: Levels = {}
    for op in block.ops:
        owners = (value.owner for value in op.operands)
        latest = max((levels[o] for o in owners if isinstance(o, Operation)), default=OUTSIDE)
        if isinstance(op, (*VIEWS, coda.ConstantOp, coda.BarrierOp)):
            levels[op] = latest
        else:
            parity = int(isinstance(op, ReturnOp) or is_leftover(op))
            levels[op] = latest if latest % 2 == parity else latest + 1
    return levels


def is_leftover(op: Operation) -> bool:
    """Return whether an operator stays outside of programs. PyTorch has the fused attention that
    derivatives use on some devices only; programs choose a replacement. Derivatives that PyTorch
    computes belong to the graph, since autograd records nothing in a program that it calls.
    """
    if isinstance(op, torch.CallOp):
        return op.callee.data not in (torch.FUSED_ATTENTION, torch.FUSED_ATTENTION_GRAD)
    return isinstance(op, (*LEFTOVERS, torch.VjpOp))


def _copy_views(block: Block, levels: Levels) -> None:
    """Compute constants and views where they are read: those of arguments in the programs, those
    of results outside of the program or in the one that reads them.
    """
    for op in reversed(list(block.ops)):
        level = levels[op]
        is_free = level == OUTSIDE and isinstance(op, (*VIEWS, coda.ConstantOp))
        if not is_free and not (isinstance(op, VIEWS) and level % 2 == 0):
            continue
        readers = {levels[use.operation] for use in op.results[0].uses} - {level}
        for reader in sorted(readers):
            if reader % 2 == 0:
                _copy(op, {reader}, reader, levels)
        outside = {reader for reader in readers if reader % 2}
        if outside and not is_free:
            _copy(op, outside, level + 1, levels)
        if not op.results[0].uses.get_length():
            del levels[op]
            Rewriter.erase_op(op)


def _copy(op: Operation, readers: set[int], level: int, levels: Levels) -> None:
    """Copy an operator to `level`, for its readers at the levels `readers`."""
    copy = op.clone()
    Rewriter.insert_op(copy, InsertPoint.after(op))
    levels[copy] = level
    op.results[0].replace_uses_with_if(
        copy.results[0], lambda use: levels[use.operation] in readers
    )


def _plans(block: Block, levels: Levels) -> list[_Plan]:
    """Return the programs in the order of their calls."""
    members: dict[int, list[Operation]] = {}
    for op in block.ops:
        if levels[op] % 2 == 0:
            members.setdefault(levels[op], []).append(op)
    return [_plan(level, members[level], levels) for level in sorted(members)]


def _plan(level: int, ops: list[Operation], levels: Levels) -> _Plan:
    results = [result for op in ops for result in op.results]
    own = set(results)
    inputs = dict.fromkeys(value for op in ops for value in op.operands if value not in own)
    read = [r for r in results if any(levels[use.operation] != level for use in r.uses)]
    return _Plan(level, ops, list(inputs), read)


def _put_in_order(
    block: Block, plans: Sequence[_Plan], calls: Sequence[CallOp], levels: Levels
) -> None:
    """Erase the operators that moved to programs, and order the rest by level."""
    for op in reversed([op for plan in plans for op in plan.ops]):
        Rewriter.erase_op(op)
    rest = list(block.ops)
    for op in rest:
        op.detach()
    *kept, returned = rest
    block.add_ops(sorted([*calls, *kept], key=lambda op: levels[op]))
    block.add_op(returned)


@dataclass
class _Outliner:
    """Makes the functions of a program, without duplicates, and their calls."""

    func: FuncOp
    shapes: SymbolicShapes
    levels: Levels
    names: dict[str, str] = field(default_factory=dict[str, str])
    """The name of each function by its text."""

    def calls(self, plans: Sequence[_Plan]) -> list[CallOp]:
        """The calls of the programs, which replace their results outside."""
        calls: list[CallOp] = []
        now: dict[SSAValue, SSAValue] = {}
        for plan in plans:
            if not plan.outputs:
                continue  # nothing reads it
            sources = self._size_sources(plan)
            inputs = [now.get(value, value) for value in (*plan.inputs, *sources)]
            entries = self._entries([*plan.inputs, *sources])
            name = self._function(plan, inputs, entries)
            call = CallOp(name, inputs, [value.type for value in plan.outputs])
            dims = [dims_attribute(self.shapes.dims(value)) for value in plan.outputs]
            call.attributes["coda.dims"] = dims[0] if len(dims) == 1 else ArrayAttr(dims)
            call.location = plan.ops[0].location
            self.levels[call] = plan.level
            for value, result in zip(plan.outputs, call.results, strict=True):
                result.name_hint = value.name_hint
                value.replace_uses_with_if(
                    result, lambda use, level=plan.level: self.levels[use.operation] != level
                )
                now[value] = result
            calls.append(call)
        return calls

    def _size_sources(self, plan: _Plan) -> list[SSAValue]:
        """Return arguments of the function that have the symbols that no input of the plan has."""
        values = [*plan.inputs, *plan.outputs]
        dims = [dim for value in values for dim in self.shapes.dims(value)]
        needed = sizes_in(plan.ops, self.shapes) | SymbolicSize.product(dims).symbols
        known = {dim for value in plan.inputs for dim in self.shapes.dims(value)}
        found: list[SSAValue] = []
        for symbol in sorted(needed - known):
            having = [a for a in self.func.args if symbol in self.shapes.dims(a)]
            if having and not any(symbol in self.shapes.dims(value) for value in found):
                found.append(having[0])
        return found

    def _entries(self, values: Sequence[SSAValue]) -> list[DictionaryAttr]:
        """Return names without the numbers of layers, and sizes."""
        taken: set[str] = set()
        entries: list[DictionaryAttr] = []
        for value in values:
            name = fresh_name(_without_numbers(value.name_hint or "x"), taken)
            data: dict[str, Attribute] = {
                "coda.name": StringAttr(name),
                "coda.dims": dims_attribute(self.shapes.dims(value)),
            }
            if is_weight(value):
                data[WEIGHT] = UnitAttr()
            entries.append(DictionaryAttr(data))
        return entries

    def _function(
        self, plan: _Plan, inputs: Sequence[SSAValue], entries: Sequence[DictionaryAttr]
    ) -> str:
        """Return the name of the function of a plan: a new one, or an equal existing one."""
        name = f"{self.func.sym_name.data}_program"
        func = self._copy(plan, inputs, entries, name)
        text = str(func)
        if text not in self.names:
            block = self.func.parent_block()
            assert block is not None
            taken = {op.sym_name.data for op in block.ops if isinstance(op, FuncOp)}
            self.names[text] = fresh_name(name, taken)
            func.sym_name = StringAttr(self.names[text])
            block.add_op(func)
        return self.names[text]

    def _copy(
        self, plan: _Plan, inputs: Sequence[SSAValue], entries: Sequence[DictionaryAttr], name: str
    ) -> FuncOp:
        block = Block(arg_types=[value.type for value in inputs])
        values: dict[SSAValue, SSAValue] = {}
        for value, argument, entry in zip(inputs, block.args, entries, strict=True):
            stated = entry.data["coda.name"]
            assert isinstance(stated, StringAttr)
            argument.name_hint = stated.data
            values[value] = argument
        for op in plan.ops:
            copy = op.clone(values)
            for inner in copy.walk():
                _rename(inner)
            block.add_op(copy)
        block.add_op(ReturnOp(*[values[value] for value in plan.outputs]))
        types = [value.type for value in plan.outputs]
        dims = [self._result_entry(value) for value in plan.outputs]
        func = FuncOp(
            name,
            (list(block.arg_types), types),
            Region(block),
            visibility="private",
            arg_attrs=ArrayAttr(entries) if entries else None,
            res_attrs=ArrayAttr(dims) if dims else None,
        )
        func.location = self.func.location
        func.attributes |= self.func.attributes
        return func

    def _result_entry(self, value: SSAValue) -> DictionaryAttr:
        return DictionaryAttr({"coda.dims": dims_attribute(self.shapes.dims(value))})


def _rename(op: Operation) -> None:
    """Remove the numbers of layers from the names of values."""
    arguments = [a for region in op.regions for block in region.blocks for a in block.args]
    for value in (*op.results, *arguments):
        if value.name_hint is not None:
            value.name_hint = _without_numbers(value.name_hint)


def _without_numbers(name: str) -> str:
    """Return `layers_self_attn_q` for `layers_3_self_attn_q`."""
    return _NUMBERS.sub("", name) or name
