"""The operator `low_bit_linear` of .coda."""

from __future__ import annotations

from xdsl.utils.exceptions import VerifyException

from coda_ir.dialects import coda
from coda_ir.frontends.coda_text.arguments import Mistake
from coda_ir.frontends.coda_text.invocation import Invocation
from coda_ir.frontends.coda_text.values import Dim, TensorValue, with_coda_names

LOW_BIT_LINEAR = (
    "low_bit_linear(x, w, scales, zeros?, *, depth: integer = 128, offset: integer = 0, "
    'packing: string = "", transposed: boolean = false, dtype: type?)'
)


def low_bit_linear(call: Invocation) -> TensorValue:
    """x times a weight of 8 or 4 bits. Raises Mistake for what does not fit."""
    x, w = call.float_tensor("x", least_rank=1), call.tensor("w", 2)
    scales, zeros = call.float_tensor("scales", 2), call.optional_tensor("zeros")
    packing, is_kn = call.value("packing") or "", call.flag("transposed")
    if not isinstance(packing, str):
        raise call.wrong("packing", 'expected the axis and the positions of elements: "k01234567"')
    try:
        scheme = coda.QuantizedAttr.get(
            call.integer("depth", 128),
            offset=call.integer("offset", 0),
            packing=packing,
        )
        _expect_shapes(call, scheme, x.dims[-1], scales.dims[is_kn], is_kn)
        scheme.verify_operands(x.ssa, w.ssa, scales.ssa, zeros and zeros.ssa, kn=is_kn)
    except VerifyException as error:
        message = with_coda_names(str(error).removeprefix("quantized: "))
        raise Mistake(f"{call.name}: {message}") from error
    op = coda.LowBitLinearOp(
        *(x.ssa, w.ssa, scales.ssa, zeros and zeros.ssa, scheme),
        kn=is_kn,
        element_type=call.float_type("dtype"),
    )
    return call.emit(op, (*x.dims[:-1], scales.dims[is_kn]))


def _expect_shapes(
    call: Invocation, scheme: coda.QuantizedAttr, k: Dim, n: Dim, is_kn: bool
) -> None:
    """Raise Mistake unless the weight and its scales have the shapes that K and N ask for."""
    if not (isinstance(k, int) and isinstance(n, int)):
        return
    depth, order = scheme.depth.data, -1 if is_kn else 1
    groups, words = (n, -(-k // depth))[::order], scheme.words(n, k)[::order]
    remedy = None if is_kn else "state transposed=true for a weight and scales of K x N"
    call.expect_dims("scales", call.tensor("scales"), groups, f"one for {depth} of K", remedy)
    remedy = None if scheme.axis else 'state the packing of 4 bits, such as packing="k01234567"'
    why = "with the K of x and the N of scales"
    call.expect_dims("w", call.tensor("w"), words, why, remedy)
