"""The passes and inputs of the goldens, for tests that run them in-process."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from coda_ir.api import parse
from support.programs import parse_mlir

ROOT = Path(__file__).parents[2]
GOLDENS = ROOT / "tests/filecheck"
PROGRAMS = ROOT / "tests/passes/programs"
EXAMPLES = ROOT / "examples"

SEPARATOR = "// -----"
"""Between the inputs of one file, as for `coda-opt --split-input-file`."""

UNIT, SHRINK = 1024, 8
"""Extents in `UNIT`s are for choosing schedules; tiles divide them if `SHRINK` times smaller."""

SMALL = {"D": 32, "F": 48, "HEAD": 8, "HEADS": 4, "KV_HEADS": 2, "K": 24, "N": 40, "V": 300}
"""Sizes for the constants of the examples, in as far as they have them."""


@dataclass(frozen=True)
class Golden:
    """A pipeline that a RUN line applies to one input."""

    pipeline: str
    name: str
    text: str | None = None
    example: Path | None = None

    @property
    def keeps_meaning(self) -> bool:
        """True if the functions are to give the same results for all inputs.

        False for `drop-zero-gradients`, whose functions lose arguments that are 0
        (passes/test_drop_zero_gradients.py tests it), and for functions of numbers, since inputs
        are tensors.
        """
        takes_numbers = re.search(r"func\.func [^{]*%\w+ ?: [fi]\d+", self.text or "") is not None
        return not takes_numbers and "drop-zero-gradients" not in self.pipeline

    @property
    def has_column_scale(self) -> bool:
        """True if the input may have a weight to fold."""
        return self.text is None or "_norm" in self.text or "coda.mul" in self.text

    def module(self) -> ModuleOp:
        """The input: an example with small constants, or a text without large extents."""
        if self.example is not None:
            return small_example(self.example)
        assert self.text is not None
        return parse_mlir(re.sub(r"(?<!\d)\d{4,}(?!\d)", _smaller, self.text))


def _smaller(extent: re.Match[str]) -> str:
    count, rest = divmod(int(extent[0]), UNIT)
    return extent[0] if rest or count < 2 else str(count * UNIT // SHRINK)


@dataclass(frozen=True)
class _Run:
    """The contents of a RUN line: the input, the passes, and whether there are several inputs."""

    source: str
    pipeline: str
    is_split: bool


def goldens() -> list[Golden]:
    """Return what the RUN lines say that apply passes, without those that are expected to fail.

    A pipeline is left out where another one for the same input starts with its passes.
    """
    cases: list[Golden] = []
    for path in sorted((*GOLDENS.glob("passes/*.mlir"), *GOLDENS.glob("backends/**/*.mlir"))):
        runs = {run for line in _run_lines(path) for run in _runs(line)}
        for run in sorted(runs, key=lambda run: (run.source, run.pipeline)):
            if not _is_prefix(run, runs):
                cases += _inputs(path, run)
    return cases


def _run_lines(path: Path) -> list[str]:
    text = re.sub(r"\\\n(?://|#) RUN:", "", path.read_text())
    return re.findall(r"^(?://|#) RUN: (.*)$", text, re.MULTILINE)


def _runs(line: str) -> Iterator[_Run]:
    """The input and the passes of the first command of a RUN line."""
    words = shlex.split(line.partition("|")[0])
    if words[:1] == ["coda-opt"] and "-p" in words and "--verify-diagnostics" not in words:
        yield _Run(words[1], words[words.index("-p") + 1], "--split-input-file" in words)


def _is_prefix(run: _Run, runs: set[_Run]) -> bool:
    return any(
        other.source == run.source and other.pipeline.startswith(f"{run.pipeline},")
        for other in runs
    )


def _inputs(path: Path, run: _Run) -> Iterator[Golden]:
    if run.source.startswith("%examples/"):
        example = EXAMPLES / run.source.removeprefix("%examples/")
        yield Golden(run.pipeline, f"{example.stem}-{run.pipeline}", example=example)
        return
    for text in inputs_of(path) if run.is_split else [path.read_text()]:
        yield Golden(run.pipeline, f"{path.stem}-{name_of(text)}", text)


def inputs_of(path: Path) -> list[str]:
    """The inputs of a file that is read with `--split-input-file`."""
    return path.read_text().split(SEPARATOR)


def name_of(text: str) -> str:
    match = re.search(r"func\.func (?:private )?@(\w+)", text)
    return match[1] if match is not None else "empty"


def programs() -> list[Golden]:
    """The programs of the tests of passes, with the pipeline to the GEMM level."""
    return [
        Golden("coda-to-gemm", f"{path.stem}-{name_of(text)}", text)
        for path in sorted(PROGRAMS.glob("*.mlir"))
        for text in inputs_of(path)
    ]


def small_example(path: Path, **sizes: int) -> ModuleOp:
    """An example with `SMALL` constants, and with others where `sizes` states them."""
    declared = set(re.findall(r"^const (\w+)", path.read_text(), re.MULTILINE))
    small = SMALL | sizes
    return parse(path, constants={name: small[name] for name in declared & set(small)})
