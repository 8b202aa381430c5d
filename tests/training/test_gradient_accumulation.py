"""Gradients that GEMMs add to those that there are: the sums of PyTorch, and who adds them."""

import logging
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from faults.runner import start_server
from support.added_gradients import Sums

import coda_ir
from coda_ir.diagnostics import CodaError
from coda_ir.training.functions import TrainableFunction

# PyTorch has no complete types for them.
checkpoint: Any = import_module("torch.utils.checkpoint").checkpoint
compile: Any = coda_ir.compile
functional: Any = torch.nn.functional
grad: Any = torch.autograd.grad

PROGRAM = """
fn network(x: f32[M, 16], weight norm: f32[16], weight up: f32[24, 16], weight down: f32[16, 24])
    -> f32[M, 16] {
    return x + linear(silu(linear(rms_norm(x, norm, eps=1e-5), up)), down)
}
"""
SHAPES = {"norm": (16,), "up": (24, 16), "down": (16, 24)}

Weights = dict[str, Any]


def network_of(**options: Any) -> TrainableFunction:
    choices = {"training": True, "device": "cpu", "fuse_gradient_accumulation": True, **options}
    return compile(choices.pop("program", PROGRAM), **choices)


@pytest.fixture(scope="module", params=["reference", "triton"])
def network(request: pytest.FixtureRequest) -> TrainableFunction:
    return network_of(target=request.param)


@pytest.fixture(scope="module")
def reference() -> TrainableFunction:
    return network_of(target="reference")


def eager(x: Any, norm: Any, up: Any, down: Any) -> Any:
    h = functional.rms_norm(x, (16,), norm, eps=1e-5)
    return x + functional.linear(functional.silu(functional.linear(h, up)), down)


def weights(dtype: torch.dtype = torch.float32) -> Weights:
    generator = torch.Generator().manual_seed(0)
    drawn = {name: torch.randn(shape, generator=generator) / 4 for name, shape in SHAPES.items()}
    return {name: w.to(dtype).requires_grad_() for name, w in drawn.items()}


def batch(seed: int = 0, dtype: torch.dtype = torch.float32) -> Any:
    generator = torch.Generator().manual_seed(100 + seed)
    return torch.randn(5 + seed, 16, generator=generator).to(dtype)


def gradients(given: Weights) -> list[Any]:
    return [w.grad for w in given.values()]


def check(scenario: Callable[[Any, Weights], None], function: TrainableFunction) -> None:
    """A scenario leaves the gradients of PyTorch."""
    ours, theirs = weights(), weights()
    scenario(function, ours)
    scenario(eager, theirs)
    torch.testing.assert_close(gradients(ours), gradients(theirs), rtol=1e-5, atol=1e-5)


def backward(function: Any, given: Weights, seed: int = 0, **options: Any) -> None:
    function(batch(seed), **given).square().sum().backward(**options)


def added(function: Any, given: Weights, seed: int = 1, **options: Any) -> set[str]:
    """The weights whose gradient PyTorch adds in a backward pass."""
    shapes = Counter[tuple[int, ...]]()
    with Sums(shapes):
        backward(function, given, seed, **options)
    return {name for name, shape in SHAPES.items() if shapes[shape]}


@pytest.mark.slow
def test_no_kernel_adds_gradients_of_matrices(network: TrainableFunction):
    given = weights()
    backward(network, given)
    assert added(network, given) == {"norm"}
    plain = network_of(target=network.target, fuse_gradient_accumulation=False)
    assert added(plain, given) == {"norm", "up", "down"}


def test_gradients_of_several_batches(network: TrainableFunction):
    def scenario(function: Any, given: Weights) -> None:
        for seed in range(3):
            backward(function, given, seed)

    check(scenario, network)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["reference", "triton"])
def test_sums_of_bfloat16_are_as_exact_as_those_of_pytorch(target: str):
    function = network_of(program=PROGRAM.replace("f32", "bf16"), target=target)
    runs: list[list[Any]] = []
    for call, dtype in (
        (function, torch.bfloat16),
        (eager, torch.bfloat16),
        (eager, torch.float64),
    ):
        given = {
            name: w.to(dtype).detach().requires_grad_()
            for name, w in weights(torch.bfloat16).items()
        }
        for seed in range(6):
            call(batch(seed, torch.bfloat16).to(dtype), **given).float().square().sum().backward()
        runs.append(gradients(given))
    ours, theirs, exact = runs
    for mine, other, wanted in zip(ours, theirs, exact, strict=True):
        errors = [(g.double() - wanted).square().mean().sqrt() for g in (mine, other)]
        assert errors[0] <= 1.25 * errors[1]


@pytest.mark.parametrize("to_none", [True, False])
def test_gradients_that_are_set_to_zero(reference: TrainableFunction, to_none: bool):
    def scenario(function: Any, given: Weights) -> None:
        optimizer: Any = torch.optim.SGD(given.values(), lr=0.01)
        for seed in range(4):
            backward(function, given, seed)
            if seed % 2:
                optimizer.step()
                optimizer.zero_grad(set_to_none=to_none)
        backward(function, given)

    check(scenario, reference)


def test_gradients_that_are_clipped_between_batches(reference: TrainableFunction):
    def scenario(function: Any, given: Weights) -> None:
        for seed in range(3):
            backward(function, given, seed)
            torch.nn.utils.clip_grad_norm_(given.values(), 0.5)

    check(scenario, reference)


def test_scaled_gradients(reference: TrainableFunction):
    """A scale that overflows leaves infinities, which the next batches do not hide."""

    def scenario(function: Any, given: Weights) -> None:
        scaler: Any = torch.amp.GradScaler("cpu", init_scale=2.0**126, growth_interval=1)
        optimizer: Any = torch.optim.SGD(given.values(), lr=0.01)
        for seed in range(8):
            scaler.scale(function(batch(seed), **given).square().mean()).backward()
            if seed % 2:
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
        backward(function, given)

    check(scenario, reference)


def test_a_weight_of_two_calls(reference: TrainableFunction):
    def scenario(function: Any, given: Weights) -> None:
        for seed in range(2):
            function(function(batch(seed), **given), **given).square().sum().backward()

    check(scenario, reference)


def test_a_weight_that_pytorch_uses_too(reference: TrainableFunction):
    def scenario(function: Any, given: Weights) -> None:
        for seed in range(2):
            y = function(batch(seed), **given) @ given["up"].T
            y.square().sum().backward()

    check(scenario, reference)


def test_a_weight_that_is_two_arguments():
    program = """
fn twice(x: f32[M, 16], weight a: f32[16, 16], weight b: f32[16, 16]) -> f32[M, 16] {
    return linear(silu(linear(x, a)), b)
}
"""
    function = network_of(program=program, target="reference")

    def eager_twice(x: Any, a: Any, b: Any) -> Any:
        return functional.linear(functional.silu(functional.linear(x, a)), b)

    results: list[Any] = []
    for call in (function, eager_twice):
        generator = torch.Generator().manual_seed(0)
        w: Any = (torch.randn(16, 16, generator=generator) / 4).requires_grad_()
        for seed in range(3):
            loss: Any = call(batch(seed), w, w)
            loss.square().sum().backward()
        results.append(w.grad)
    torch.testing.assert_close(*results, rtol=1e-5, atol=1e-5)


def test_frozen_weights(reference: TrainableFunction):
    def scenario(function: Any, given: Weights) -> None:
        backward(function, given)
        given["up"].requires_grad_(False)
        backward(function, given, 1)
        given["up"].requires_grad_(True)
        backward(function, given, 2)

    check(scenario, reference)


def test_a_graph_that_is_retained(reference: TrainableFunction):
    def scenario(function: Any, given: Weights) -> None:
        loss = function(batch(), **given).square().sum()
        loss.backward(retain_graph=True)
        loss.backward(retain_graph=True)
        loss.backward()

    check(scenario, reference)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointed_layers(reference: TrainableFunction, reentrant: bool):
    def scenario(function: Any, given: Weights) -> None:
        for seed in range(2):
            h = batch(seed).requires_grad_()
            for _ in range(2):
                h = checkpoint(function, h, *given.values(), use_reentrant=reentrant)
            h.square().sum().backward()

    check(scenario, reference)


def test_gradients_that_are_returned_are_not_added(reference: TrainableFunction):
    def scenario(function: Any, given: Weights) -> None:
        backward(function, given)
        loss = function(batch(1), **given).square().sum()
        found = grad(loss, [given["up"]], retain_graph=True)
        given["down"].grad += found[0].T
        loss.backward(inputs=[given["up"]])

    check(scenario, reference)


def test_a_batch_without_rows(reference: TrainableFunction):
    given = weights()
    backward(reference, given)
    before = [g.clone() for g in gradients(given)]
    reference(batch()[:0], **given).sum().backward()
    assert all(map(torch.equal, before, gradients(given)))


# What the program leaves to PyTorch


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Callable[[], str]:
    caplog.set_level(logging.INFO, "coda_ir.gradient_accumulation")
    return lambda: caplog.text


def hooked(w: Any) -> None:
    def double(gradient: torch.Tensor) -> torch.Tensor:
        return gradient * 2

    w.register_hook(double)


def observed(w: Any) -> None:
    def double(w: Any) -> None:
        w.grad.mul_(2)

    w.register_post_accumulate_grad_hook(double)


def spread(w: Any) -> None:
    w.grad = w.grad.T.contiguous().T


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (hooked, "it has a hook"),
        (observed, "it has a hook"),
        (spread, "its gradient is not contiguous"),
    ],
)
def test_gradients_that_pytorch_adds(
    told: Callable[[], str], change: Callable[[Any], None], reason: str
):
    function = network_of(target="reference")

    def scenario(call: Any, given: Weights) -> None:
        backward(call, given)
        change(given["up"])
        backward(call, given, 1)

    check(scenario, function)
    assert f"the gradient of up in network_forward is added by PyTorch: {reason}" in told()
    assert "the gradient of norm in network_forward is added by PyTorch: it has no gr" in told()


def test_gradients_that_share_memory(told: Callable[[], str]):
    function = network_of(target="reference")
    given, flat = weights(), torch.zeros(3 * 24 * 16)
    up, down = given["up"], given["down"]
    backward(function, given)
    up.grad, down.grad = flat[:384].view(24, 16), flat[384:768].view(16, 24)
    assert added(function, given) == {"norm"}  # side by side in one allocation
    down.grad = flat[383:767].view(16, 24)
    assert added(function, given) == {"norm", "up", "down"}
    up.grad, down.grad = up.detach().requires_grad_(False), torch.zeros(16, 24)
    assert added(function, given) == {"norm", "up"}
    assert (
        "the gradient of up in network_forward is added by PyTorch: its gradient shares" in told()
    )


def test_weights_that_are_computed(told: Callable[[], str]):
    function = network_of(target="reference")

    def scenario(call: Any, given: Weights) -> None:
        for seed in range(2):
            backward(call, {**given, "up": given["up"] * 2}, seed)

    check(scenario, function)
    assert "gradient of up in network_forward is added by PyTorch: it is computed from" in told()


def test_gradients_that_are_differentiated(told: Callable[[], str]):
    function = network_of(target="reference")

    def scenario(call: Any, given: Weights) -> None:
        for seed in range(2):
            backward(call, given, seed, create_graph=True)

    with pytest.warns(UserWarning, match="create_graph"):
        check(scenario, function)
    assert (
        "of all arguments in network_forward is added by PyTorch: the gradients are diff" in told()
    )


def test_most_selections_of_gradients(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("coda_ir.training.gradient_pair.MOST_SELECTIONS", 1)
    function, given = network_of(target="reference"), weights()
    backward(function, given)
    assert added(function, given) == {"norm"}
    given["up"].grad = None
    assert added(function, given) == {"norm", "down"}
    assert added(function, given) == {"norm"}


# What others see


def test_changes_of_gradients_are_counted(reference: TrainableFunction):
    given = weights()
    backward(reference, given)
    up = given["up"]
    with torch.enable_grad():
        y = (up.grad * torch.ones((), requires_grad=True)).sum()
    assert added(reference, given) == {"norm"}
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_an_exception_says_which_gradients_are_incomplete(monkeypatch: pytest.MonkeyPatch):
    function, given = network_of(target="reference"), weights()
    backward(function, given)
    backward(function, given)
    programs: Any = function.pair()._backwards  # pyright: ignore[reportPrivateUsage]
    (special,) = (b.function for (_, existing), b in programs.items() if existing)

    def fail(*_: object) -> Any:
        raise MemoryError("no memory")

    monkeypatch.setattr(special, "run_boxed", fail)
    with pytest.raises(MemoryError) as caught:
        backward(function, given)
    (note,) = caught.value.__notes__
    assert note.startswith(
        "network_backward failed while it added to the gradients of up, down: set"
    )


class Distributed(torch.nn.Module):
    """A function with its weights."""

    def __init__(self, function: TrainableFunction):
        super().__init__()
        self.weights = torch.nn.ParameterDict(weights())
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x, **self.weights)


def distributed_steps(rank: int, store: str) -> None:
    """Compare steps of DistributedDataParallel with micro-batches to those of eager PyTorch, with
    and without GEMMs that add; for a process of its own. `store` is a new file.
    """
    distributed: Any = import_module("torch.distributed")
    wrap: Any = import_module("torch.nn.parallel").DistributedDataParallel
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=1)
    for is_fused in (True, False):
        function = network_of(target="reference", fuse_gradient_accumulation=is_fused)
        ours, theirs = Distributed(function), weights()
        parallel = wrap(ours)
        for step in range(2):
            for seed in range(2):
                with parallel.no_sync():
                    parallel(batch(seed)).square().sum().backward()
                backward(eager, theirs, seed)
            parallel(batch(step + 2)).square().sum().backward()
            backward(eager, theirs, step + 2)
        found = [ours.weights[name].grad for name in theirs]
        torch.testing.assert_close(found, gradients(theirs), rtol=1e-5, atol=1e-5)
    distributed.destroy_process_group()


@pytest.mark.slow
def test_distributed_data_parallel(tmp_path: Path):
    processes: Any = import_module("torch.multiprocessing")
    start_server()
    store = str(tmp_path / "store")
    processes.start_processes(distributed_steps, (store,), 1, start_method="forkserver")


def test_programs_can_be_made_before_the_first_call():
    function = network_of(target="reference")
    function.prepare()
    passed = [r for r in function.remarks if r.pass_name == "accumulate-gradients"]
    assert Counter(remark.kind for remark in passed) == {"passed": 2, "missed": 1}


def test_programs_without_gradients_have_none_to_add():
    with pytest.raises(CodaError, match=r"only programs compiled for training.*\n.* pass training"):
        compile(PROGRAM, target="reference", fuse_gradient_accumulation=True)
