"""The scalar code that passes put into regions, evaluated beside PyTorch."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from support.equivalence import assert_results_close
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr, bf16, f16, f32
from xdsl.ir import Block, SSAValue

from coda_ir.backends.reference.numerics import Numerics
from coda_ir.backends.reference.region import Domain, evaluate_region
from coda_ir.dialects.coda import ACTIVATIONS
from coda_ir.dialects.gemm import Combiner, ScalarBuilder, SoftplusOp, YieldOp

Code = Callable[[ScalarBuilder, SSAValue, SSAValue], SSAValue]

A = torch.randn(3, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
B = torch.randn(3, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


WIDE = F.softplus(90 * A, threshold=1e9)


def evaluate(code: Code, *, stated: bool = False) -> torch.Tensor:
    """The value of `code` for the arguments A and B."""
    block = Block(arg_types=[f32, f32])
    result = code(ScalarBuilder(block), *block.args)
    block.add_op(YieldOp(result))
    numerics = Numerics.of("stated" if stated else "float64", [])
    arguments = [numerics.lift(value) for value in (A, B)]
    return evaluate_region(block, arguments, Domain(3, 5), numerics)[0]


EXPECTED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "identity": torch.clone,
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "relu": F.relu,
    "relu2": lambda x: F.relu(x) ** 2,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name: str):
    value = evaluate(lambda b, x, _: b.activation(name, x))
    assert_results_close([value], [EXPECTED[name](A)], 1e-15)


def softplus(builder: ScalarBuilder, x: SSAValue) -> SSAValue:
    return builder.insert(SoftplusOp(x))


CODE: dict[str, tuple[Code, torch.Tensor]] = {
    "mish": (lambda b, x, y: b.mul(x, b.tanh(softplus(b, x))), F.mish(A)),
    "mish of large numbers": (lambda b, x, y: b.tanh(softplus(b, b.scale(x, 90.0))), WIDE.tanh()),
    "scale": (lambda b, x, y: b.scale(x, 0.1), 0.1 * A),
    "rsqrt": (lambda b, x, y: b.rsqrt(b.abs(x)), A.abs() ** -0.5),
    "sqrt and log": (lambda b, x, y: b.log(b.sqrt(b.exp(x))), A / 2),
    "minimum": (lambda b, x, y: b.minimum(x, y), torch.minimum(A, B)),
    "add": (lambda b, x, y: b.combine(Combiner.ADD, x, y), A + B),
    "max": (lambda b, x, y: b.combine(Combiner.MAX, x, y), torch.maximum(A, B)),
    "lse": (lambda b, x, y: b.combine(Combiner.LSE, x, y), torch.logaddexp(A, B)),
    "difference": (lambda b, x, y: b.sub(b.neg(x), y), -A - B),
}


@pytest.mark.parametrize("name", CODE)
def test_scalar_code(name: str):
    code, expected = CODE[name]
    assert_results_close([evaluate(code)], [expected], 1e-14)


def test_rounding_points():
    rounded = evaluate(lambda b, x, y: b.round_to(x, bf16), stated=True)
    assert torch.equal(rounded, A.float().to(torch.bfloat16).float())
    exact = evaluate(lambda b, x, y: b.round_to(x, bf16))
    assert torch.equal(exact, A)
    assert torch.equal(evaluate(lambda b, x, y: b.round_to(x, f32), stated=True), A.float())


def test_elements_of_a_type_are_rounded_to_it_once():
    def clamped(b: ScalarBuilder, x: SSAValue, bound: float) -> list[SSAValue]:
        rounded = b.neg(b.round_to(x, bf16))
        larger = b.maximum(rounded, b.constant(bound))
        return [larger, b.select(b.compare("ole", x, larger), b.abs(larger), rounded)]

    block = Block(arg_types=[f32])
    builder = ScalarBuilder(block)
    for value in clamped(builder, block.args[0], -8.0):
        assert builder.round_to(value, bf16) is value and builder.round_to(value, f16) is not value
    # Other numbers, and sums, are no elements of the type.
    for value in clamped(builder, block.args[0], 0.1) + clamped(builder, block.args[0], 1e39):
        assert builder.round_to(value, bf16) is not value
    total = builder.add(*clamped(builder, block.args[0], -8.0))
    assert builder.round_to(total, bf16) is not total


def test_a_constant_is_made_once():
    block = Block()
    builder = ScalarBuilder(block)
    assert builder.constant(0.5) is builder.constant(0.5)
    assert len(block.ops) == 1


def test_a_constant_beyond_float32_is_infinite():
    def beyond(b: ScalarBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
        return b.minimum(b.constant(1e300), b.sub(x, b.constant(-1e39)))

    stated = evaluate(beyond, stated=True)
    assert torch.equal(stated, torch.full_like(stated, float("inf")))
    # In float64 it is the number, as at the block level.
    assert_results_close([evaluate(beyond)], [torch.full_like(A, 1e39)], 1e-14)


def test_code_goes_before_the_yield_and_has_the_location():
    block = Block(arg_types=[f32])
    block.add_op(YieldOp(block.args[0]))
    location = FileLineColLoc(StringAttr("a.coda"), IntAttr(2), IntAttr(3))
    value = ScalarBuilder(block, location).neg(block.args[0])
    assert [op.name for op in block.ops] == ["arith.negf", "gemm.yield"]
    assert block.first_op is not None
    assert block.first_op.results[0] is value
    assert block.first_op.location == location
