"""The benchmark of the fleet on a tiny model, in float32."""

import json
from pathlib import Path
from typing import Any

import pytest
from fleet.__main__ import main
from fleet.members import FLEET
from fleet.models import Setting


def test_a_tiny_model_is_measured_and_a_second_run_continues(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "fleet.json"
    options = ["--json", str(path), "--models", "llama", "--tokens", "8", "--rounds", "1"]
    options += ["--layers", "1", "--variants", "eager"]
    main(options)
    (record,) = json.loads(path.read_text())
    assert not record["notes"]
    assert record["errors"]["eager"] < 1e-5
    assert "llama" in capsys.readouterr().out
    main(options)
    assert len(json.loads(path.read_text())) == 1


def test_names_differ() -> None:
    """Records are found by the names of models."""
    assert len({member.name for member in FLEET}) == len(FLEET)


@pytest.mark.parametrize("name", ["gemma4_text", "qwen2_5_vl_vision"])
def test_sizes_that_differ_between_layers_or_depend_on_others_are_small(name: str) -> None:
    (member,) = (member for member in FLEET if member.name == name)
    setting = Setting("meta", small=True)
    config: Any = member.build(setting).config
    assert config.hidden_size == 64
