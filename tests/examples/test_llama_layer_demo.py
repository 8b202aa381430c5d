"""The demonstration that `make run` starts."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_make_run_shows_kernels_traffic_and_errors():
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "llama_layer.py"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    kernels = re.findall(r"│ (gemm_\w+|finalize_\w+) ", done.stdout)
    assert len([name for name in kernels if name.startswith("gemm_")]) == 4
    assert len([name for name in kernels if name.startswith("finalize_")]) <= 2
    assert "Operators refused: none" in done.stdout
    share = re.search(r"as compiled\s+│ [\d,]+\s+│ (\d+) %", done.stdout)
    assert share is not None and int(share[1]) < 70
    ratios = re.findall(r"e-\d\d\s+│ (\d+\.\d\d)\s+│", done.stdout)
    assert len(ratios) == 4 and all(float(ratio) <= 1.25 for ratio in ratios)
