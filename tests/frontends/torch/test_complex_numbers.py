"""Complex numbers of a model: pairs of real numbers, of which rotary embedding is found."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
import torch
import torch.nn.functional as F
from support.torch_compile import compiled
from torch import Tensor, nn

import coda_ir
from coda_ir.float64 import relative_error
from coda_ir.frontends.torch import export

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

HEADS, WIDTH, LENGTH = 2, 8, 5
Table: TypeAlias = Callable[["Attention", Tensor], Tensor]


def angles(model: Attention, places: Tensor) -> Tensor:
    return torch.outer(places.float(), model.frequencies)


def polar(model: Attention, places: Tensor) -> Tensor:
    found = angles(model, places)
    return torch.polar(torch.ones_like(found), found)


def long(model: Attention, places: Tensor) -> Tensor:
    """Numbers that are not on the unit circle."""
    return torch.polar(torch.full_like(angles(model, places), 0.5), angles(model, places))


def padded(model: Attention, places: Tensor) -> Tensor:
    """Numbers that are padded and replaced, as in batches of several lengths."""
    table = torch.constant_pad_nd(polar(model, places[1:]), (0, 0, 1, 0), 0.5)
    return torch.where(places[:, None] < 3, table, torch.full(table.shape, 0.25 - 2j))


TABLES: dict[str, Table] = {
    "buffer": lambda model, places: model.table[: len(places)],
    "polar": polar,
    "long": long,
    "exp": lambda model, places: torch.exp(1j * angles(model, places)),
    "complex": lambda model, places: torch.complex(
        angles(model, places).cos(), angles(model, places).sin()
    ),
    "conjugate": lambda model, places: polar(model, places).conj(),
    "padded": padded,
}


class Attention(nn.Module):
    """Attention of the first Llama, whose queries and keys are complex numbers."""

    table: Tensor

    def __init__(self, make_table: Table):
        super().__init__()
        columns = HEADS * WIDTH
        self.q, self.k, self.v = (nn.Linear(columns, columns, bias=False) for _ in range(3))
        self.make_table = make_table
        self.frequencies = nn.Buffer(10000.0 ** (-torch.arange(0, WIDTH, 2) / WIDTH))
        self.register_buffer("table", polar(self, torch.arange(LENGTH + 2)))

    def forward(self, x: Tensor, places: Tensor) -> Tensor:
        table = self.make_table(self, places).view(1, -1, 1, WIDTH // 2)
        heads = [f(x).unflatten(-1, (HEADS, WIDTH)) for f in (self.q, self.k, self.v)]
        q, k = (rotated(x, table).transpose(1, 2) for x in heads[:2])
        y = F.scaled_dot_product_attention(q, k, heads[2].transpose(1, 2), is_causal=True)
        return y.transpose(1, 2).flatten(2)


def rotated(x: Tensor, table: Tensor) -> Tensor:
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * table).flatten(3).type_as(x)


def gradients(function: Any, model: nn.Module, x: Tensor, places: Tensor) -> list[Tensor]:
    x = x.clone().requires_grad_()
    y = function(x, places)
    dy = torch.linspace(-1, 2, y.numel()).view(y.shape)
    return [y.detach(), *torch.autograd.grad(y, [x, *model.parameters()], dy)]


class Several(nn.Module):
    """Attention with each table."""

    def __init__(self):
        super().__init__()
        self.models = nn.ModuleList(map(Attention, TABLES.values()))

    def forward(self, x: Tensor, places: Tensor) -> Tensor:
        return torch.stack([model(x, places) for model in self.models])


@pytest.mark.slow
def test_rotations_are_found():
    model, x, places = Several(), torch.randn(2, LENGTH, 16), torch.arange(LENGTH)
    exported = export(model, (x, places))
    found = Counter(op.name for op in exported.module.walk())
    count = len(TABLES)
    assert found["coda.rope"] == 2 * count and found["coda.attention"] == count
    assert not found["torch.call"]
    trained = coda_ir.compile(exported.module, training=True, target="reference", device="cpu")

    def function(*args: Tensor) -> Any:
        return trained(*exported.arguments(*args))

    got = gradients(function, model, x, places)
    for ours, eager in zip(got, gradients(model, model, x, places), strict=True):
        assert relative_error(ours, eager) < 2e-6


@pytest.mark.slow
@pytest.mark.parametrize("target", ["reference", "triton"])
@pytest.mark.parametrize("name", ["buffer", "polar"])
def test_training(name: str, target: str, caplog: pytest.LogCaptureFixture):
    """The backward is derived: no graph is left to autograd."""
    model, places = Attention(TABLES[name]), torch.arange(LENGTH)
    x = torch.randn(2, LENGTH, 16)
    with caplog.at_level(logging.INFO, "coda_ir"):
        got = gradients(compiled(model, target=target), model, x, places)
    assert not [text for text in caplog.messages if "left to" in text or " runs in " in text]
    for ours, eager in zip(got, gradients(model, model, x, places), strict=True):
        assert relative_error(ours, eager) < 2e-6


@pytest.mark.slow
def test_a_complex_argument():
    def table(model: Attention, places: Tensor) -> Tensor:
        return places

    model, x = Attention(table), torch.randn(2, LENGTH, 16).bfloat16()
    for linear in (model.q, model.k, model.v):
        linear.to(torch.bfloat16)
    places = polar(Attention(polar), torch.arange(LENGTH))
    exported = export(model, (x, places))
    with torch.no_grad():
        wanted = model(x, places)
        for numbers in (places, places.conj().resolve_conj().conj()):
            found = exported.compile(target="reference", device="cpu")(x, numbers)
            assert relative_error(found, wanted) < 0.02
        fast = compiled(model, dynamic=True)
        assert relative_error(fast(x, places), wanted) < 0.02


@pytest.mark.slow
@pytest.mark.usefixtures("no_gradients")
@pytest.mark.parametrize("is_repeated", [False, True])
def test_16_bits_rotated_in_float64(*, is_repeated: bool):
    """As in Lumina 2: the product with complex numbers of 128 bits is a `coda.rope`."""
    rows = [2, LENGTH, HEADS, 1, WIDTH] if is_repeated else [2, LENGTH, HEADS, WIDTH]

    class Query(Attention):
        def forward(self, x: Tensor, places: Tensor) -> Tensor:
            table = self.table[:LENGTH].to(torch.complex128).view(1, -1, 1, WIDTH // 2)
            return rotated(self.q(x).unflatten(-1, (HEADS, WIDTH)), table).view(rows) * 2

    model, x, places = Query(polar), torch.randn(2, LENGTH, 16).bfloat16(), torch.arange(LENGTH)
    model.q.bfloat16()
    exported = export(model, (x, places))
    assert [op.name for op in exported.module.walk()].count("coda.rope") == 1
    ours, eager = exported.compile(target="triton", device="cpu")(x, places), model(x, places)
    model.q.double()
    exact = model(x.double(), places)
    assert relative_error(ours, exact) <= 1.25 * relative_error(eager, exact)


@pytest.mark.usefixtures("no_gradients")
def test_eager_exact_rotates_in_float64():
    linear = nn.Linear(16, 16).bfloat16()

    def function(x: Tensor, table: Tensor) -> tuple[Tensor, Tensor]:
        wide = table.to(torch.complex128).view(1, -1, 1, 4)
        return rotated(x.view(2, 3, 2, 8), wide), linear(x)

    # float32 loses the difference of the products.
    x = torch.full((2, 3, 16), 1 + 2**-7).bfloat16()
    table = torch.complex(torch.full((3, 4), 1 + 2**-23), torch.ones(3, 4))
    found = compiled(function, numerics="eager-exact")(x, table)[0]
    assert torch.equal(found, function(x, table)[0])


class Arithmetic(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        z = torch.view_as_complex(x) * 2j + y - 0.5
        w = torch.stack([z, -z.conj() / 3, z.mul(1 + 2j)], 1).transpose(0, 1)
        w = F.pad(w + torch.full_like(w, 0.25 - 2j), (0, 1), value=0.5)
        parts = [part.exp() for part in w.to(torch.complex128).unbind(0)]
        return torch.view_as_real(w), parts[0].real, parts[1].imag, z.sum(-1).imag, (z + z[:1]).real


@pytest.mark.slow
@pytest.mark.parametrize("is_double", [False, True])
def test_arithmetic(is_double: bool):
    model, x, y = Arithmetic(), torch.randn(3, 4, 2), torch.randn(4)
    if is_double:
        x, y = x.double(), y.double()
    found = export(model, (x, y)).compile(target="reference", device="cpu")(x, y)
    for ours, eager in zip(found, model(x, y), strict=True):
        assert ours.dtype == eager.dtype
        torch.testing.assert_close(ours, eager)


@pytest.mark.slow
def test_products_with_zero():
    """Neither part of a product with 0j is a tensor, nor one of the conjugate of a number."""
    linear, x = nn.Linear(8, 8), torch.randn(3, 8)

    def function(x: Tensor) -> Tensor:
        z = torch.complex(linear(x), x)
        unit = torch.exp(1j * z.angle())  # the gradient of angle has no rule
        return (z * 0j + unit).real + (z * 0j).imag

    for ours, eager in zip(
        *(both(f, linear, x) for f in (compiled(function), function)), strict=True
    ):
        assert relative_error(ours, eager) < 2e-6


def both(function: Any, linear: nn.Module, x: Tensor) -> list[Tensor]:
    """The result of a function and its gradients."""
    with torch.enable_grad():
        x = x.clone().requires_grad_()
        y = function(x)
        return [y.detach(), *torch.autograd.grad(y.sum(), [x, *linear.parameters()])]
