"""`coda_ir.compile(training=True)`: derived gradients of the examples, and PyTorch's tools."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib import import_module
from typing import Any, Literal

import pytest
import torch
from support.examples import DTYPES, Example, mean_errors
from torch import nn

import coda_ir
from coda_ir.diagnostics import CodaError
from coda_ir.float64 import relative_error
from coda_ir.training.functions import TrainableFunction

SIZES = {
    "llama_layer": {"D": 96, "F": 100, "HEAD": 32, "KV_HEADS": 1},
    "llama_mlp": {"D": 80, "F": 101},
    "gpt2_block": {"D": 72, "HEAD": 24},
    "dit_block": {"D": 72, "HEAD": 24},
    "qwen3_block": {"D": 88, "F": 101, "HEAD": 24, "HEADS": 2, "KV_HEADS": 1},
    "gemma_block": {"D": 88, "F": 101, "HEAD": 24, "HEADS": 2, "KV_HEADS": 1},
    "lm_head_cross_entropy": {"D": 73, "V": 93},
    "linear_bias_gelu": {"K": 50, "N": 73},
}
TABLES = ("cos", "sin")

# PyTorch has no complete types for them.
grad: Any = torch.autograd.grad
checkpoint: Any = import_module("torch.utils.checkpoint").checkpoint
optim: Any = torch.optim

Tensors = Mapping[str, torch.Tensor]
Function = Any


@lru_cache
def example(name: str, dtype: torch.dtype) -> Example:
    return Example(name, dtype, SIZES[name])


@lru_cache
def trainable(
    name: str, dtype: torch.dtype, target: Literal["reference", "triton"]
) -> TrainableFunction:
    program = example(name, dtype)
    return coda_ir.compile(program.module("block"), training=True, target=target)


def leaves(inputs: Tensors) -> dict[str, torch.Tensor]:
    """The inputs as leaves of a graph: all but integers and tables require a gradient."""
    return {
        name: x.detach().clone().requires_grad_(x.is_floating_point() and name not in TABLES)
        for name, x in inputs.items()
    }


def gradients(function: Function, inputs: Tensors, seed: int = 0) -> list[torch.Tensor]:
    """Gradients of a random linear form of the floating-point results."""
    given = leaves(inputs)
    results = function(given)
    generator = torch.Generator().manual_seed(seed)
    pairs = [
        (r, torch.randn(r.shape, generator=generator).bfloat16().to(r))
        for r in results
        if r.is_floating_point()
    ]
    wanted = [x for x in given.values() if x.requires_grad]
    found = grad([r for r, _ in pairs], wanted, [s for _, s in pairs], allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for x, g in zip(wanted, found, strict=True)]


def called(function: TrainableFunction) -> Function:
    """`function` as a function of tensors by name to a tuple of results."""

    def call(inputs: Tensors) -> tuple[torch.Tensor, ...]:
        results: Any = function(**{name: x.to(function.device) for name, x in inputs.items()})
        return (results,) if isinstance(results, torch.Tensor) else results

    return call


def modelled(program: Example) -> Function:
    """The PyTorch model of an example as a function of tensors by name."""

    def call(inputs: Tensors) -> tuple[torch.Tensor, ...]:
        return program.model(dict(inputs), program.constants)

    return call


def check(name: str, dtype: torch.dtype, target: Literal["reference", "triton"]) -> None:
    """Errors against float64 are at most 1.25 times those of PyTorch eager."""
    program, function = example(name, dtype), trainable(name, dtype, target)
    runs: dict[str, list[list[torch.Tensor]]] = {"ours": [], "eager": [], "exact": []}
    for seed in range(3 if target == "reference" else 1):
        inputs = program.inputs({"M": 57} if program.is_flat else {"B": 3, "T": 19}, seed)
        double = {n: x.double() if x.is_floating_point() else x for n, x in inputs.items()}
        model = modelled(program)
        runs["ours"].append(gradients(called(function), inputs, seed))
        runs["eager"].append(gradients(model, inputs, seed))
        runs["exact"].append(gradients(model, double, seed))
    ours, eager = (mean_errors(runs[kind], runs["exact"]) for kind in ("ours", "eager"))
    floor = 2e-7 if dtype == torch.float32 else 1e-4
    for got, allowed in zip(ours, eager, strict=True):
        assert got <= max(1.25 * allowed, floor)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=DTYPES.get)
@pytest.mark.parametrize("name", SIZES)
def test_gradients_of_examples(name: str, dtype: torch.dtype):
    check(name, dtype, "reference")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["llama_mlp", "gpt2_block"])
def test_gradients_of_generated_kernels(name: str):
    check(name, torch.bfloat16, "triton")


def test_two_runs_of_generated_kernels_are_bit_equal():
    inputs = example("llama_mlp", torch.bfloat16).inputs({"B": 1, "T": 19}, 0)
    function = called(trainable("llama_mlp", torch.bfloat16, "triton"))
    first, second = (gradients(function, inputs) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_a_program_of_kernels_has_no_derivative():
    module = example("llama_mlp", torch.float32).module("gemm")
    function = coda_ir.compile(module, training=True, target="reference")
    with pytest.raises(CodaError, match=r"no derivative .*\n  help: .* differentiate comes before"):
        function.prepare()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"memory_budget": -1}, "memory_budget is -1"),
        ({"memory_budget": "1 GB"}, "memory_budget is '1 GB'"),
        ({"stream_logits": 2.5}, "stream_logits is 2.5"),
        ({"save": "h"}, r"save is 'h', not a list\n  help: pass save=\['h'\]"),
        ({"recompute": "h"}, "recompute is 'h', not a list"),
        ({"save": None}, "save is None\n  help: pass a list of names"),
        ({"tune": 0}, "tune is 0, expected seconds"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str):
    program = "fn f(x: f32[M, 8]) {\n    return relu(x)\n}"
    with pytest.raises(CodaError, match=message):
        coda_ir.compile(program, training=True, device="cpu", **options)


def test_a_memory_budget_saves_less():
    """GEMMs run again, and nothing else changes."""
    program = example("llama_layer", torch.float32)
    sizes = {"B": 3, "T": 11}
    inputs = program.inputs(sizes, 0)
    module = program.module("block")
    found: list[tuple[int, list[torch.Tensor]]] = []
    for budget in (None, 20_000, 0):
        function = coda_ir.compile(module, training=True, target="reference", memory_budget=budget)
        found.append((0, gradients(called(function), inputs)))
        found[-1] = (function.saved_bytes.evaluate(sizes), found[-1][1])
    saved = [size for size, _ in found]
    assert saved[0] > 20_000 >= saved[1] > saved[2]
    for _, other in found[1:]:
        torch.testing.assert_close(other, found[0][1], rtol=1e-5, atol=1e-5)


def test_what_is_saved_can_be_told():
    module = example("llama_mlp", torch.float32).module("block")
    saving = coda_ir.compile(module, training=True, target="reference", save=["h"])
    assert "h" in [spec.name for spec in saving.saved]
    usual = coda_ir.compile(module, training=True, target="reference")
    assert "h" not in [spec.name for spec in usual.saved]
    with pytest.raises(CodaError, match="recompute names 'q'"):
        coda_ir.compile(module, training=True, target="reference", recompute=["q"]).prepare()


# What PyTorch does around a function in training, on the feed-forward network of a Llama


class Network(nn.Module):
    """The weights of `llama_mlp`, and a function of them: ours, or the model in PyTorch."""

    def __init__(self, function: Function):
        super().__init__()
        inputs = example("llama_mlp", torch.float32).inputs({"B": 1, "T": 1}, 0)
        weights = {name: nn.Parameter(x) for name, x in inputs.items() if name != "x"}
        self.weights = nn.ParameterDict(weights)
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function({"x": x, **{n: w.to(x.dtype) for n, w in self.weights.items()}})[0]


def networks(dtype: torch.dtype = torch.float32) -> tuple[Network, Network]:
    """Ours and PyTorch's."""
    program = example("llama_mlp", dtype)
    ours = called(trainable("llama_mlp", dtype, "reference"))
    return Network(ours), Network(modelled(program))


def batches(count: int, dtype: torch.dtype = torch.float32) -> Iterator[torch.Tensor]:
    for seed in range(count):
        yield example("llama_mlp", dtype).inputs({"B": 2, "T": 5}, seed)["x"]


def assert_same_weights(ours: Network, theirs: Network, tolerance: float = 1e-5) -> None:
    pairs = zip(ours.parameters(), theirs.parameters(), strict=True)
    for mine, other in pairs:
        torch.testing.assert_close(mine, other, rtol=tolerance, atol=tolerance)


def test_optimizer_with_accumulated_gradients():
    trained = networks()
    for network in trained:
        optimizer = optim.AdamW(network.parameters(), lr=1e-2)
        for step, x in enumerate(batches(6)):
            network(x).square().mean().backward()
            if step % 2:
                optimizer.step()
                optimizer.zero_grad()
    assert_same_weights(*trained)


def test_frozen_weights():
    ours, theirs = trained = networks()
    for network in trained:
        for name in ("norm", "w_up"):
            network.weights[name].requires_grad_(False)
        network(next(batches(1))).square().mean().backward()
    assert ours.weights["norm"].grad is None and ours.weights["w_up"].grad is None
    for name in ("w_gate", "w_down"):
        torch.testing.assert_close(ours.weights[name].grad, theirs.weights[name].grad)


def test_scaled_gradients_in_half_precision():
    """A step with infinite gradients is left out, and the scale is made smaller."""
    trained = networks(torch.float16)
    for network in trained:
        scaler: Any = torch.amp.GradScaler("cpu", init_scale=2.0**20)
        optimizer = optim.SGD(network.parameters(), lr=1e-2)
        steps = 0
        for x in batches(10, torch.float16):
            optimizer.zero_grad()
            scaler.scale(network(x).float().square().mean()).backward()
            before = scaler.get_scale()
            scaler.step(optimizer)
            scaler.update()
            steps += scaler.get_scale() == before
        assert 0 < steps < 10
    assert_same_weights(*trained, tolerance=2e-3)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointed_layers(reentrant: bool):
    ours, theirs = networks()
    for network in (ours, theirs):
        h: Any = next(batches(1)).requires_grad_()
        for _ in range(2):
            h = checkpoint(network, h, use_reentrant=reentrant)
        h.square().mean().backward()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, other.grad, rtol=1e-4, atol=1e-5)


def test_programs_before_the_first_call_are_those_of_all_gradients_that_there_are():
    """The tables of a rotary embedding have none."""
    module = example("llama_layer", torch.bfloat16).module("block")
    layer = coda_ir.compile(module, training=True, target="reference")
    gradients = {spec.name for spec in layer.pair().backward.signature.results}
    trained = {spec.name for spec in layer.signature.arguments} - set(TABLES)
    assert gradients == {f"d_{name}" for name in trained}


@pytest.mark.parametrize("target", ["reference", "triton"])
@pytest.mark.parametrize("offset", [0.0, 60.0])
def test_gradient_of_a_loss_of_large_logits(target: Literal["reference", "triton"], offset: float):
    """The logsumexp of large logits is rounded to a multiple of 2^-18, their softmax is not."""
    program = """
    fn loss(x: f32[M, 300], target: i64[M]) -> f32[] {
        return cross_entropy(x, target)
    }
    """
    function = coda_ir.compile(program, training=True, device="cpu", target=target)
    torch.default_generator.manual_seed(0)
    x = 8 * torch.randn(128, 300) + offset
    labels = torch.randint(300, (128,))

    def gradient(loss: Any, x: torch.Tensor) -> torch.Tensor:
        x = x.clone().requires_grad_()
        return grad(loss(x, labels), x)[0]

    exact = gradient(nn.functional.cross_entropy, x.double())
    eager = relative_error(gradient(nn.functional.cross_entropy, x), exact)
    assert relative_error(gradient(function, x), exact) <= 1.25 * eager


@pytest.mark.parametrize("target", ["reference", "triton"])
def test_a_value_with_and_without_a_gradient(target: Any):
    """Both results are one tensor of the program."""
    text = """fn f(x: f32[M, 16], w: f32[16, 16], unused: f32[16]) {
        y = linear(x, w)
        return y, detach(linear(x, w)), detach(unused)
    }"""
    function = coda_ir.compile(text, training=True, device="cpu", target=target)
    x, w, unused = (torch.randn(*size, requires_grad=True) for size in ((3, 16), (16, 16), (16,)))
    y, constant, _ = function(x, w, unused)
    assert y.requires_grad and not constant.requires_grad
    y.sum().backward()
    torch.testing.assert_close(x.grad, w.detach().sum(0).expand(3, 16))
    assert unused.grad is None
