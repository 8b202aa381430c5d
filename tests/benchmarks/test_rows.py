"""benchmarks/rows.py on tiny models: a run that is continued, and the figures of a record."""

from pathlib import Path

import pytest
import torch
from fleet.models import Setting
from row_cases import ROWS
from rows import Record, main, read, share_of_peak

from coda_ir.cost_model import DEVICES


@pytest.mark.slow
def test_continued(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.json"
    options = ["--json", str(path), "--rows", "mamba-*decode"]
    main([*options, "--variants", "eager"])
    first = read(path)
    assert [record.row for record in first] == ["mamba-2.8b decode"]
    assert all(0 < record.errors["eager"] < 1e-5 for record in first)
    main([*options, "--variants", "eager,coda-graphs"])
    for before, after in zip(first, read(path), strict=True):
        assert after.milliseconds == before.milliseconds
        assert after.notes == {"coda-graphs": "RuntimeError: CUDA graphs need a GPU"}
    assert "1 of 64 layers" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="has rows of cpu: choose another file with --json"):
        read(path, "NVIDIA H100 80GB HBM3")


def test_share_of_peak() -> None:
    work = {"flops": 494.7e9, "bytes": 3.35e9, "tokens": 1}
    for bound, ms, share in (("flops", 1.0, 0.5), ("bytes", 2.0, 0.5)):
        record = Record("llama", 2, 2, bound, work, milliseconds={"coda": ms})
        assert share_of_peak(record, "coda", DEVICES["sm_90"]) == pytest.approx(share, 1e-3)


def test_rotary_frequencies_are_not_rounded() -> None:
    row = next(row for row in ROWS if row.name == "llama-7b prefill")
    model = row.make(Setting("cpu", torch.bfloat16, 1, 1, 8, small=True)).model
    assert model.lm_head.weight.dtype == torch.bfloat16
    assert model.model.rotary_emb.inv_freq.dtype == torch.float32
