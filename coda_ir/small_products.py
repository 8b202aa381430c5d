"""Products of batches of small matrices: the pattern for which kernels exist."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import BFloat16Type, Float16Type
from xdsl.ir import Attribute, Operation, SSAValue

from coda_ir.dialects.coda.shapes import element_type_of
from coda_ir.dialects.gemm import numerics_mode
from coda_ir.dialects.torch import PRODUCTS, CallOp
from coda_ir.symbolic_shapes import Dims, SymbolicShapes

MAX_EXTENT = 64
"""The least extent of a product with rows that are not aligned, at most: others compute so much
that the library's pipelines count."""

MAX_MIDDLE = 32
"""The second largest extent of other products, at most: they fill no tile of the library."""

MAX_DEPTH = 4096
"""Terms of an element of a product, at most: one program adds them up, the library many."""

MAX_ALIGNED_DEPTH = 512
"""The same of a product with rows that are aligned, which the library computes faster. On an H200,
32 products of 32 x K x 32 took 3.0 us for K = 512, 5.3 for 1024 and 21 for 4096, and in the library
2.8, 3.6 and 8.8; of 25 x 4096 x 25 37 and 57.
"""

ALIGNED = 8
"""Elements of 16 bits in 16 bytes, of which rows are multiples where libraries load vectors."""


@dataclass(frozen=True)
class SmallProduct:
    """a · b for batches of M x K and K x N matrices of 16 bits that are small, or whose extents are
    no multiples of 8: PyTorch's library has no fast kernels for them.

    On an H200, 2048 products took in the library and in an own kernel, by M x K x N: 5 x 4 x 1024
    154 and 7 us, 8 x 8 x 1024 45 and 18; 4096 of 32 x 32 x 32 15.5 and 5, and of 25 x 25 x 64 27
    and 7.5; 64 of 300 x 64 x 300 19 and 8; 16 of 1023 x 64 x 1023 40 and 19; 8 of 2 x 524288 x 2
    914 and 1809.
    """

    a: SSAValue
    b: SSAValue
    type: Attribute
    """The type of all elements."""
    rows: int
    depth: int
    columns: int

    @staticmethod
    def of(op: Operation, shapes: SymbolicShapes) -> SmallProduct | None:
        """Return the product that `op` computes; None if it is another operator or another product.

        What a function promises about its bits beyond the default is PyTorch's to keep.
        """
        if not isinstance(op, CallOp) or op.callee.data not in PRODUCTS:
            return None
        if op.arguments.data != "{0}, {1}" or numerics_mode(op).is_strict:
            return None
        (a, b), types = op.inputs, {element_type_of(x) for x in (*op.inputs, *op.outputs)}
        (type, *others), extents = types, _extents(shapes.dims(a), shapes.dims(b))
        if others or not isinstance(type, BFloat16Type | Float16Type) or extents is None:
            return None
        return SmallProduct(a, b, type, *extents) if _is_for_kernel(*extents) else None


def _is_for_kernel(rows: int, depth: int, columns: int) -> bool:
    """Return whether a kernel takes less time than the library, which is as fast with vectors."""
    least, middle, _ = sorted((rows, depth, columns))
    if least < 1 or 1 in (rows, columns) or depth > MAX_DEPTH:
        return False
    is_aligned = all(extent % ALIGNED == 0 for extent in (rows, depth, columns))
    if is_aligned:
        return middle <= MAX_MIDDLE and depth <= MAX_ALIGNED_DEPTH
    return least <= MAX_EXTENT


def _extents(a: Dims, b: Dims) -> tuple[int, int, int] | None:
    """Return M, K and N of matrices in the same batches; None where they are not known."""
    if min(len(a), len(b)) < 3 or a[:-2] != b[:-2]:
        return None
    rows, depth, columns = a[-2], a[-1], b[-1]
    if isinstance(rows, int) and isinstance(depth, int) and isinstance(columns, int):
        return rows, depth, columns
    return None
