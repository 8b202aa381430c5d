"""Remarks: rendering, places, collection, output of the tool."""

import json
import re
from pathlib import Path

import pytest
from xdsl.dialects.builtin import (
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    LocationAttr,
    NameLoc,
    NoneAttr,
    StringAttr,
    UnknownLoc,
)

from coda_ir.api import Lowering, parse
from coda_ir.remarks import (
    REMARK_KINDS,
    Remark,
    collect_remarks,
    emit_remark,
    format_location,
    fuse_locations,
    source_position,
)
from coda_ir.symbolic_size import SymbolicSize
from coda_ir.tools.coda_opt import main


def at(line: int) -> FileLineColLoc:
    return FileLineColLoc(StringAttr("layer.coda"), IntAttr(line), IntAttr(3))


def missed(message: str = "not paired") -> Remark:
    return Remark("missed", "pair-glu", "coda.glu", at(7), message)


def test_rendering_of_a_missed_rewrite():
    remark = Remark(
        "missed",
        "pair-glu",
        "coda.glu",
        at(7),
        "the two projections do not share their input",
        condition="A(gate) = A(up)",
        bytes=SymbolicSize.product(["M", 16384]),
        suggestion="project the same value",
    )
    assert str(remark) == (
        "layer.coda:7:3: remark[missed] pair-glu: coda.glu: the two projections do not share "
        "their input; failed condition: A(gate) = A(up); costs 16384*M bytes; "
        "help: project the same value"
    )


def test_the_module_of_a_model():
    place = fuse_locations(at(3), NameLoc(StringAttr("layers.0.mlp"), at(7)))
    remark = Remark("missed", "pair-glu", "coda.glu", place, "not paired")
    text = "layer.coda:3:3: remark[missed] pair-glu: coda.glu in layers.0.mlp: not paired"
    assert str(remark) == text
    assert remark.to_dict()["module"] == "layers.0.mlp"
    assert missed().module is None and "module" not in missed().to_dict()


def test_a_passed_rewrite_saves_bytes():
    remark = Remark("passed", "pair-glu", "coda.glu", UnknownLoc(), "paired", bytes=512)
    assert str(remark) == ("<unknown>: remark[passed] pair-glu: coda.glu: paired; saves 512 bytes")


def test_to_dict_is_plain_data_without_empty_fields():
    remark = Remark(
        "missed",
        "p",
        "coda.glu",
        at(7),
        "m",
        bytes=SymbolicSize.product(["M", 2]),
        function="layer",
    )
    assert remark.to_dict() == {
        "kind": "missed",
        "pass": "p",
        "operator": "coda.glu",
        "function": "layer",
        "message": "m",
        "bytes": "2*M",
        "location": {"file": "layer.coda", "line": 7, "column": 3},
    }


@pytest.mark.parametrize(
    "size, expected", [(512, 512), (SymbolicSize.product([4, 8]), 32), ("8*M", "8*M")]
)
def test_known_bytes_are_integers(size: int | str | SymbolicSize, expected: int | str):
    assert Remark("passed", "p", "o", at(1), "m", bytes=size).to_dict()["bytes"] == expected


def test_text_with_the_line_of_the_source():
    remark = Remark("missed", "p", "coda.glu", at(2), "m", bytes=8, suggestion="do that")
    assert remark.render("fn f\n  glu(x)\n") == (
        "layer.coda:2:3: remark[missed] p: coda.glu: m; costs 8 bytes\n"
        "    glu(x)\n"
        "    ^\n"
        "  help: do that"
    )
    assert remark.render() == (
        "layer.coda:2:3: remark[missed] p: coda.glu: m; costs 8 bytes\n  help: do that"
    )


def test_a_remark_as_a_diagnostic():
    diagnostic = missed("not paired").to_diagnostic()
    assert diagnostic.severity == "remark"
    assert str(diagnostic.range) == "layer.coda:7:3"
    assert diagnostic.message == "[missed] pair-glu: coda.glu: not paired"
    assert Remark("missed", "p", "o", UnknownLoc(), "m").to_diagnostic().range is None


def test_every_pass_names_the_function():
    program = """
        fn f(x: bf16[M, 8], g: bf16[8], w: bf16[8, 8]) {
            return silu(linear(rms_norm(x, g, eps=1e-5), w))
        }
    """
    lowering = Lowering(parse(program))
    lowering.module("scheduled")
    assert {remark.kind for remark in lowering.remarks} == set(REMARK_KINDS)
    assert {remark.function for remark in lowering.remarks} == {"f"}


@pytest.mark.parametrize(
    "location, expected",
    [
        (at(1), "layer.coda:1:3"),
        (NameLoc(StringAttr("x"), at(2)), "layer.coda:2:3"),
        (CallSiteLoc(at(3), at(9)), "layer.coda:3:3"),
        (FusedLoc((UnknownLoc(), at(4), at(5)), NoneAttr()), "layer.coda:4:3"),
        (FusedLoc((UnknownLoc(),), NoneAttr()), "<unknown>"),
        (UnknownLoc(), "<unknown>"),
    ],
)
def test_place_of_a_location(location: LocationAttr, expected: str):
    assert format_location(location) == expected


def test_fused_locations_keep_each_known_place_once():
    assert fuse_locations(UnknownLoc(), UnknownLoc()) == UnknownLoc()
    assert fuse_locations(UnknownLoc(), at(1), at(1)) == at(1)
    assert fuse_locations(at(1), UnknownLoc(), at(2)) == FusedLoc((at(1), at(2)), NoneAttr())
    assert source_position(fuse_locations(at(1), at(2))) == ("layer.coda", 1, 3)


def test_remarks_are_collected_in_order():
    with collect_remarks() as remarks:
        emit_remark(missed("a"))
        emit_remark(missed("b"))
    assert [remark.message for remark in remarks] == ["a", "b"]


def test_without_a_collector_remarks_are_dropped():
    emit_remark(missed())
    with collect_remarks() as remarks:
        pass
    assert remarks == []


def test_nested_collectors_hand_on_to_the_outer_one():
    with collect_remarks() as outer:
        emit_remark(missed("a"))
        with collect_remarks() as inner:
            emit_remark(missed("b"))
        emit_remark(missed("c"))
    assert [remark.message for remark in inner] == ["b"]
    assert [remark.message for remark in outer] == ["a", "b", "c"]


def test_an_exception_loses_no_remark():
    with collect_remarks() as outer, pytest.raises(KeyError), collect_remarks():
        emit_remark(missed("a"))
        raise KeyError
    assert [remark.message for remark in outer] == ["a"]


class TestOutput:
    """The options of `coda-opt` on remarks."""

    PROGRAM = """
        func.func @f(%x: tensor<?x8xf32>, %w: tensor<8x8xf32>) -> tensor<?x8xf32> {
          %h = coda.rms_norm %x {eps = 1.0e-6 : f64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
          %a = coda.linear %h, %w : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
          %y = coda.silu %a : (tensor<?x8xf32>) -> tensor<?x8xf32>
          func.return %y : tensor<?x8xf32>
        }
    """

    @pytest.fixture
    def program(self, tmp_path: Path) -> str:
        path = tmp_path / "input.mlir"
        path.write_text(self.PROGRAM)
        return str(path)

    def test_json_loads_back(self, program: str, tmp_path: Path):
        output = tmp_path / "remarks.json"
        passes = "coda-to-gemm,schedule,plan-buffers"
        assert main([program, "-p", passes, "--remarks-output", str(output)]) == 0
        remarks = list(map(json.loads, output.read_text().splitlines()))
        assert {remark["kind"] for remark in remarks} == set(REMARK_KINDS)
        missed = next(remark for remark in remarks if remark["kind"] == "missed")
        assert missed["pass"] == "defer-norms"
        assert missed["operator"] == "coda.rms_norm"
        assert missed["function"] == "f"
        assert missed["location"] == {"file": program, "line": 3, "column": 16}
        assert missed["bytes"] == "64*d0"
        assert {"message", "condition", "suggestion"} < set(missed)

    def test_no_remarks_are_an_empty_stream(self, program: str, tmp_path: Path):
        output = tmp_path / "remarks.json"
        assert main([program, "--remarks-output", str(output)]) == 0
        assert list(map(json.loads, output.read_text().splitlines())) == []

    def test_pieces_of_a_split_input_share_a_file(self, tmp_path: Path):
        path, output = tmp_path / "input.mlir", tmp_path / "remarks.json"
        path.write_text(f"{self.PROGRAM}\n// -----\n{self.PROGRAM}")
        arguments = ["--split-input-file", "--remarks=missed", "--remarks-output", str(output)]
        for _ in range(2):
            assert main([str(path), "-p", "coda-to-gemm", *arguments]) == 0
            lines = [
                r["location"]["line"] for r in map(json.loads, output.read_text().splitlines())
            ]
            assert lines == [3, 12]

    @pytest.mark.parametrize(
        "arguments, expected",
        [
            (["--remarks=passed"], {"passed"}),
            (["--remarks=passed,missed"], {"passed", "missed"}),
            (["--remarks=all"], set(REMARK_KINDS)),
            (["--remarks"], set(REMARK_KINDS)),
            (["--remarks=none"], set[str]()),
            ([], set[str]()),
            (["--remarks-filter=schedule"], {"analysis"}),
            (["--remarks-filter=^defer", "--remarks=passed"], set[str]()),
        ],
    )
    def test_selection(
        self,
        program: str,
        arguments: list[str],
        expected: set[str],
        capsys: pytest.CaptureFixture[str],
    ):
        assert main([program, "-p", "coda-to-gemm,schedule", *arguments]) == 0
        assert set(re.findall(r"remark\[(\w+)\]", capsys.readouterr().err)) == expected

    @pytest.mark.parametrize(
        "arguments, message",
        [
            (["--remarks=some"], "invalid choice: 'some'"),
            (["--remarks-filter=("], "'(' is not a regex"),
            (["--remarks-format=xml"], "invalid choice: 'xml'"),
        ],
    )
    def test_wrong_options(
        self,
        program: str,
        arguments: list[str],
        message: str,
        capsys: pytest.CaptureFixture[str],
    ):
        with pytest.raises(SystemExit) as stop:
            main([program, *arguments])
        assert stop.value.code == 2
        assert message in capsys.readouterr().err

    def test_an_output_that_cannot_be_written(
        self, program: str, capsys: pytest.CaptureFixture[str]
    ):
        assert main([program, "--remarks-output=/nowhere/remarks.json"]) == 1
        assert "/nowhere/remarks.json: No such file" in capsys.readouterr().err
