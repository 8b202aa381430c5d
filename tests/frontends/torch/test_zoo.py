"""Architectures of the zoo (benchmarks/zoo): exported, lowered, and as exact as eager."""

import pytest

pytest.importorskip("transformers", reason="the zoo needs transformers: pip install -e .[dev]")

from zoo import ARCHITECTURES
from zoo.architecture import Architecture
from zoo.measure import measure

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

OUTSIDE = {"llama": 2, "qwen3": 2, "phi3": 2, "gpt2": 4}
"""How many operators may be outside of GEMMs: the embeddings, and what norms them first."""


def check(architecture: Architecture, dtype: str) -> None:
    # Tracing with dynamic shapes takes three times as long; test_export.py does it.
    result = measure(architecture, dtypes=(dtype,), layers=1, dynamic=False)
    assert result.shapes, result.note
    accuracy = result.accuracy[dtype]
    # Float64 on both sides: what differs is a mistake, not rounding.
    assert accuracy.imported < 1e-6
    assert accuracy.ok, accuracy
    assert result.fusion is not None and result.fusion.gemms
    outside = result.fusion.considered - result.fusion.fused
    assert outside <= OUTSIDE.get(architecture.name, outside), result.fusion.reasons


@pytest.mark.parametrize("name", FLOAT32)
def test_float32(name: str):
    check(BY_NAME[name], "f32")


@pytest.mark.parametrize("name", BFLOAT16)
def test_bfloat16(name: str):
    check(BY_NAME[name], "bf16")


def test_names_are_unique():
    assert len(BY_NAME) == len(ARCHITECTURES) >= 100
