"""The base class of operators that run as one call of PyTorch."""

from abc import ABC
from collections.abc import Mapping, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import DYNAMIC_INDEX, StringAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import VerifyException

from coda_ir.argument_template import ArgumentTemplate
from coda_ir.dialects.coda.infer_type import InferTypeOp
from coda_ir.dialects.coda.shapes import expect_shape, shape_of, wrong_property


class LibraryCallOp(InferTypeOp, ABC):
    """An operator that runs as a call of an overload of ATen.

    The class states what everything else follows from: types and symbols of the results, the call
    that the reference, float64 and the emitted module make, and which calls of PyTorch the pass
    `raise-library-calls` replaces by it.
    """

    ATEN: ClassVar[str]
    """The overload, without its namespace."""
    PARAMETERS: ClassVar[tuple[str, ...]]
    """The parameters of the overload in order, by the names of operands and properties here."""
    FIXED: ClassVar[Mapping[str, object]] = {}
    """Parameters of the overload that have one value here."""
    FUSES_IF: ClassVar[str]
    """The condition under which an epilogue could compute it, which does not hold."""
    REMEDY: ClassVar[str | None] = None
    """An alternative that fuses, if it may be all that a program needs."""

    # The parts of a call of PyTorch, as `torch.CallOp` has them.

    @property
    def callee(self) -> StringAttr:
        """The full name of the overload."""
        return StringAttr(f"aten.{self.ATEN}")

    @property
    def inputs(self) -> Sequence[SSAValue]:
        """The tensors among the arguments."""
        return self.operands

    @property
    def outputs(self) -> Sequence[SSAValue]:
        """All results of the overload."""
        return self.results

    @property
    def picks(self) -> None:
        """None: the results are all those of the overload."""
        return None

    @property
    def arguments(self) -> StringAttr:
        """The arguments of the call as text: `{0}, 1, {1}`."""
        return StringAttr(", ".join(map(self.argument, self.PARAMETERS)))

    @property
    def template(self) -> ArgumentTemplate:
        """The arguments of the call as data."""
        return ArgumentTemplate.parse(self.arguments.data)

    def argument(self, name: str) -> str:
        """Return the text of one argument: an operand by its number, or the value of a property."""
        if name in self.FIXED:
            return repr(self.FIXED[name])
        value: SSAValue | Attribute | None = getattr(self, name)
        return self.tensor(value) if isinstance(value, SSAValue) else repr(self.given.get(name))

    def tensor(self, value: SSAValue) -> str:
        """Return the text of an operand as an argument."""
        return f"{{{list(self.operands).index(value)}}}"

    @property
    def index(self) -> "tuple[int, SSAValue, int] | None":
        """The number of the operand of integers, and the dimension of a value whose elements they
        name; None where there is no such operand.
        """
        return None


def expect_other_dims(what: str, value: SSAValue, x: SSAValue, dim: int) -> None:
    """Raise unless `value` has the extents of x in all dimensions but `dim`."""
    shape = list(shape_of(x))
    if len(shape_of(value)) == len(shape):
        shape[dim] = shape_of(value)[dim]
    expect_shape(what, value, shape)


def expect_count(name: str, value: int, extent: int, what: str) -> None:
    if value < 1 or (extent != DYNAMIC_INDEX and value > extent):
        limit = "1 or more" if extent == DYNAMIC_INDEX else f"1 to {extent}"
        raise wrong_property(name, value, f"{limit}, the {what}")


def expect_rank(what: str, value: SSAValue, rank: int) -> None:
    """Raise unless `value` has `rank` dimensions."""
    if len(shape_of(value)) != rank:
        raise VerifyException(f"{what} has rank {len(shape_of(value))}, expected {rank}")
