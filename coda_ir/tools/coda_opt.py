"""`coda-opt`: read a program, run passes on it, and print it, emit code for it or execute it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from io import BytesIO
from typing import IO, ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.arg_spec import parse_pipeline
from xdsl.utils.exceptions import (
    AlreadyRegisteredConstructException,
    ArgSpecParseError,
    DiagnosticException,
    InvalidIRException,
    ParseError,
    UnregisteredConstructException,
)
from xdsl.xdsl_opt_main import xDSLOptMain

from coda_ir import __version__
from coda_ir.diagnostics import CodaError
from coda_ir.registry import get_all_dialects, get_all_passes, get_all_targets
from coda_ir.remarks import REMARK_KINDS, collect_remarks
from coda_ir.sources import decode_source

FAILURE, USAGE = 1, 2
"""Exit codes: the input is wrong; the command line is wrong."""

USER_ERRORS = (
    CodaError,
    ParseError,
    DiagnosticException,
    UnregisteredConstructException,
    AlreadyRegisteredConstructException,
    InvalidIRException,
    OSError,
    RecursionError,
)
"""What a wrong input raises; anything else is a defect of the tool and shows its traceback."""


class UsageError(CodaError):
    """The command line asks for something that does not exist."""


class CodaOptMain(xDSLOptMain):
    """xDSL's driver with `.coda` input, remarks, and execution of the result."""

    version_format: ClassVar[str] = f"coda-opt {__version__} on xdsl {{xdsl_version}}"

    def __init__(self, args: Sequence[str] | None = None):
        super().__init__(description=__doc__ or "", args=args)

    def register_all_dialects(self) -> None:
        """The dialects of every installed universe, and ours where it is not installed."""
        super().register_all_dialects()
        for name, load in get_all_dialects().items():
            if name not in self.ctx.registered_dialect_names:
                self.ctx.register_dialect(name, load)

    def register_all_passes(self) -> None:
        super().register_all_passes()
        self.available_passes |= get_all_passes()

    def register_all_targets(self) -> None:
        super().register_all_targets()
        self.available_targets |= get_all_targets()

    def register_all_frontends(self) -> None:
        super().register_all_frontends()
        self.available_frontends["coda"] = self._parse_coda

    def _parse_coda(self, io: IO[bytes]) -> ModuleOp:
        from coda_ir.frontends.coda_text import parse_text

        text = decode_source(io.read(), self.get_input_name())
        return parse_text(text, self.get_input_name(), constants=dict(self.args.const))

    def register_all_arguments(self, arg_parser: argparse.ArgumentParser) -> None:
        super().register_all_arguments(arg_parser)
        arg_parser.add_argument(
            "--remarks",
            nargs="?",
            const="all",
            default="none",
            choices=("all", *REMARK_KINDS, "none"),
            help="Print the remarks of the passes, or those of one kind, to stderr",
        )
        arg_parser.add_argument(
            "--debug", action="store_true", help="Show the traceback of an error in the input"
        )
        arg_parser.add_argument(
            "--const",
            action="append",
            default=[],
            type=named(number),
            metavar="NAME=VALUE",
            help="Override a constant of a .coda file; may be repeated",
        )
        register_run_arguments(arg_parser)

    def setup_pipeline(self) -> None:
        """Build the pipeline. Raises UsageError for an unknown pass or option of a pass."""
        try:
            for spec in parse_pipeline(self.args.passes):
                if spec.name not in self.available_passes:
                    raise UsageError(
                        f"unknown pass '{spec.name}'", suggest(spec.name, self.available_passes)
                    )
            super().setup_pipeline()
        except (ArgSpecParseError, ValueError) as error:
            raise UsageError(
                f"argument -p/--passes: {error}", "write pass-a,pass-b{option=value}"
            ) from error

    def prepare_input(self) -> tuple[list[tuple[IO[bytes], int]], str]:
        """Open the input. Raises UsageError for a file that no frontend reads."""
        name = self.get_input_name()
        try:
            return super().prepare_input()
        except ValueError as error:
            raise UsageError(
                f"{name}: unknown kind of input",
                "name the file .coda or .mlir, or say which it is with -f coda or -f mlir",
            ) from error

    def get_input_stream(self) -> tuple[IO[bytes], str]:
        """The input and its extension; a .coda file is split where its comments are `# -----`."""
        stream, extension = super().get_input_stream()
        if self.args.split_input_file and "coda" in (extension, self.args.frontend):
            with stream:
                return BytesIO(stream.read().replace(b"\n# -----", b"\n// -----")), extension
        return stream, extension

    def parse_chunk(
        self, chunk: IO[bytes], file_extension: str, start_offset: int = 0
    ) -> ModuleOp | None:
        """Parse one piece of the input; None where it is wrong and wrong is what is asked for."""
        try:
            if file_extension == "coda":
                # A piece of a split file keeps its line numbers.
                chunk = BytesIO(b"\n" * start_offset + chunk.read())
            return super().parse_chunk(chunk, file_extension, start_offset)
        except CodaError as error:
            if not (self.args.parsing_diagnostics or self.args.verify_diagnostics):
                raise
            print(error)
            return None
        except ValueError as error:
            # xDSL's parser lets some malformed names escape as plain ValueErrors.
            raise CodaError(f"{self.get_input_name()}: {error}") from error

    def apply_passes(self, prog: ModuleOp) -> None:
        with self.printed_remarks():
            super().apply_passes(prog)

    def output_resulting_program(self, prog: ModuleOp) -> str:
        with self.printed_remarks():
            if not self.args.run:
                return super().output_resulting_program(prog)
            from coda_ir.tools.run_module import RunOptions, run_module

            return run_module(prog, RunOptions.from_args(self.args))

    @contextmanager
    def printed_remarks(self) -> Generator[None]:
        """Print the remarks of the `with` block to stderr, also where it raises."""
        kinds = REMARK_KINDS if self.args.remarks == "all" else (self.args.remarks,)
        with collect_remarks() as remarks:
            try:
                yield
            finally:
                for remark in remarks:
                    if remark.kind in kinds:
                        print(remark, file=sys.stderr)


def register_run_arguments(arg_parser: argparse.ArgumentParser) -> None:
    group = arg_parser.add_argument_group("execution")
    group.add_argument(
        "--run", action="store_true", help="Execute the program instead of printing it"
    )
    group.add_argument(
        "--run-target",
        choices=("reference", "triton"),
        default="reference",
        help="Backend that executes the program (default: reference)",
    )
    group.add_argument("--entry", metavar="NAME", help="Function to execute; needed for several")
    group.add_argument(
        "--dim",
        action="append",
        default=[],
        type=named(extent),
        metavar="SYMBOL=SIZE",
        help="Size of a symbolic dimension (default: 16); may be repeated",
    )
    group.add_argument("--seed", type=int, default=0, help="Seed of the random inputs")
    group.add_argument(
        "--inputs", metavar="FILE", help="Tensors by argument name, from .npz or .safetensors"
    )
    group.add_argument("--device", help="Device of the inputs (default: cpu)", default="cpu")


def named(parse: Callable[[str], float | int]) -> Callable[[str], tuple[str, float | int]]:
    """A parser of `NAME=VALUE` arguments."""

    def parse_assignment(text: str) -> tuple[str, float | int]:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise argparse.ArgumentTypeError(f"'{text}' is not of the form NAME=VALUE")
        try:
            return name, parse(value)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"'{text}': {error}") from error

    return parse_assignment


def number(text: str) -> float | int:
    """An integer or a real number. Raises ValueError for anything else."""
    try:
        return int(text)
    except ValueError:
        return float(text)


def extent(text: str) -> int:
    """A size of a dimension. Raises ValueError for a negative one."""
    size = int(text)
    if size < 0:
        raise ValueError(f"a dimension has {size} elements, expected 0 or more")
    return size


def suggest(name: str, known: Iterable[str]) -> str:
    """A remedy for an unknown name: the closest known one, or how to see all."""
    matches = get_close_matches(name, list(known), n=1)
    return f"did you mean '{matches[0]}'?" if matches else "coda-opt --help lists all"


def main(args: Sequence[str] | None = None) -> int:
    """Run the tool on command-line arguments; the exit code is 0, 1 or 2."""
    arguments = sys.argv[1:] if args is None else list(args)
    try:
        CodaOptMain(arguments).run()
    except BrokenPipeError:
        # The reader of the output has seen enough, as in `coda-opt ... | head`.
        sys.stderr.close()
        return 0
    except USER_ERRORS as error:
        if "--debug" in arguments:
            raise
        print(render_error(error), file=sys.stderr)
        return USAGE if isinstance(error, UsageError) else FAILURE
    return 0


def render_error(error: BaseException) -> str:
    """The message of an error in the input, its notes and its place, without a traceback."""
    match error:
        case RecursionError():
            text = "the input is nested too deeply"
        case OSError(filename=str(filename), strerror=str(reason)):
            text = f"{filename}: {reason}"
        case _:
            text = "\n".join([str(error), *getattr(error, "__notes__", [])]).strip()
    return text if ": error: " in text else f"coda-opt: error: {text}"


if __name__ == "__main__":
    sys.exit(main())
