"""The operator `low_bit_linear` of .coda."""

from __future__ import annotations

from xdsl.utils.exceptions import VerifyException

from coda_ir.dialects import coda
from coda_ir.frontends.coda_text.arguments import Mistake
from coda_ir.frontends.coda_text.invocation import Invocation
from coda_ir.frontends.coda_text.values import TensorValue

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
        scheme.verify_operands(x.ssa, w.ssa, scales.ssa, zeros and zeros.ssa, kn=is_kn)
    except VerifyException as error:
        raise Mistake(f"{call.name}: {error}") from error
    op = coda.LowBitLinearOp(
        *(x.ssa, w.ssa, scales.ssa, zeros and zeros.ssa, scheme),
        kn=is_kn,
        result_element_type=call.float_type("dtype"),
    )
    return call.emit(op, (*x.dims[:-1], scales.dims[is_kn]))
