"""The state space models of .coda: `selective_scan`, `ssd` and `delta_rule`."""

from xdsl.ir import Attribute

from coda_ir.dialects import coda
from coda_ir.frontends.coda_text.arguments import Mistake
from coda_ir.frontends.coda_text.invocation import Invocation
from coda_ir.frontends.coda_text.shape_operators import broadcast_to
from coda_ir.frontends.coda_text.values import ELEMENT_TYPES, Dims, TensorValue, TupleValue, Value

SELECTIVE_SCAN = "selective_scan(u, dt, a, b, c, initial?, *, final: boolean = false)"
DELTA_RULE = (
    "delta_rule(q, k, v, beta, decay?, initial?, *, head_dim: integer, dtype: type?, "
    "final: boolean = false)"
)
SSD = "ssd(x, dt, a, b, c, initial?, *, states: integer, dtype: type?, final: boolean = false)"


def selective_scan(call: Invocation) -> Value:
    u, a = call.float_tensor("u", rank=3), call.float_tensor("a", rank=2)
    batch, length, channels = u.dims
    states = a.dims[1]
    dt, b, c = (call.tensor(name) for name in ("dt", "b", "c"))
    why, remedy = "the channels of u by states", "a is channels x states"
    call.expect_dims("a", a, (channels, states), why, remedy)
    call.expect_dims("dt", dt, u.dims, "that of u")
    for name, value in (("b", b), ("c", c)):
        call.expect_dims(name, value, (batch, length, states), "the positions of u by states of a")
    at_one = (batch, channels, states)
    initial, final = initial_states(call, at_one, "samples, channels, states"), call.flag("final")
    results = call.make_all(coda.SelectiveScanOp, u, dt, a, b, c, initial, final=final)
    return TupleValue(tuple(results)) if final else results[0]


def initial_states(call: Invocation, at_one: Dims, meaning: str) -> TensorValue | None:
    """The operand of states before the first position, where there is one."""
    initial = call.optional_tensor("initial")
    if initial is not None:
        call.expect_dims("initial", initial, at_one, meaning)
        call.expect_element("initial", initial, "f32", "states")
    return initial


def ssd(call: Invocation) -> Value:
    x, a = call.float_tensor("x", rank=3), call.float_tensor("a", rank=1)
    b, c = (call.tensor(name, rank=3) for name in ("b", "c"))
    dt, states = call.tensor("dt"), call.integer("states", 1)
    batch, length, columns = x.dims
    (heads,) = a.dims
    if not isinstance(heads, int) or not isinstance(columns, int):
        raise Mistake(
            f"ssd: x is {x.type} and a is {a.type}, expected constant columns and heads",
            "give them as numbers or consts",
            "E0507",
            argument="a",
        )
    call.expect_dims("dt", dt, (batch, length, heads), "the positions of x by heads of a")
    call.expect_dims("b", b, (batch, length, b.dims[-1]), "the positions of x by groups of states")
    call.expect_dims("c", c, b.dims, "that of b")
    type = _result_type(call, x)
    at_one = (batch, heads, columns // heads, states)
    initial = initial_states(call, at_one, "samples, heads, columns of a head, states")
    operands, final = (x, dt, a, b, c, initial), call.flag("final")
    results = call.make_all(coda.SSDOp, *operands, states=states, final=final, element_type=type)
    return TupleValue(tuple(results)) if final else results[0]


def delta_rule(call: Invocation) -> Value:
    q, k, v = (call.float_tensor(name, rank=3) for name in "qkv")
    beta, head_dim = call.tensor("beta", rank=3), call.integer("head_dim", 1)
    (batch, length, columns), heads = v.dims, beta.dims[2]
    if not isinstance(heads, int) or not isinstance(columns, int):
        raise Mistake(
            f"delta_rule: v is {v.type} and beta is {beta.type}, expected constant columns and "
            "heads",
            "give them as numbers or consts",
            "E0507",
            argument="beta",
        )
    call.expect_dims("beta", beta, (batch, length, heads), "the positions of v by heads")
    call.expect_dims("k", k, (batch, length, k.dims[2]), "the positions of v by heads of keys")
    call.expect_dims("q", q, k.dims, "that of k")
    decay = call.optional_tensor("decay")
    if decay is None:
        decay = broadcast_to(call, call.emit_number(0, beta.type.element), beta.dims)
    call.expect_dims("decay", decay, beta.dims, "that of beta")
    type = _result_type(call, v)
    at_one = (batch, heads, head_dim, columns // heads)
    initial = initial_states(call, at_one, "samples, heads, head_dim, columns of a head of v")
    operands, final = (q, k, v, beta, decay, initial), call.flag("final")
    given = {"head_dim": head_dim, "final": final, "element_type": type}
    results = call.make_all(coda.DeltaRuleOp, *operands, **given)
    return TupleValue(tuple(results)) if final else results[0]


def _result_type(call: Invocation, x: TensorValue) -> Attribute | None:
    """The element type of the result, where it is given."""
    name = call.element_type("dtype")
    if name not in (None, "f32", x.type.element):
        raise call.wrong(
            "dtype", f"expected f32 or {x.type.element}, as x has", given=name, code="E0501"
        )
    return None if name is None else ELEMENT_TYPES[name]
