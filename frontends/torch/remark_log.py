"""Remarks as messages of Python's logging, which TORCH_LOGS enables.

TORCH_LOGS="coda_ir.remarks" logs fused operators and refused rewrites, and "+coda_ir.remarks" also
the facts behind them. Kinds that the option `remarks` or $CODA_REMARKS names are always logged.
"""

import logging
from collections.abc import Collection, Iterable, Mapping

from coda_ir.diagnostics import counted
from coda_ir.remarks import Remark, RemarkKind

# TORCH_LOGS takes names of modules, so the logger has the name of one.
logger = logging.getLogger("coda_ir.remarks")

LEVELS: dict[RemarkKind, int] = {
    "passed": logging.INFO,
    "missed": logging.INFO,
    "analysis": logging.DEBUG,
}


VIEWS = frozenset({"coda.constant", "coda.reshape", "coda.slice", "coda.transpose"})
"""Operators of the block level that move nothing."""

LIBRARY = ("gemm.library", "coda.linear")
"""GEMMs that PyTorch's library computes."""


def log_verdict(graph: str, operators: Mapping[str, int], *, shown: Collection[RemarkKind]) -> None:
    """Log a one-line verdict about a graph and its scheduled `operators`, if remarks are shown."""
    gemms = operators.get("gemm.fused", 0)
    library = sum(operators.get(name, 0) for name in LIBRARY)
    left = sum(
        count
        for name, count in operators.items()
        if name.startswith(("coda.", "torch.", "gemm.map")) and name not in (*VIEWS, *LIBRARY)
    )
    calls = operators.get("func.call", 0)
    how = f"in Inductor, between {calls} calls of programs" if calls else "in kernels and PyTorch"
    level = logging.WARNING if shown else logging.INFO
    text = "%s has %s with epilogues, %d in the library, and %s %s"
    counts = counted(gemms, "GEMM"), library, counted(left, "other operator")
    logger.log(level, text, graph, *counts, how)


def log_remarks(remarks: Iterable[Remark], shown: Collection[RemarkKind]) -> None:
    """Log each remark once: as a warning, visible by default, if the user asked for it."""
    for remark in dict.fromkeys(remarks):
        level = logging.WARNING if remark.kind in shown else LEVELS[remark.kind]
        logger.log(level, "%s", remark)
