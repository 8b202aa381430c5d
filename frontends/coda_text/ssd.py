"""The operator `ssd` of .coda."""

from __future__ import annotations

from xdsl.ir import Attribute

from coda_ir.dialects import coda
from coda_ir.frontends.coda_text.arguments import Mistake
from coda_ir.frontends.coda_text.invocation import Invocation
from coda_ir.frontends.coda_text.scan import (
    expect_elements,
    expect_states_in_float32,
    initial_states,
    results_of,
)
from coda_ir.frontends.coda_text.values import ELEMENT_TYPES, TensorValue, Value

SIGNATURE = (
    "ssd(x, dt, a, b, c, initial?, *, states: integer, dtype: type?, final: boolean = false)"
)


def ssd(call: Invocation) -> Value:
    x, a = call.float_tensor("x", rank=3), call.float_tensor("a", rank=1)
    b, c, dt = (call.tensor(name) for name in ("b", "c", "dt"))
    expect_states_in_float32("ssd", "x", x)
    states = _states(call)
    batch, length, columns = x.dims
    (heads,) = a.dims
    if not isinstance(heads, int) or not isinstance(columns, int):
        raise Mistake(
            f"ssd: x is {x.type} and a is {a.type}, expected constant columns and heads",
            "give them as numbers or consts",
            argument="a",
        )
    _expect_columns(x, heads)
    call.expect_dims("dt", dt, (batch, length, heads), "the positions of x by heads of a")
    _expect_groups(call, b, heads, states)
    call.expect_dims("b", b, (batch, length, b.dims[-1]), "the positions of x by groups of states")
    call.expect_dims("c", c, b.dims, "that of b")
    expect_elements(call, "x", x, {"dt": dt, "a": a, "b": b, "c": c})
    type = _result_type(call, x)
    at_one = (batch, heads, columns // heads, states)
    initial = initial_states(call, at_one, "samples, heads, columns of a head, states")
    operands = (x.ssa, dt.ssa, a.ssa, b.ssa, c.ssa, initial)
    final = call.flag("final")
    op = coda.SSDOp(*operands, states=states, final=final, result_element_type=type)
    return results_of(call, op, x.dims, at_one)


def _result_type(call: Invocation, x: TensorValue) -> Attribute | None:
    """The element type of the result, where it is given."""
    name = call.element_type("dtype")
    if name not in (None, "f32", x.type.element):
        raise call.wrong("dtype", f"expected f32 or {x.type.element}, as x has", given=name)
    return None if name is None else ELEMENT_TYPES[name]


def _states(call: Invocation) -> int:
    states = call.integer("states", 1)
    if not 1 <= states <= coda.MAX_STATES:
        raise call.wrong("states", f"expected 1 to {coda.MAX_STATES}", given=states)
    return states


def _expect_columns(x: TensorValue, heads: int) -> None:
    """Raise unless the heads have the columns of x."""
    columns = x.dims[-1]
    assert isinstance(columns, int)
    if heads < 1 or columns % heads or not 1 <= columns // heads <= coda.MAX_HEAD_COLUMNS:
        raise Mistake(
            f"ssd: x is {x.type}, but a has {heads} elements: expected as many heads of 1 to "
            f"{coda.MAX_HEAD_COLUMNS} columns",
            "a has one rate for each head",
            argument="x",
        )


def _expect_groups(call: Invocation, b: TensorValue, heads: int, states: int) -> None:
    """Raise unless the columns of b are those of groups that divide the heads."""
    columns = b.dims[-1] if b.dims else None
    groups = columns // states if isinstance(columns, int) else 0
    if groups < 1 or columns != groups * states or heads % groups:
        raise call.wrong(
            "b",
            f"expected columns of {states} states, for as many groups as divide the {heads} heads",
            "give `states`, the states of a group",
        )
