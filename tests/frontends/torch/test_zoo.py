"""Architectures of the zoo (tests/zoo): exported, lowered, emitted, and as exact as eager."""

from pathlib import Path

import pytest
import torch
from support.daily import daily

from coda_ir.dialects.gemm import FusedOp

pytest.importorskip("transformers", reason="the zoo needs transformers: pip install -e .[dev]")

from zoo import ARCHITECTURES
from zoo.architecture import Architecture, Example
from zoo.choices import are_clear, clear_example
from zoo.gradients import measure_gradients
from zoo.measure import Measurement, measure
from zoo.report import COMPLEX, EXPLAINED, is_explained, read_measurement
from zoo.runner import Records

BY_NAME = {architecture.name: architecture for architecture in ARCHITECTURES}

FLOAT32 = [
    "gemma2",
    "gemma3_text",
    "olmo2",
    "gpt_neox",
    "opt",
    "falcon",
    "bloom",
    "cohere",
    "mamba",
    "roberta",
    "t5",
    "vit",
]
BFLOAT16 = ["llama", "qwen3", "phi3", "gpt2", "mixtral", "bert", "bart", "whisper"]
"""Together one of each kind of norm, position, activation, attention and block."""

EMITTED = {
    "bloom",  # ALiBi
    "gemma2",  # capped scores, windows, norms before and after
    "gpt2",  # LayerNorm, weights [in, out]
    "llama",  # RMSNorm, rotary embedding, grouped heads, SwiGLU
    "mamba",  # a scan and a convolution through PyTorch
    "mixtral",  # experts
    "t5",  # relative positions, cross attention
    "vit",  # patches, a class token
    "whisper",  # convolutions, an encoder and a decoder
}
"""Run as emitted Triton as well: together one of each kind of kernel. `make zoo` runs all."""

OTHERS = {"llama": 8, "qwen3": 8, "phi3": 13, "gpt2": 17}
"""The number of operators that may run beside GEMMs: embeddings, their norms, rotary tables."""


def check(architecture: Architecture, dtype: str) -> None:
    # Tracing with dynamic shapes takes three times as long; test_export.py does it.
    triton = architecture.name in EMITTED
    result = measure(architecture, dtypes=(dtype,), layers=1, dynamic=False, triton=triton)
    assert result.shapes, result.note
    assert not result.failure
    accuracy = result.accuracy[dtype]
    # Float64 on both sides: what differs is a mistake, not rounding.
    assert accuracy.imported < 1e-6
    assert accuracy.ok, accuracy
    assert (accuracy.triton_ratio is not None) == triton
    assert result.operators[FusedOp.name]
    others = sum(result.operators.values()) - result.operators[FusedOp.name]
    assert others <= OTHERS.get(architecture.name, others), result.operators


@pytest.mark.slow
@daily(lambda name: name in EMITTED)
@pytest.mark.parametrize("name", FLOAT32)
def test_float32(name: str):
    check(BY_NAME[name], "f32")


@pytest.mark.slow
@daily(lambda name: name in EMITTED)
@pytest.mark.parametrize("name", BFLOAT16)
def test_bfloat16(name: str):
    check(BY_NAME[name], "bf16")


@pytest.mark.slow
@daily(lambda name: name == "llama")
@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_gradients_of_emitted_programs(name: str):
    result = measure_gradients(BY_NAME[name], dtypes=["f32"], inputs=2, triton=True)
    assert result.ok, result
    assert result.accuracy["f32"].ratios["triton"] > 0


def test_a_run_that_was_stopped_goes_on(tmp_path: Path):
    path, facts = tmp_path / "zoo.json", {"torch": "2", "dtypes": ("f32",)}
    first, second = (Measurement(name, note="no") for name in ("llama", "bert"))
    Records(path, facts, read_measurement).add(first)
    assert not path.exists()
    assert not Records(path, {**facts, "torch": "3"}, read_measurement).results
    records = Records(path, facts, read_measurement)
    assert records.results == {"llama": first}
    records.add(second)
    assert records.finish(["bert", "llama"], update=False) == [second, first]
    assert [file.name for file in tmp_path.iterdir()] == ["zoo.json"]


def test_the_file_keeps_models_that_were_not_run(tmp_path: Path):
    path = tmp_path / "zoo.json"
    for name, update in (("llama", False), ("bert", True), ("gpt2", False)):
        records = Records(path, {}, read_measurement)
        records.add(Measurement(name, accuracy={}))
        found = records.finish(["bert", "gpt2", "llama"], update=update)
        assert [result.name for result in found] == (["bert", "llama"] if update else [name])


def test_only_what_is_known_of_a_model_is_explained():
    assert is_explained("fnet", f"file.py:1:1: {COMPLEX}")
    assert not is_explained("fnet", "took too long")
    assert not is_explained("llama", COMPLEX)
    assert set(EXPLAINED) <= set(BY_NAME)


def test_names_are_unique():
    assert len(BY_NAME) == len(ARCHITECTURES) >= 100


@pytest.mark.parametrize(("error", "clear"), [(0.04, True), (0.06, False), (float("nan"), False)])
def test_scores_that_errors_may_exchange_are_no_clear_choice(error: float, clear: bool):
    exact = torch.tensor([[0.5, 0.5, 0.1, 0.4], [0.0, 0.9, 0.8, 0.1]], dtype=torch.float64)
    scores = exact.clone()
    scores[1, 0] += error
    assert are_clear([(scores, 2)], [(exact, 2)]) == clear


def test_examples_of_the_zoo_have_clear_choices():
    class Router(torch.nn.Module):
        def __init__(self, distance: float):
            super().__init__()
            self.distance = distance

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x / 3 + torch.tensor([0.0, self.distance], dtype=x.dtype)).topk(1).values

    distances = iter([1e-4, 1.0])

    def build(layers: int) -> Example:
        return Example(Router(next(distances)), {"x": torch.ones(3, 2)})

    example = clear_example(Architecture("router", "", "", build), 1, torch.bfloat16)
    assert example.model.distance == 1.0
