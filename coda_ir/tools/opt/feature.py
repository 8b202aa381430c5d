"""The interface of a feature of `coda-opt`; the package explains how to add one."""

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.target import Target

from coda_ir.diagnostics import Diagnostic
from coda_ir.pipeline import PassInstrumentation, PassRegistry, Pipeline
from coda_ir.pipeline.timing import Timer
from coda_ir.remarks import Remark
from coda_ir.sources import Sources
from coda_ir.tools.opt.diagnostics_output import print_diagnostics
from coda_ir.tools.opt.errors import FAILURE

TargetRegistry: TypeAlias = Mapping[str, Callable[[], type[Target]]]
"""Maps each name of a target to a function that imports its class."""


@dataclass(frozen=True)
class Chunk:
    """A piece of the input: all of it, or the part between two lines `// -----`."""

    name: str
    """Name of the file."""
    data: bytes
    """The text, after as many empty lines as stand before it in the file."""
    syntax: str
    """Name of the frontend: `coda`, `mlir` or another of xDSL's."""
    index: int = 0


@dataclass
class Session:
    """One run of the tool: its options, and the objects that it works on."""

    arguments: Sequence[str]
    """The command line, after the options of a reproducer where one is run."""
    options: argparse.Namespace
    context: Context
    passes: PassRegistry
    targets: TargetRegistry
    pipeline: Pipeline
    parse: Callable[[Chunk], ModuleOp]
    """Reads and verifies a piece of the input. Raises what a wrong input raises."""
    print_module: Callable[[ModuleOp], str]
    """Prints IR as the options of the command line ask for."""
    chunk: Chunk = field(default_factory=lambda: Chunk("stdin", b"", "mlir"))
    """The piece that is worked on."""
    timer: Timer = field(default_factory=lambda: Timer("coda-opt"))
    remarks: list[Remark] = field(default_factory=list[Remark])
    """The remarks of the passes on that piece so far."""
    exit_code: int = 0
    reproduced: BaseException | None = None
    """The defect for which a reproducer was written."""

    @property
    def text(self) -> str:
        """The text of the piece; readers have reported bytes that are not UTF-8."""
        return self.chunk.data.decode("utf-8", "replace")

    @property
    def sources(self) -> Sources:
        """The texts of source files, for excerpts in messages."""
        return Sources({self.chunk.name: self.text})

    def report(self, *diagnostics: Diagnostic) -> None:
        """Print to stderr, in the form that `--diagnostics` requests."""
        print_diagnostics(diagnostics, self.sources, self.options.diagnostics)

    def fail(self, *diagnostics: Diagnostic, code: int = FAILURE) -> None:
        """Report that a check has failed, and continue."""
        self.report(*diagnostics)
        self.exit_code = max(self.exit_code, code)


@dataclass(frozen=True)
class Feature:
    """Options of the command line, with a method for each place where their feature can act."""

    register_arguments: Callable[[argparse.ArgumentParser], None]
    action: Callable[[Session], int | None] = lambda _: None
    """Does something instead of reading an input, and gives the exit code; None to go on."""
    around_chunk: Callable[[Session], AbstractContextManager[Any]] = lambda _: nullcontext()
    """A context manager around all that is done with one piece of the input."""
    instrumentations: Callable[[Session], Iterable[PassInstrumentation]] = lambda _: ()
    """Instruments of the passes that run on one piece of the input."""
    write: Callable[[Session, ModuleOp], str | None] = lambda _, __: None
    """The output for a module in place of the target's; None to leave it to the others."""
    finish: Callable[[Session], None] = lambda _: None
    """Reports on the whole run, after the last piece of the input, also where one failed."""
