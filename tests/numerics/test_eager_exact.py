"""The mode `eager-exact`: the bits of eager PyTorch, on inputs whose sums have no order.

Each column of a weight has two powers of two and is 0 elsewhere, so that a sum of products rounds
once in whatever order it is computed.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.eager_bits import NAMES, OPERATORS, share_of_different_bits
from support.eager_models import EAGER_MODELS
from support.examples import DTYPES, Example, folder_in

import coda_ir
from coda_ir.api import Lowering, parse
from coda_ir.context import make_context
from coda_ir.devices import default_device
from coda_ir.float64 import relative_error
from coda_ir.options import CompileOptions, Target
from coda_ir.passes.block.set_numerics import SetNumericsPass

SIZES = {
    "llama_layer": {"D": 96, "F": 104, "HEAD": 32, "KV_HEADS": 3},
    "llama_mlp": {"D": 96, "F": 104},
    "gpt2_block": {"D": 96, "HEAD": 24},
    "dit_block": {"D": 96, "HEAD": 24},
    "qwen3_block": {"D": 96, "F": 104, "HEAD": 24, "HEADS": 4, "KV_HEADS": 2},
    "gemma_block": {"D": 96, "F": 104, "HEAD": 24, "HEADS": 4, "KV_HEADS": 2},
    "lm_head_cross_entropy": {"D": 96, "V": 133},
    "linear_bias_gelu": {"K": 96, "N": 133},
}
# exp, tanh, erf and rsqrt of NumPy and of PyTorch differ by an ulp of float32, and so do sums of
# squares: rarely enough to change a rounded bit, except in float32 itself.
MAX_DIFFERENT = {torch.bfloat16: 0.01, torch.float16: 0.05, torch.float32: 1.0}

types = pytest.mark.parametrize("dtype", DTYPES, ids=DTYPES.get)


@lru_cache
def program(name: str, dtype: torch.dtype, mode: str) -> Example:
    example = Example(name, dtype, SIZES[name])
    module = parse(folder_in(dtype) / f"{name}.coda", constants=dict(SIZES[name]))
    SetNumericsPass(mode).apply(make_context(), module)
    vars(example)["lowering"] = Lowering(module, CompileOptions("target=interpreter"))
    return example


def sparse_weight(shape: torch.Size, k_dim: int, generator: torch.Generator) -> torch.Tensor:
    """Two elements ±1/2, ±1 or ±2 per column of the product."""
    n, k = shape[1 - k_dim], shape[k_dim]
    weight = torch.zeros(n, k)
    for _ in range(2):
        place = torch.randint(k, (n, 1), generator=generator)
        exponent = torch.randint(-1, 2, (n, 1), generator=generator)
        sign = 2 * torch.randint(2, (n, 1), generator=generator) - 1
        weight.scatter_(1, place, sign * 2.0**exponent)
    return weight if k_dim == 1 else weight.T.contiguous()


def inputs_of(example: Example) -> dict[str, torch.Tensor]:
    dims = {"M": 5} if example.is_flat else {"B": 1, "T": 5}
    inputs = example.inputs(dims, seed=0)
    generator = torch.Generator().manual_seed(0)
    for name, tensor in inputs.items():
        if name in ("x", "x0", "y"):
            drawn = torch.randint(-8, 9, tensor.shape, generator=generator)
            inputs[name] = drawn.to(tensor.dtype)
        elif name.startswith("w") and tensor.dim() == 2:
            k_dim = 0 if example.name == "gpt2_block" else 1
            inputs[name] = sparse_weight(tensor.shape, k_dim, generator).to(tensor.dtype)
    return inputs


def share_of_different(
    actual: tuple[torch.Tensor, ...], expected: tuple[torch.Tensor, ...]
) -> float:
    assert [(a.dtype, a.shape) for a in actual] == [(e.dtype, e.shape) for e in expected]
    pairs = zip(actual, expected, strict=True)
    return max((got != wanted).double().mean().item() for got, wanted in pairs)


def eager_results(name: str, inputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Eager PyTorch, where the program runs."""
    tensors = {key: tensor.to(default_device()) for key, tensor in inputs.items()}
    return tuple(result.cpu() for result in EAGER_MODELS[name](tensors, SIZES[name]))


@pytest.mark.slow
@types
@pytest.mark.parametrize("name", SIZES)
def test_example_has_the_bits_of_eager(name: str, dtype: torch.dtype):
    example = program(name, dtype, "eager-exact")
    inputs = inputs_of(example)
    eager = eager_results(name, inputs)
    actual = example.run_triton(inputs)
    if eager[0].dtype == dtype:
        assert share_of_different(actual, eager) <= MAX_DIFFERENT[dtype]
    for got, wanted in zip(actual, eager, strict=True):
        size = wanted.double().abs().max()
        error = (got.double() - wanted.double()).abs().max() / size
        assert error <= 8 * torch.finfo(wanted.dtype).eps


@pytest.mark.slow
@types
@pytest.mark.parametrize("name", SIZES)
def test_levels_have_the_same_bits(name: str, dtype: torch.dtype):
    """The GEMM level as it states, against the block level as it states."""
    example = program(name, dtype, "eager-exact")
    inputs = inputs_of(example)
    block = example.run_reference(inputs, "block", "stated")
    for level in ("gemm", "scheduled"):
        different = share_of_different(example.run_reference(inputs, level, "stated"), block)
        assert different <= (MAX_DIFFERENT[dtype] if block[0].dtype == dtype else 1)


def test_the_default_mode_rounds_elsewhere():
    """The bound above would notice a rounding point that is missing."""
    example = program("llama_layer", torch.bfloat16, "fp32-epilogue")
    inputs = inputs_of(example)
    eager = eager_results("llama_layer", inputs)
    assert share_of_different(example.run_triton(inputs), eager) > 0.1


# Every operator of this program is rounded correctly by PyTorch and by NumPy.
EXACT_PROGRAM = """
fn block(x: T[M, 40], r: T[M, 24], weight w: T[24, 40], weight b: T[24], weight g: T[24],
         cos: T[M, 4], sin: T[M, 4], wide_cos: f32[M, 4], wide_sin: f32[M, 4])
    -> (T[M, 24], T[M, 24], T[M, 24], T[M, 24], T[M, 1], T[M, 24]) {
    y = r + linear(x, w, b)
    scaled = relu2(y) * 0.3 * (1 + g)
    q = rope(linear(x, w), cos, sin, head_dim=8)
    k = rope(linear(x, w), wide_cos, wide_sin, head_dim=8)
    inverse = 0.7 / (abs(y) + 2.0)
    bounded = minimum(maximum(y - linear(x, w) * g, -7.0), 7.0)
    return scaled, q, k, inverse, max(y), bounded
}
"""


def exact_inputs(dtype: torch.dtype) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    wide = {"wide_cos": normal(7, 4), "wide_sin": normal(7, 4)}
    narrow = {
        "x": normal(7, 40),
        "r": normal(7, 24),
        "w": sparse_weight(torch.Size((24, 40)), 1, generator),
        "b": normal(24),
        "g": normal(24),
        "cos": normal(7, 4),
        "sin": normal(7, 4),
    }
    return {name: value.to(dtype) for name, value in narrow.items()} | wide


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    heads = x.reshape(len(x), 3, 8)
    first, second = heads.chunk(2, -1)
    cos, sin = (torch.cat([table, table], -1)[:, None] for table in (cos, sin))
    return (heads * cos + torch.cat([-second, first], -1) * sin).to(x.dtype).reshape(x.shape)


def exact_model(t: dict[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
    z = F.linear(t["x"], t["w"])
    y = t["r"] + F.linear(t["x"], t["w"], t["b"])
    bounded = (y - z * t["g"]).clamp(-7.0, 7.0)
    return (
        F.relu(y).square() * 0.3 * (1 + t["g"]),
        rotated(z, t["cos"], t["sin"]),
        rotated(z, t["wide_cos"], t["wide_sin"]),
        0.7 / (y.abs() + 2.0),
        y.amax(-1, keepdim=True),
        bounded,
    )


@types
@pytest.mark.parametrize("target", ["triton", "reference"])
def test_every_bit_where_operators_round_correctly(dtype: torch.dtype, target: Target):
    text = EXACT_PROGRAM.replace("T[", f"{DTYPES[dtype]}[")
    block = coda_ir.compile(text, target=target, numerics="eager-exact")
    inputs = {name: value.to(block.device) for name, value in exact_inputs(dtype).items()}
    for got, wanted in zip(block(**inputs), exact_model(inputs), strict=True):
        assert torch.equal(got, wanted)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", NAMES, ids=NAMES.get)
@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_has_the_bits_of_eager(name: str, dtype: torch.dtype):
    torch.default_generator.manual_seed(0)
    assert share_of_different_bits(OPERATORS[name], dtype) <= MAX_DIFFERENT[dtype]


DISCONTINUOUS: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "p * cast((p - 1) + 1 < p, T)": lambda p: p * ((p - 1) + 1 < p).to(p.dtype),
    "where(p >= max(p), p * p, -p)": lambda p: torch.where(p >= p.amax(-1, True), p * p, -p),
    "p * (p * 8 - floor(p * 8))": lambda p: p * (p * 8 - (p * 8).floor()),
    "p * cast(cast(p * 8, i32), T)": lambda p: p * (p * 8).to(torch.int32).to(p.dtype),
}
"""Discontinuous functions of a computed value of element type T, and the same in PyTorch."""


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=DTYPES.get)
@pytest.mark.parametrize("code", DISCONTINUOUS)
def test_discontinuous_functions_are_those_of_eager_in_the_default_mode(
    code: str, dtype: torch.dtype
):
    """In the kernels of the forward, and in those of the backward, which compute them again."""
    element = DTYPES[dtype]
    text = f"""fn f(x: {element}[M, 40], w: {element}[24, 40], g: {element}[24]) {{
        p = sigmoid(linear(x, w) * g)
        return {code.replace("T", element)}
    }}"""
    block = coda_ir.compile(text, training=True)
    drawn = {name: exact_inputs(dtype)[name].to(block.device) for name in ("x", "w", "g")}

    def results(model: Callable[..., Any]) -> list[Any]:
        given = {name: value.clone().requires_grad_() for name, value in drawn.items()}
        y = model(**given)
        y.backward(torch.ones_like(y))
        return [y.detach(), *(value.grad for value in given.values())]

    def eager(x: torch.Tensor, w: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        return DISCONTINUOUS[code](torch.sigmoid(F.linear(x, w) * g))

    for got, wanted in zip(results(block), results(eager), strict=True):
        assert relative_error(got, wanted) < 4 * torch.finfo(dtype).eps
