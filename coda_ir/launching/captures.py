"""Capturing CUDA graphs, so that PyTorch stays usable where a capture fails.

Work that waits for the GPU cannot be captured, and neither can anything while another thread of the
process allocates or loads code. `torch.cuda.graph` raises then, and leaves PyTorch 2.11 as it is in
a capture: with its stream, its memory, and a generator that refuses to draw numbers from then on.
"""

from __future__ import annotations

import warnings
from collections.abc import Generator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

import torch


@contextmanager
def captured(graph: Any, pool: Any = None) -> Generator[None]:
    """Capture what runs on the current device in `graph`, with memory of `pool`, or of its own.

    Raises RuntimeError where that fails, with everything else as it was before.
    """
    cuda: Any = torch.cuda  # partly without types
    stream = cuda.current_stream()
    if pool is None:
        pool = cuda.graph_pool_handle()  # a graph that is not whole does not tell its own
    try:
        with cuda.graph(graph, pool=pool):
            yield
    except BaseException:
        cuda.set_stream(stream)
        _end_capture(cuda, pool)
        raise


def _end_capture(cuda: Any, pool: Any) -> None:
    """End what a capture began, as far as it has not ended."""
    # PyTorch has no documented way to end the allocations of a capture that failed. Without this
    # function they go on in the memory of the capture.
    end = getattr(import_module("torch._C"), "_cuda_endAllocateToPool", None)
    if end is not None:
        with suppress(RuntimeError):
            end(cuda.current_device(), pool)
    # The generator takes numbers from the captures that use it: one that succeeds gives it back.
    with warnings.catch_warnings(), suppress(RuntimeError):
        warnings.simplefilter("ignore")
        with cuda.graph(cuda.CUDAGraph()):
            pass
