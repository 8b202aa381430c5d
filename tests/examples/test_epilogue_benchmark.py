"""The benchmark of GEMMs with an epilogue, small and on the CPU."""

import json
from pathlib import Path

import epilogues
import pytest


def test_every_case_is_as_exact_as_eager(tmp_path: Path):
    path = tmp_path / "epilogues.json"
    options = ["--variants", "coda,eager", "--rounds", "1", "--json", str(path)]
    epilogues.main(["--shapes", "24x32x16", *options])
    written = json.loads(path.read_text())
    for case in epilogues.CASES:
        section = f"{case.name}, 24x32x16"
        assert set(written["milliseconds"][section]) == {"cuBLAS GEMM", "coda", "eager"}
        errors = {name: found[case.name] for name, found in written["errors"][section].items()}
        assert errors["coda"] <= 1.25 * errors["eager"] < 0.1


def test_nothing_is_begun_that_does_not_fit_the_budget(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "epilogues.json"
    options = ["--variants", "eager", "--rounds", "1", "--budget", "0", "--json", str(path)]
    epilogues.main(["--shapes", "24x32x16", *options])
    assert list(json.loads(path.read_text())["milliseconds"]) == ["residual, 24x32x16"]
    assert "without bias + GELU, 24x32x16" in capsys.readouterr().out


def test_an_unknown_variant_is_told():
    with pytest.raises(SystemExit, match="unknown 'torch': use coda, "):
        epilogues.main(["--shapes", "8x8x8", "--variants", "torch"])
