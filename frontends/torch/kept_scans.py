"""Loops over time of transformers that stay one operator under torch.compile."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

import torch

from coda_ir.diagnostics import CodaError

MODULE, FUNCTION = "transformers.utils.import_utils", "is_torchdynamo_exporting"


@cache
def keep_scans() -> None:
    """Make torch.compile trace the scans of transformers' Mamba instead of unrolling their loops.

    Models ask whether they are exported, and PyTorch 2.11 says so in torch.compile too: 8192
    tokens then become a graph of 8192 steps. From here on torch.compile traces the answer no, for
    every backend; what is not traced asks PyTorch as before, and so does `torch.export` with
    `strict=False`. Raises CodaError for a version of transformers without that question.
    """
    try:
        asked: Any = getattr(import_module(MODULE), FUNCTION)
    except (ImportError, AttributeError) as error:
        raise CodaError(
            f"transformers has no {MODULE}.{FUNCTION}", "install transformers 5 or later"
        ) from error
    torch.compiler.substitute_in_graph(asked)(_is_exporting)


def _is_exporting() -> bool:
    return False
