"""Operators that models write in many ways become one named operator, with equal numbers."""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from zoo.accuracy import is_as_exact, relative_errors

import coda_ir
from coda_ir.api import find_entry
from coda_ir.backends.reference import run_function
from coda_ir.dialects.torch import CallOp
from coda_ir.frontends.torch import ExportedModel, export

T, HEADS, D = 5, 4, 64
HEAD = D // HEADS
EPS = 1e-5
DYNAMIC: Any = torch.export.Dim.DYNAMIC

Decomposition = Callable[[Tensor, Tensor], Tensor]
"""A function of an input (batch x T x D) and a vector of D weights."""


def mean_square(x: Tensor) -> Tensor:
    return x.pow(2).mean(-1, keepdim=True)


def t5(x: Tensor, w: Tensor) -> Tensor:
    variance = mean_square(x.to(torch.float32))
    return w * (x * torch.rsqrt(variance + EPS)).to(w.dtype)


def float32_sum(x: Tensor) -> Tensor:
    return x.float().pow(2).sum(-1, keepdim=True)


RMS_NORMS: Mapping[str, Decomposition] = {
    "operator": lambda x, w: F.rms_norm(x, (D,), w, EPS),
    "weight_last": lambda x, w: (
        w * (x.float() * torch.rsqrt(mean_square(x.float()) + EPS)).to(x.dtype)
    ),
    "weight_right": lambda x, w: (
        (x.float() * torch.rsqrt(mean_square(x.float()) + EPS)).type_as(x) * w
    ),
    "weight_float32": lambda x, w: (
        w.float() * (x.float() * torch.rsqrt(mean_square(x.float()) + EPS))
    ).to(x.dtype),
    "weight_promoted": lambda x, w: (
        w * (x.float() * torch.rsqrt(mean_square(x.float()) + EPS))
    ).to(x.dtype),
    "weight_offset": lambda x, w: (
        x.float() * torch.rsqrt(mean_square(x.float()) + EPS) * (1.0 + w.float())
    ).type_as(x),
    "weight_first": lambda x, w: (
        (x.float() * w.float()) * torch.rsqrt(mean_square(x.float()) + EPS)
    ).to(x.dtype),
    "no_weight": lambda x, w: (x.float() * torch.rsqrt(mean_square(x.float()) + EPS)).to(x.dtype),
    "promoted_input": t5,
    "power": lambda x, w: (
        w * (x.float() * torch.pow(mean_square(x.float()) + EPS, -0.5)).to(x.dtype)
    ),
    "root": lambda x, w: w * (x.float() / torch.sqrt(mean_square(x.float()) + EPS)).to(x.dtype),
    "root_by_power": lambda x, w: (
        w * (x.float() / (mean_square(x.float()) + EPS) ** 0.5).to(x.dtype)
    ),
    "one_over_root": lambda x, w: (
        w * (x.float() * (1 / torch.sqrt(mean_square(x.float()) + EPS))).to(x.dtype)
    ),
    "reciprocal": lambda x, w: (
        w * (x.float() * torch.sqrt(mean_square(x.float()) + EPS).reciprocal()).to(x.dtype)
    ),
    "product": lambda x, w: (
        w
        * (x.float() * torch.rsqrt((x.float() * x.float()).mean(-1, keepdim=True) + EPS)).to(
            x.dtype
        )
    ),
    "square": lambda x, w: (
        w * (x.float() * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + EPS)).to(x.dtype)
    ),
    "keepdim_later": lambda x, w: (
        w * (x.float() * torch.rsqrt(x.float().pow(2).mean(-1).unsqueeze(-1) + EPS)).to(x.dtype)
    ),
    "sum_over_n": lambda x, w: w * (x.float() * torch.rsqrt(float32_sum(x) / D + EPS)).to(x.dtype),
    "sum_times_reciprocal": lambda x, w: (
        w * (x.float() * torch.rsqrt(float32_sum(x) * (1 / D) + EPS)).to(x.dtype)
    ),
    "eps_first": lambda x, w: (
        w * (x.float() * torch.rsqrt(EPS + mean_square(x.float()))).to(x.dtype)
    ),
    "root_n_over_norm": lambda x, w: (
        w * (x.float() * math.sqrt(D) / torch.sqrt(float32_sum(x) + D * EPS)).to(x.dtype)
    ),
}

ACTIVATIONS: Mapping[str, Decomposition] = {
    "gelu": lambda x, w: F.gelu(x + w),
    "gelu_erf": lambda x, w: (x + w) * 0.5 * (1.0 + torch.erf((x + w) / math.sqrt(2.0))),
    "gelu_erf_times": lambda x, w: 0.5 * ((x + w) * (1 + torch.erf((x + w) * math.sqrt(0.5)))),
    "gelu_tanh": lambda x, w: F.gelu(x + w, approximate="tanh"),
    "gelu_pow": lambda x, w: (
        0.5
        * (x + w)
        * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + w + 0.044715 * torch.pow(x + w, 3.0))))
    ),
    "gelu_factored": lambda x, w: (
        (x + w)
        * 0.5
        * (1.0 + torch.tanh(0.79788456 * (x + w) * (1 + 0.044715 * (x + w) * (x + w))))
    ),
}

GATES: Mapping[str, Decomposition] = {
    "silu": lambda x, w: F.silu(x) * w,
    "sigmoid": lambda x, w: x * torch.sigmoid(x) * w,
    "sigmoid_left": lambda x, w: w * (x.sigmoid() * x),
    "exp": lambda x, w: x / (1 + torch.exp(-x)) * w,
}


def angles(x: Tensor) -> Tensor:
    position = torch.arange(x.shape[1], dtype=torch.float32)
    return position[:, None] / 100 ** (torch.arange(0, HEAD, 2) / HEAD)


def heads(x: Tensor) -> Tensor:
    return x.view(*x.shape[:2], -1, HEAD).transpose(1, 2)


def rotate_half(x: Tensor) -> Tensor:
    first, second = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-second, first), -1)


def rotate_neighbours(x: Tensor) -> Tensor:
    return torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)


def half_split(x: Tensor, w: Tensor) -> Tensor:
    table = torch.cat((angles(x), angles(x)), -1)
    cos, sin = table.cos().to(x.dtype), table.sin().to(x.dtype)
    h = heads(x * w)
    return h * cos + rotate_half(h) * sin


def half_split_float32(x: Tensor, w: Tensor) -> Tensor:
    table = torch.cat((angles(x), angles(x)), -1)
    h = heads(x * w)
    return (h * table.cos() + rotate_half(h) * table.sin()).to(x.dtype)


def half_split_apart(x: Tensor, w: Tensor) -> Tensor:
    cos, sin = angles(x).cos().to(x.dtype), angles(x).sin().to(x.dtype)
    first, second = heads(x * w).chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


def interleaved(x: Tensor, w: Tensor) -> Tensor:
    table = angles(x).repeat_interleave(2, -1)
    cos, sin = table.cos().to(x.dtype), table.sin().to(x.dtype)
    h = heads(x * w)
    return h * cos + rotate_neighbours(h) * sin


def interleaved_apart(x: Tensor, w: Tensor) -> Tensor:
    cos, sin = angles(x).cos().to(x.dtype), angles(x).sin().to(x.dtype)
    pairs = heads(x * w).reshape(*x.shape[:1], HEADS, -1, HEAD // 2, 2)
    first, second = pairs[..., 0], pairs[..., 1]
    return torch.stack((first * cos - second * sin, second * cos + first * sin), -1).flatten(-2)


def column_tables(x: Tensor) -> tuple[Tensor, Tensor]:
    """Tables of which nothing says that both columns of a pair have the same angle."""
    position = torch.arange(x.shape[1], dtype=torch.float32)
    table = position[:, None] / 100 ** (torch.arange(HEAD) / HEAD)
    return table.cos().to(x.dtype), table.sin().to(x.dtype)


def tables_of_columns(x: Tensor, w: Tensor) -> Tensor:
    cos, sin = column_tables(x)
    h = heads(x * w)
    return h * cos + rotate_half(h) * sin


def tables_of_neighbours(x: Tensor, w: Tensor) -> Tensor:
    cos, sin = column_tables(x)
    h = heads(x * w)
    return h * cos + rotate_neighbours(h) * sin


def rows_of_neighbours(x: Tensor, w: Tensor) -> Tensor:
    """Before the split into heads, each of which has its own angles."""
    positions, frequencies = torch.arange(x.shape[1], dtype=torch.float32), torch.arange(D // 2)
    table = torch.outer(positions, 0.9**frequencies).repeat_interleave(2, -1)
    x = x * w
    real, imaginary = x.reshape(*x.shape[:-1], D // 2, 2).unbind(-1)
    rotated = torch.stack((-imaginary, real), -1).flatten(-2)
    return heads((x.float() * table.cos() + rotated.float() * table.sin()).to(x.dtype))


def partial(x: Tensor, w: Tensor) -> Tensor:
    return rotated_in_part(x * w, torch.cat((angles(x)[:, ::2], angles(x)[:, ::2]), -1))


def partial_of_products(x: Tensor, w: Tensor) -> Tensor:
    """Angles as products of frequencies and positions, transposed, as transformers has them."""
    positions = torch.arange(x.shape[1], dtype=torch.float32)[None]
    frequencies = (100 ** (torch.arange(0, HEAD, 4) / -HEAD))[:, None]
    found = (frequencies @ positions).transpose(0, 1)
    return rotated_in_part(x * w, torch.cat((found, found), -1))


def rotated_in_part(x: Tensor, table: Tensor) -> Tensor:
    cos, sin = table.cos().to(x.dtype), table.sin().to(x.dtype)
    h = heads(x)
    rotated, kept = h[..., : HEAD // 2], h[..., HEAD // 2 :]
    return torch.cat((rotated * cos + rotate_half(rotated) * sin, kept), -1)


ROTATIONS: Mapping[str, Decomposition] = {
    function.__name__: function
    for function in (
        half_split,
        half_split_float32,
        half_split_apart,
        interleaved,
        interleaved_apart,
        tables_of_columns,
        tables_of_neighbours,
        rows_of_neighbours,
        partial,
        partial_of_products,
    )
}


def causal(x: Tensor) -> Tensor:
    position = torch.arange(x.shape[1])
    return position[None, :] <= position[:, None]


def repeated(x: Tensor) -> Tensor:
    """The first half of the heads, each twice."""
    half = heads(x)[:, : HEADS // 2]
    expanded = half[:, :, None].expand(-1, -1, 2, -1, -1)
    return expanded.reshape(x.shape[0], HEADS, x.shape[1], HEAD)


def scores(x: Tensor, w: Tensor) -> Tensor:
    return heads(x * w) @ heads(x).transpose(-1, -2)


def weighted(scores: Tensor, x: Tensor) -> Tensor:
    return F.softmax(scores, -1, dtype=torch.float32).to(x.dtype) @ heads(x)


ATTENTIONS: Mapping[str, Decomposition] = {
    "operator": lambda x, w: F.scaled_dot_product_attention(heads(x * w), heads(x), heads(x)),
    "operator_causal": lambda x, w: F.scaled_dot_product_attention(
        heads(x * w), heads(x), heads(x), is_causal=True
    ),
    "operator_mask": lambda x, w: F.scaled_dot_product_attention(
        heads(x * w), heads(x), heads(x), attn_mask=causal(x)
    ),
    "repeated": lambda x, w: F.scaled_dot_product_attention(
        heads(x * w), repeated(x), repeated(x), is_causal=True
    ),
    "plain": lambda x, w: weighted(scores(x, w) * HEAD**-0.5, x),
    "masked": lambda x, w: weighted(
        scores(x, w) / math.sqrt(HEAD)
        + torch.where(causal(x), torch.tensor(0.0, dtype=x.dtype), torch.finfo(x.dtype).min),
        x,
    ),
    "chosen": lambda x, w: weighted(
        torch.where(causal(x), scores(x, w) * 0.25, torch.finfo(x.dtype).min), x
    ),
    "capped": lambda x, w: weighted(torch.tanh(scores(x, w) * 0.25 / 5.0) * 5.0, x),
}


class Decompositions(nn.Module):
    """Each decomposition of its own rows of the input, with its own weight."""

    def __init__(self, decompositions: Mapping[str, Decomposition]):
        super().__init__()
        self.decompositions = list(decompositions.values())
        self.weights = nn.ParameterList(torch.rand(D) + 0.5 for _ in self.decompositions)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        pairs = enumerate(zip(self.decompositions, self.weights, strict=True))
        return tuple(decomposition(x[index], weight) for index, (decomposition, weight) in pairs)


@dataclass(frozen=True)
class Group:
    """Decompositions of one operator, and what must not remain of them."""

    decompositions: Mapping[str, Decomposition]
    operators: Mapping[str, int]
    gone: tuple[str, ...]
    has_heads: bool = False
    """True if reshapes are part of the decompositions: those of bf16 then have a dynamic length."""


GROUPS = {
    "rms_norm": Group(
        RMS_NORMS,
        {"coda.rms_norm": len(RMS_NORMS)},
        ("coda.rsqrt", "coda.sqrt", "coda.reduce", "coda.div"),
    ),
    "gelu": Group(
        ACTIVATIONS, {"coda.gelu": 3, "coda.gelu_tanh": 3}, ("coda.tanh", "aten.erf.default")
    ),
    "silu": Group(GATES, {"coda.silu": len(GATES)}, ("coda.sigmoid", "coda.exp", "coda.div")),
    "rope": Group(ROTATIONS, {"coda.rope": len(ROTATIONS)}, ("coda.neg", "coda.concat"), True),
    "attention": Group(
        ATTENTIONS,
        {"coda.attention": len(ATTENTIONS)},
        ("coda.softmax", "aten.matmul.default", "aten.scaled_dot_product_attention.default"),
        True,
    ),
}


def operators(model: ExportedModel) -> Counter[str]:
    return Counter(
        op.callee.data if isinstance(op, CallOp) else op.name for op in model.module.walk()
    )


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize("name", GROUPS)
def test_decompositions(name: str, dtype: torch.dtype):
    group = GROUPS[name]
    torch.default_generator.manual_seed(0)
    model = Decompositions(group.decompositions).requires_grad_(False).to(dtype)
    is_dynamic = group.has_heads and dtype == torch.bfloat16
    # A batch of one is the case in which reshapes of static shapes are merged the most.
    x = torch.randn(len(group.decompositions), 2 if is_dynamic else 1, T, D, dtype=dtype)
    exported = export(model, (x,), dynamic_shapes=({2: DYNAMIC},) if is_dynamic else None)
    found = operators(exported)
    left: dict[str, Any] = {operator: found[operator] for operator in group.gone}
    assert not any(left.values()), (left, exported.remarks)
    assert {operator: found[operator] for operator in group.operators} == group.operators
    eager: tuple[Tensor, ...] = model(x)
    wanted: tuple[Tensor, ...] = model.double()(x.double())
    got = exported.result(run_function(find_entry(exported.module), exported.arguments(x)))
    errors, allowed = relative_errors(got, wanted), relative_errors(eager, wanted)
    for decomposition, error, bound, result in zip(
        group.decompositions, errors, allowed, eager, strict=True
    ):
        assert is_as_exact([error], [bound], [result]), (decomposition, error, bound)


class Residual(nn.Module):
    """The layers between the attentions of a Llama, with norms written out."""

    def __init__(self):
        super().__init__()
        self.up, self.down, self.out = (nn.Linear(D, D, bias=False) for _ in range(3))
        self.weights = nn.Parameter(torch.randn(2, D))

    def forward(self, x: Tensor) -> Tensor:
        norm = RMS_NORMS["weight_last"]
        x = x + self.down(F.silu(self.up(norm(x, self.weights[0]))))
        return self.out(norm(x, self.weights[1]))


class Residuals(nn.Module):
    """One of each of several inputs."""

    def __init__(self, count: int):
        super().__init__()
        self.parts = nn.ModuleList(Residual() for _ in range(count))

    def forward(self, *inputs: Tensor) -> list[Tensor]:
        return [part(x) for part, x in zip(self.parts, inputs, strict=True)]


@pytest.mark.slow
def test_a_batch_of_one_is_fused_like_others():
    shapes = [(2, T, D), (1, T, D), (T, 1, D), (1, 1, D)]
    inputs = tuple(torch.randn(shape).to(torch.bfloat16) for shape in shapes)
    exported = export(Residuals(len(shapes)).to(torch.bfloat16), inputs)
    module = coda_ir.compile(exported.module, target="reference").module("gemm")
    places = [(op.name, str(op.location)) for op in module.walk()]
    for part in range(len(shapes)):
        found = Counter(name for name, place in places if f"parts.{part}" in place)
        # The first norm reads an argument, which no GEMM computes; the last finishes the second.
        counts = found["coda.rms_norm"], found["gemm.fused"], found["gemm.finalize"]
        assert counts == (1, 3, 1), shapes[part]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_einsum_with_weights(dtype: torch.dtype):
    """A linear map by any decomposition, of weights that are cast as under autocast, too; attention
    of a single head has no weights.
    """

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            shapes = {"up": (D, HEADS, HEAD), "gate": (48, D), "down": (HEAD, HEADS, 48)}
            self.weights = nn.ParameterDict(
                {name: nn.Parameter(torch.randn(shape) / 8) for name, shape in shapes.items()}
            )

        def forward(self, x: Tensor) -> Tensor:
            up, gate, down = (self.weights[name].to(x.dtype) for name in ("up", "gate", "down"))
            heads = torch.einsum("btd,dhe->bthe", x, up)
            gate = torch.einsum("...d,fd->...f", x, gate)
            y = F.silu(gate) * torch.einsum("bthe,ehf->btf", heads, down)
            scores = torch.einsum("bqf,bkf->bqk", y[:1], y[:1])
            return torch.einsum("bqk,bkf->bqf", scores, y[:1])

    model, x = Model(), torch.randn(2, T, D).to(dtype)
    exported = export(model, (x,), dynamic_shapes={"x": {0: DYNAMIC, 1: DYNAMIC}})
    names = Counter(op.name for op in find_entry(exported.module).walk())
    assert (names["coda.linear"], names["coda.matmul"]) == (1, 2)
    compiled = exported.compile(target="reference", errors="raise")
    tolerance = 1e-4 if dtype == torch.float32 else 5e-2
    with torch.no_grad():
        result, expected = compiled(x).double(), model(x.double())
    assert (result - expected).norm() < tolerance * expected.norm()
