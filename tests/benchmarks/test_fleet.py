"""The benchmark of the fleet on a tiny model, in float32."""

import json
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from fleet import measure, runner
from fleet.__main__ import main
from fleet.measure import LACKED_MEMORY, Record, training_step
from fleet.members import FLEET
from fleet.models import Setting, Work
from fleet.runner import Task, run
from harness import TOOK_TOO_LONG

from coda_ir.cost_model import DEVICES


def test_a_tiny_model_is_measured_and_a_second_run_continues(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "fleet.json"
    options = ["--json", str(path), "--models", "llama", "--tokens", "8", "--rounds", "1"]
    options += ["--layers", "1", "--variants", "eager,eager-captured", "--energy"]
    main(options)
    (record,) = json.loads(path.read_text())
    assert record["notes"] == {"eager-captured": "RuntimeError: CUDA graphs need a GPU"}
    assert record["errors"]["eager"] < 1e-5
    assert "llama" in capsys.readouterr().out
    main(options)
    assert len(json.loads(path.read_text())) == 1


MEMBERS = """
from fleet.models import Member, given, normal
from torch import nn

MEMBERS = [
    Member(name, "block", lambda setting: nn.Linear(8, 8), given(input=normal(4, 8)))
    for name in ("one", NAME)
]
"""


def test_a_file_may_list_other_models(tmp_path: Path) -> None:
    path, file = tmp_path / "fleet.json", tmp_path / "blocks.py"
    file.write_text(MEMBERS.replace("NAME", "'two'"))
    options = ["--members", str(file), "--json", str(path), "--rounds", "1", "--models", "two"]
    main([*options, "--variants", "eager"])
    (record,) = json.loads(path.read_text())
    assert record["model"] == "two"
    assert not record["notes"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "no such file"),
        ("x = 1", "expected MEMBERS"),
        (MEMBERS.replace("NAME", "'one'"), "of different names"),
    ],
)
def test_a_file_without_models_is_an_error(tmp_path: Path, text: str | None, message: str) -> None:
    file = tmp_path / "blocks.py"
    if text is not None:
        file.write_text(text)
    with pytest.raises(SystemExit, match=message):
        main(["--members", str(file), "--json", str(tmp_path / "fleet.json")])


def test_a_part_without_time_or_memory_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes wait beside as many as fit into memory. One that lacked memory all the same runs
    again beside half as many; none is left out in silence.
    """
    waves: list[list[str]] = []

    class Wave:
        def __init__(self, tasks: Sequence[Task], options: Namespace):
            self.names = [member.name for member, _ in tasks]
            waves.append(self.names)

        def records(self, until: float) -> Iterator[Record]:
            notes = {"coda": f"{LACKED_MEMORY}: 3 GiB"} if len(self.names) > 2 else {}
            for name in self.names:
                slow = {"process": TOOK_TOO_LONG} if name == "qwen3" else notes
                yield Record(name, "decoder", "forward", notes=slow)

    def needed_gib(task: Task, options: Namespace) -> float:
        return gib[task[0].name]

    gib = {"llama": 10, "mistral": 9, "qwen2": 8, "qwen3": 7, "gemma": 40}
    monkeypatch.setattr(runner, "_Wave", Wave)
    monkeypatch.setattr(runner, "total_gib", lambda: 50)
    monkeypatch.setattr(runner, "needed_gib", needed_gib)
    tasks = [(member, "forward") for member in FLEET[:5]]
    options = Namespace(budget=100, timeout=300, jobs=5, device="cuda")
    lines: list[str] = []
    records = list(run(tasks, options, lines.append))
    first = ["qwen3", "qwen2", "mistral", "llama"]
    assert waves == [first, ["gemma"], ["qwen2", "mistral"], ["llama"]]
    assert [record.model for record in records] == ["gemma", "qwen2", "mistral", "llama"]
    assert lines[0] == "qwen2, forward: again later, beside fewer: OutOfMemoryError: 3 GiB"
    assert lines[-1] == "left for the next run by a budget of 100 s: qwen3, forward"


def test_gradients_of_images_do_not_vanish_in_a_last_norm() -> None:
    """PVT v2 ends in a LayerNorm of channels, which gives no gradient if
    all of them weigh the same.
    """

    class Image(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convolution = torch.nn.Conv2d(3, 8, 1)
            self.norm = torch.nn.LayerNorm(8)

        def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
            return [self.norm(self.convolution(x).movedim(1, -1)).movedim(-1, 1)]

    model = Image().double()
    step = training_step(model, model, {"x": torch.randn(2, 3, 4, 5).double()})
    assert step["convolution.weight"].abs().max() > 1e-3


def test_layers_may_be_compared_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a copy of the model in float64 does not fit into memory."""
    copies: list[object] = []

    def is_whole(self: torch.nn.Module, *to: Any) -> torch.nn.Module:
        copies.append(self)
        if len(copies) == 1:
            raise torch.OutOfMemoryError
        return convert(self, *to)

    def lacks_room(_: torch.nn.Module) -> bool:
        return False

    (member,) = (member for member in FLEET if member.name == "llama")
    setting = Setting("cpu", torch.float32, 1, 1, 8, small=True)
    monkeypatch.setattr(measure, "_has_room_for_wide_copy", lacks_room)
    convert = torch.nn.Module.to
    monkeypatch.setattr(torch.nn.Module, "to", is_whole)
    record = measure.measure(member, "forward", setting, ["eager"], rounds=1)
    assert 0 < record.errors["eager"] < 1e-5
    assert len(copies) == 2


def test_share_of_the_peak() -> None:
    for work in (Work(494.7e9, 1, 1), Work(1, 3.35e9 / 2, 1)):
        assert measure.peak_ms(work, DEVICES["sm_90"]) == pytest.approx(0.5, 1e-3)


def test_without_records_the_command_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["--json", str(tmp_path / "fleet.json"), "--models", "llama", "--budget", "-1"])
    shown = capsys.readouterr()
    assert "no part has a record" in shown.out
    assert "llama, forward" in shown.err


def test_names_differ() -> None:
    """Records are found by the names of models."""
    assert len({member.name for member in FLEET}) == len(FLEET)


@pytest.mark.parametrize("name", ["gemma4_text", "qwen2_5_vl_vision"])
def test_sizes_that_differ_between_layers_or_depend_on_others_are_small(name: str) -> None:
    (member,) = (member for member in FLEET if member.name == name)
    setting = Setting("meta", small=True)
    config: Any = member.build(setting).config
    assert config.hidden_size == 64
