"""`coda_ir.compile(..., leftovers="inductor")`: a graph that Inductor compiles calls programs."""

from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any

import pytest
import torch
from support.torch_compile import always_call_programs, graphs, reset, trace_only

import coda_ir
from coda_ir.api import CompiledFunction
from coda_ir.diagnostics import ArgumentError, CodaError
from coda_ir.float64 import relative_error
from coda_ir.inductor import compiled_by_inductor

D = 264
"""Columns: more than a tile has, so that no epilogue takes the softmax."""

LAYER = f"""
const D = {D}

fn layer(x: f32[B, T, D], m: f32[B, 1, D], weight w: f32[D, D], weight v: f32[D, D])
    -> f32[B, T, D] {{
    h = relu(linear(x, w)) * m
    return x + linear(softmax(h), v)
}}
"""

SIZES = [(2, 3), (3, 5), (1, 1), (2, 1), (1, 4)]


def compiled(text: str = LAYER, **options: Any) -> CompiledFunction:
    compile: Any = coda_ir.compile
    return compile(text, device="cpu", leftovers="inductor", **options)


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    always_call_programs(monkeypatch)


@pytest.fixture
def layer(monkeypatch: pytest.MonkeyPatch) -> CompiledFunction:
    """A layer whose graph is traced only: it runs operator by operator."""
    trace_only(monkeypatch)
    return compiled()


def arguments(b: int, t: int, *, training: bool = False) -> list[torch.Tensor]:
    """Random tensors, whose weights keep the softmax from having one element that is nearly 1: its
    gradients would cancel.
    """
    shapes = (b, t, D), (b, 1, D), (D, D), (D, D)
    given = [torch.randn(shape) / (1 if len(shape) == 3 else D**0.5) for shape in shapes]
    return [tensor.requires_grad_(training) for tensor in given]


def assert_right(layer: CompiledFunction, b: int, t: int) -> None:
    given = arguments(b, t)
    found = layer(*given)
    assert found.dtype == torch.float32 and found.shape == (b, t, D)
    assert relative_error(found, layer.reference(given)) < 1e-6


@pytest.mark.slow
def test_compiled_by_inductor():
    layer = compiled()
    for b, t in SIZES[:2]:
        assert_right(layer, b, t)


@pytest.mark.slow
@pytest.mark.parametrize(("b", "t"), SIZES)
def test_sizes(layer: CompiledFunction, b: int, t: int):
    assert_right(layer, b, t)


@pytest.mark.slow
def test_one_graph_serves_all_sizes(layer: CompiledFunction):
    reset()
    for t in range(2, 12):
        assert_right(layer, t + 1, t)
    assert graphs() == 1


@pytest.mark.slow
def test_known_sizes_are_not_checked_by_torch_dynamo(monkeypatch: pytest.MonkeyPatch):
    trace_only(monkeypatch)
    reset()
    layer = compiled(LAYER.replace("[B", "[2").replace("T,", "3,"))
    x, m, w, v = arguments(2, 3)
    by_inference = torch.inference_mode()(layer)
    strided = x.transpose(0, 2).contiguous().transpose(0, 2)
    for function, given in (
        (by_inference, (x, m, w, w)),
        (layer, (x, m, w, v)),
        (layer, (strided, m, w, v.T)),
    ):
        assert relative_error(function(*given), layer.reference(given)) < 1e-6
    assert graphs() == 0


@pytest.mark.slow
def test_inductor_finds_graphs_of_known_sizes_in_its_cache():
    counters = import_module("torch._dynamo.utils").counters
    text = LAYER.replace("[B", "[2").replace("T,", "3,")
    for _ in range(2):
        counters.clear()
        assert_right(compiled(text), 2, 3)
    assert counters["aot_autograd"]["autograd_cache_hit"] == 1
    assert counters["inductor"]["fxgraph_cache_hit"] == 1


def test_settings_of_inductor_apply_to_graphs_of_known_sizes(monkeypatch: pytest.MonkeyPatch):
    settings, found = import_module("torch._inductor.config"), list[bool]()

    def compile(graph: Any, _: object) -> Any:
        found.append(settings.max_autotune)
        return graph.forward

    def lookup_backend(_: str) -> Any:
        return compile

    def pair(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x, x + 1

    monkeypatch.setattr(import_module("torch._dynamo"), "lookup_backend", lookup_backend)
    graph = compiled_by_inductor(pair, is_dynamic=False)
    with settings.patch(max_autotune=True):
        assert [y.item() for y in graph(torch.ones(()))] == [1, 2]
    assert found == [True]


@pytest.mark.parametrize(("b", "t"), [(0, 3), (2, 0)])
def test_a_size_of_0(layer: CompiledFunction, b: int, t: int):
    assert layer(*arguments(b, t)).shape == (b, t, D)


def test_strided_and_named_arguments(layer: CompiledFunction):
    x, m, w, v = arguments(5, 2)
    given = {"v": v.T, "x": x.transpose(0, 1)[:, ::2], "m": m[:2], "w": w.T}
    assert relative_error(layer(**given), layer.reference(given)) < 1e-6


def test_autocast_does_not_reach_into_it(layer: CompiledFunction):
    with torch.autocast("cpu", torch.bfloat16):
        assert_right(layer, 2, 3)
    with torch.inference_mode():
        assert_right(layer, 2, 3)


@pytest.mark.slow
def test_threads(layer: CompiledFunction):
    with ThreadPoolExecutor(3) as threads:
        for done in [threads.submit(assert_right, layer, 2, t) for t in (3, 4, 5)]:
            done.result()


@pytest.mark.slow
def test_gradients(monkeypatch: pytest.MonkeyPatch):
    trace_only(monkeypatch)
    layer, given = compiled(training=True), arguments(2, 3, training=True)
    x, m, w, v = wide = [a.detach().double().requires_grad_() for a in given]
    for y in layer(*given), x + torch.softmax((x @ w.T).relu() * m, -1) @ v.T:
        loss: Any = y.square().sum()
        loss.backward()
    for got, wanted in zip(given, wide, strict=True):
        assert got.grad is not None and wanted.grad is not None
        assert relative_error(got.grad, wanted.grad) < 1e-5


class TestViews:
    """The properties of a function that is a graph."""

    def test_levels(self, layer: CompiledFunction):
        for level in ("gemm", "scheduled"):
            text = layer.ir(level)
            assert text.count("func.call @layer_program") == 2
            assert text.count("gemm.fused") == 2 and text.count("coda.softmax") == 1
        assert "func.call" not in layer.ir("block")
        given = arguments(2, 3)
        exact = layer.reference(given)
        for level in ("gemm", "scheduled"):
            assert relative_error(layer.reference(given, level=level), exact) < 1e-12

    def test_source_has_the_graph_and_the_programs(self, layer: CompiledFunction):
        assert layer.source.startswith("# func.func @layer(")
        assert '\n"""layer_program from <text>' in layer.source
        assert '\n"""layer_program_1 from <text>' in layer.source
        compile(layer.source, "layer", "exec")

    def test_kernels_and_operators(self, layer: CompiledFunction):
        assert layer.kernels == ("gemm_scale_relu", "gemm_residual")
        assert layer.operators["gemm.fused"] == 2
        assert layer.operators["func.call"] == 2
        assert layer.operators["coda.softmax"] == 1

    def test_remarks(self, layer: CompiledFunction):
        missed = [r.operator for r in layer.remarks if r.kind == "missed"]
        assert missed == ["coda.softmax"]
        planned = [r.function for r in layer.remarks if r.pass_name == "plan-buffers"]
        assert planned == ["layer_program", "layer_program_1"]

    def test_resources(self, layer: CompiledFunction):
        kernels = [used.kernel for used in layer.resources("sm_90")]
        assert kernels == ["gemm_scale_relu", "gemm_residual"]

    def test_signature(self, layer: CompiledFunction):
        assert str(layer.signature) == str(coda_ir.compile(LAYER, device="cpu").signature)


class TestWithoutAGraph:
    def test_calls_that_take_longer_than_they_save(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.undo()
        layer = compiled(LAYER.replace(" * m", ""))
        assert "func.call" not in layer.ir("gemm")
        assert "def run(" in layer.source
        assert_right(layer, 2, 3)

    @pytest.mark.parametrize("numerics", ["eager-exact", "deterministic"])
    def test_modes_that_state_every_rounding(self, numerics: str):
        layer = compiled(numerics=numerics)
        assert "func.call" not in layer.ir("gemm")
        assert_right(layer, 2, 3)


class TestErrors:
    def test_sizes_that_do_not_fit(self, layer: CompiledFunction):
        x, m, w, v = arguments(2, 3)
        with pytest.raises(ArgumentError, match="symbol B is bound to 2 by argument x and to 1"):
            layer(x, m[:1], w, v)

    def test_unknown_choice(self):
        expected = "unknown leftovers 'eager'\n  help: use one of kernels, inductor"
        with pytest.raises(CodaError, match=expected):
            coda_ir.compile(LAYER, leftovers="eager")  # pyright: ignore
