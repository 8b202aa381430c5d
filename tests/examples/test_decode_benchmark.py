"""The benchmark of few rows, small and on the CPU."""

import json
from pathlib import Path

import decode
import pytest


@pytest.mark.slow
def test_variants_of_every_gemm_are_timed(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "decode.json"
    sizes = ["--sizes", "32", "--rows", "1", "--head-dim", "8"]
    decode.main([*sizes, "--rounds", "1", "--json", str(path)])
    written = json.loads(path.read_text())
    times = written["microseconds"]["D = 32, M = 1"]
    assert list(times) == ["wo", "w_gate, w_up", "w_down", "wq, wk, wv"]
    for name, by_variant in times.items():
        assert {"cuBLAS", "model", "split"} <= by_variant.keys()
        assert min(by_variant.values()) > 0
        schedules = written["schedules"]["D = 32, M = 1"][name]
        assert schedules.keys() == by_variant.keys() - {"cuBLAS"}
        assert "split_k" in schedules["split"]["schedule"]
    assert max(written["errors"]["D = 32, M = 1"]["coda"].values()) < 1e-2
    assert "model, all GEMMs" in capsys.readouterr().out
