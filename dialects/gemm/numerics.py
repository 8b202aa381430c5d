"""Rounding and order of sums of a function, as attributes of the GEMM level.

Types determine what sums are accumulated in (the accumulator of a region, a partial), and a
rounding point is `arith.truncf` followed by `arith.extf`. These attributes state what types and
operators do not: the numerics mode of a function, and the order of its reductions.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import IntAttr, NoneAttr, StringAttr
from xdsl.ir import Operation, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from coda_ir.dialects.coda.shapes import element_type_of, is_float8
from coda_ir.dialects.fields import FieldsAttr
from coda_ir.remarks import enclosing_function

if TYPE_CHECKING:
    from coda_ir.dialects.gemm.ops import FusedOp

NUMERICS_ATTRIBUTE = "coda.numerics"
"""The attribute of a function that holds its `NumericsAttr`; absent for the default mode."""


class NumericsMode(StrEnum):
    """The guarantees of a function about the bits of its results (docs/numerics.md)."""

    FP32_EPILOGUE = "fp32-epilogue"
    """Epilogues compute in float32 and round where they store."""
    FAST = "fast"
    """The same, but products of float8 are summed with as few bits as the fastest way takes."""
    EAGER_EXACT = "eager-exact"
    """Rounds wherever eager PyTorch rounds: after every block-level operator."""
    DETERMINISTIC = "deterministic"
    """Sums in a stated order: the same bits for any number of rows and any schedule."""

    @property
    def is_strict(self) -> bool:
        """True if the mode promises more about bits than that epilogues compute in float32."""
        return self in (NumericsMode.EAGER_EXACT, NumericsMode.DETERMINISTIC)


@irdl_attr_definition
class NumericsAttr(ParametrizedAttribute):
    """The numerics mode of a function: `coda.numerics = #gemm.numerics<"eager-exact">`."""

    name = "gemm.numerics"
    mode_name: StringAttr

    @staticmethod
    def get(mode: NumericsMode) -> "NumericsAttr":
        return NumericsAttr(StringAttr(mode.value))

    @property
    def mode(self) -> NumericsMode:
        return NumericsMode(self.mode_name.data)

    def verify(self) -> None:
        names = [mode.value for mode in NumericsMode]
        if self.mode_name.data not in names:
            raise VerifyException(
                f'numerics mode is "{self.mode_name.data}", expected one of {", ".join(names)}'
            )


def numerics_mode(op: Operation) -> NumericsMode:
    """Return the numerics mode of the function that contains `op`, or of `op` itself."""
    func = enclosing_function(op)
    attribute = None if func is None else func.attributes.get(NUMERICS_ATTRIBUTE)
    return attribute.mode if isinstance(attribute, NumericsAttr) else NumericsMode.FP32_EPILOGUE


def promotes_sums(op: "FusedOp") -> bool:
    """Return whether the sum of each step of K is added in float32: for float8, of which Hopper's
    tensor cores keep few bits, and for block scales.
    """
    if op.quantized is not None:
        return True
    is_fast = numerics_mode(op) == NumericsMode.FAST and op.blocks is None
    return is_float8(element_type_of(op.x)) and not is_fast


PROMOTED_COLUMNS = 128
"""Columns of a tile whose products are in registers together, before they are added."""


@irdl_attr_definition
class OrderAttr(FieldsAttr):
    """The order of the reductions of an operator, which every schedule must keep.

    `depth`: K is multiplied in steps of this number of elements, whose products are added to the
    accumulator one step after another. `columns`, `rows`: a `partial_row` combines this number of
    columns (a `partial_col` of rows), as a tree that adds the halves. `partials`: a finalize
    combines this number of partials as such a tree, and the trees one after another.

    `order<depth = 64, columns = 64, rows = 64>` on gemm.fused, `order<columns = 64, rows = 64>` on
    gemm.map, `order<partials = 32>` on gemm.finalize.
    """

    name = "gemm.order"
    depth: IntAttr | NoneAttr
    columns: IntAttr | NoneAttr
    rows: IntAttr | NoneAttr
    partials: IntAttr | NoneAttr

    DEFAULTS: ClassVar = dict.fromkeys(("depth", "columns", "rows", "partials"), NoneAttr())

    @staticmethod
    def get(**sizes: int) -> "OrderAttr":
        known = {name: IntAttr(size) for name, size in sizes.items()}
        return OrderAttr(*{**OrderAttr.DEFAULTS, **known}.values())

    @property
    def sizes(self) -> dict[str, int]:
        """The stated sizes by name."""
        sizes = {name: getattr(self, name) for name in self.DEFAULTS}
        return {name: size.data for name, size in sizes.items() if isinstance(size, IntAttr)}

    def __getitem__(self, name: str) -> int:
        return self.sizes[name]

    def verify(self) -> None:
        for name, size in self.sizes.items():
            if size < 1 or size & (size - 1):
                raise VerifyException(f"order: {name} is {size}, expected a power of two")


def verify_order(order: OrderAttr | None, expected: Sequence[str]) -> None:
    """Raise unless `order`, where it is stated, has the sizes `expected` and no others."""
    if order is not None and set(order.sizes) != set(expected):
        raise VerifyException(
            f"order states {', '.join(order.sizes) or 'nothing'}, expected {', '.join(expected)}"
        )
