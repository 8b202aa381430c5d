"""The examples with models of Hugging Face, small and without a download."""

import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = {
    "hf_llama_generate": ["--through", "export", "--tokens", "3"],
    "vit": ["--images", "2"],
    "bert": [],
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_tables_and_results(name: str, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("transformers")
    script: dict[str, Any] = runpy.run_path(str(EXAMPLES / f"{name}.py"))
    script["main"]([*SCRIPTS[name], "--layers", "1"])
    printed = capsys.readouterr().out
    assert "tokens: equal" in printed or ", as eager's" in printed
    assert re.search(r"gemm\.fused +│ \d", printed)
    assert re.search(r"merge-sibling-gemms: \w", printed)
    assert re.search(r"coda\.embedding +│|coda\.layer_norm +│", printed)
    (errors,) = re.findall(r"logits +│ (\S+) +│ (\S+) +│", printed)
    # In float32 sums in another order differ by more than a quarter.
    assert float(errors[0]) <= max(1.25 * float(errors[1]), 1e-6)


@pytest.mark.parametrize("name", SCRIPTS)
def test_without_transformers(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(SystemExit, match="this example needs transformers: pip install"):
        runpy.run_path(str(EXAMPLES / f"{name}.py"))


def test_every_example_is_run():
    used = {p.stem for p in EXAMPLES.glob("*.py") if "transformers" in p.read_text()}
    assert used == set(SCRIPTS)
