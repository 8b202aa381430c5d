"""The device that kernels of tests run on: the GPU if CODA_TEST_GPU is 1, else the CPU."""

from collections.abc import Callable
from typing import Any

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def on_device(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function` for tensors of the CPU: it runs on DEVICE, and its results come back."""
    if DEVICE == "cpu":
        return function

    def run(*tensors: torch.Tensor) -> Any:
        results = function(*(tensor.to(DEVICE) for tensor in tensors))
        if isinstance(results, torch.Tensor):
            return results.cpu()
        return tuple(result.cpu() for result in results)

    return run
