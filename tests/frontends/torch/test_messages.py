"""Messages of `torch.compile(model, backend="coda")`: names of the model, and true reasons."""

import logging
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
import torch
from support.torch_compile import compiled
from torch import Tensor, nn

from coda_ir.api import CompiledFunction, compile
from coda_ir.diagnostics import CodaError
from coda_ir.frontends.torch import export
from coda_ir.frontends.torch.compile_options import RUNNERS
from coda_ir.frontends.torch.graph_runner import GraphRunner
from coda_ir.frontends.torch.types import dotted_name

pytestmark = pytest.mark.usefixtures("fresh_dynamo", "no_gradients")

flex_attention: Any = import_module("torch.nn.attention.flex_attention").flex_attention


def near(score: Tensor, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    return score + (query - key) * 0.1


class Flex(nn.Module):
    """Attention with a function of the scores between two linear maps."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, 2, 16)).permute(2, 0, 3, 1, 4)
        y: Tensor = flex_attention(q, k, v, score_mod=near)
        return self.out(y.transpose(1, 2).flatten(2))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:flex_attention called without")
@pytest.mark.parametrize("fallback", ["eager", "inductor"])
def test_attention_with_a_function_of_the_scores(fallback: str, caplog: pytest.LogCaptureFixture):
    model, x = Flex(), torch.randn(2, 128, 32)
    with caplog.at_level(logging.WARNING, "coda_ir.frontends"):
        y = compiled(model, fallback=fallback)(x)
    torch.testing.assert_close(y, model(x), rtol=1e-4, atol=1e-5)
    ours = [record for record in caplog.records if record.name.startswith("coda_ir")]
    (warning,) = [record.getMessage() for record in ours]
    assert f"a region of a graph runs in {RUNNERS[fallback]}: {__file__}:" in warning
    assert "the model uses flex_attention, which calls a function of the model" in warning


def increased(x: Tensor) -> Tensor:
    return x + 1


def decreased(x: Tensor) -> Tensor:
    return x - 1


class Choice(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        cond: Any = import_module("torch").cond
        return cond(x.sum() > 0, increased, decreased, (x,))


def test_control_flow_that_depends_on_data_has_a_place():
    with pytest.raises(CodaError, match="depends on data") as error:
        export(Choice(), (torch.randn(3),))
    assert str(error.value).startswith(f"{__file__}:")


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("L['self'].__dict__['_modules']['transformer_blocks'].0", "transformer_blocks.0"),
        ("L['self']._modules['layers']._modules['3']._modules['a-b']", "layers.3.a-b"),
        ("L['model'].layers.0.mlp", "layers.0.mlp"),
        ("L['self']", ""),
        ("model.layers.0", "model.layers.0"),
    ],
)
def test_paths_of_modules(path: str, name: str):
    assert dotted_name(path) == name


class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(16, 16)])
        self.scale = nn.Parameter(torch.ones(16))
        self.register_buffer("shift", torch.zeros(16))

    def forward(self, x: Tensor, more: dict[str, Tensor]) -> Tensor:
        shift: Any = self.shift
        return self.layers[0](x) * self.scale + more["bias"] + shift


def test_arguments_have_the_names_of_the_model(monkeypatch: pytest.MonkeyPatch):
    found: list[CompiledFunction] = []
    make: Callable[..., None] = GraphRunner.__init__

    def recorded(self: GraphRunner, graph: Any, imported: Any, program: Any, *others: Any) -> None:
        found.append(program)
        make(self, graph, imported, program, *others)

    monkeypatch.setattr(GraphRunner, "__init__", recorded)
    model, x = Named(), torch.randn(3, 16)
    compiled(model)(x, {"bias": x})
    names = {argument.name for argument in found[0].signature.arguments}
    paths = {"layers.0.weight", "layers.0.bias", "scale", "shift"}
    assert names in ({*paths, "x", "more.bias"}, {*paths, "x"})


def test_names_that_begin_with_a_number():
    model, x = nn.Sequential(nn.Linear(8, 16), nn.SiLU(), nn.Linear(16, 8)), torch.randn(3, 8)
    module = export(model, (x,)).module
    trained = compile(module, training=True, target="reference", device="cpu")
    with torch.enable_grad():
        weights = {name: weight.detach().requires_grad_() for name, weight in named(model)}
        got = torch.autograd.grad(trained(x, **weights).sum(), list(weights.values()))
        wanted = torch.autograd.grad(model(x).sum(), [weight for _, weight in named(model)])
    for mine, eager in zip(got, wanted, strict=True):
        torch.testing.assert_close(mine, eager, rtol=1e-4, atol=1e-5)


def named(model: nn.Module) -> list[tuple[str, nn.Parameter]]:
    return list(model.named_parameters())


def test_products_of_activations_are_no_linear_maps(caplog: pytest.LogCaptureFixture):
    x, y = torch.randn(2, 3, 4), torch.randn(2, 4, 3)
    with caplog.at_level(logging.INFO, "coda_ir.frontends"), torch.enable_grad():
        compiled(torch.bmm)(x, y)
        compiled(torch.bmm)(x.clone().requires_grad_(), y)
    assert {record.levelno for record in caplog.records} == {logging.INFO}
    messages = [record.getMessage() for record in caplog.records]
    assert any("runs in eager" in message for message in messages)
    assert any("left to autograd" in message for message in messages)
    assert all("the graph has no linear map" in m and "bmm" in m for m in messages)


def test_views_without_a_linear_map_are_left_to_autograd(caplog: pytest.LogCaptureFixture):
    """No warning: there was nothing to fuse."""

    def first(x: Tensor) -> Tensor:
        return x[:2]

    with caplog.at_level(logging.INFO, "coda_ir.frontends"), torch.enable_grad():
        compiled(first)(torch.randn(3, 4, requires_grad=True))
    assert {record.levelno for record in caplog.records} == {logging.INFO}
    assert "left to autograd: the graph returns a view of an input" in caplog.text


def first_rows(x: Tensor, count: Tensor) -> Tensor:
    """As in TAPAS."""
    arange: Any = torch.arange
    return x[arange(start=0, end=torch.as_tensor(count))]


def test_values_that_are_read_from_a_tensor(caplog: pytest.LogCaptureFixture):
    """AOTAutograd cannot trace the call, which is no defect."""
    model, x, count = nn.Linear(4, 4), torch.randn(3, 4), torch.tensor(2)

    def call(x: Tensor, count: Tensor) -> Tensor:
        return model(first_rows(model(x), count))

    with caplog.at_level(logging.WARNING, "coda_ir.frontends.torch.dynamo"), torch.enable_grad():
        torch.testing.assert_close(compiled(call, errors="fallback")(x, count), call(x, count))
    record = caplog.records[-1]
    message = record.getMessage()
    assert record.exc_info is None and "runs in eager PyTorch: an operator reads" in message
    assert "defect" not in caplog.text and "x.shape[0]" in message


def test_no_remark_is_without_a_place(caplog: pytest.LogCaptureFixture):
    model, x = Named(), torch.randn(3, 16)
    with caplog.at_level(logging.INFO, "coda_ir.remarks"), torch.enable_grad():
        y = compiled(model, remarks="all")(x, {"bias": torch.randn(3, 16)})
        y.sum().backward()
    messages = [record.getMessage() for record in caplog.records]
    assert messages and not [message for message in messages if "<unknown>" in message]


def test_remarks_name_the_modules_of_a_model_without_code_of_its_own(
    caplog: pytest.LogCaptureFixture,
):
    model = nn.Sequential(nn.Linear(16, 8), nn.SiLU(), nn.Linear(8, 16))
    with caplog.at_level(logging.INFO, "coda_ir.remarks"):
        compiled(model, remarks="all")(torch.randn(3, 16))
    assert "coda.silu in 1: fused" in caplog.text and "gemm.fused in 2: " in caplog.text


def test_an_unknown_option_names_the_one_that_is_close():
    with pytest.raises(Exception, match=r"unknown option 'targett'.*\n.*did you mean 'target'"):
        compiled(Named(), targett="triton")(torch.randn(3, 16), {"bias": torch.randn(3, 16)})
