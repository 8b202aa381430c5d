"""Pass `own-results`: give results memory that they share with no other result or argument."""

from collections.abc import Mapping

from xdsl.dialects.builtin import UnitAttr
from xdsl.dialects.func import ReturnOp
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from coda_ir.dialects.torch import COPY, CallOp
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.passes.support.legality import name_of
from coda_ir.storage import OWN, is_view, storage_root

CONDITION = "a result has its own memory"


class OwnResultsPass(FunctionPass):
    """Copies a result that must have its own memory, but shares memory after rewriting.

        func.func @f(%x) -> (... {coda.own}) {         %y = torch.call "aten.clone.default"(%x)
          func.return %x                         ->    func.return %y

    Other passes remove copies and products with 1, and merge equal values. If these are results, a
    caller that changes one in place would change another. The pass copies a result with `coda.own`
    that is a view of an argument, or of an earlier result with `coda.own`, unless both results have
    the same number, because their caller changes neither. Other results may share memory, as views
    do in PyTorch. Run the pass after the last pass that merges equal operators.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        end = rewriter.func.body.block.last_op
        marks = rewriter.func.res_attrs
        if marks is None or not isinstance(end, ReturnOp):
            return
        taken: dict[SSAValue, object] = {}
        for index, (value, entry) in enumerate(zip(end.arguments, marks, strict=True)):
            mark = entry.data.get(OWN)
            if mark is None:
                continue
            group = index if isinstance(mark, UnitAttr) else mark
            refusal = _refusal(value, taken, group)
            if refusal is not None:
                end.operands[index] = value = _copied(value, end, rewriter)
                rewriter.missed(value.owner, refusal)
            taken[storage_root(value)] = group


def _refusal(value: SSAValue, taken: Mapping[SSAValue, object], group: object) -> Refusal | None:
    """Return why a result must be copied, if so. `taken` maps memory to the result there."""
    if taken.get(storage_root(value), group) != group:
        return Refusal(CONDITION, "copied: it would share the memory of another result")
    while is_view(value.owner):
        assert isinstance(value.owner, Operation)
        value = value.owner.operands[0]
    # An operator that stores its result in an argument has been asked to.
    if isinstance(value, BlockArgument):
        return Refusal(CONDITION, f"copied: it would share the memory of {name_of(value)}")
    return None


def _copied(value: SSAValue, end: ReturnOp, rewriter: FunctionRewriter) -> OpResult:
    """Return a copy of `value`."""
    maker = value.owner if isinstance(value, OpResult) else end
    copy = CallOp(COPY, [value], "{0}, memory_format=torch.contiguous_format", [value.type])
    copy.attributes["coda.dims"] = rewriter.shapes.stated(rewriter.shapes.dims(value))
    rewriter.before(end, maker.location).insert(copy, value.name_hint)
    return copy.outputs[0]
