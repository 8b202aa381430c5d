"""The operator `attention` of .coda."""

from coda_ir.dialects import coda
from coda_ir.frontends.coda_text.arguments import Mistake
from coda_ir.frontends.coda_text.invocation import Invocation
from coda_ir.frontends.coda_text.values import (
    RANGES,
    TensorValue,
    divided,
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
    value_dim = call.integer("value_dim", head_dim)
    for name, value in (("q", q), ("k", k), ("v", v)):
        if len(value.dims) not in (2, 3):
            expected = "expected rank 2 or 3: (batch,) time, columns"
            raise call.wrong(name, expected, _side_by_side(name, value), "E0507")
    call.expect_heads("head_dim", head_dim, "q", q)
    call.expect_heads("head_dim", head_dim, "k", k)
    call.expect_heads("value_dim" if call.given("value_dim") else "head_dim", value_dim, "v", v)
    expected, remedy = (*q.dims[:-2], *k.dims[-2:]), None
    if q.dims[:-2] in ((), (1,)):
        repeated = format_dims((*k.dims[:-2], *q.dims[-2:]))
        remedy = f"the same queries for each sample are broadcast($q, {repeated})"
    call.expect_dims("k", k, expected, "the batch of q", remedy)
    _expect_values(call, k, v, head_dim, value_dim)
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
        value_dim=value_dim,
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


def _expect_values(
    call: Invocation, k: TensorValue, v: TensorValue, head_dim: int, value_dim: int
) -> None:
    """Raise unless v has the rows and heads of k, each of `value_dim` columns."""
    if value_dim == head_dim:
        call.expect_dims("v", v, k.dims, "that of k", _remedy(k, v, head_dim))
        return
    if not isinstance(heads := divided(k.dims[-1], head_dim), int):
        raise Mistake(
            f"attention: k is {k.type}, but value_dim needs a constant number of heads",
            argument="value_dim",
        )
    expected = (*k.dims[:-1], heads * value_dim)
    call.expect_dims("v", v, expected, f"the heads of k with {value_dim} columns each")


def _remedy(k: TensorValue, v: TensorValue, head_dim: int) -> str | None:
    """The remedy where heads of v have other columns than those of k; None where they have not."""
    heads = divided(k.dims[-1], head_dim)
    columns = None if heads is None else divided(v.dims[-1], heads)
    if v.dims[:-1] != k.dims[:-1] or not isinstance(columns, int) or not columns:
        return None
    return f"if a head of v has {columns} columns, pass value_dim={columns}"
