"""GroupNorm as sums of columns, through emitted Triton, compared with float64 and eager PyTorch."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from support.kernel_steps import kernel_steps
from torch import Tensor, nn

import coda_ir
from coda_ir.context import make_context
from coda_ir.frontends.coda_text import parse_text
from coda_ir.passes.pipelines.differentiate import DifferentiatePass


class Case(NamedTuple):
    """B samples of T positions with C channels in groups; T is in the program, or a symbol."""

    samples: int
    positions: int
    channels: int
    groups: int
    is_static: bool = True


CASES = {
    "groups of 4": Case(3, 24, 32, 8),
    "groups of 10, rows that no tile divides": Case(2, 37, 40, 4),
    "rows of many tiles": Case(2, 300, 16, 4),
    "one group": Case(3, 24, 32, 1),
    "groups of one": Case(3, 24, 32, 32),
    "one position": Case(5, 1, 32, 4),
    "any number of positions": Case(3, 19, 32, 8, is_static=False),
}
MEANS = (0, 5)
"""Means of the input, in units of its standard deviation."""

SEEDS = range(3)
NAMES = ("y", "x", "w_in", "norm", "norm_b", "w_out")


def program(case: Case, element: str) -> str:
    c = case.channels
    t = case.positions if case.is_static else "T"
    return f"""fn f(x: {element}[B, {t}, {c}], weight w_in: {element}[{c}, {c}],
        weight norm: {element}[{c}], weight norm_b: {element}[{c}],
        weight w_out: {element}[{c}, {c}]) {{
        z = x + linear(x, w_in)
        h = group_norm(z, norm, norm_b, groups={case.groups}, dim=-1)
        return z + linear(silu(h), w_out)
    }}"""


def eager(case: Case) -> Callable[..., Tensor]:
    def f(x: Tensor, w_in: Tensor, norm: Tensor, norm_b: Tensor, w_out: Tensor) -> Tensor:
        z = x + F.linear(x, w_in)
        h = F.group_norm(z.mT, case.groups, norm, norm_b).mT
        return z + F.linear(F.silu(h), w_out)

    return f


def drawn(case: Case, mean: int, seed: int) -> list[Tensor]:
    """The arguments, and the gradient of the result."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    c = case.channels
    x = normal(case.samples, case.positions, c) + mean
    norms = (1 + normal(c) / 4, normal(c) / 4)
    return [x, normal(c, c) / c**0.5, *norms, normal(c, c) / c**0.5, normal(*x.shape)]


def results(
    function: Callable[..., Tensor], values: Sequence[Tensor], dtype: torch.dtype
) -> list[Tensor]:
    """The result and the gradients of the arguments."""
    *leaves, dy = (value.to(dtype).requires_grad_() for value in values)
    y = function(*leaves)
    return [y.detach(), *torch.autograd.grad(y, leaves, dy)]


def squares(found: Tensor, exact: Tensor) -> float:
    return float((found.double() - exact).square().sum() / exact.square().sum())


@pytest.mark.slow
@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("name", CASES)
def test_as_close_to_float64_as_eager(name: str, mean: int):
    case = CASES[name]
    compiled = coda_ir.compile(program(case, "bf16"), device="cpu", training=True)
    own, theirs = ([0.0] * len(NAMES) for _ in range(2))
    for seed in SEEDS:
        values = [value.bfloat16() for value in drawn(case, mean, seed)]
        exact = results(eager(case), values, torch.float64)
        for errors, function in ((own, compiled), (theirs, eager(case))):
            found = results(function, values, torch.bfloat16)
            for index, pair in enumerate(zip(found, exact, strict=True)):
                errors[index] += squares(*pair)
    worse = {
        what: (mine, other)
        for what, mine, other in zip(NAMES, own, theirs, strict=True)
        if mine > 1.25**2 * other
    }
    assert not worse


def test_what_the_kernels_are():
    compiled = coda_ir.compile(program(CASES["groups of 4"], "bf16"), device="cpu")
    assert [name.split("_")[0] for name in compiled.kernels] == [
        *("gemm", "finalize", "map", "map"),
        "gemm",
    ]


def test_the_backward_is_kernels_too():
    module = parse_text(program(CASES["groups of 4"], "bf16"), "norm.coda")
    DifferentiatePass().apply(make_context(), module)
    steps = kernel_steps(module)
    assert steps["f_forward"].split() == ["fused", "finalize", "map", "map", "fused"]
    assert set(steps["f_backward"].split()) == {"fused", "finalize", "map"}


class Model(nn.Module):
    """A norm of what a linear map gives, as models write it."""

    def __init__(self, norm: nn.Module, shape: tuple[int, ...] = (), channels: int = 32):
        super().__init__()
        self.first, self.second = nn.Linear(channels, channels), nn.Linear(channels, channels)
        self.norm, self.shape = norm, shape

    def forward(self, x: Tensor) -> Tensor:
        z = self.first(x).transpose(1, 2)
        h = F.silu(self.norm(z.unflatten(2, self.shape) if self.shape else z))
        return x + self.second(h.flatten(2).transpose(1, 2))


class RowModel(nn.Module):
    """A norm of the rows of all samples, without positions (RWKV)."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Linear(32, 32), nn.GroupNorm(4, 32)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.norm(self.first(x).flatten(0, 1)).view(x.shape)


MODELS: dict[str, Callable[[], nn.Module]] = {
    "B x C x T": lambda: Model(nn.GroupNorm(8, 32, eps=1e-3)),
    "B x C x H x W": lambda: Model(nn.GroupNorm(8, 32), (3, 4)),
    "without parameters": lambda: Model(nn.GroupNorm(4, 32, affine=False)),
    "rows": RowModel,
}


@pytest.mark.slow
@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])
@pytest.mark.parametrize("name", MODELS)
def test_models(name: str, dtype: torch.dtype):
    torch.default_generator.manual_seed(0)
    model = MODELS[name]().to(dtype)
    x = torch.randn(2, 12, 32).to(dtype)
    compiled = coda_ir.export(model, (x,)).compile(device="cpu")
    split = [r for r in compiled.remarks if r.pass_name == "split-group-norm"]
    assert [r.kind for r in split] == ["passed"]
    found, theirs = compiled(x), model(x)
    exact = model.double()(x.double())
    assert squares(found, exact) <= 1.25**2 * squares(theirs, exact)
