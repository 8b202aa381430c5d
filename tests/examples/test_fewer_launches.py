"""The benchmark of launches, small and on the CPU."""

import json
from pathlib import Path

import fewer_launches
import pytest
import torch

SMALL = ["--device", "cpu", "--sizes", "32", "--times", "1", "--head-dim", "8", "--rounds", "1"]


def test_absorbed_statistics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "launches.json"
    fewer_launches.main([*SMALL, "--schedules", "target=interpreter", "--json", str(path)])
    written = json.loads(path.read_text())
    assert written["kernels"] == {
        "D = 32, target=interpreter": {"plain": 5, "absorb": 4}  # the finalizes are one kernel
    }
    (errors,) = written["errors"].values()
    assert errors["absorb"].keys() == {"x2", "q", "k", "v"}
    assert max(errors["absorb"].values()) < 1e-2
    (times,) = written["milliseconds"].values()
    assert set(times) == {"4 cuBLAS GEMMs", "plain", "absorb"}


def test_results_that_differ_are_noticed():
    one = [torch.ones(2)]
    fewer_launches.assert_same("pdl", one, [torch.ones(2)])
    with pytest.raises(SystemExit, match="pdl: differs from plain"):
        fewer_launches.assert_same("pdl", one, [torch.tensor([1.0, 1.5])])
