"""The target `triton`: emits a Python module of Triton kernels and a host program."""

from dataclasses import dataclass
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.target import Target

from coda_ir.backends.triton.module import emit_module


@dataclass(frozen=True)
class TritonTarget(Target):
    """Writes the source of a self-contained Python module (see `emit_module`)."""

    name = "triton"

    entry: str | None = None
    """The function to emit; may be left out where there is only one."""
    direct_launch: bool = False
    """True if launches go past Triton's Python (see `host/launches.py`)."""

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        source = emit_module(module, self.entry, direct_launch=self.direct_launch)
        print(source, file=output, end="")
