"""Gates, rotary embedding, the loss and the embedding.

Every operator works on the last dimension (the columns); the dimensions before it are the rows
and flatten to the M of a GEMM.
"""

from typing import ClassVar

from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerAttr, StringAttr, TensorType, UnitAttr, f32
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    var_result_def,
)
from xdsl.utils.exceptions import VerifyException

from coda_ir.dialects.coda.elementwise import ACTIVATIONS
from coda_ir.dialects.coda.infer_type import Extents, Given, InferTypeOp, Operand
from coda_ir.dialects.coda.library_call import expect_rank
from coda_ir.dialects.coda.shapes import (
    expect_floats,
    expect_integers,
    expect_one_of,
    expect_rank_at_least,
    expect_shape,
    shape_of,
    verify_group,
    wrong_property,
    wrong_shape,
)

ROPE_LAYOUTS = ("half_split", "interleaved")
LOSS_REDUCTIONS = ("none", "mean", "sum")


@irdl_op_definition
class GluOp(InferTypeOp):
    """act(x[..., :F]) ⊙ x[..., F:] for a packed gate and up projection of 2F columns
    (arXiv 2002.05202). With `adjacent`, the gate and the up projection are every other column:
    act(x[..., 2j]) ⊙ x[..., 2j + 1].

    `coda.glu %x {activation = "silu"} : (tensor<?x16xbf16>) -> tensor<?x8xbf16>`
    """

    @staticmethod
    def infer(x: Extents, **_: object) -> list[Extents]:
        # Of symbols: see `coda_ir.shape_rules`.
        return [(*x[:-1], DYNAMIC_INDEX if x[-1] == DYNAMIC_INDEX else x[-1] // 2)]

    x = operand_def(TensorType)
    activation = prop_def(StringAttr)
    adjacent = opt_prop_def(UnitAttr)

    @property
    def is_adjacent(self) -> bool:
        """True if pairs are neighbouring columns, rather than columns of the two halves."""
        return self.adjacent is not None

    def check(self) -> None:
        expect_rank_at_least("operand x", self.x, 1)
        expect_floats("operand x", self.x)
        expect_one_of("activation", self.activation.data, ACTIVATIONS)
        columns = shape_of(self.x)[-1]
        if columns != DYNAMIC_INDEX and columns % 2:
            raise VerifyException(f"operand x has {columns} columns, expected an even number")


@irdl_op_definition
class RopeOp(InferTypeOp):
    """Rotary position embedding (arXiv 2104.09864) of heads laid side by side in the columns.

    `cos` and `sin` are (positions x head_dim/2), or have the leading dimensions of x. A pair
    (a, b) becomes (a·cos − b·sin, b·cos + a·sin); `layout` says which columns of a head pair up:
    `half_split` (j, j + head_dim/2) or `interleaved` (2j, 2j + 1). With `table_heads`, the tables
    have the columns of as many heads side by side, and then repeat: with cosines of 1 and sines of
    0 for columns that stay, this is partial rotary embedding. With `per_column`, tables have an
    entry for each column of a head instead of each pair, as models keep them: a pair becomes
    (a·cos_a − b·sin_a, b·cos_b + a·sin_b). With `transposed`, pairs rotate the other way,
    (a·cos_a + b·sin_b, b·cos_b − a·sin_a): the adjoint, which takes gradients back.

    The shape of a table does not determine these options: a table of head_dim columns could be
    either.

    `coda.rope %x, %cos, %sin {head_dim = 128 : i64, layout = "half_split"} : ...`
    """

    x = operand_def(TensorType)
    cos = operand_def(TensorType)
    sin = operand_def(TensorType)
    head_dim = prop_def(IntegerAttr)
    layout = prop_def(StringAttr)
    table_heads = opt_prop_def(IntegerAttr)
    per_column = opt_prop_def(UnitAttr)
    transposed = opt_prop_def(UnitAttr)

    def __init__(
        self, *tensors: Operand, layout: str = "half_split", table_heads: int = 1, **given: Given
    ):
        given["table_heads"] = None if table_heads == 1 else table_heads
        super().__init__(*tensors, layout=layout, **given)

    def with_operand(
        self,
        x: SSAValue | Operation,
        *,
        transposed: bool,
        tables: tuple[SSAValue, SSAValue] | None = None,
    ) -> "RopeOp":
        """Return the same rotation of `x`, or its adjoint, or one by other `tables` (cos, sin)."""
        given = {**self.given, "transposed": transposed}
        return RopeOp(x, *(tables or (self.cos, self.sin)), **given)

    @property
    def is_per_column(self) -> bool:
        """True if the tables have an entry for each column, and not for each pair."""
        return self.per_column is not None

    @property
    def heads_of_tables(self) -> int:
        """The number of heads that the tables have columns of."""
        return 1 if self.table_heads is None else self.table_heads.value.data

    def check(self) -> None:
        expect_rank_at_least("operand x", self.x, 2)
        expect_floats("operand x", self.x)
        head_dim = self.head_dim.value.data
        if head_dim % 2:
            raise wrong_property("head_dim", head_dim, "an even number")
        verify_group("head_dim", head_dim, shape_of(self.x)[-1])
        expect_one_of("layout", self.layout.data, ROPE_LAYOUTS)
        columns = self._columns_of_tables()
        for what, table in (("cos", self.cos), ("sin", self.sin)):
            rank = len(shape_of(table))
            leading = shape_of(self.x)[:-1]
            if not 2 <= rank <= len(leading) + 1:
                raise VerifyException(
                    f"operand {what} has rank {rank}, expected 2 to {len(leading) + 1}"
                )
            rows = leading[len(leading) - rank + 1 :]
            expect_shape(f"operand {what}", table, (*rows, columns))

    def _columns_of_tables(self) -> int:
        """Return the columns of `table_heads` heads in tables. Raise unless these divide x."""
        heads, head_dim = self.heads_of_tables, self.head_dim.value.data
        if heads < 1:
            raise wrong_property("table_heads", heads, "at least 1")
        verify_group("head_dim * table_heads", heads * head_dim, shape_of(self.x)[-1])
        return heads * head_dim // (1 if self.is_per_column else 2)


@irdl_op_definition
class CrossEntropyOp(InferTypeOp):
    """logsumexp(logits) − logits[target] per row, in float32 (`torch.nn.functional.cross_entropy`).

    Rows whose target is `ignore_index` contribute 0 and do not count in the mean. The result
    has the shape of `target` for reduction `none` and is a scalar otherwise.

    Two more results are the logsumexp of each row as a column, and what this float32 lacks of the
    number that it is rounded from. It has the magnitude of the logits, so that small differences of
    it need both.
    """

    RESULT_ELEMENTS: ClassVar = (f32, f32, f32)

    @staticmethod
    def infer(_: Extents, target: Extents, reduction: str, **__: object) -> list[Extents]:
        return [target if reduction == "none" else (), (*target, 1), (*target, 1)]

    logits = operand_def(TensorType)
    target = operand_def(TensorType)
    ignore_index = prop_def(IntegerAttr)
    reduction = prop_def(StringAttr)
    result = result_def(TensorType)
    row_lse = var_result_def(TensorType)

    def check(self) -> None:
        verify_loss(self.logits, self.target, self.reduction.data)
        if len(self.row_lse) not in (0, 2):
            raise VerifyException(f"{len(self.row_lse)} results lse, expected none or 2")


@irdl_op_definition
class EmbeddingOp(InferTypeOp):
    """Rows of `table` (V x D) selected by integer `ids`: the result is (ids x D).

    The row `padding_idx` is selected like any other, but gets no gradient here.
    """

    RESULT_ELEMENTS: ClassVar = (1,)

    @staticmethod
    def infer(ids: Extents, table: Extents, **_: object) -> list[Extents]:
        return [(*ids, table[-1])]

    ids = operand_def(TensorType)
    table = operand_def(TensorType)
    padding_idx = opt_prop_def(IntegerAttr)

    @property
    def looked_up(self) -> SSAValue:
        return self.table

    @property
    def padding(self) -> int | None:
        """The number of the row without a gradient."""
        return None if self.padding_idx is None else self.padding_idx.value.data

    def check(self) -> None:
        expect_integers("operand ids", self.ids)
        expect_rank("operand table", self.table, 2)
        verify_padding(self.padding, shape_of(self.table)[0])


def verify_loss(logits: SSAValue, target: SSAValue, reduction: str) -> None:
    expect_rank_at_least("operand logits", logits, 1)
    expect_floats("operand logits", logits)
    if not shape_of(logits)[-1]:
        raise wrong_shape("operand logits", shape_of(logits), "at least one class")
    expect_shape("operand target", target, shape_of(logits)[:-1])
    expect_integers("operand target", target)
    expect_one_of("reduction", reduction, LOSS_REDUCTIONS)


def verify_padding(row: int | None, rows: int) -> None:
    """Check that a table of `rows` rows, or of a dynamic number of rows, has the row `row`."""
    if row is not None and not (row >= 0 and (row < rows or rows == DYNAMIC_INDEX)):
        numbers = "0 or more" if rows == DYNAMIC_INDEX else f"0 to {rows - 1}"
        raise wrong_property("padding_idx", row, f"the number of a row: {numbers}")
