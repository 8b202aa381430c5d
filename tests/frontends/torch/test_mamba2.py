"""State space models of heads of transformers: Mamba 2 and hybrids."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.daily import daily
from support.torch_compile import compiled
from torch import Tensor, nn

import coda_ir
from coda_ir.backends.reference.scan import scanned_states
from coda_ir.dialects import coda
from coda_ir.float64 import relative_error
from coda_ir.frontends.torch.types import tensors_in

modeling: Any = pytest.importorskip("transformers.models.mamba2.modeling_mamba2")


class Model(nn.Module):
    """A projection and a model of heads, with or without a skip connection."""

    def __init__(
        self,
        heads: int,
        groups: int,
        chunk: int = 8,
        *,
        skip: bool = True,
        initial: bool = False,
        final: bool = False,
    ):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.sizes = [heads * 4, heads, groups * 3, groups * 3]
        self.project = nn.Linear(8, sum(self.sizes))
        self.rates = nn.Parameter(torch.rand(heads, generator=generator))
        self.skip = nn.Parameter(torch.rand(heads, generator=generator)) if skip else None
        self.heads, self.groups, self.chunk, self.final = heads, groups, chunk, final
        first = torch.rand(2, heads, 4, 3, generator=generator)
        self.initial = nn.Parameter(first) if initial else None

    def parts(self, x: Tensor) -> Sequence[Tensor]:
        return self.project(x).split(self.sizes, -1)

    def forward(self, x: Tensor) -> Any:
        u, dt, b, c = self.parts(x)
        rows = x.shape[:2]
        b, c = (part.view(*rows, self.groups, 3) for part in (b, c))
        u = u.view(*rows, self.heads, 4)
        y = modeling.mamba2_chunk_scan(
            *(u, dt, -torch.exp(self.rates.float()), b, c, self.chunk),
            D=self.skip,
            dt_softplus=True,
            initial_states=self.initial,
            return_final_states=self.final,
        )
        return (y[0].flatten(2), y[1]) if self.final else y.flatten(2)

    def exact(self, x: Tensor) -> Any:
        u, dt, b, c = (part.double() for part in self.parts(x))
        first = [] if self.initial is None else [self.initial.double()]
        operands = (u, F.softplus(dt), -torch.exp(self.rates.double()), b, c, *first)
        y, last = scanned_states(operands, 3)
        if self.skip is not None:
            y = y + self.skip.double().repeat_interleave(4) * u
        return (y, last) if self.final else y


def sample(batch: int, length: int) -> Tensor:
    return torch.randn(batch, length, 8, generator=torch.Generator().manual_seed(length))


def state_spaces(exported: Any) -> list[coda.SSDOp]:
    return [op for op in exported.module.walk() if isinstance(op, coda.SSDOp)]


class Several(nn.Module):
    """Models, each of its own input: an export takes much the same time for one and for all."""

    def __init__(self, models: Sequence[Model]):
        super().__init__()
        self.models = nn.ModuleList(models)

    def forward(self, *inputs: Tensor) -> list[Any]:
        return [model(x) for model, x in zip(self.models, inputs, strict=True)]


def check(models: Sequence[Model], inputs: Sequence[Tensor]) -> list[coda.SSDOp]:
    """Compare with float64, and return the operator of each model."""
    exported = coda_ir.export(Several(models).eval(), tuple(inputs))
    assert not [op for op in exported.module.walk() if op.name == "torch.call"]
    actual = exported.compile(target="reference")(*inputs)
    for model, x, results in zip(models, inputs, actual, strict=True):
        pairs = zip(tensors_in(results), tensors_in(model.exact(x)), strict=True)
        assert all(relative_error(found, expected) <= 1e-6 for found, expected in pairs)
    ops = state_spaces(exported)
    assert len(ops) == len(models)
    return ops


SIZES = [(2, 21, 4, 2), (1, 21, 4, 1), (2, 16, 2, 2), (1, 5, 2, 1), (2, 8, 1, 1)]


@pytest.mark.slow
@daily(lambda shift: shift == 0)
@pytest.mark.parametrize("shift", range(2))
@torch.no_grad()
def test_traced(shift: int) -> None:
    """Every other model has a skip connection."""
    cases = [(*sizes, (index + shift) % 2 == 1) for index, sizes in enumerate(SIZES)]
    models = [Model(heads, groups, skip=skip) for *_, heads, groups, skip in cases]
    inputs = [sample(batch, length) for batch, length, *_ in cases]
    for (*_, heads, groups, _), op in zip(cases, check(models, inputs), strict=True):
        assert (op.heads, op.groups, op.state_count, op.head_columns) == (heads, groups, 3, 4)


@pytest.mark.slow
@torch.no_grad()
def test_narrow_operands() -> None:
    """The result is float32, as that of transformers."""
    model, x = Model(4, 2).bfloat16().eval(), sample(2, 21).bfloat16()
    exported = coda_ir.export(model, (x,))
    (op,) = state_spaces(exported)
    types = [str(value.type) for value in (op.x, op.b, op.c, op.result)]
    assert [type.rpartition("x")[2] for type in types] == ["bf16>"] * 3 + ["f32>"]
    actual = exported.compile(device="cpu")(x)
    assert actual.dtype == torch.float32
    assert relative_error(actual, model.exact(x)) <= 1e-2


@pytest.mark.slow
@daily(lambda shift: shift == 0)
@pytest.mark.parametrize("shift", range(3))
@torch.no_grad()
def test_states(shift: int) -> None:
    """A prefill fills a cache, and a later one begins with it."""
    kinds, lengths = [(True, False), (False, True), (True, True)], (5, 16, 21)
    cases = [(*kind, lengths[(index + shift) % 3]) for index, kind in enumerate(kinds)]
    models = [Model(4, 2, initial=initial, final=final) for initial, final, _ in cases]
    inputs = [sample(2, length) for *_, length in cases]
    for (initial, final, _), op in zip(cases, check(models, inputs), strict=True):
        assert ((op.initial is not None), (op.final is not None)) == (initial, final)


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize("states", [False, True])
@pytest.mark.parametrize("target", ["reference", "triton"])
def test_compiled_with_gradients(target: str, states: bool) -> None:
    models = [Model(4, 2, skip=True, initial=states, final=states) for _ in range(2)]
    model, exact = models[0], models[1].double()
    exact.load_state_dict(model.state_dict())
    x, weights = sample(2, 21), [torch.randn(2, 21, 16), torch.randn(2, 4, 4, 3)]

    def weighted(results: Any) -> Any:
        return sum((r * w).sum() for r, w in zip(tensors_in(results), weights, strict=False))

    losses: list[Any] = [
        weighted(compiled(model, target=target)(x)),
        weighted(exact.exact(x.double())),
    ]
    for loss in losses:
        loss.backward()
    for found, expected in zip(model.parameters(), exact.parameters(), strict=True):
        assert found.grad is not None and expected.grad is not None
        assert relative_error(found.grad, expected.grad) <= 2e-5
