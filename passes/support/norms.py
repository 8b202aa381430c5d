"""What the deferral of RMSNorm and of LayerNorm share."""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import LocationAttr, f32
from xdsl.ir import Attribute, Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of
from coda_ir.passes.support.function_pass import FunctionRewriter


@dataclass
class OpInserter:
    """Inserts operators before an anchor; each takes over a location and a name."""

    rewriter: FunctionRewriter
    anchor: Operation
    location: LocationAttr

    def insert(self, op: Operation, name: str | None = None) -> SSAValue:
        """Insert `op`; returns its first result."""
        op.location = self.location
        self.rewriter.order.insert_before(op, self.anchor)
        for result in op.results:
            result.name_hint = name
        return op.results[0]

    def cast(self, value: SSAValue, element_type: Attribute) -> SSAValue:
        """`value` with another element type, itself where it has that type."""
        if element_type_of(value) == element_type:
            return value
        return self.insert(coda.CastOp(value, element_type), value.name_hint)

    def mul(self, a: SSAValue, b: SSAValue, name: str | None = None) -> SSAValue:
        return self.insert(coda.MulOp(a, b), name)

    def add(self, a: SSAValue, b: SSAValue, name: str | None = None) -> SSAValue:
        return self.insert(coda.AddOp(a, b), name)

    def sub(self, a: SSAValue, b: SSAValue, name: str | None = None) -> SSAValue:
        return self.insert(coda.SubOp(a, b), name)


def scaled_input(insert: OpInserter, x: SSAValue, weight: SSAValue | None) -> SSAValue:
    """x ⊙ weight, which the GEMMs take instead of the norm: the column scale stays with x."""
    if weight is None:
        return x
    return insert.mul(x, weight, f"{x.name_hint}_scaled" if x.name_hint else None)


def float32_gemm(insert: OpInserter, gemm: coda.LinearOp | coda.MatmulOp, x: SSAValue) -> SSAValue:
    """The GEMM of `gemm` on `x`, without its bias and not rounded before the row scale."""
    kind = coda.LinearOp if isinstance(gemm, coda.LinearOp) else coda.MatmulOp
    return insert.insert(kind(x, gemm.weight, result_element_type=f32))


def bias_of(gemm: coda.LinearOp | coda.MatmulOp) -> SSAValue | None:
    return gemm.bias if isinstance(gemm, coda.LinearOp) else None


def apply_statistics(
    insert: OpInserter, x: SSAValue, stats: Sequence[SSAValue], params: Sequence[SSAValue]
) -> SSAValue:
    """(x − mean) · rstd ⊙ weight + bias in float32; `stats` is (rstd) or (rstd, mean)."""
    value = insert.cast(x, f32)
    if len(stats) > 1:
        value = insert.sub(value, stats[1])
    value = insert.mul(value, stats[0])
    if params:
        value = insert.mul(value, insert.cast(params[0], f32))
    if len(params) > 1:
        value = insert.add(value, insert.cast(params[1], f32))
    return insert.cast(value, element_type_of(x))


def replace_value(old: Operation, new: SSAValue) -> None:
    """Give the uses and the name of the only result of `old` to `new`."""
    if old.results[0].name_hint is not None:
        new.name_hint = old.results[0].name_hint
    old.results[0].replace_all_uses_with(new)
