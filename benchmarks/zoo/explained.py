"""Models that are refused, and why: an error for the user, not a wrong program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

CONTROL_FLOW = "control flow, or a number of Python, depends on the values of a tensor"
SIZES = "a size depends on the values of a tensor"
COMPLEX = "tensors of type torch.complex64 cannot be represented"
NO_FFT = "Unsupported dtype BFloat16"
"""The error of PyTorch for a Fourier transform on a CPU."""

EXPLAINED: Mapping[str, Sequence[str]] = {
    "aria_text": [CONTROL_FLOW],
    "fnet": [COMPLEX, NO_FFT],
    "jetmoe": [SIZES],
    "longformer": [CONTROL_FLOW],
    "pixtral": [CONTROL_FLOW],
    "vilt": [CONTROL_FLOW],
}
"""By architecture, parts of what may be noted."""


def is_explained(name: str, note: str) -> bool:
    """Return whether `note` is what is known of an architecture that fails."""
    return any(part in note for part in EXPLAINED.get(name, ()))


def is_not_captured(note: str) -> bool:
    """Return whether `torch.export` refuses a model, before this package sees a graph."""
    return "cannot be captured" in note
