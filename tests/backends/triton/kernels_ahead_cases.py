"""Kernels that are compiled ahead of their launches: run by test_direct_launch.py, in a process of
their own, since Triton must not be in its interpreter. The driver is not a real one.
"""

import os
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from support import fake_cuda
from support.emitted import load_module
from support.inputs import random_inputs

from coda_ir.api import parse
from coda_ir.backends.triton.prelude import MODULE_HEADER
from coda_ir.cache import load_source
from coda_ir.context import make_context
from coda_ir.functions import find_entry
from coda_ir.launching.forked import KernelCompiler
from coda_ir.launching.kernels_ahead import (
    by_kernel,
    compile_ahead,
    compile_launch,
    load_launch,
)
from coda_ir.launching.triton_keys import settle_keys
from coda_ir.lowering import Lowering
from coda_ir.options import CompileOptions
from coda_ir.passes.pipelines.differentiate import DifferentiatePass

LAYER = Path(__file__).parents[3] / "examples" / "llama_layer.coda"
SIZES = {"D": 256, "F": 256, "HEAD": 64}

KERNELS = """
@triton.jit
def number(M):
    return 1 if INTERPRET else M


@triton.jit(do_not_specialize=["M"])
def add(x_ptr, M):
    tl.store(x_ptr, tl.load(x_ptr) + number(M))


@triton.jit(do_not_specialize=["M"])
def double(x_ptr, M):
    tl.store(x_ptr + number(M), 2 * tl.load(x_ptr))


KERNELS = ("add", "double")


def run(x):
    add[(1,)](x, 3, num_warps=1)
    double[(1,)](x, 4, num_warps=1)
"""
LAUNCHES = tuple(f'{name}[(1,)](tensor("fp32"), 16, num_warps=1)' for name in ("add", "double"))


pytestmark = pytest.mark.usefixtures("fake")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Return what Triton is asked to compile, of which it compiles nothing: kernels and keys."""
    found: list[tuple[str, str]] = []

    def note(kernel: Any, key: str, *_: object) -> None:
        found.append((kernel.__name__, key))

    monkeypatch.setattr(import_module("triton.runtime.jit").JITFunction, "_do_compile", note)
    return found


@pytest.mark.parametrize(
    ("function", "schedule", "direct_launch"),
    [
        ("llama_layer", None, "1"),
        ("llama_layer_backward", None, "1"),
        ("llama_layer_backward", "target=sm_80", "0"),
    ],
)
def test_what_launches_ask_for(
    asked: list[tuple[str, str]],
    monkeypatch: pytest.MonkeyPatch,
    function: str,
    schedule: str | None,
    direct_launch: str,
):
    """Just that is compiled ahead, for any sizes and for addresses that need a copy, too."""
    monkeypatch.setenv("CODA_DIRECT_LAUNCH", direct_launch)
    program = parse(LAYER, constants=SIZES)
    if function != "llama_layer":
        DifferentiatePass("llama_layer").apply(make_context(), program)
    lowering = Lowering(program, CompileOptions(schedule, architecture="sm_90"))
    artifact = lowering.artifact(function)
    module: Any = load_source(artifact.source, function)
    for launch in artifact.launches:
        compile_launch(module, launch)
    ahead = set(asked)
    assert {name for name, _ in ahead} == set(artifact.kernels)
    for sizes in ({"B": 1, "T": 1}, {"B": 3, "T": 16}):
        asked.clear()
        inputs = random_inputs(find_entry(lowering.module("block"), function), sizes)
        module.run(*inputs)
        assert set(asked) == ahead
    shifted = [torch.cat([x.flatten()[:1], x.flatten()])[1:].view(x.shape) for x in inputs]
    assert all(x.data_ptr() % 16 for x in shifted)
    module.run(*shifted)
    assert set(asked) == ahead


def test_gradients_of_attention_are_compiled_ahead(asked: list[tuple[str, str]]):
    """Their launches make rows of the logsumexp start at addresses that TMA can load from."""
    program = parse("""fn f(x: bf16[2, T, 256], wq: bf16[256, 256], wk: bf16[256, 256]) {
        q = linear(x, wq)
        return attention(q, linear(x, wk), x, head_dim=64, causal=true, softcap=30.0)
    }""")
    DifferentiatePass("f").apply(make_context(), program)
    artifact = Lowering(program, CompileOptions(architecture="sm_90")).artifact("f_backward")
    assert any("aligned_rows(" in launch for launch in artifact.launches)
    module = load_source(artifact.source, "f_backward")
    for launch in artifact.launches:
        compile_launch(module, launch)
    assert {name for name, _ in asked} == set(artifact.kernels)


MASKED = """
func.func @f(%q: tensor<2x4x?x64xbf16>, %v: tensor<2x4x?x24xbf16>, %m: tensor<2x1x?x?xTYPE>)
    -> (tensor<2x4x?x24xbf16>, tensor<2x4x?xf32>) {
  %y, %lse = torch.call "aten._scaled_dot_product_fused_attention_overrideable.default"
    (%q, %q, %v, %m) {arguments = "{0}, {1}, {2}, {3}, 0.0, False", positions = [0, 1]}
    : (tensor<2x4x?x64xbf16>, tensor<2x4x?x64xbf16>, tensor<2x4x?x24xbf16>, tensor<2x1x?x?xTYPE>)
    -> (tensor<2x4x?x24xbf16>, tensor<2x4x?xf32>)
  func.return %y, %lse : tensor<2x4x?x24xbf16>, tensor<2x4x?xf32>
}
"""


@pytest.mark.parametrize("type", [torch.bool, torch.bfloat16])
@pytest.mark.parametrize("streams", [None, (0, 0)])
def test_kernels_for_masks_are_compiled_ahead(
    asked: list[tuple[str, str]], type: torch.dtype, streams: tuple[int, int] | None
):
    """One for each type of masks, for any sizes and for each number that hides keys."""
    text = MASKED.replace("TYPE", "i1" if type == torch.bool else "bf16")
    program = parse(text)
    artifact = Lowering(program, CompileOptions(architecture="sm_90")).artifact()
    module: Any = load_source(artifact.source, "f")
    for launch in artifact.launches:
        compile_launch(module, launch)
    ahead = set(asked)
    assert sorted(name for name, _ in ahead) == ["bound_mask", "clear_unseen"]
    bf16, distances = torch.bfloat16, (0, 5)
    for rows, columns in ((16, 16), (3, 48), (1, 4096)):
        asked.clear()
        mask = torch.zeros(2, 1, rows, columns, dtype=type)
        for hidden in (float("-inf"), 2 * module.LOWEST):
            module.bounded_mask(mask, rows, columns, bf16, distances, hidden, streams)
        y, lse = torch.zeros(2, 4, rows, 24, dtype=bf16), torch.zeros(2, 4, rows)
        launch = module.clear_unseen_launch(bf16, 24)
        launch(streams, (lse.numel(), *lse.shape[1:], *y.stride()[:3], -1.0), y, lse)
        assert set(asked) == ahead


def test_gradients_compile_kernels_for_masks_ahead():
    program = parse("""fn f(x: bf16[2, T, 256], w: bf16[256, 256], m: bf16[2, 1, T, T]) {
        q = linear(x, w)
        return attention(q, q, x, head_dim=8, causal=false, mask=m)
    }""")
    DifferentiatePass("f").apply(make_context(), program)
    artifact = Lowering(program, CompileOptions(architecture="sm_90")).artifact("f_backward")
    assert "attention_grad(" in artifact.source
    (launch,) = [each for each in artifact.launches if each.startswith("bound_mask[")]
    assert launch.count('tensor("bf16")') == 2


def test_launches_find_what_was_compiled(fake: fake_cuda.FakeCuda, monkeypatch: pytest.MonkeyPatch):
    module = load_source(MODULE_HEADER + KERNELS, "ahead")
    compile_ahead([(module, LAUNCHES)], torch.device("cpu"), 2)

    def refuse(kernel: Any, *_: object) -> None:
        raise AssertionError(f"{kernel.__name__} is compiled again")

    monkeypatch.setattr(import_module("triton.runtime.jit").JITFunction, "_do_compile", refuse)
    before = fake.launches
    module.run(torch.zeros(8))
    assert fake.launches == before + 2


@pytest.mark.parametrize("direct_launch", ["0", "1"])
def test_launches_find_what_processes_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, direct_launch: str
):
    """Kernels, and launchers where Triton launches."""
    monkeypatch.setenv("CODA_DIRECT_LAUNCH", direct_launch)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("LD_LIBRARY_PATH", os.environ["TRITON_LIBCUDA_PATH"])
    text = "fn f(x: bf16[M, 64], w: bf16[128, 64]) { return silu(linear(x, w)) }"
    artifact = Lowering(parse(text), CompileOptions(architecture="sm_90")).artifact()
    compiler = KernelCompiler(("cuda", 90, 32), 2)
    compiler.submit(artifact.source, "f", by_kernel(artifact.launches))
    compiler.wait(artifact.source)
    compiled = made_in(tmp_path)
    module = load_source(artifact.source, "f")
    settle_keys(module)
    for launch in artifact.launches:
        load_launch(module, launch, torch.device("cpu"))
    assert compiled == made_in(tmp_path)
    assert any(tmp_path.rglob("__triton_launcher*")) == (direct_launch == "0")
    assert len(list(tmp_path.rglob("*.cubin"))) == len(artifact.kernels)


def made_in(folder: Path) -> list[str]:
    """Return the folders with a kernel, or with a launcher, in Triton's cache."""
    return sorted(
        path.parent.name for path in folder.rglob("*") if path.suffix in (".cubin", ".so")
    )


def test_keys_do_not_depend_on_who_is_first(monkeypatch: pytest.MonkeyPatch):
    """A process that compiles one kernel after the other finds what threads compiled."""

    def only_hash(kernel: Any, *_: object) -> None:
        assert kernel.cache_key

    monkeypatch.setattr(import_module("triton.runtime.jit").JITFunction, "_do_compile", only_hash)
    orders = [LAUNCHES, LAUNCHES[::-1]]
    keys: list[list[str]] = []
    for jobs in (1, 2):
        for order in orders:
            # Each time a module that Triton knows nothing of.
            module: Any = load_module(MODULE_HEADER + KERNELS)
            compile_ahead([(module, order)], torch.device("cpu"), jobs)
            module.run(torch.zeros(8))
            keys.append([module.add.cache_key, module.double.cache_key])
    assert keys == [keys[0]] * 4
