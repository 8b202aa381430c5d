"""The benchmark of training under autocast, small and on the CPU."""

import json
from pathlib import Path

import autocast
import pytest

SMALL = ["--sizes", "32", "--layers", "1", "--batch", "2", "--time", "8", "--head-dim", "16"]


@pytest.mark.parametrize(("rank", "weight"), [("0", "norm1"), ("4", "q.a")])
def test_gradients_and_times_of_each_variant(
    rank: str, weight: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "autocast.json"
    options = ["--device", "cpu", "--rounds", "1", "--variants", "eager,coda", "--json", str(path)]
    autocast.main([*SMALL, "--rank", rank, *options])
    written = json.loads(path.read_text())
    assert set(written["milliseconds"]["1 layers, D = 32"]) == {"eager", "coda"}
    errors = written["errors"]["1 layers, D = 32"]
    assert errors["coda"].keys() == errors["eager"].keys()
    assert max(errors["coda"].values()) < 2e-2
    assert f"blocks.0.{weight}.weight" in capsys.readouterr().out
