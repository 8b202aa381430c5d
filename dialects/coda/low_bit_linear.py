"""Linear layers with weights of few bits, which kernels dequantize before the product."""

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    IntAttr,
    IntegerType,
    Signedness,
    StringAttr,
    TensorType,
    UnitAttr,
    i8,
    i32,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
)
from xdsl.utils.exceptions import VerifyException

from coda_ir.dialects.coda.infer_type import Extents
from coda_ir.dialects.coda.linear import Product
from coda_ir.dialects.coda.scaled_linear import LEAST_DEPTH
from coda_ir.dialects.coda.shapes import (
    ceiling,
    computes_in_float32,
    element_type_of,
    expect_rank_at_least,
    expect_shape,
    is_eight_bits,
    is_float,
    is_float8,
    shape_of,
    wrong_property,
    wrong_type,
)
from coda_ir.dialects.fields import FieldsAttr

_U8 = IntegerType(8, Signedness.UNSIGNED)
_WORDS: dict[int, Attribute] = {2: _U8, 8: i32}
"""The type of the words, by the number of elements of four bits that they hold."""
_SCALES = (Float32Type, Float16Type, BFloat16Type)


@irdl_attr_definition
class QuantizedAttr(FieldsAttr):
    """The quantization of a weight: `#coda.quantized<128, offset = 8, "k01234567">`.

    `depth` neighbours along K share a scale and a zero point, and element q of the weight is
    (q - zero - offset) * scale. Elements of four bits are packed along K or N, as the text says:
    the axis, then for each of the neighbours that share a word its position, from the lowest bits
    on. Words of eight are i32, of two ui8. Without packing the weight has elements of 8 bits. GPTQ
    packs "k01234567", AWQ "n04152637".
    """

    name = "coda.quantized"
    depth: IntAttr
    offset: IntAttr
    packing: StringAttr

    UNNAMED: ClassVar = ("depth", "packing")
    DEFAULTS: ClassVar = {"offset": IntAttr(0), "packing": StringAttr("")}

    @staticmethod
    def get(depth: int = 128, *, offset: int = 0, packing: str = "") -> "QuantizedAttr":
        return QuantizedAttr(IntAttr(depth), IntAttr(offset), StringAttr(packing))

    @property
    def axis(self) -> str:
        """`k` or `n`, along which elements are packed; empty where they are not."""
        return self.packing.data[:1]

    @property
    def order(self) -> Sequence[int]:
        """The position of each element of a word."""
        return [int(position) for position in self.packing.data[1:]]

    @property
    def packed(self) -> int:
        """Elements of a word; 1 where the weight is not packed."""
        return max(1, len(self.packing.data) - 1)

    @property
    def has_words_along_k(self) -> bool:
        """True if a word holds eight neighbours along K."""
        return (self.axis, self.packed) == ("k", 8)

    @property
    def positions(self) -> int:
        """The positions of a word's elements as one number, four bits for each."""
        return sum(position << 4 * index for index, position in enumerate(self.order))

    def words(self, n: int, k: int) -> tuple[int, int]:
        """The words of a weight with N rows of K elements."""
        along_n, along_k = (self.packed if self.axis == axis else 1 for axis in "nk")
        return ceiling(n, along_n), ceiling(k, along_k)

    def verify(self) -> None:
        depth, packing = self.depth.data, self.packing.data
        if depth < LEAST_DEPTH or depth & (depth - 1):
            raise wrong_property("depth", depth, f"a power of two of at least {LEAST_DEPTH}")
        orders = ("".join(sorted(packing[1:])) in ("01", "01234567"), packing == "")
        if not any(orders) or packing[:1] not in ("", "k", "n"):
            expected = 'k or n and the positions of 2 or 8 elements, such as "k01234567"'
            raise wrong_property("packing", f'"{packing}"', expected)

    def verify_operands(
        self, x: SSAValue, weight: SSAValue, scales: SSAValue, zeros: SSAValue | None, *, kn: bool
    ) -> None:
        """Raise VerifyException unless the operands fit x (... x K): the weight is N x K (K x N for
        `kn`) in words, scales and zero points have one element for each group of each column.
        """
        for what, value in (("weight", weight), ("scales", scales), ("zeros", zeros)):
            if value is not None and len(shape_of(value)) != 2:
                raise VerifyException(f"operand {what} has other dimensions than N and K")
        k, n = shape_of(x)[-1], shape_of(scales)[1 if kn else 0]
        self._verify_types(x, weight, scales, zeros)
        along_n, along_k = self.words(n, k)
        if (along_n, along_k) != (n, k) and (n % along_n or k % along_k):
            raise VerifyException(
                f"a weight of {n} x {k} has no whole words of {self.packed} along "
                f"{self.axis.upper()}"
            )
        groups = ceiling(k, self.depth.data)
        expect_shape("operand scales", scales, (groups, n) if kn else (n, groups))
        expect_shape("operand weight", weight, (along_k, along_n) if kn else (along_n, along_k))
        if zeros is not None:
            columns = ceiling(n, 8) if element_type_of(zeros) == i32 else n
            expect_shape("operand zeros", zeros, (groups, columns) if kn else (columns, groups))

    def _verify_types(
        self, x: SSAValue, weight: SSAValue, scales: SSAValue, zeros: SSAValue | None
    ) -> None:
        of_x, stored = element_type_of(x), element_type_of(weight)
        if not is_float(of_x) or not computes_in_float32(of_x):
            raise VerifyException(f"operand x has element type {of_x}, expected f32, f16 or bf16")
        expected = _WORDS.get(self.packed)
        if stored != expected and (expected is not None or not is_eight_bits(stored)):
            raise wrong_type("operand weight", weight, f"{expected or 'one of 8 bits'}")
        if not isinstance(element_type_of(scales), _SCALES):
            raise wrong_type("operand scales", scales, "f32, f16 or bf16")
        if is_float8(stored) and (zeros is not None or self.offset.data):
            raise VerifyException("float8 has no zero points")
        if zeros is None:
            return
        packed = [i32] if self.packed == 8 else []
        if element_type_of(zeros) not in (i8, _U8, *packed):
            words = "i32 with eight in the order of the weight's words"
            raise wrong_type("operand zeros", zeros, f"i8, ui8, or {words}")


@irdl_op_definition
class LowBitLinearOp(Product):
    """x · Wᵀ with a weight of 8 or 4 bits, in groups along K that share a scale and a zero point.

    Element (m, n) is the sum over the groups g of K of s[n, g] · Σ x[m, k] · (q[n, k] - z[n, g] -
    offset), accumulated in float32. The weight, its scales and its zero points are N x K, or K x N
    where they are `kn`. Sources: GPTQ (arXiv 2210.17323), AWQ (arXiv 2306.00978).

    `%y = coda.low_bit_linear %x, %w, %s {kn, scheme = #coda.quantized<128, offset = 8,
    "k01234567">} : (tensor<?x256xbf16>, tensor<32x512xi32>, tensor<2x512xf32>) ->
    tensor<?x512xbf16>`
    """

    @staticmethod
    def infer(
        x: Extents, weight: Extents, scales: Extents, *_: Extents, kn: bool = False, **__: object
    ) -> list[Extents]:
        return [(*x[:-1], scales[1 if kn else 0])]

    x = operand_def(TensorType)
    weight = operand_def(TensorType)
    scales = operand_def(TensorType)
    zeros = opt_operand_def(TensorType)
    scheme = prop_def(QuantizedAttr)
    kn = opt_prop_def(UnitAttr)

    @property
    def is_kn(self) -> bool:
        """True if the weight is K x N, as GPTQ and AWQ store it."""
        return self.kn is not None

    def check(self) -> None:
        expect_rank_at_least("operand x", self.x, 1)
        self.scheme.verify_operands(self.x, self.weight, self.scales, self.zeros, kn=self.is_kn)
        if not is_float(element_type_of(self.result)):
            raise VerifyException("linear maps need floating-point results")
