"""Remarks as messages of Python's logging, which TORCH_LOGS can switch on.

TORCH_LOGS="coda_ir.remarks" shows what was fused and what was refused, "+coda_ir.remarks" the
facts behind it too. Kinds that the option `remarks` or $CODA_REMARKS names are always shown.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable

from coda_ir.remarks import Remark, RemarkKind

# TORCH_LOGS takes names of modules, so the logger has the name of one.
logger = logging.getLogger("coda_ir.remarks")

LEVELS: dict[RemarkKind, int] = {
    "passed": logging.INFO,
    "missed": logging.INFO,
    "analysis": logging.DEBUG,
}


def log_remarks(remarks: Iterable[Remark], shown: Collection[RemarkKind]) -> None:
    """Log each remark once: as a warning, which is visible by default, where it was asked for."""
    for remark in dict.fromkeys(remarks):
        level = logging.WARNING if remark.kind in shown else LEVELS[remark.kind]
        logger.log(level, "%s", remark)
