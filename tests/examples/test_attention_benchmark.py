"""The benchmark of attention in training, small and on the CPU."""

import json
from pathlib import Path

import attention_training
import pytest

SMALL = ["--batch", "1", "--time", "8", "--heads", "4", "--kv-heads", "2"]


@pytest.mark.slow
def test_gradients_are_as_exact_as_eager(tmp_path: Path):
    path = tmp_path / "attention.json"
    attention_training.main([*SMALL, "--head-dim", "16", "--rounds", "1", "--json", str(path)])
    written = json.loads(path.read_text())
    coda, eager = (written["accuracy"][name] for name in ("coda", "PyTorch"))
    assert coda["is_deterministic"]
    pairs = zip(coda["errors"], eager["errors"], strict=True)
    assert all(error <= 1.25 * allowed for error, allowed in pairs)
    assert set(written["milliseconds"]) == {"forward", "backward", "forward + backward"}
