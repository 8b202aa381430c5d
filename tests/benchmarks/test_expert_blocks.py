"""benchmarks/experts.py on tiny blocks, in float32: all of them run, with equal results."""

import json
from pathlib import Path

import pytest
from expert_blocks import BLOCKS
from experts import main


@pytest.mark.slow
@pytest.mark.parametrize("block", BLOCKS)
def test_blocks(block: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "experts.json"
    options = ["--json", str(path)]
    parts = ["forward", "training", "decode"] if block == "qwen3_moe" else ["forward"]
    options += ["--blocks", block, "--parts", ",".join(parts)]
    main([*options, "--variants", "eager,coda", "--rounds", "1"])
    measured = json.loads(path.read_text())["measured"]
    assert [each["part"] for each in measured] == parts
    for each in measured[:2]:
        assert not each["record"]["notes"]
        assert each["record"]["errors"]["coda"] < 1e-4
    assert f"{block}, {parts[-1]}, " in capsys.readouterr().out
