"""The operator `attention` of .coda."""

from coda_ir.dialects import coda
from coda_ir.frontends.coda_text.invocation import Invocation
from coda_ir.frontends.coda_text.values import (
    RANGES,
    TensorValue,
    format_dims,
    product_of,
)

ATTENTION = (
    "attention(q, k, v, *, head_dim: integer, value_dim: integer?, causal: boolean = false, "
    "window: integer?, scale: number?, softcap: number?, sinks: tensor?, mask: tensor?)"
)


def attention(call: Invocation) -> TensorValue:
    q, k, v = call.float_tensor("q"), call.tensor("k"), call.tensor("v")
    head_dim = call.integer("head_dim", 0)
    for name, value in (("q", q), ("k", k), ("v", v)):
        if len(value.dims) not in (2, 3):
            expected = "expected rank 2 or 3: (batch,) time, columns"
            raise call.wrong(name, expected, _side_by_side(name, value), "E0507")
    mask = call.optional_tensor("mask")
    if mask is not None and mask.type.element in RANGES:
        elements = f"expected {q.type.element} or bool elements"
        raise call.wrong("mask", elements, "ne($mask, 0) is true where it is not 0", "E0501")
    return call.make(
        coda.AttentionOp,
        q,
        k,
        v,
        call.optional_tensor("sinks"),
        mask,
        head_dim=head_dim,
        value_dim=call.integer("value_dim", head_dim),
        causal=call.flag("causal"),
        window=call.integer("window", 1) if call.given("window") else None,
        scale=call.positive("scale"),
        softcap=call.positive("softcap"),
    )


def _side_by_side(name: str, value: TensorValue) -> str | None:
    """The remedy for a tensor with a dimension of heads, before or after that of time."""
    if len(value.dims) != 4:
        return None
    batch, first, second, columns = value.dims
    kept = format_dims((batch, first, product_of((second, columns))))
    exchanged = format_dims((batch, second, product_of((first, columns))))
    in_order = f"reshape(${name}, {kept})"
    written = f"reshape(transpose(${name}, [0, 2, 1, 3]), {exchanged})"
    if isinstance(second, int) and not isinstance(first, int):
        written = in_order
    elif isinstance(first, int) == isinstance(second, int):
        written += f" for heads in dimension 1, {in_order} for heads in dimension 2"
    return f"heads lie side by side in the columns: write {written}"
