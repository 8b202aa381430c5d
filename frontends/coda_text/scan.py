"""The state space models of .coda: `selective_scan`, `ssd` and `delta_rule`."""

from typing import Any

from xdsl.ir import Attribute

from coda_ir.dialects import coda
from coda_ir.dialects.coda.scan import StateSpaceModel
from coda_ir.frontends.coda_text.invocation import Invocation
from coda_ir.frontends.coda_text.shape_operators import broadcast_to
from coda_ir.frontends.coda_text.values import ELEMENT_TYPES, TensorValue, TupleValue, Value

SELECTIVE_SCAN = "selective_scan(u, dt, a, b, c, initial?, *, final: boolean = false)"
DELTA_RULE = (
    "delta_rule(q, k, v, beta, decay?, initial?, *, head_dim: integer, dtype: type?, "
    "final: boolean = false)"
)
SSD = "ssd(x, dt, a, b, c, initial?, *, states: integer, dtype: type?, final: boolean = false)"


def selective_scan(call: Invocation) -> Value:
    u, a = call.float_tensor("u", rank=3), call.float_tensor("a", rank=2)
    dt, b, c = (call.tensor(name) for name in ("dt", "b", "c"))
    return _from_states(call, coda.SelectiveScanOp, u, dt, a, b, c)


def _from_states(
    call: Invocation, kind: type[StateSpaceModel], *operands: TensorValue, **given: Any
) -> Value:
    """The model from the first states, if they are given, and the last states, if wanted."""
    initial, final = call.optional_tensor("initial"), call.flag("final")
    results = call.make_all(kind, *operands, initial, final=final, **given)
    return TupleValue(tuple(results)) if final else results[0]


def ssd(call: Invocation) -> Value:
    x, a = call.float_tensor("x", rank=3), call.float_tensor("a", rank=1)
    b, c = (call.tensor(name, rank=3) for name in ("b", "c"))
    dt, states = call.tensor("dt"), call.integer("states", 1)
    type = _result_type(call, x)
    return _from_states(call, coda.SSDOp, x, dt, a, b, c, states=states, element_type=type)


def delta_rule(call: Invocation) -> Value:
    q, k, v = (call.float_tensor(name, rank=3) for name in "qkv")
    beta, head_dim = call.tensor("beta", rank=3), call.integer("head_dim", 1)
    decay = call.optional_tensor("decay")
    if decay is None:
        decay = broadcast_to(call, call.emit_number(0, beta.type.element), beta.dims)
    given = {"head_dim": head_dim, "element_type": _result_type(call, v)}
    return _from_states(call, coda.DeltaRuleOp, q, k, v, beta, decay, **given)


def _result_type(call: Invocation, x: TensorValue) -> Attribute | None:
    """The element type of the result, where it is given."""
    name = call.element_type("dtype")
    if name not in (None, "f32", x.type.element):
        raise call.wrong(
            "dtype", f"expected f32 or {x.type.element}, as x has", given=name, code="E0501"
        )
    return None if name is None else ELEMENT_TYPES[name]
