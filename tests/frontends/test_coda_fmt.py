"""The command-line tool coda-fmt."""

from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from coda_ir.tools.coda_fmt import main

MESSY = "fn f( x:bf16[M] ) { return x } # same\n"
NEAT = "fn f(x: bf16[M]) {\n    return x\n}  # same\n"


@pytest.fixture
def messy(tmp_path: Path) -> Path:
    path = tmp_path / "messy.coda"
    path.write_text(MESSY)
    return path


def test_prints_the_formatted_text(messy: Path, capsys: pytest.CaptureFixture[str]):
    assert main([str(messy)]) == 0
    assert capsys.readouterr().out == NEAT
    assert messy.read_text() == MESSY


def test_rewrites_in_place(messy: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["-i", str(messy)]) == 0
    assert messy.read_text() == NEAT
    assert capsys.readouterr().out == ""


def test_leaves_formatted_files_untouched(messy: Path):
    messy.write_text(NEAT)
    before = messy.stat().st_mtime_ns
    assert main(["-i", str(messy)]) == 0
    assert messy.stat().st_mtime_ns == before


def test_check_names_files(messy: Path, capsys: pytest.CaptureFixture[str]):
    neat = messy.with_name("neat.coda")
    neat.write_text(NEAT)
    assert main(["--check", str(messy), str(neat)]) == 1
    assert capsys.readouterr().err == f"{messy}: not formatted; run coda-fmt -i\n"
    assert main(["--check", str(neat)]) == 0


def test_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(MESSY.encode())))
    assert main(["-"]) == 0
    assert capsys.readouterr().out == NEAT


def test_standard_input_cannot_be_rewritten(capsys: pytest.CaptureFixture[str]):
    assert main(["-i", "-"]) == 2
    assert capsys.readouterr().err == "coda-fmt: error: -i needs files, not '-'\n"


def test_wrong_files_do_not_stop_the_others(messy: Path, capsys: pytest.CaptureFixture[str]):
    wrong = messy.with_name("wrong.coda")
    wrong.write_text("fn f(\n")
    missing = messy.with_name("missing.coda")
    assert main(["-i", str(wrong), str(missing), str(messy)]) == 1
    assert messy.read_text() == NEAT
    assert wrong.read_text() == "fn f(\n"
    lines = capsys.readouterr().err.splitlines()
    assert (
        lines[0] == f"{wrong}:1:6: error[E0102]: unexpected end of the file, expected ')' or a name"
    )
    assert (
        lines[-2]
        == f"coda-fmt: error[E0801]: {missing}: cannot read the file: No such file or directory"
    )


def test_text_of_the_ir(capsys: pytest.CaptureFixture[str]):
    assert main(["a.mlir"]) == 1
    assert "a.mlir: not a .coda file\n  help: coda-opt prints" in capsys.readouterr().err


def test_read_only_folder(messy: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["-i", str(messy.parent)]) == 1
    assert "this is a directory" in capsys.readouterr().err
