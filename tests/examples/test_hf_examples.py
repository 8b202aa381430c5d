"""The examples with models of Hugging Face, small and without a download."""

import json
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = {
    "hf_llama_generate": ("--through", "export", "--tokens", "3"),
    "hf_classify": (),
}
CALLS = (*SCRIPTS.items(), ("hf_classify", ("--kind", "images", "--images", "2")))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), CALLS)
def test_tables_and_results(
    name: str, options: tuple[str, ...], capsys: pytest.CaptureFixture[str]
):
    pytest.importorskip("transformers")
    script: dict[str, Any] = runpy.run_path(str(EXAMPLES / f"{name}.py"))
    script["main"]([*options, "--layers", "1"])
    printed = capsys.readouterr().out
    assert "tokens: equal" in printed or ", as eager's" in printed
    assert re.search(r"gemm\.fused +│ \d", printed)
    assert re.search(r"merge-sibling-gemms: \w", printed)
    assert re.search(r"coda\.embedding +│|coda\.layer_norm +│", printed)
    (errors,) = re.findall(r"logits +│ (\S+) +│ (\S+) +│", printed)
    # In float32 sums in another order differ by more than a quarter.
    assert float(errors[0]) <= max(1.25 * float(errors[1]), 1e-6)


@pytest.mark.parametrize("name", [*SCRIPTS, "train_llama"])
def test_without_transformers(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(SystemExit, match="this example needs transformers: pip install"):
        runpy.run_path(str(EXAMPLES / f"{name}.py"))


TRAINING = ["--steps", "4", "--rate", "1e-2", "--layers", "1", "--width", "32", "--length", "16"]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_training(dtype: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    script: dict[str, Any] = runpy.run_path(str(EXAMPLES / "train_llama.py"))
    script["main"]([*TRAINING, "--reordered", "--dtype", dtype, "--output", str(tmp_path)])
    losses = json.loads((tmp_path / "train_llama.json").read_text())
    assert len(losses["coda"]) == 4 and losses["coda"][-1] < losses["coda"][0]
    tolerance = 1e-5 if dtype == "f32" else 2e-2
    for name in ("coda", "reordered"):
        assert losses[name] == pytest.approx(losses["eager"], abs=tolerance)
    assert (tmp_path / "train_llama.png").read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    assert "4/4" in printed and "losses of eager and reordered: " in printed


def test_every_example_is_run():
    used = {p.stem for p in EXAMPLES.glob("*.py") if "transformers" in p.read_text()}
    assert used == {*SCRIPTS, "train_llama"}
