"""Models that are refused, and why: an error for the user, not a wrong program."""

from __future__ import annotations

from collections.abc import Mapping

CONTROL_FLOW = "control flow, or a number of Python, depends on the values of a tensor"
SIZES = "a size depends on the values of a tensor"
COMPLEX = "tensors of type torch.complex64 cannot be represented"

EXPLAINED: Mapping[str, str] = {
    "aria_text": CONTROL_FLOW,
    "fnet": COMPLEX,
    "jetmoe": SIZES,
    "longformer": CONTROL_FLOW,
    "pixtral": CONTROL_FLOW,
    "vilt": CONTROL_FLOW,
}
"""By architecture, a part of what is noted."""


def is_explained(name: str, note: str) -> bool:
    """Return whether `note` is what is known of an architecture that fails."""
    return name in EXPLAINED and EXPLAINED[name] in note
