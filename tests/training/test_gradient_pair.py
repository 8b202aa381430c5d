"""A handwritten forward and backward program as a part of PyTorch's autograd."""

import gc
from importlib import import_module
from typing import Any

import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from xdsl.dialects.builtin import ModuleOp

import coda_ir
from coda_ir.diagnostics import ArgumentError, CodaError
from coda_ir.training.functions import TrainableFunction
from coda_ir.training.gradient_pair import BackwardProgramError, DoubleBackwardError

# PyTorch has no complete types for it.
checkpoint: Any = import_module("torch.utils.checkpoint").checkpoint
grad: Any = torch.autograd.grad

SCALED = """
fn scaled(x: f32[M, 8], weight w: f32[4, 8], scale: f32[4], ids: i64[M])
    -> (f32[M, 4], f32[M, 8], i64[M]) {
    y = linear(x, w) * scale
    t = -x
    return y, t, ids
}

fn scaled_forward(x: f32[M, 8], weight w: f32[4, 8], scale: f32[4], ids: i64[M])
    -> (f32[M, 4], f32[M, 8], i64[M], f32[M, 4]) {
    z = linear(x, w)
    y = z * scale
    t = -x
    return y, t, ids, z
}
"""

BACKWARD = """
func.func @scaled_backward(
    %d_t: tensor<?x8xf32> {coda.name = "d_t", coda.dims = ["M", 8]},
    %z: tensor<?x4xf32> {coda.name = "z", coda.dims = ["M", 4]},
    %d_y: tensor<?x4xf32> {coda.name = "d_y", coda.dims = ["M", 4]},
    %scale: tensor<4xf32> {coda.name = "scale"},
    %x: tensor<?x8xf32> {coda.name = "x", coda.dims = ["M", 8]},
    %w: tensor<4x8xf32> {coda.name = "w"})
    -> (tensor<4x8xf32> {coda.name = "d_w"},
        tensor<?x8xf32> {coda.name = "d_x", coda.dims = ["M", 8]},
        tensor<4xf32> {coda.name = "d_scale"}) {
  %d_z = coda.mul %d_y, %scale : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
  %a = coda.matmul %d_z, %w : (tensor<?x4xf32>, tensor<4x8xf32>) -> tensor<?x8xf32>
  %d_x = coda.sub %a, %d_t : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %d_w = coda.weight_gradient %d_z, %x : (tensor<?x4xf32>, tensor<?x8xf32>) -> tensor<4x8xf32>
  %s = coda.mul %d_y, %z : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  %d_scale = coda.sum_to %s : (tensor<?x4xf32>) -> tensor<4xf32>
  func.return %d_w, %d_x, %d_scale : tensor<4x8xf32>, tensor<?x8xf32>, tensor<4xf32>
}
"""


def program(forward: str = SCALED, backward: str = BACKWARD) -> ModuleOp:
    module = coda_ir.parse(forward)
    for func in list(coda_ir.parse(backward).ops):
        func.detach()
        module.body.block.add_op(func)
    return module


@pytest.fixture(scope="module", params=["reference", "triton"])
def scaled(request: pytest.FixtureRequest) -> TrainableFunction:
    return coda_ir.compile(program(), training=True, target=request.param)


@pytest.fixture
def given(scaled: TrainableFunction) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(0)
    shapes = {"x": (5, 8), "w": (4, 8), "scale": (4,)}
    tensors: dict[str, Any] = {
        name: torch.randn(shape, generator=generator).to(scaled.device).requires_grad_()
        for name, shape in shapes.items()
    }
    return {**tensors, "ids": torch.arange(5, device=scaled.device)}


def eager(x: Any, w: Any, scale: Any, ids: Any) -> tuple[Any, ...]:
    return (x @ w.T) * scale, -x, ids


def gradients(function: Any, given: dict[str, Any], loss: Any) -> list[torch.Tensor | None]:
    for tensor in given.values():
        tensor.grad = None
    loss(*function(**given)).backward()
    return [tensor.grad for tensor in given.values()]


def both(y: Any, t: Any, ids: Any) -> Any:
    return y.square().mean() + (t * t.detach()).sum()


def first(y: Any, t: Any, ids: Any) -> Any:
    return y.square().mean()


def second(y: Any, t: Any, ids: Any) -> Any:
    return t.square().mean()


def expanded(y: Any, t: Any, ids: Any) -> Any:
    return y.sum() + t.sum()


@pytest.mark.parametrize("loss", [both, first, second, expanded])
def test_gradients(scaled: TrainableFunction, given: dict[str, Any], loss: Any):
    got, wanted = (gradients(function, given, loss) for function in (scaled, eager))
    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-6)


def test_missing_gradients_cost_nothing(scaled: TrainableFunction, given: dict[str, Any]):
    gradients(scaled, given, second)
    backwards: Any = scaled.pair()._backwards  # pyright: ignore[reportPrivateUsage]
    smaller = backwards[frozenset({0})].function
    assert str(smaller.signature) == "scaled_backward(d_t: float32[M, 8]) -> (d_x: float32[M, 8])"
    assert [op.name for op in smaller.module("block").walk()][2:] == ["coda.neg", "func.return"]


def test_two_runs_are_bit_equal(scaled: TrainableFunction, given: dict[str, Any]):
    one, two = (gradients(scaled, given, both) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(one[:3], two[:3], strict=True))  # pyright: ignore


@pytest.mark.parametrize("frozen", [("x",), ("w", "scale"), ("x", "w", "scale")])
def test_arguments_that_need_no_gradient(
    scaled: TrainableFunction, given: dict[str, Any], frozen: tuple[str, ...]
):
    for name in frozen:
        given[name].requires_grad_(False)
    y, _, ids = scaled(**given)
    assert y.requires_grad == (len(frozen) < 3) and not ids.requires_grad
    if y.requires_grad:
        got, wanted = (gradients(f, given, first) for f in (scaled, eager))
        torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-6)


def test_without_gradients_the_plain_function_runs(
    scaled: TrainableFunction, given: dict[str, Any]
):
    with torch.no_grad():
        y, _, _ = scaled(**given)
    assert not y.requires_grad
    torch.testing.assert_close(y, eager(**given)[0].detach())
    assert scaled(*(tensor.detach() for tensor in given.values()))[0].grad_fn is None


def test_a_size_of_zero(scaled: TrainableFunction, given: dict[str, Any]):
    given["x"], given["ids"] = torch.zeros(0, 8, requires_grad=True), given["ids"][:0]
    d_x, d_w, d_scale, _ = gradients(scaled, given, expanded)
    assert d_x is not None and d_x.shape == (0, 8)
    assert torch.equal(d_w, torch.zeros(4, 8)) and torch.equal(d_scale, torch.zeros(4))  # pyright: ignore


def test_calls_are_checked(scaled: TrainableFunction, given: dict[str, Any]):
    with pytest.raises(ArgumentError, match="x has shape"):
        scaled(**{**given, "x": given["x"][:, :7]})
    with pytest.raises(ArgumentError, match="w has element type bfloat16"):
        scaled(**{**given, "w": given["w"].bfloat16()})


def test_what_is_saved_is_counted_and_freed(scaled: TrainableFunction, given: dict[str, Any]):
    assert [str(spec) for spec in scaled.saved] == ["z: float32[M, 4]"]
    assert scaled.saved_bytes.evaluate({"M": 5}) == 80
    packed: list[torch.Tensor] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        packed.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        y, _, _ = scaled(**given)
    assert sorted(map(tuple, (tensor.shape for tensor in packed))) == [(4,), (4, 8), (5, 4), (5, 8)]
    (z,) = (tensor for tensor in packed if tensor.shape == (5, 4))
    storage = StorageWeakRef(z.untyped_storage())
    del z, packed[:]
    gc.collect()
    assert not storage.expired()
    y.sum().backward()
    gc.collect()  # Triton's interpreter makes cycles
    assert storage.expired()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.sum().backward()


def test_a_graph_that_is_retained(scaled: TrainableFunction, given: dict[str, Any]):
    y, _, _ = scaled(**given)
    y.sum().backward(retain_graph=True)
    once = given["w"].grad.clone()
    y.sum().backward()
    torch.testing.assert_close(given["w"].grad, 2 * once)


@pytest.mark.parametrize("name", ["x", "w", "scale"])
def test_changes_in_place_are_noticed(scaled: TrainableFunction, given: dict[str, Any], name: str):
    y, _, _ = scaled(**given)
    with torch.no_grad():
        given[name].mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_changes_in_place_of_what_is_not_saved(scaled: TrainableFunction, given: dict[str, Any]):
    y, t, _ = scaled(**given)
    y.square_()
    (y.sum() + t.sum()).backward()
    found = given["w"].grad
    given["w"].grad = None
    (eager(**given)[0].square().sum()).backward()
    torch.testing.assert_close(found, given["w"].grad)


def test_double_backward_is_an_error(scaled: TrainableFunction, given: dict[str, Any]):
    y, _, _ = scaled(**given)
    (d_x,) = grad(y.sum(), given["x"], create_graph=True)
    torch.testing.assert_close(d_x, (given["scale"] @ given["w"]).expand(5, 8))
    with pytest.raises(DoubleBackwardError, match="scaled_backward computed is differentiated"):
        d_x.square().sum().backward()


def test_a_batch_of_gradients_is_an_error(scaled: TrainableFunction, given: dict[str, Any]):
    y, _, _ = scaled(**given)
    with pytest.raises(ArgumentError, match="leave out is_grads_batched=True"):
        grad(y, given["x"], torch.ones(2, *y.shape), is_grads_batched=True)


@pytest.mark.parametrize("reentrant", [False, True])
def test_activation_checkpointing(
    scaled: TrainableFunction, given: dict[str, Any], reentrant: bool
):
    def twice(function: Any) -> Any:
        def run(x: Any, w: Any, scale: Any, ids: Any) -> tuple[Any, ...]:
            def step(x: Any) -> Any:
                y, t, _ = function(x.sin(), w, scale, ids)
                return y @ w + t

            h = checkpoint(step, x, use_reentrant=reentrant)
            return checkpoint(step, h, use_reentrant=reentrant), x, ids

        return run

    got, wanted = (gradients(twice(f), given, both) for f in (scaled, eager))
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)


def test_one_weight_used_twice(scaled: TrainableFunction, given: dict[str, Any]):
    def tied(function: Any) -> Any:
        def run(x: Any, w: Any, scale: Any, ids: Any) -> tuple[Any, ...]:
            y, _, _ = function(x, w, scale, ids)
            return function(y @ w, w, scale, ids)

        return run

    got, wanted = (gradients(tied(f), given, both) for f in (scaled, eager))
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)


def test_autocast_does_not_change_a_program(scaled: TrainableFunction, given: dict[str, Any]):
    with torch.autocast(scaled.device.type, dtype=torch.bfloat16):
        got = gradients(scaled, given, both)
    assert torch.equal(got[1], gradients(scaled, given, both)[1])  # pyright: ignore


def test_an_argument_without_a_gradient():
    backward = BACKWARD.replace('"d_scale"', '"d_s"')
    scaled = coda_ir.compile(
        program(backward=backward), training=True, target="reference", device="cpu"
    )
    with pytest.raises(
        BackwardProgramError, match="computes no gradient of scale\n  help: return d_"
    ):
        scaled.prepare(["w", "scale"])


def test_an_argument_that_nobody_gives():
    forward = SCALED.replace("return y, t, ids, z", "return y, t, ids, -z")
    scaled = coda_ir.compile(program(forward), training=True, target="reference", device="cpu")
    with pytest.raises(BackwardProgramError, match="argument z of scaled_backward is neither"):
        scaled.prepare()


def test_wrong_requests():
    with pytest.raises(CodaError, match=r"pass training=True"):
        coda_ir.compile(program(), entry="scaled", target="reference", memory_budget=1000)  # pyright: ignore
    scaled = coda_ir.compile(program(), training=True, target="reference", device="cpu")
    with pytest.raises(CodaError, match=r"no gradient of 'ids'\n  help: .* x, w, scale"):
        scaled.pair(["ids"])


def test_both_programs_can_be_looked_at():
    scaled = coda_ir.compile(program(), training=True, target="triton")
    assert "@scaled_forward" in scaled.ir("gemm") and "@scaled_backward" in scaled.ir("gemm")
    assert scaled.source.count("def run(") == 2
    pair = scaled.pair()
    assert scaled.kernels == pair.forward.kernels + pair.backward.kernels
    assert any(remark.operator == "coda.mul" for remark in scaled.remarks)
    assert repr(scaled).startswith("<TrainableFunction scaled(x: float32[M, 8]")
