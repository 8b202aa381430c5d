"""Pass `convert-linear-to-gemm`: turn linear maps and gradients of their weights into GEMMs."""

from typing import TypeAlias

from xdsl.ir import SSAValue

from coda_ir.dialects import coda, gemm
from coda_ir.dialects.coda.shapes import element_type_of, shape_of, tensor_type
from coda_ir.passes.block.split_concatenation import reads_parts
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.passes.support.legality import LinearMap, check_gemm_types, name_of
from coda_ir.passes.support.norms import bias_of


class ConvertLinearToGemmPass(FunctionPass):
    """Turns `coda.linear` and `coda.matmul` into `gemm.fused`; a bias becomes a row port.

        %z = coda.linear %x, %w, %b        ->  %z = gemm.fused %x columns(%w) row(%b) {
                                                 yield acc + b
                                               }
        %dw = coda.weight_gradient %dz, %x ->  %dw = gemm.fused transposed %dz columns(%x) kn {
                                                 yield acc
                                               }

    The weights of a `coda.grouped_linear` become weights of groups (`gemm.fused %x groups(%ends)`),
    and its biases a port with one row per group. The gradients of these weights are GEMMs of groups
    as well (`gemm.fused transposed %dz groups(%ends)`). Columns that are concatenated only for the
    gradient of a weight are read in place. The block scales of a `coda.scaled_linear` become scales
    of the operands (`gemm.fused %x blocks<128, 128>(%sx) columns(%w) scales(%sw)`), and likewise
    those of a `coda.low_bit_linear` (`gemm.fused %x quantized<128> columns(%w) scales(%s)`). Legal
    iff float32, in which GEMMs accumulate, can represent every value (not f64), and no operand is
    empty. The gradient of a weight must sum over more than one row.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            if isinstance(op, LinearMap) and not rewriter.refuses(op, _why_not(op)):
                _convert(op, rewriter)


Gradient: TypeAlias = coda.WeightGradientOp | coda.GroupedWeightGradientOp
_STORED_BY_COLUMN = (coda.LinearOp, coda.GroupedLinearOp, coda.ScaledLinearOp)
"""Linear maps whose weights are N x K."""


def _why_not(op: LinearMap) -> Refusal | None:
    refusal = check_gemm_types(op)
    if refusal is not None:
        return refusal
    empty = next((x for x in (*op.operands, op.result) if 0 in shape_of(x)), None)
    if empty is not None:
        return Refusal("no operand is empty", f"{name_of(empty)} has no elements")
    if not isinstance(op, coda.WeightGradientOp) or len(shape_of(op.x)) > 1:
        return None
    return Refusal(
        "a weight's gradient is a sum over rows",
        f"{name_of(op.x)} is a single row: the outer product runs as a separate kernel",
    )


def _rows_of_x(op: Gradient) -> list[SSAValue]:
    """Return the operands for columns of a weight gradient: the parts of a concatenation, or x."""
    joined = op.x.owner
    if isinstance(joined, coda.ConcatOp) and reads_parts(joined):
        return list(joined.parts)
    return [op.x]


def _scales_of(op: LinearMap) -> list[SSAValue]:
    """Return the scales of a linear layer's weight, if they are an operand."""
    if isinstance(op, coda.LowBitLinearOp):
        return [op.scales]
    return [op.weight_scales] if isinstance(op, coda.ScaledLinearOp) else []


def _convert(op: LinearMap, rewriter: FunctionRewriter) -> None:
    body = gemm.unchanged_region()
    (accumulator,) = body.block.args
    accumulator.name_hint = "acc"
    is_gradient = isinstance(op, Gradient)
    low_bits = op if isinstance(op, coda.LowBitLinearOp) else None
    is_by_column = isinstance(op, _STORED_BY_COLUMN) if low_bits is None else not low_bits.is_kn
    segment = gemm.Segment(
        weights=_rows_of_x(op) if is_gradient else [op.weight],
        ports=[],
        results=[gemm.Result(gemm.ResultPortAttr.tile(), tensor_type(op.result))],
        body=body,
        layout=gemm.Layout.NK if is_by_column else gemm.Layout.KN,
        scales=_scales_of(op),
        zeros=[low_bits.zeros] if low_bits and low_bits.zeros else [],
    )
    builder = gemm.ScalarBuilder(segment.block, op.location, gemm.numerics_mode(op))
    is_scaled = isinstance(op, coda.ScaledLinearOp)
    can_have_bias = isinstance(op, coda.LinearOp | coda.MatmulOp | coda.GroupedLinearMap)
    bias, value = bias_of(op) if can_have_bias else None, accumulator
    is_grouped = isinstance(op, coda.GroupedLinearMap | coda.GroupedWeightGradientOp)
    groups = op.offsets if is_grouped else None
    if bias is not None:
        kind = gemm.PortKind.ROW if groups is None else gemm.PortKind.GROUP_ROW
        (argument,) = segment.add_port(kind, bias)
        value = builder.add(accumulator, argument)
    segment.set_yielded(0, [builder.result(value, element_type_of(op.result))])
    x = op.dy if is_gradient else op.x
    fused = gemm.FusedOp(
        x,
        [segment],
        transposed=is_gradient,
        groups=groups,
        x_scales=op.x_scales if is_scaled else None,
        blocks=op.blocks if is_scaled else low_bits and low_bits.scheme,
    )
    rewriter.order.substitute(op, fused)
