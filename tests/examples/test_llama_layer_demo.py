"""The demonstration that `make run` starts."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_make_run_shows_kernels_traffic_and_errors(capsys: pytest.CaptureFixture[str]):
    runpy.run_path(str(ROOT / "examples" / "llama_layer.py"), run_name="__main__")
    printed = capsys.readouterr().out
    kernels = re.findall(r"│ (gemm_\w+|finalize_\w+) ", printed)
    assert len([name for name in kernels if name.startswith("gemm_")]) == 4
    assert len([name for name in kernels if name.startswith("finalize_")]) <= 2
    assert "Operators refused: none" in printed
    share = re.search(r"as compiled\s+│ [\d,]+\s+│ (\d+) %", printed)
    assert share is not None and int(share[1]) < 70
    ratios = re.findall(r"e-\d\d\s+│ (\d+\.\d\d)\s+│", printed)
    assert len(ratios) == 4 and all(float(ratio) <= 1.25 for ratio in ratios)
