"""The benchmark of the layer in training, small and on the CPU."""

import json
from pathlib import Path

import layer_backward

SMALL = ["--device", "cpu", "--sizes", "64", "--batch", "1", "--time", "24", "--head-dim", "16"]


def test_gradients_are_as_exact_as_eager(tmp_path: Path):
    path = tmp_path / "layer.json"
    variants = ["--variants", "cuBLAS GEMMs,coda,eager"]
    layer_backward.main([*SMALL, *variants, "--rounds", "1", "--json", str(path)])
    written = json.loads(path.read_text())
    coda, eager = (written["errors"]["D = 64"][name] for name in ("coda", "eager"))
    assert len(coda) == 8
    assert all(coda[name] <= 1.25 * eager[name] for name in eager)
    times = written["milliseconds"]
    assert set(times["backward, D = 64"]) == {"8 cuBLAS GEMMs", "coda", "eager"}
    assert set(times["forward + backward, D = 64"]) == {"12 cuBLAS GEMMs", "coda", "eager"}
