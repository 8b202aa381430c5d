"""Operators that run through PyTorch."""

from collections.abc import Sequence
from itertools import pairwise

from xdsl.dialects.builtin import (
    ArrayAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import EffectInstance, MemoryEffect, MemoryEffectKind
from xdsl.utils.exceptions import VerifyException

from coda_ir.dialects.torch.template import ArgumentTemplate


class RandomEffect(MemoryEffect):
    """A call that draws random numbers writes the generator's state; others have no effect."""

    @classmethod
    def get_effects(cls, op: Operation) -> set[EffectInstance]:
        assert isinstance(op, CallOp)
        return set() if op.random is None else {EffectInstance(MemoryEffectKind.WRITE)}


@irdl_op_definition
class CallOp(IRDLOperation):
    """A call of an operator of PyTorch that has no counterpart in the dialect `coda`.

    `arguments` are literals, operands by number, and symbolic dimensions (see `template`). `view`
    marks a result that may share the memory of the first operand, `random` a call that draws
    random numbers. `positions` says which results of the callee the outputs are, where it has
    others: numbers, None, or tensors without a use.

        %y = torch.call "aten.cumsum.default"(%x) {arguments = "{0}, -1"}
            : (tensor<?x8xf32>) -> tensor<?x8xf32>
    """

    name = "torch.call"
    callee = prop_def(StringAttr)
    inputs = var_operand_def(TensorType)
    arguments = prop_def(StringAttr)
    view = opt_prop_def(UnitAttr)
    random = opt_prop_def(UnitAttr)
    positions = opt_prop_def(ArrayAttr[IntegerAttr])
    outputs = var_result_def(TensorType)
    traits = traits_def(RandomEffect())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$callee `(` $inputs `)` attr-dict `:` functional-type($inputs, $outputs)"

    def __init__(
        self,
        callee: str,
        inputs: Sequence[SSAValue],
        arguments: str,
        result_types: Sequence[Attribute],
        *,
        view: bool = False,
        random: bool = False,
        positions: Sequence[int] | None = None,
    ):
        super().__init__(
            operands=[inputs],
            properties={
                "callee": StringAttr(callee),
                "arguments": StringAttr(arguments),
                "view": UnitAttr() if view else None,
                "random": UnitAttr() if random else None,
                "positions": None
                if positions is None
                else ArrayAttr(IntegerAttr(position, i64) for position in positions),
            },
            result_types=[result_types],
        )

    @property
    def picks(self) -> tuple[int, ...] | None:
        """The positions of the outputs among the results of the callee; None for all of them."""
        if self.positions is None:
            return None
        return tuple(position.value.data for position in self.positions)

    @property
    def template(self) -> ArgumentTemplate:
        """The arguments as data."""
        return ArgumentTemplate.parse(self.arguments.data)

    def verify_(self) -> None:
        parts = self.callee.data.split(".")
        if len(parts) != 3 or not all(part.isidentifier() for part in parts):
            raise VerifyException(
                f'property callee is "{self.callee.data}", expected namespace.operator.overload '
                'such as "aten.cumsum.default"'
            )
        picks = self.picks
        if picks is not None and (
            len(picks) != len(self.outputs) or any(a >= b for a, b in pairwise((-1, *picks)))
        ):
            raise VerifyException(
                f"property positions is {list(picks)}, expected {len(self.outputs)} increasing "
                "numbers, one for each result"
            )
        try:
            named = self.template.operands
        except ValueError as error:
            raise VerifyException(f"property arguments: {error}") from error
        for number in named:
            if not 0 <= number < len(self.inputs):
                raise VerifyException(
                    f"property arguments names operand {number}, expected 0 to "
                    f"{len(self.inputs) - 1}"
                )
        unused = sorted(set(range(len(self.inputs))) - set(named))
        if unused:
            raise VerifyException(
                f"operand {unused[0]} is not in property arguments, expected every operand there"
            )
