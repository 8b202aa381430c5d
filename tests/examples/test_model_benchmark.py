"""The benchmark of Hugging Face models, tiny ones on the CPU."""

import json
from pathlib import Path

import models

SMALL = ["--small", "--device", "cpu", "--tokens", "8", "--context", "6", "--rounds", "1"]


def test_decoding_and_training_are_timed_and_compared(tmp_path: Path):
    path = tmp_path / "models.json"
    options = ["--layers", "1", "--parts", "decode,training", "--variants", "eager"]
    models.main([*SMALL, *options, "--json", str(path)])
    written = json.loads(path.read_text())
    decode, training = "llama, 1 layers, decode, 6 tokens", "llama, 1 layers, training, 8 tokens"
    assert list(written["milliseconds"]) == [decode, training]
    errors = {section: written["errors"][section]["eager"] for section in (decode, training)}
    assert set(errors[decode]) == {"logits"}
    assert set(errors[training]) == {"loss", "worst gradient"}
    for found in errors.values():
        # Of bf16, which means that the model in float64 computes the same.
        assert all(0 < error < 3e-2 for error in found.values())
    assert list(written["floor_ms"]) == [decode]


def test_ours_prefills(tmp_path: Path):
    path = tmp_path / "models.json"
    options = ["--layers", "1", "--parts", "prefill", "--variants", "eager,coda"]
    models.main([*SMALL, *options, "--json", str(path)])
    errors = json.loads(path.read_text())["errors"]["llama, 1 layers, prefill, 8 tokens"]
    assert errors["coda"]["logits"] <= 1.25 * errors["eager"]["logits"]
    assert errors["coda"] != errors["eager"]  # or else eager ran
