"""Elements of 8 bits: emitted kernels and the reference backend against PyTorch, value by value."""

from collections.abc import Callable
from typing import Literal, TypeAlias

import pytest
import torch
from support.elements import DTYPES

import coda_ir
from coda_ir.diagnostics import CodaError

Target: TypeAlias = Literal["triton", "reference"]

TARGETS: tuple[Target, ...] = ("triton", "reference")

FLOATS = ("bf16", "f16", "f32", "f64")

FLOAT8 = ("f8e4m3", "f8e5m2")

INTEGERS = ("i8", "u8", "i32", "i64")

EDGES = (
    *(0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 127.4, 127.5, 127.6, -128.5, -129.0, 254.5, 255.5),
    *(448.0, 460.0, 464.0, 465.0, 480.0, 1000.0, 57344.0, 61439.0, 61440.0, 65536.0, 1e6),
    *(2.0**-9, 2.0**-10, 1.1 * 2**-10, 3 * 2.0**-10, 2.0**-16, 2.0**-17, 1.5 * 2**-17, 1e-30),
    *(2147483520.0, 2147483648.0, 3e9, 1e19, float("inf"), float("nan")),
)
"""Ties, overflows and subnormal numbers of the narrow types."""


def numbers(dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    edges = torch.tensor([*EDGES, *(-edge for edge in EDGES)])
    scales = torch.logspace(-3, 3, 24 * 64 - len(edges))
    drawn = torch.randn(len(scales), generator=generator) * scales
    return torch.cat([edges, drawn]).reshape(24, 64).to(dtype)


def run(text: str, target: Target, *inputs: torch.Tensor) -> list[torch.Tensor]:
    results = coda_ir.compile(text, target=target, device="cpu")(*inputs)
    return [results] if isinstance(results, torch.Tensor) else list(results)


def assert_equal(actual: torch.Tensor, expected: torch.Tensor) -> None:
    assert actual.dtype == expected.dtype
    a, b = actual.double(), expected.double()
    wrong = ~((a == b) | (a.isnan() & b.isnan()))
    assert not wrong.any(), f"{a[wrong][:8]}, expected {b[wrong][:8]}"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("given", FLOATS)
@pytest.mark.parametrize("narrow", FLOAT8)
def test_float8(narrow: str, given: str, target: Target):
    """Rounded to nearest even; beyond the largest number f8e5m2 is infinite, and f8e4m3 is not."""
    x = numbers(DTYPES[given])
    largest, dtype = torch.finfo(DTYPES[narrow]).max, DTYPES[narrow]
    text = f"""fn f(x: {given}[M, 64]) {{
        y = cast(x, {narrow})
        return y, cast(y, f32), cast(x, {narrow}, saturate=true)
    }}"""
    rounded, extended, saturated = run(text, target, x)
    exact = x.float().clamp(-largest, largest) if narrow == "f8e4m3" else x.float()
    assert_equal(rounded, exact.to(dtype))
    assert_equal(extended, exact.to(dtype).float())
    assert_equal(saturated, x.float().clamp(-largest, largest).to(dtype))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("narrow", FLOAT8)
def test_all_float8(narrow: str, target: Target):
    """Each of the 256 numbers is loaded as what it is."""
    x = torch.arange(256, dtype=torch.uint8).reshape(4, 64).view(DTYPES[narrow])
    text = f"fn f(x: {narrow}[M, 64]) {{ return cast(x, f32), cast(x, bf16) }}"
    wide, bf16 = run(text, target, x)
    assert_equal(wide, x.float())
    assert_equal(bf16, x.bfloat16())


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("rounding", ("nearest_even", "toward_zero"))
@pytest.mark.parametrize("given", FLOATS)
@pytest.mark.parametrize("element", INTEGERS)
def test_saturated_integers(element: str, given: str, rounding: str, target: Target):
    """The nearest integer of the type, to which Python's integers are clamped; 0 for NaN."""
    x, dtype = numbers(DTYPES[given]), DTYPES[element]
    text = f"""fn f(x: {given}[M, 64]) {{
        return cast(x, {element}, rounding="{rounding}", saturate=true)
    }}"""
    wide = x.double().round() if rounding == "nearest_even" else x.double().trunc()
    limits = torch.iinfo(dtype)
    whole = wide.nan_to_num(0.0, posinf=1e30, neginf=-1e30).flatten()
    expected = [min(max(int(number.item()), limits.min), limits.max) for number in whole]
    (result,) = run(text, target, x)
    assert_equal(result, torch.tensor(expected, dtype=dtype).reshape(x.shape))


OPERATORS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "a + b": lambda a, b: a + b,
    "a - b": lambda a, b: a - b,
    "a * b": lambda a, b: a * b,
    "-a": lambda a, b: -a,
    "abs(a)": lambda a, b: a.abs(),
    "maximum(a, b)": torch.maximum,
    "minimum(a, b)": torch.minimum,
    "lt(a, b)": torch.lt,
    "where(ge(a, b), a, b)": torch.maximum,
    "a * a + b * 3": lambda a, b: a * a + b * 3,
    "cast(a, f32)": lambda a, b: a.float(),
    "cast(a, i64)": lambda a, b: a.long(),
    "cast(a, i8)": lambda a, b: a.to(torch.int8),
    "cast(a, u8)": lambda a, b: a.to(torch.uint8),
    "cast(a, i8, saturate=true)": lambda a, b: a.clamp(max=127).to(torch.int8),
    "cast(a, u8, saturate=true)": lambda a, b: a.clamp(min=0).to(torch.uint8),
    "cast(cast(a, i32) * 3, i8, saturate=true)": lambda a, b: (
        (a.int() * 3).clamp(-128, 127).to(torch.int8)
    ),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("element", ("i8", "u8"))
def test_integers_of_8_bits(element: str, target: Target):
    """All numbers with others; what overflows keeps its lowest bits, as in PyTorch."""
    a = torch.arange(256).to(DTYPES[element]).reshape(4, 64)
    b = a.flip(1).roll(1, 0).contiguous()
    text = f"fn f(a: {element}[M, 64], b: {element}[M, 64]) {{ return {', '.join(OPERATORS)} }}"
    for result, expected in zip(run(text, target, a, b), OPERATORS.values(), strict=True):
        assert_equal(result, expected(a, b))


EPILOGUE = """
epilogue quantized(acc, old: tile<i8>, seen: tile<f8e4m3>, shift: row<u8>, scale: col<f8e5m2>) -> (
    q: tile<i8>,
    kept: tile<i32>,
    y: tile<f8e4m3>,
    z: tile<f8e5m2>,
) {
    q = cast(acc, i8, rounding="nearest_even", saturate=true)
    kept = old * 100 + shift
    y = cast(seen, f32) + acc
    z = acc * cast(scale, f32)
}

fn f(x: f32[M, 16], w: f32[64, 16], o: i8[M, 64], s: f8e4m3[M, 64], b: u8[64], c: f8e5m2[M]) {
    q, kept, y, z = quantized(linear(x, w), o, s, b, c)
    return q, kept, y, z
}
"""


@pytest.mark.parametrize("target", TARGETS)
def test_epilogue(target: Target):
    """Elements of ports and results; sums of whole numbers are exact."""
    generator = torch.Generator().manual_seed(0)

    def whole(least: int, most: int, *shape: int) -> torch.Tensor:
        return torch.randint(least, most, shape, generator=generator)

    x, w = whole(-4, 5, 7, 16).float(), whole(-4, 5, 64, 16).float() / 2
    old, shift = whole(-128, 128, 7, 64).to(torch.int8), whole(0, 256, 64).to(torch.uint8)
    seen = whole(-64, 65, 7, 64).float().to(torch.float8_e4m3fn)
    scale = whole(-9, 10, 7).float().to(torch.float8_e5m2)
    acc = x @ w.T
    q, kept, y, z = run(EPILOGUE, target, x, w, old, seen, shift, scale)
    assert_equal(q, acc.round().clamp(-128, 127).to(torch.int8))
    assert_equal(kept, old.int() * 100 + shift.int())
    assert_equal(y, (seen.float() + acc).to(torch.float8_e4m3fn))
    assert_equal(z, (acc * scale.float()[:, None]).to(torch.float8_e5m2))


def test_gradients():
    """Integers have none, float8 none that goes through it; straight through it does not."""
    whole = """fn f(x: f32[M, 64]) {
        q = cast(x * 2, i8, rounding="nearest_even", saturate=true)
        return cast(q, f32) * x
    }"""
    x = torch.randn(5, 64)
    assert_equal(gradient(whole, x), (x * 2).round().clamp(-128, 127))
    around = """fn f(x: f32[M, 64]) {
        y = cast(cast(x, f8e4m3), f32)
        return x + detach(y - x)
    }"""
    assert_equal(gradient(around, x), torch.ones_like(x))
    through = "fn f(x: f32[M, 64]) { return cast(cast(x, f8e4m3), f32) }"
    with pytest.raises(CodaError, match="float8 is too narrow for gradients"):
        gradient(through, x)


def gradient(text: str, x: torch.Tensor) -> torch.Tensor:
    function = coda_ir.compile(text, training=True, device="cpu")
    x = x.clone().requires_grad_()
    function(x).sum().backward()
    assert x.grad is not None
    return x.grad
