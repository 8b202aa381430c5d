"""`coda_ir.compile` for Triton: on a GPU, or in Triton's interpreter where there is none."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

import coda_ir
from coda_ir.api import CompiledFunction
from coda_ir.diagnostics import ArgumentError, CodaError
from coda_ir.random_inputs import random_inputs

MLP = """
const D = 48
const F = 80

fn mlp(y: bf16[B, T, D], x: bf16[B, T, D], wo: bf16[D, D], norm: bf16[D],
       w_gate: bf16[F, D], w_up: bf16[F, D], w_down: bf16[D, F]) -> bf16[B, T, D] {
  x1 = x + linear(y, wo)
  h = rms_norm(x1, norm, eps=1e-6)
  return x1 + linear(silu(linear(h, w_gate)) * linear(h, w_up), w_down)
}
"""


@pytest.fixture(scope="module")
def mlp() -> CompiledFunction:
    return coda_ir.compile(MLP)


def inputs(mlp: CompiledFunction, **sizes: int) -> dict[str, torch.Tensor]:
    (func,) = mlp.module("block").ops
    return random_inputs(func, sizes, device=mlp.device)  # pyright: ignore[reportArgumentType]


def error(actual: torch.Tensor, expected: torch.Tensor) -> float:
    expected = expected.double()
    return ((actual.double() - expected).abs().max() / expected.abs().max()).item()


def test_agrees_with_float64_at_every_size(mlp: CompiledFunction):
    for batch, time in ((1, 1), (1, 3), (2, 5), (1, 127), (3, 43)):
        given = inputs(mlp, B=batch, T=time)
        assert error(mlp(**given), mlp.reference(given)) < 0.01


def test_positional_and_named_arguments(mlp: CompiledFunction):
    given = inputs(mlp, B=2, T=5)
    assert torch.equal(mlp(**given), mlp(*given.values()))


def test_threads(mlp: CompiledFunction):
    calls = [inputs(mlp, B=1, T=time) for time in (3, 5, 9)]
    expected = [mlp(**given) for given in calls]
    with ThreadPoolExecutor(3) as threads:
        found = [threads.submit(mlp, **given) for given in calls]
    assert all(torch.equal(f.result(), e) for f, e in zip(found, expected, strict=True))


def test_strided_arguments(mlp: CompiledFunction):
    given = inputs(mlp, B=2, T=5)
    strided = {name: torch.stack([t, t + 1], -1)[..., 0] for name, t in given.items()}
    assert not any(tensor.is_contiguous() for tensor in strided.values())
    assert torch.equal(mlp(**given), mlp(**strided))


def test_a_weight_that_is_shared(mlp: CompiledFunction):
    """The same tensor as two arguments."""
    given = inputs(mlp, B=1, T=3)
    shared = {**given, "w_up": given["w_gate"]}
    separate = {**given, "w_up": given["w_gate"].clone()}
    assert torch.equal(mlp(**shared), mlp(**separate))


def test_no_rows_launch_nothing(mlp: CompiledFunction, monkeypatch: pytest.MonkeyPatch):
    given = inputs(mlp, B=2, T=0)
    monkeypatch.setattr(mlp.executable, "run", None)
    result = mlp(**given)
    assert result.shape == (2, 0, 48) and result.dtype == torch.bfloat16


def test_arguments_are_checked(mlp: CompiledFunction):
    given = {**inputs(mlp, B=2, T=5), "x": inputs(mlp, B=2, T=4)["x"]}
    with pytest.raises(
        ArgumentError, match="symbol T is bound to 5 by argument y and to 4 by argument x"
    ):
        mlp(**given)


def test_levels(mlp: CompiledFunction):
    assert "coda.rms_norm" in mlp.ir("block") and "gemm." not in mlp.ir("block")
    assert mlp.ir("gemm").count("gemm.fused %") == 3
    assert "coda.rms_norm" not in mlp.ir("gemm")
    assert "schedule<" not in mlp.ir("gemm") and "schedule<" in mlp.ir("scheduled")


@pytest.mark.parametrize("level", ["gemm", "scheduled"])
def test_every_level_computes_the_same(mlp: CompiledFunction, level: str):
    given = inputs(mlp, B=2, T=3)
    lowered = mlp.reference(given, level=level)  # pyright: ignore[reportArgumentType]
    torch.testing.assert_close(lowered, mlp.reference(given), rtol=1e-9, atol=1e-9)


def test_source_and_kernels(mlp: CompiledFunction):
    assert all(f"def {kernel}(" in mlp.source for kernel in mlp.kernels)
    assert len(mlp.kernels) == 4, "three GEMMs and a finalize"


def test_the_source_needs_only_torch_and_triton(mlp: CompiledFunction):
    assert "coda_ir" not in mlp.source
    assert "import torch" in mlp.source and "import triton" in mlp.source


def test_remarks_name_the_operators(mlp: CompiledFunction):
    passed = {remark.operator for remark in mlp.remarks if remark.kind == "passed"}
    assert {"coda.rms_norm", "coda.add", "coda.silu"} <= passed


def test_the_generated_module_is_a_file_of_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CODA_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("CODA_CACHE_LIMIT", "1GiB")
    compiled = coda_ir.compile(MLP, constants={"F": 96})
    (path,) = tmp_path.glob("modules/*.py")
    assert path.read_text() == compiled.source
    assert f"coda_ir_cache.{path.stem}" in sys.modules


def test_constants_give_another_program():
    wide = coda_ir.compile(MLP, constants={"D": 32, "F": 64})
    given = inputs(wide, B=1, T=5)
    assert given["w_down"].shape == (32, 64)
    assert error(wide(**given), wide.reference(given)) < 0.01


def test_unknown_constant():
    with pytest.raises(CodaError, match="no const 'H' to override"):
        coda_ir.compile(MLP, constants={"H": 3})


@pytest.mark.parametrize("schedule", ["tile=3{{", "stage=1", "warps=many", "target=sm_1"])
def test_wrong_schedule(schedule: str):
    with pytest.raises(CodaError, match=r"schedule.*\n(.*\n)*  help: "):
        coda_ir.compile(MLP, schedule=schedule)
