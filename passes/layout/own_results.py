"""Pass `own-results`: no two results of a function share memory, nor does one with an argument."""

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.func import ReturnOp
from xdsl.ir import BlockArgument, SSAValue

from coda_ir.dialects.torch import CallOp
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter
from coda_ir.storage import OWN, storage_root


@dataclass(frozen=True)
class OwnResultsPass(FunctionPass):
    """Copies a result that has to have memory of its own where the rewriting took it away.

        func.func @f(%x) -> (... {coda.own}) {         %y = torch.call "aten.clone.default"(%x)
          func.return %x                         ->    func.return %y

    A copy or a product with 1 that the model spells is folded, and equal values become one; where
    they are results, a caller that changes one in place would see another change. A result with
    `coda.own` that is a view of an argument, or of an earlier result with `coda.own`, is copied.
    Others may share memory, as PyTorch lets views do. Comes after the last pass that merges equal
    operators.
    """

    name: ClassVar[str] = "own-results"

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        end = rewriter.func.body.block.last_op
        marks = rewriter.func.res_attrs
        if marks is None or not isinstance(end, ReturnOp):
            return
        taken = set[SSAValue]()
        for index, (value, entry) in enumerate(zip(end.arguments, marks, strict=True)):
            if OWN not in entry.data:
                continue
            root = storage_root(value)
            if root in taken or isinstance(root, BlockArgument):
                end.operands[index] = root = _copied(value, root in taken, rewriter)
            taken.add(root)


def _copied(value: SSAValue, is_result: bool, rewriter: FunctionRewriter) -> SSAValue:
    end = rewriter.func.body.block.last_op
    assert end is not None
    copy = CallOp("aten.clone.default", [value], "{0}", [value.type])
    copy.location = end.location
    copy.outputs[0].name_hint = value.name_hint
    if "coda.dims" in (owner := value.owner).attributes if not isinstance(value, BlockArgument) else ():
        copy.attributes["coda.dims"] = owner.attributes["coda.dims"]
    rewriter.order.insert_before(end, copy)
    what = "another result" if is_result else "an argument"
    rewriter.analysis(copy, f"copies a result that would share the memory of {what}")
    return copy.outputs[0]
