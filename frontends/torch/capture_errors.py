"""What went wrong when PyTorch traced a model, for its user."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import torch

from coda_ir.diagnostics import CodaError

MODEL_ERRORS = (
    RuntimeError,  # Most failures of tracing, among them guards on data.
    TypeError,
    ValueError,
    AssertionError,
    AttributeError,
    LookupError,
    ArithmeticError,
    ImportError,
    NameError,
)
"""What tracing raises, and what the code of a model does."""


class CaptureError(CodaError):
    """The model cannot be captured as one graph."""


class _Reason(NamedTuple):
    """A kind of failure, by words of PyTorch's message."""

    words: str
    summary: str | None
    """What replaces the message."""
    remedy: str


_REASONS = (
    _Reason("Constraints violated", None, "leave that dimension out of dynamic_shapes"),
    _Reason(
        "structure of `inputs`", None, "let dynamic_shapes have an entry for each argument, or None"
    ),
    _Reason(
        "list assignment index out of range",
        "dynamic_shapes names a dimension that an argument does not have",
        "count the dimensions of that argument from 0",
    ),
    _Reason(
        "data-dependent",
        "control flow, or a number of Python, depends on the values of a tensor",
        "compute it with tensors (torch.where), or export the parts of the model around it",
    ),
    _Reason("on the same device", None, "move the model and its arguments to one device"),
    _Reason("a leaf Variable", None, "leave weights unchanged, and return the new value"),
    _Reason(
        "Cache'> in output",
        "it returns a cache, which is not a tensor",
        "pass use_cache=False, or return the tensors of the cache",
    ),
    _Reason(
        "not a known type", None, "pass and return tensors, numbers, None and containers of these"
    ),
)
_REMEDY = "write it with operators of PyTorch, or export the parts of the model around it"


def capture_error(model: object, error: BaseException) -> CaptureError:
    """`error`, which tracing `model` raised, with its place in the model and a remedy."""
    text = str(error)
    reason = next((r for r in _REASONS if r.words in text), _Reason("", None, _REMEDY))
    what = reason.summary or f"{type(error).__name__}: {_first_lines(text)}"
    place = _place(error.__traceback__)
    return CaptureError(f"{type(model).__name__} cannot be captured: {place}{what}", reason.remedy)


def _first_lines(text: str) -> str:
    """The message of an error in as far as it is about the model, on one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ".join(lines[:2])[:300]


_FOREIGN = tuple(str(Path(file).parent) for file in (torch.__file__, __file__))
"""Folders of code that is not the model's."""


def _place(trace: TracebackType | None) -> str:
    """The innermost line of the model that an error passed through."""
    places = list(_model_lines(trace))
    return f"{places[-1]}: " if places else ""


def _model_lines(trace: TracebackType | None) -> Iterator[str]:
    for frame, line in traceback.walk_tb(trace):
        file = frame.f_code.co_filename
        if not file.startswith(("<", *_FOREIGN)):
            yield f"{file}:{line}"
