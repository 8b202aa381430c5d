"""The operator `selective_scan` of .coda."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.scan import StateSpaceModel
from coda_ir.frontends.coda_text.arguments import Mistake
from coda_ir.frontends.coda_text.invocation import Invocation
from coda_ir.frontends.coda_text.values import Dims, TensorValue, TupleValue, Value

SIGNATURE = "selective_scan(u, dt, a, b, c, initial?, *, final: boolean = false)"


def selective_scan(call: Invocation) -> Value:
    u, a = call.float_tensor("u", rank=3), call.float_tensor("a", rank=2)
    expect_states_in_float32("selective_scan", "u", u)
    batch, length, channels = u.dims
    states = a.dims[1]
    if not isinstance(states, int) or states > coda.MAX_STATES:
        raise call.wrong(
            "a",
            f"expected a constant number of states, {coda.MAX_STATES} at most",
            "give the last dimension of a as a number or a const",
        )
    dt, b, c = (call.tensor(name) for name in ("dt", "b", "c"))
    why, remedy = "the channels of u by states", "a is channels x states"
    call.expect_dims("a", a, (channels, states), why, remedy)
    call.expect_dims("dt", dt, u.dims, "that of u")
    for name, value in (("b", b), ("c", c)):
        call.expect_dims(name, value, (batch, length, states), "the positions of u by states of a")
    expect_elements(call, "u", u, {"dt": dt, "a": a, "b": b, "c": c})
    at_one = (batch, channels, states)
    initial, final = initial_states(call, at_one, "samples, channels, states"), call.flag("final")
    op = coda.SelectiveScanOp(u.ssa, dt.ssa, a.ssa, b.ssa, c.ssa, initial, final=final)
    return results_of(call, op, u.dims, at_one)


def initial_states(call: Invocation, at_one: Dims, meaning: str) -> SSAValue | None:
    """The operand of states before the first position, where there is one."""
    initial = call.optional_tensor("initial")
    if initial is None:
        return None
    call.expect_dims("initial", initial, at_one, meaning)
    call.expect_element("initial", initial, "f32", "states")
    return initial.ssa


def results_of(call: Invocation, op: StateSpaceModel, rows: Dims, at_one: Dims) -> Value:
    """The result of a model, and the states behind the last position where they are wanted."""
    results = call.emit_all(op, [rows, at_one])
    return results[0] if op.final is None else TupleValue(tuple(results))


def expect_states_in_float32(operator: str, name: str, x: TensorValue) -> None:
    """Raise if the input of a state space model needs states wider than float32."""
    if x.type.element == "f64":
        raise Mistake(
            f"{operator}: {name} is {x.type}, but its states are f32",
            f"convert it: cast({name}, f32)",
            argument=name,
        )


def expect_elements(
    call: Invocation, name: str, x: TensorValue, operands: Mapping[str, TensorValue]
) -> None:
    """Raise unless the operands beside the input `x` have its element type; dt and a may be f32."""
    for key, value in operands.items():
        if key in ("b", "c") or value.type.element != "f32":
            call.expect_element(key, value, x.type.element, name)
