"""Pass `absorb-modulation`: the scale and shift of each sample become parameters of its norm."""

from typing import TypeAlias

from xdsl.dialects.builtin import f32, f64
from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, serves_each_sample, shape_of
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, OpInserter
from coda_ir.passes.support.legality import check_rounding_may_move
from coda_ir.passes.support.matching import Norm
from coda_ir.passes.support.norms import parameters_of
from coda_ir.passes.support.ports import is_per_sample

Modulation: TypeAlias = coda.MulOp | coda.AddOp


class AbsorbModulationPass(FunctionPass):
    """Makes the scale and shift of each sample parameters of the norm: LN(x; w, b) ⊙ s + t = LN(x;
    w ⊙ s, b ⊙ s + t).

        %h = coda.layer_norm %x                        %m = coda.layer_norm %x, %s, %t
        %y = coda.mul %h, %s                    ->
        %m = coda.add %y, %t

    A norm of an argument then runs in one kernel with its modulation (adaLN). A norm after a GEMM
    can be deferred past the next GEMM together with its modulation (`defer-norms`). Other uses
    read the unmodulated norm. Legal iff the numerics mode allows rounding points to move. An
    RMSNorm takes no shift.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            if not isinstance(op, Modulation):
                continue
            found = _modulated(op)
            if found is None:
                continue
            found_stored = "the norm is stored for its scale and shift: eager PyTorch rounds it"
            if rewriter.refuses(op, check_rounding_may_move(op, found_stored)):
                continue
            rewriter.passed(op, "became a parameter of the norm")
            _absorb(op, *found, rewriter)


def _modulated(op: Modulation) -> tuple[Norm, SSAValue] | None:
    """Return the norm, and the value that it is scaled or shifted by."""
    for normed, vector in op.pairs:
        norm = normed.owner
        if not isinstance(norm, Norm) or not is_per_sample(shape_of(vector), shape_of(normed)):
            continue
        if not serves_each_sample(shape_of(vector), shape_of(normed)):
            continue
        if isinstance(norm, coda.LayerNormOp):
            return norm, vector
        if norm.group is None and isinstance(op, coda.MulOp):
            return norm, vector
    return None


def _absorb(op: Modulation, norm: Norm, vector: SSAValue, rewriter: FunctionRewriter) -> None:
    insert = rewriter.before(op)
    is_scale = isinstance(op, coda.MulOp)
    weight, bias = parameters_of(norm)
    if is_scale:
        weight = vector if weight is None else _wide(insert, coda.MulOp, weight, vector)
        bias = None if bias is None else _wide(insert, coda.MulOp, bias, vector)
    else:
        bias = vector if bias is None else _wide(insert, coda.AddOp, bias, vector)
    insert.location = norm.location
    rewriter.replace(op, insert.insert(_like(norm, weight, bias)))
    if not norm.result.uses:
        rewriter.order.erase(norm)


def _wide(insert: OpInserter, kind: type[Modulation], a: SSAValue, b: SSAValue) -> SSAValue:
    """Return the sum or product of two parameters in float32, or in float64."""
    wide = f64 if f64 in map(element_type_of, (a, b)) else f32
    return insert.insert(kind(insert.cast(a, wide), insert.cast(b, wide)), b.name_hint)


def _like(norm: Norm, weight: SSAValue | None, bias: SSAValue | None) -> Operation:
    eps = norm.eps.value.data
    if isinstance(norm, coda.RMSNormOp):
        return coda.RMSNormOp(norm.x, weight, eps=eps)
    params = [value for value in (weight, bias) if value is not None]
    return coda.LayerNormOp(norm.x, params, eps=eps, bias_only=weight is None and bias is not None)
