"""Models whose leftovers run in a graph that Inductor compiles, and that calls programs."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.daily import daily
from support.torch_compile import always_call_programs, compiled, gradients, graphs, trace_only
from torch import Tensor, nn

import coda_ir.inductor
from coda_ir.float64 import relative_error

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

WIDTH = 32

traced_daily = daily(lambda compiler: compiler == "traced")
"""Inductor compiles C++ for several seconds per graph: it does so every night, and every day in
`tests/core/test_inductor.py`.
"""


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    always_call_programs(monkeypatch)


@pytest.fixture(params=["traced", "inductor"])
def compiler(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler of graphs that call programs: traced daily, Inductor nightly."""
    if request.param == "traced":
        trace_only(monkeypatch)


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The programs that graphs may call, by name."""
    found: dict[str, Any] = {}
    load = coda_ir.inductor.load_graph

    def counted(text: str, name: str, programs: Any, device: torch.device) -> Any:
        found.update(programs)
        return load(text, name, programs, device)

    monkeypatch.setattr(coda_ir.inductor, "load_graph", counted)
    return found


def with_graph(model: Any, **options: Any) -> Any:
    return compiled(model, target="triton", fallback="inductor", **options)


def assert_as_good_as_eager(got: Any, eager: Any, exact: Any) -> None:
    for a, b, c in zip(got, eager, exact, strict=True):
        assert relative_error(a, c) <= 1.25 * relative_error(b, c) + 1e-6


def assert_results(fast: Any, model: nn.Module, *inputs: Tensor) -> None:
    exact = deepcopy(model).double()
    with torch.no_grad():
        results = [fast(*inputs)], [model(*inputs)], [exact(*(x.double() for x in inputs))]
    assert_as_good_as_eager(*results)


def assert_gradients(fast: Any, model: nn.Module, *inputs: Tensor) -> None:
    exact = deepcopy(model).double()
    wide = [x.detach().double().requires_grad_() for x in inputs]
    found = gradients(fast, model, *inputs), gradients(model, model, *inputs)
    assert_as_good_as_eager(*found, gradients(exact, exact, *wide))


class AdaptiveBlock(nn.Module):
    """A network after adaLN, as DiT has it."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH, elementwise_affine=False)
        self.modulation = nn.Linear(16, 3 * WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 48), nn.Linear(48, WIDTH)

    def forward(self, x: Tensor, c: Tensor) -> Tensor:
        shift, scale, gate = self.modulation(F.silu(c)).chunk(3, -1)
        h = self.norm(x) * (1 + scale[:, None]) + shift[:, None]
        return x + gate[:, None] * self.down(F.gelu(self.up(h), approximate="tanh"))


def adaptive_inputs(b: int, t: int, *, training: bool = False) -> list[Tensor]:
    shapes = (b, t, WIDTH), (b, 16)
    return [torch.randn(shape, requires_grad=training) for shape in shapes]


@pytest.mark.slow
@daily(lambda compiler, dynamic: compiler == "traced" and dynamic is None)
@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("dynamic", [None, True])
def test_adaptive_norm_of_any_size(dynamic: bool | None, programs: dict[str, Any]):
    model = AdaptiveBlock()
    fast = with_graph(model, dynamic=dynamic)
    for b, t in ((2, 5), (3, 7)):
        assert_results(fast, model, *adaptive_inputs(b, t))
    assert programs
    compiled_before = graphs()
    for b, t in ((4, 9), (2, 11), (5, 4)):
        assert_results(fast, model, *adaptive_inputs(b, t))
    assert graphs() == compiled_before
    if dynamic is None:  # Graphs of sizes of 1 are the same.
        assert_results(fast, model, *adaptive_inputs(1, 1))


@pytest.mark.slow
@traced_daily
@pytest.mark.usefixtures("compiler")
def test_adaptive_norm_in_training(programs: dict[str, Any]):
    model = AdaptiveBlock()
    fast = with_graph(model, dynamic=True)
    for b, t in ((3, 7), (2, 5)):
        assert_gradients(fast, model, *adaptive_inputs(b, t, training=True))
    assert programs


class Attention(nn.Module):
    """Rotary embeddings that the model computes, attention, and a norm after it."""

    def __init__(self, heads: int = 2):
        super().__init__()
        self.heads, self.width = heads, WIDTH // heads
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        heads = self.qkv(x).unflatten(-1, (3, self.heads, self.width)).permute(2, 0, 3, 1, 4)
        q, k, v = heads.unbind()
        frequencies = 100.0 ** (-torch.arange(0, self.width, 2, device=x.device) / self.width)
        angles = torch.arange(x.shape[1], device=x.device)[:, None] * frequencies
        cos, sin = (f(torch.cat((angles, angles), -1)) for f in (torch.cos, torch.sin))
        q, k = (y * cos + rotated(y) * sin for y in (q, k))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return torch.softmax(x + self.out(y.transpose(1, 2).flatten(2)), 1)


def rotated(x: Tensor) -> Tensor:
    left, right = x.chunk(2, -1)
    return torch.cat((-right, left), -1)


class GatedNetwork(nn.Module):
    """A gated network, and running sums after it."""

    def __init__(self):
        super().__init__()
        self.gate, self.up = nn.Linear(WIDTH, 48), nn.Linear(WIDTH, 48)
        self.down, self.last = nn.Linear(48, WIDTH), nn.Linear(WIDTH, 8)

    def forward(self, x: Tensor) -> Tensor:
        h = self.down(F.silu(self.gate(x)) * self.up(x))
        return self.last(torch.softmax(h.cumsum(1), -1) + x)


class Entropy(nn.Module):
    """A mean over all elements, which PyTorch differentiates."""

    def __init__(self):
        super().__init__()
        self.logits = nn.Linear(WIDTH, 8)

    def forward(self, x: Tensor) -> Tensor:
        p = torch.softmax(self.logits(x), -1)
        return -torch.xlogy(p, p).mean()


MODELS: dict[str, Callable[[], nn.Module]] = {
    "attention": Attention,
    "network": GatedNetwork,
    "entropy": Entropy,
}


@pytest.mark.slow
@traced_daily
@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("name", MODELS)
def test_model(name: str, programs: dict[str, Any]):
    model = MODELS[name]()
    is_dynamic = name != "network"
    fast = with_graph(model, dynamic=is_dynamic)
    for b, t in ((2, 7), (3, 5)) if is_dynamic else ((2, 7),):
        assert_results(fast, model, torch.randn(b, t, WIDTH))
        assert_gradients(fast, model, torch.randn(b, t, WIDTH, requires_grad=True))
    assert programs


class Normed(nn.Module):
    """LayerNorm between linear maps, and running sums."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(16, 16), nn.LayerNorm(16), nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.softmax(self.last(self.norm(self.first(x))).cumsum(0), -1))


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"pack_weights": True}])
def test_weights_may_change(
    options: dict[str, bool], programs: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    trace_only(monkeypatch)
    model, x = Normed().bfloat16(), torch.randn(3, 16).bfloat16()
    fast = with_graph(model, **options)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(fast(x), model(x), rtol=3e-2, atol=3e-2)
            model.load_state_dict({k: torch.randn_like(v) for k, v in model.state_dict().items()})
    assert programs


@pytest.mark.slow
def test_derivatives_by_pytorch(programs: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
    """Autograd records nothing in a program that a graph calls: the graph has them."""
    trace_only(monkeypatch)
    model, x = Normed(), torch.randn(3, 16)

    def loss(x: Tensor) -> Tensor:
        ratio = (y := model.first(x)).sub(y.logsumexp(-1, keepdim=True)).exp()
        return torch.minimum(ratio * x, ratio.clamp(0.8, 1.2) * x).mean()

    found, wanted = (gradients(f, model, x) for f in (with_graph(loss, dynamic=True), loss))
    for got, expected in zip(found, wanted, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-6)
    assert programs


class Counting(nn.Module):
    """A buffer that each call changes."""

    calls: Tensor

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 16)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.linear(torch.softmax(self.linear(x), 0) * self.calls)


def test_buffers_that_change_in_place(monkeypatch: pytest.MonkeyPatch):
    trace_only(monkeypatch)
    model, twin = Counting(), Counting()
    twin.load_state_dict(model.state_dict())
    fast, x = with_graph(model), torch.randn(3, 16)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(fast(x), twin(x))
    assert model.calls == 3


class Dropped(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(16, 64), nn.Linear(64, 8, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(F.dropout(torch.softmax(self.first(x), 1), 0.5))


@traced_daily
@pytest.mark.usefixtures("compiler")
def test_the_backward_has_the_dropout_of_the_forward(programs: dict[str, Any]):
    model = Dropped()
    loss = with_graph(model)(torch.randn(2, 7, 16)).square().sum()
    loss.backward()
    weight = model.last.weight
    assert weight.grad is not None
    # The loss is of degree 2 in the last weight: with other numbers that would not be seen.
    torch.testing.assert_close((weight * weight.grad).sum(), 2 * loss)
    assert programs


@pytest.mark.slow
def test_inference_mode_and_autocast(programs: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
    trace_only(monkeypatch)
    model, x = GatedNetwork(), torch.randn(2, 7, WIDTH)
    with torch.inference_mode():
        attention = Attention()
        torch.testing.assert_close(with_graph(attention)(x), attention(x))
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(with_graph(model)(x), model(x), rtol=3e-2, atol=3e-2)
    assert programs


class JoinedHeads(nn.Module):
    """Attention whose heads are concatenated from two parts, so that no GEMM stores them."""

    def __init__(self):
        super().__init__()
        self.projection, self.output = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, angles: Tensor) -> Tensor:
        q, k, v = (
            part.unflatten(-1, (-1, 8)).transpose(1, 2) for part in self.projection(x).chunk(3, -1)
        )
        q, k = (torch.cat([y[..., :4] * angles.cos(), y[..., 4:]], -1) for y in (q, k))
        y = F.scaled_dot_product_attention(q, k, v)
        return x + self.output(y.transpose(1, 2).flatten(2))


def rows_first(attention: Any) -> Any:
    """A kernel of PyTorch that stores the rows of a sample before its heads, as on GPUs."""

    def attend(*args: Any, **kwargs: Any) -> Any:
        y, lse = attention(*args, **kwargs)
        return y.transpose(1, 2).contiguous().transpose(1, 2), lse

    return attend


@pytest.mark.slow
def test_results_are_laid_out_as_stated(monkeypatch: pytest.MonkeyPatch, programs: dict[str, Any]):
    trace_only(monkeypatch)
    model = JoinedHeads()
    inputs = [torch.randn(shape, requires_grad=True) for shape in ((2, 5, WIDTH), (5, 4))]
    assert_gradients(with_graph(model), model, *inputs)
    assert programs
    name = "_scaled_dot_product_flash_attention_for_cpu"
    monkeypatch.setattr(torch.ops.aten, name, rows_first(getattr(torch.ops.aten, name)))
    for program in programs.values():
        name = coda_ir.inductor.operator_name(program)
        given = [torch.randn(spec.dims).to(spec.dtype) for spec in program.info.signature.arguments]
        checks = ("test_schema", "test_faketensor")
        opcheck: Any = getattr(torch.library, "opcheck")  # noqa: B009  (partly without types)
        opcheck(torch.ops.coda_ir.program, (name, given), test_utils=checks)


class Convolved(nn.Module):
    """A convolution after a GEMM: cuDNN may add the gradient of its weight in any order."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 16, bias=False)
        self.convolution = nn.Conv1d(16, 8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.convolution(torch.softmax(self.linear(x), 1).transpose(1, 2))


def test_graphs_repeat_their_bits(programs: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
    modes: list[int] = []

    def run_at_once(graph: Callable[..., Any], *_: int, is_dynamic: bool | None) -> Any:
        def run(*tensors: Tensor) -> Any:
            modes.append(torch.get_deterministic_debug_mode())
            return graph(*tensors)

        return run

    monkeypatch.setattr(coda_ir.inductor, "compiled_by_inductor", run_at_once)
    model = Convolved()
    assert_gradients(with_graph(model), model, torch.randn(2, 7, 16, requires_grad=True))
    assert programs
    assert modes and set(modes) == {1}
    assert torch.get_deterministic_debug_mode() == 0
