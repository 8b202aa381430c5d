"""Buffer planning of random programs: results with and without a plan are equal, bit by bit."""

import random

import pytest
import torch
from support.emitted import load_module

from coda_ir.api import parse
from coda_ir.backends.triton import emit_module
from coda_ir.context import make_context
from coda_ir.passes.layout.plan_buffers import PlanBuffersPass, plan_block
from coda_ir.symbolic_shapes import SymbolicShapes

SQUARE = "tensor<?x8xf32>"
TRANSPOSED = "tensor<8x?xf32>"
HALF = "tensor<?x4xf32>"

# The interpreter computes with NumPy, which warns of overflow.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def random_program(seed: int, length: int = 14) -> str:
    """Pointwise operators, views and copies in random order, with up to three results."""
    choose = random.Random(seed)
    values = {SQUARE: ["%x", "%y"], TRANSPOSED: list[str](), HALF: list[str]()}
    lines: list[str] = []

    def add(type: str, operation: str) -> None:
        name = f"%v{len(lines)}"
        lines.append(f"{name} = {operation}")
        values[type].append(name)

    def pick(type: str) -> str:
        return choose.choice(values[type][-4:])

    while len(lines) < length:
        kind = choose.choice(
            ["unary", "binary", "reshape", "transpose", "transpose back", "slice", "join"]
        )
        type = choose.choice([type for type in values if values[type]])
        if kind == "unary":
            operator = choose.choice(["neg", "tanh", "abs"])
            add(type, f"coda.{operator} {pick(type)} : ({type}) -> {type}")
        elif kind == "binary":
            add(type, f"coda.sub {pick(type)}, {pick(type)} : ({type}, {type}) -> {type}")
        elif kind == "reshape":
            add(type, f"coda.reshape {pick(type)} : ({type}) -> {type}")
        elif kind == "transpose":
            perm = "{perm = [1 : i64, 0 : i64]}"
            add(TRANSPOSED, f"coda.transpose {pick(SQUARE)} {perm} : ({SQUARE}) -> {TRANSPOSED}")
        elif kind == "transpose back" and values[TRANSPOSED]:
            perm = "{perm = [1 : i64, 0 : i64]}"
            add(SQUARE, f"coda.transpose {pick(TRANSPOSED)} {perm} : ({TRANSPOSED}) -> {SQUARE}")
        elif kind == "slice":
            part = "{dim = 1 : i64, start = 2 : i64, stop = 6 : i64}"
            add(HALF, f"coda.slice {pick(SQUARE)} {part} : ({SQUARE}) -> {HALF}")
        elif kind == "join" and values[HALF]:
            operands = f"{pick(HALF)}, {pick(HALF)} {{dim = 1 : i64}}"
            add(SQUARE, f"coda.concat {operands} : ({HALF}, {HALF}) -> {SQUARE}")
    results = [(choose.choice(values[t]), t) for t in values if values[t]]
    names, types = ", ".join(v for v, _ in results), ", ".join(t for _, t in results)
    body = "\n".join(lines)
    dims = 'coda.dims = ["M", 8]'
    return f"""
        func.func @f(%x : {SQUARE} {{{dims}}}, %y : {SQUARE} {{{dims}}}) -> ({types}) {{
          {body}
          func.return {names} : {types}
        }}"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(25))
def test_a_plan_changes_no_result(seed: int) -> None:
    module = parse(random_program(seed), syntax="mlir")
    generator = torch.Generator().manual_seed(seed)
    x, y = torch.randn(2, 5, 8, generator=generator).unbind()
    plain = load_module(emit_module(module)).run(x.clone(), y.clone())
    PlanBuffersPass().apply(make_context(), module)
    planned = load_module(emit_module(module)).run(x, y)
    for a, b in zip(_tuple(plain), _tuple(planned), strict=True):
        assert torch.equal(a, b)


def _tuple(results: torch.Tensor | tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return results if isinstance(results, tuple) else (results,)


def test_the_plan_counts_bytes() -> None:
    text = f"""
        func.func @f(%x : {SQUARE} {{coda.dims = ["M", 8]}}) -> {SQUARE} {{
          %a = coda.neg %x : ({SQUARE}) -> {SQUARE}
          %b = coda.neg %a : ({SQUARE}) -> {SQUARE}
          %c = coda.neg %b : ({SQUARE}) -> {SQUARE}
          %d = coda.neg %c : ({SQUARE}) -> {SQUARE}
          func.return %d : {SQUARE}
        }}"""
    (func,) = parse(text, syntax="mlir").ops
    plan = plan_block(func.regions[0].block, SymbolicShapes(func))  # pyright: ignore
    assert (str(plan.own_bytes), str(plan.planned_bytes)) == ("96*M", "64*M")
    assert (plan.intermediates, plan.shared_buffers) == (3, 2)
