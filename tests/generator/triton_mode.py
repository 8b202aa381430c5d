"""Whether Triton compiles or interprets, which it decides when it is imported."""

from __future__ import annotations

import os
from pathlib import Path


def use_interpreter() -> None:
    """Let Triton run in its interpreter where there is no GPU."""
    has_gpu = Path("/dev/kfd").exists() or any(Path("/dev").glob("nvidia[0-9]*"))
    if not has_gpu:
        os.environ.setdefault("TRITON_INTERPRET", "1")
