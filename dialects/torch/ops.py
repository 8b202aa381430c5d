"""Operators that call PyTorch."""

import ast
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr, TensorType, UnitAttr, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import EffectInstance, MemoryEffect, MemoryEffectKind, Pure
from xdsl.utils.exceptions import VerifyException

from coda_ir.argument_template import ArgumentTemplate
from coda_ir.dialects.coda.shapes import element_type_of, shape_of

IN_PLACE = frozenset(
    {f"index_{name}.default" for name in ("add", "copy", "put")}
    | {f"index_fill.int_{value}" for value in ("Scalar", "Tensor")}
    | {f"masked_fill.{value}" for value in ("Scalar", "Tensor")}
    | {f"scatter.{value}" for value in ("src", "value")}
    | {"scatter_add.default", "add.Tensor", "sub.Tensor", "mul.Tensor"}
)
"""The operators of ATen, with their overloads, that have a variant in place."""


def has_variant_in_place(callee: str, arguments: ArgumentTemplate) -> bool:
    """Return whether a call only overwrites operand 0, and reads it nowhere else."""
    namespace, _, name = callee.partition(".")
    is_first = bool(arguments.call.args) and isinstance(arguments.call.args[0], ast.Set)
    is_first = is_first and arguments.operands[0] == 0 and arguments.operands.count(0) == 1
    return namespace == "aten" and name in IN_PLACE and is_first


def in_place(callee: str) -> str:
    """Return the in-place variant: `aten.index_put_.default` for `aten.index_put.default`."""
    namespace, name, overload = callee.split(".")
    return f"{namespace}.{name}_.{overload}"


PRODUCTS = ("aten.matmul.default", "aten.bmm.default")
"""Products of matrices, which may have batches of them."""

COPY = "aten.clone.default"
"""The call that copies a tensor to separate memory."""

CONVOLUTION_GRAD = "aten.convolution_backward.default"
"""The operator of ATen that computes the gradients of a convolution."""


class StoredRow(NamedTuple):
    """One row of dimension `dim` of a tensor, whose number is known when the program runs."""

    dim: int
    number: SSAValue
    values: SSAValue
    counts_from_end: bool
    """Negative numbers count from the end; on a CPU they are an error otherwise."""


class CallEffect(MemoryEffect):
    """Random calls write the generator's state, calls in place their operand, others nothing."""

    @classmethod
    def get_effects(cls, op: Operation) -> set[EffectInstance]:
        assert isinstance(op, CallOp)
        is_pure = op.random is None and op.in_place is None
        return set() if is_pure else {EffectInstance(MemoryEffectKind.WRITE)}


_OPERAND = re.compile(r"\{(\d+)\}")


class Text(NamedTuple):
    """An argument of a call as text, with the operands `of` that it names by number."""

    text: str
    of: Sequence[SSAValue] = ()

    @property
    def operand(self) -> SSAValue | None:
        """The operand that the whole argument is, if it is one."""
        match = _OPERAND.fullmatch(self.text)
        return None if match is None else self.of[int(match[1])]


Piece: TypeAlias = SSAValue | Text | str
"""An argument of a new call: an operand, an argument of another call, or text."""


@irdl_op_definition
class CallOp(IRDLOperation):
    """A call of an operator of PyTorch that has no counterpart in the dialect `coda`.

    `arguments` are literals, operands by number, and symbolic dimensions (see `template`). `view`
    marks a result that may share the memory of the first operand, `random` a call that draws
    random numbers, `in_place` one whose result takes the memory of the first operand, which has no
    use afterwards. `positions` says which results of the callee the outputs are, where it has
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
    in_place = opt_prop_def(UnitAttr)
    positions = opt_prop_def(ArrayAttr[IntegerAttr])
    outputs = var_result_def(TensorType)
    traits = traits_def(CallEffect())
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

    @staticmethod
    def on(
        callee: str, arguments: Sequence[Piece], type: Attribute, *, view: bool = False
    ) -> "CallOp":
        """Build a call with one result on these arguments, whose operands it takes once each."""
        inputs: dict[SSAValue, str] = {}

        def numbered(value: SSAValue) -> str:
            return inputs.setdefault(value, f"{{{len(inputs)}}}")

        texts: list[str] = []
        for argument in arguments:
            if isinstance(argument, SSAValue):
                argument = Text("{0}", [argument])
            text, of = (argument, ()) if isinstance(argument, str) else argument
            texts.append(_OPERAND.sub(lambda number, of=of: numbered(of[int(number[1])]), text))
        return CallOp(callee, [*inputs], ", ".join(texts), [type], view=view)

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

    @property
    def tensors(self) -> list[SSAValue]:
        """The tensors among the arguments, in order; one that is passed twice is there twice."""
        return [self.inputs[number] for number in self.template.operands]

    def verify_(self) -> None:
        _verify_callee(self.callee)
        picks = self.picks
        if picks is not None and (
            len(picks) != len(self.outputs) or any(a >= b for a, b in pairwise((-1, *picks)))
        ):
            raise VerifyException(
                f"property positions is {list(picks)}, expected {len(self.outputs)} increasing "
                "numbers, one for each result"
            )
        _verify_arguments(self.arguments, len(self.inputs))
        if self.in_place is not None and not self.fits_in_place:
            raise VerifyException(
                "property in_place is set, expected a call with a variant in place that has its "
                "first operand as the first argument only, and one result, of its type"
            )

    @property
    def stored_row(self) -> StoredRow | None:
        """The row that a call in place stores in its first operand, if it stores one whole row of a
        dimension, wherever the index is.
        """
        if self.in_place is None or self.template.symbols:
            return None
        arguments, named = self.template.evaluate(self.inputs, {}, {})
        match self.callee.data, arguments:
            case "aten.index_put.default", [_, [*before, index], values] if not any(before):
                dim, counts_from_end = len(before), True
            case "aten.index_copy.default", [_, int(dim), index, values] if dim >= 0:
                counts_from_end = False
            case _:
                return None
        if named or index not in self.inputs or values not in self.inputs:
            return None
        shape = shape_of(self.inputs[0])
        # Other types of indices are masks, or PyTorch refuses them.
        is_row = shape_of(index) == (1,) and element_type_of(index) in (i32, i64)
        is_whole = shape_of(values) == (*shape[:dim], 1, *shape[dim + 1 :])
        is_whole &= element_type_of(values) == element_type_of(self.inputs[0])
        return StoredRow(dim, index, values, counts_from_end) if is_row and is_whole else None

    @property
    def fits_in_place(self) -> bool:
        """True if PyTorch can store the result in the memory of the first operand."""
        return (
            has_variant_in_place(self.callee.data, self.template)
            and self.view is None
            and [output.type for output in self.outputs] == [self.inputs[0].type]
        )


@irdl_op_definition
class VjpOp(IRDLOperation):
    """The vector-Jacobian product of a call of PyTorch, by PyTorch's own derivative.

    For each input whose number is in `wrt`, the sum over the results of the callee whose numbers
    are in `of` of their Jacobian times `d_outputs`; zeros where they do not depend on it. The call
    is computed again, so it must not draw random numbers.

        %dx = torch.vjp "aten.cumsum.default"(%x : tensor<?x8xf32>) of(%dy : tensor<?x8xf32>)
            {arguments = "{0}, -1", of = [0], wrt = [0]} -> tensor<?x8xf32>
    """

    name = "torch.vjp"
    callee = prop_def(StringAttr)
    inputs = var_operand_def(TensorType)
    d_outputs = var_operand_def(TensorType)
    arguments = prop_def(StringAttr)
    of = prop_def(ArrayAttr[IntegerAttr])
    wrt = prop_def(ArrayAttr[IntegerAttr])
    d_inputs = var_result_def(TensorType)
    traits = traits_def(Pure())
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = (
        "$callee `(` $inputs `:` type($inputs) `)` `of` `(` $d_outputs `:` type($d_outputs) `)` "
        "attr-dict `->` type($d_inputs)"
    )

    def __init__(
        self,
        callee: str,
        inputs: Sequence[SSAValue],
        d_outputs: Sequence[SSAValue],
        arguments: str,
        *,
        of: Sequence[int],
        wrt: Sequence[int],
    ):
        super().__init__(
            operands=[inputs, d_outputs],
            properties={
                "callee": StringAttr(callee),
                "arguments": StringAttr(arguments),
                "of": ArrayAttr(IntegerAttr(position, i64) for position in of),
                "wrt": ArrayAttr(IntegerAttr(number, i64) for number in wrt),
            },
            result_types=[[inputs[number].type for number in wrt]],
        )

    @property
    def positions(self) -> tuple[int, ...]:
        """The positions of what is differentiated among the results of the callee."""
        return tuple(position.value.data for position in self.of)

    @property
    def differentiated(self) -> tuple[int, ...]:
        """The numbers of the inputs with a gradient."""
        return tuple(number.value.data for number in self.wrt)

    @property
    def template(self) -> ArgumentTemplate:
        """The arguments of the call as data."""
        return ArgumentTemplate.parse(self.arguments.data)

    def verify_(self) -> None:
        _verify_callee(self.callee)
        _verify_arguments(self.arguments, len(self.inputs))
        for what, numbers, limit, count in (
            ("of", self.positions, None, len(self.d_outputs)),
            ("wrt", self.differentiated, len(self.inputs), len(self.d_inputs)),
        ):
            is_bounded = limit is None or all(number < limit for number in numbers)
            if any(a >= b for a, b in pairwise((-1, *numbers))) or not is_bounded:
                bound = "" if limit is None else f" below {limit}"
                raise VerifyException(
                    f"property {what} is {list(numbers)}, expected increasing numbers{bound}"
                )
            if not numbers:
                raise VerifyException(f"property {what} is empty, expected at least one number")
            if len(numbers) != count:
                raise VerifyException(
                    f"property {what} has {len(numbers)} numbers, expected {count}, one for each "
                    + ("gradient of a result" if what == "of" else "result")
                )
        for number, d_input in zip(self.differentiated, self.d_inputs, strict=True):
            if d_input.type != self.inputs[number].type:
                raise VerifyException(
                    f"a result has type {d_input.type}, expected {self.inputs[number].type}, that "
                    f"of input {number}"
                )


def _verify_callee(callee: StringAttr) -> None:
    parts = callee.data.split(".")
    if len(parts) != 3 or not all(part.isidentifier() for part in parts):
        raise VerifyException(
            f'property callee is "{callee.data}", expected namespace.operator.overload '
            'such as "aten.cumsum.default"'
        )


def _verify_arguments(arguments: StringAttr, inputs: int) -> None:
    """Check that `arguments` can be parsed and uses each of the inputs."""
    try:
        named = ArgumentTemplate.parse(arguments.data).operands
    except ValueError as error:
        raise VerifyException(f"property arguments: {error}") from error
    for number in named:
        if not 0 <= number < inputs:
            last = f"the last operand is {{{inputs - 1}}}" if inputs else "there are no operands"
            raise VerifyException(f"property arguments has {{{number}}}, but {last}")
    unused = sorted(set(range(inputs)) - set(named))
    if unused:
        raise VerifyException(
            f"operand {unused[0]} is not in property arguments, expected every operand there"
        )
