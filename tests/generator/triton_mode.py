"""The choice between compiling and interpreting Triton, which it decides when it is imported."""

import os
from pathlib import Path


def use_interpreter() -> None:
    """Let Triton run in its interpreter where there is no GPU, and where TRITON_INTERPRET=1 asks
    for it: then GPUs are hidden from PyTorch, so that tensors are where the interpreter works.
    """
    has_gpu = Path("/dev/kfd").exists() or any(Path("/dev").glob("nvidia[0-9]*"))
    if not has_gpu:
        os.environ.setdefault("TRITON_INTERPRET", "1")
    if os.environ.get("TRITON_INTERPRET") == "1":
        os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["HIP_VISIBLE_DEVICES"] = ""
