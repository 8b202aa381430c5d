"""The result of compiling a function as data, for calls and reports without lowering it."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coda_ir.diagnostics import Diagnostic

if TYPE_CHECKING:
    from coda_ir.calls.arguments import Signature
    from coda_ir.cost_model.comparison import Estimates
    from coda_ir.remarks import Remark


@dataclass(frozen=True)
class Artifact:
    """A function, compiled for one schedule.

    Remarks are stored as data and decoded on demand, because most calls never read them, and they
    need xDSL.
    """

    signature: Signature
    used_arguments: tuple[bool, ...]
    """For each argument whether the function needs it."""
    source: str
    """The text of the emitted Triton module."""
    kernels: tuple[str, ...]
    """Names of its kernels in the order of their first launch."""
    operators: Mapping[str, int]
    """The number of operators of each name in the scheduled function, those in regions included."""
    launches: tuple[str, ...] = ()
    """Its kernels are compiled by these ahead of the first call; see `launching/`."""
    remark_data: bytes = b""
    """Remarks of the passes of the levels; see `remarks`."""
    origin_remark_data: bytes = b""
    """Remarks of making the program of the block level; see `origin_remarks`."""
    notes: tuple[str, ...] = ()
    """Messages about the cache."""
    warnings: tuple[Diagnostic, ...] = ()
    """Warnings about the text of the program."""
    graph: str = ""
    """The IR of a function that calls programs, which PyTorch runs; empty for a single program."""
    programs: tuple[str, ...] = ()
    """The names of the functions that `graph` calls."""
    comparison: Estimates | None = None
    """None where there are no estimates."""

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """The remarks: what was fused, what was refused, and why."""
        from xdsl.dialects.builtin import UnknownLoc

        from coda_ir.remarks import Remark

        notes = (Remark("analysis", "cache", "program", UnknownLoc(), x) for x in self.notes)
        return (*_decoded(self.remark_data), *notes)

    @property
    def origin_remarks(self) -> tuple[Remark, ...]:
        """The remarks of deriving the program, if it is a derived one."""
        return _decoded(self.origin_remark_data)


def encoded(remarks: Sequence[Remark]) -> bytes:
    """Return remarks as the data that an Artifact stores."""
    return pickle.dumps(tuple(remarks))


def _decoded(data: bytes) -> tuple[Remark, ...]:
    return pickle.loads(data) if data else ()
