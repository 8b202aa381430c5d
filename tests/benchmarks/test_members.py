"""The members of benchmarks/*.py, tiny and in float32: all of them run."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from fleet.__main__ import main
from fleet.members import members_of
from fleet.models import Setting
from support.daily import daily

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
NAMES = {
    file: [member.name for member in members_of(str(BENCHMARKS / file))]
    for file in ("attention.py", "epilogues.py", "experts.py", "layer.py", "rows.py")
}
NEED_A_GPU = {"liger", "coda-captured", "flash", "efficient", "cuDNN", "torch.compile rowwise"}


@pytest.mark.slow
@daily(lambda name: not name.startswith("trained"))
@pytest.mark.parametrize(
    "file, name",
    [
        *(("epilogues.py", name) for name in NAMES["epilogues.py"] if name.endswith("2048")),
        *(("experts.py", name) for name in NAMES["experts.py"]),
        *(("layer.py", name) for name in NAMES["layer.py"] if name.endswith("2048")),
        ("attention.py", NAMES["attention.py"][1]),
        *(("rows.py", f"llama-7b {step}") for step in ("prefill 2048", "decode int4")),
        ("rows.py", "mamba-2.8b decode"),
    ],
)
def test_members(file: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / "fleet.json"
    options = ["--json", str(path), "--members", str(BENCHMARKS / file), "--models", name]
    trained = ("qwen3_moe", "layer 2048", "trained float8 2048", NAMES["attention.py"][1])
    parts = ["forward", "training"] if name in trained else ["forward"]
    options += ["--parts", ",".join(parts), "--tokens", "33", "--batch", "1"]
    main([*options, "--variants", "eager,coda", "--rounds", "1"])
    records = json.loads(path.read_text())
    assert [record["part"] for record in records] == parts
    for record in records:
        assert not record["notes"].keys() - NEED_A_GPU
        errors = record["errors"]
        assert errors["coda"] < 1e-4
        assert all(errors[recipe] < 0.1 for recipe in ("rowwise", "blocks") if recipe in errors)
        assert {"rowwise", "blocks"} <= errors.keys() or "float8" not in name
        baseline = {"epilogues.py": "GEMM", "layer.py": "GEMMs"}.get(file, "coda")
        assert baseline in record["milliseconds"]


def test_rotary_frequencies_are_not_rounded() -> None:
    (member,) = (
        member
        for member in members_of(str(BENCHMARKS / "rows.py"))
        if member.name == "llama-7b prefill 2048"
    )
    model: Any = member.build(Setting("cpu", torch.bfloat16, 1, 1, 8, small=True))
    assert model.lm_head.weight.dtype == torch.bfloat16
    assert model.model.rotary_emb.inv_freq.dtype == torch.float32
