"""The members of benchmarks/epilogues.py and experts.py, tiny and in float32: all of them run."""

import json
from pathlib import Path

import pytest
from fleet.__main__ import main
from fleet.members import members_of

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
NAMES = {
    file: [member.name for member in members_of(str(BENCHMARKS / file))]
    for file in ("epilogues.py", "experts.py")
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "file, name",
    [
        *(("epilogues.py", name) for name in NAMES["epilogues.py"] if name.endswith("2048")),
        *(("experts.py", name) for name in NAMES["experts.py"]),
    ],
)
def test_members(file: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / "fleet.json"
    options = ["--json", str(path), "--members", str(BENCHMARKS / file), "--models", name]
    parts = ["forward", "training"] if name == "qwen3_moe" else ["forward"]
    options += ["--parts", ",".join(parts), "--tokens", "33", "--batch", "1"]
    main([*options, "--variants", "eager,coda", "--rounds", "1"])
    records = json.loads(path.read_text())
    assert [record["part"] for record in records] == parts
    for record in records:
        assert not record["notes"].keys() - {"liger"}
        assert record["errors"]["coda"] < 1e-4
        assert ("GEMM" in record["milliseconds"]) == (file == "epilogues.py")
