"""`coda_ir.compile(..., fold_weights=True)`: copies of weights, times that of a norm."""

import gc
from typing import Any

import pytest
import torch
from support.emitted import module_of

import coda_ir
from coda_ir.api import CompiledFunction
from coda_ir.diagnostics import CodaError
from coda_ir.random_inputs import random_inputs

MLP = """
const D = 48
const F = 80

fn mlp(y: bf16[B, T, D], x: bf16[B, T, D], weight wo: bf16[D, D], weight norm: bf16[D],
       weight w_gate: bf16[F, D], weight w_up: bf16[F, D], weight w_down: bf16[D, F])
       -> bf16[B, T, D] {
  x1 = x + linear(y, wo)
  h = rms_norm(x1, norm, eps=1e-6)
  return x1 + linear(silu(linear(h, w_gate)) * linear(h, w_up), w_down)
}
"""
COPIED = 2 * 80 * 48


@pytest.fixture(scope="module")
def folded() -> CompiledFunction:
    return coda_ir.compile(MLP, fold_weights=True)


def inputs(mlp: CompiledFunction, batch: int = 2, time: int = 5) -> dict[str, torch.Tensor]:
    (func,) = mlp.module("block").ops
    sizes = {"B": batch, "T": time}
    return random_inputs(func, sizes, device=mlp.device)  # pyright: ignore[reportArgumentType]


def check(mlp: CompiledFunction, given: dict[str, torch.Tensor]) -> None:
    actual, expected = mlp(**given).double(), mlp.reference(given)
    assert (actual - expected).abs().max() <= 0.01 * expected.abs().max()


def entries(mlp: CompiledFunction) -> dict[Any, Any]:
    return module_of(mlp).PACKED.entries


def test_it_is_off_by_default():
    mlp = coda_ir.compile(MLP)
    assert not mlp.folds_weights and "gemm.scale_weight" not in mlp.operators


def test_agrees_with_float64_at_every_size(folded: CompiledFunction):
    assert folded.folds_weights and folded.operators["gemm.scale_weight"] == 2
    for batch, time in ((1, 1), (2, 5), (1, 127), (3, 43)):
        check(folded, inputs(folded, batch, time))


def test_float32():
    mlp = coda_ir.compile(MLP.replace("bf16", "f32"), fold_weights=True)
    given = inputs(mlp)
    torch.testing.assert_close(mlp(**given).double(), mlp.reference(given), rtol=1e-4, atol=1e-4)


def test_the_scaled_copy_of_the_residual_is_not_stored(folded: CompiledFunction):
    """The first GEMM stores only the residual and its partial sums."""
    assert "-> (tile : tensor<?x?x48xbf16>, partial_row" in folded.ir("gemm")
    assert "-> (tile : tensor<?x?x48xbf16>, tile : " in coda_ir.compile(MLP).ir("gemm")


def test_updates_in_place_are_seen(folded: CompiledFunction):
    given = inputs(folded)
    check(folded, given)
    given["w_gate"].mul_(-2)
    check(folded, given)
    given["norm"].add_(1.5)
    check(folded, given)
    with torch.inference_mode():
        given["w_up"].zero_()
    check(folded, given)
    given["w_up"].data = torch.randn_like(given["w_up"])
    check(folded, given)


def test_copies_are_kept_until_something_changes(
    folded: CompiledFunction, monkeypatch: pytest.MonkeyPatch
):
    scaled, made = module_of(folded).scaled, list[torch.Tensor]()

    def counted(weight: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        made.append(scaled(weight, factor))
        return made[-1]

    monkeypatch.setattr(module_of(folded), "scaled", counted)
    given = inputs(folded)
    for _ in range(3):
        check(folded, given)
    assert len(made) == 2
    given["w_down"].mul_(2)
    check(folded, given)
    assert len(made) == 2, "nothing was folded into it"
    given["w_up"].mul_(2)
    check(folded, given)
    assert len(made) == 3
    given["norm"].mul_(2)
    check(folded, given)
    assert len(made) == 5
    assert sum(x.numel() for x in made[-2:]) == COPIED


@pytest.mark.parametrize("name", ["w_gate", "norm"])
def test_copies_go_with_their_weights(folded: CompiledFunction, name: str):
    module_of(folded).PACKED.clear()
    given = inputs(folded)
    check(folded, given)
    assert len(entries(folded)) == 2
    del given[name]
    gc.collect()
    assert len(entries(folded)) == (1 if name == "w_gate" else 0)


def test_a_weight_with_several_uses(folded: CompiledFunction):
    """One that is shared, and one that is used as it is as well."""
    given = inputs(folded)
    check(folded, {**given, "w_up": given["w_gate"]})
    text = MLP.replace("return x1", "return linear(x1, w_gate) @ w_up + x1")
    mlp = coda_ir.compile(text, fold_weights=True)
    assert mlp.folds_weights
    given = inputs(mlp)
    for _ in range(2):
        check(mlp, given)
        given["w_gate"].mul_(0.5)


def test_arguments_that_are_no_weights_are_not_folded():
    """They may be new in each call."""
    mlp = coda_ir.compile(MLP.replace("weight w_up", "w_up"), fold_weights=True)
    assert not mlp.folds_weights
    (remark,) = (remark for remark in mlp.remarks if remark.pass_name == "place-column-scale")
    assert remark.kind == "missed" and remark.condition == "the weight is marked as a weight"
    check(mlp, inputs(mlp))


def test_eager_exact_folds_nothing():
    mlp = coda_ir.compile(MLP, fold_weights=True, numerics="eager-exact")
    assert not mlp.folds_weights
    check(mlp, inputs(mlp))


def test_a_remark_says_what_the_copies_cost(folded: CompiledFunction):
    (remark,) = (remark for remark in folded.remarks if remark.pass_name == "place-column-scale")
    assert remark.kind == "passed"
    assert remark.message == f"folded into 2 weights, whose copies take {2 * COPIED} bytes"


@pytest.mark.parametrize("target", ["triton", "reference"])
def test_not_for_programs_that_are_trained(target: Any):
    compile: Any = coda_ir.compile
    with pytest.raises(CodaError, match="fold_weights is for inference") as e:
        compile(MLP, fold_weights=True, training=True, target=target)
    assert e.value.remedy and "without training" in e.value.remedy


@pytest.mark.parametrize("target", ["triton", "reference"])
def test_not_where_nothing_may_be_kept(target: Any):
    with pytest.raises(CodaError, match="which pack_weights=False does not allow"):
        coda_ir.compile(MLP, fold_weights=True, pack_weights=False, target=target)


def test_not_for_cuda_graphs(monkeypatch: pytest.MonkeyPatch):
    mlp = coda_ir.compile(MLP, fold_weights=True, device="cpu")
    assert mlp.folds_weights
    monkeypatch.setattr(mlp.executable, "has_cuda_graphs", True)
    with pytest.raises(CodaError, match="would fold the weights again in each replay"):
        mlp.graphed()
