# pyright: basic
"""Helpers for launching kernels: numbers of programs, counters of tiles, options."""

import functools

import torch

from coda_ir.backends.triton.runtime.header import INTERPRET


@functools.cache
def multiprocessors(device):
    return torch.cuda.get_device_properties(device).multi_processor_count


def programs(tiles, device):
    """Return the number of programs that share `tiles` tiles: one on each multiprocessor."""
    return min(tiles, multiprocessors(device))


COUNTERS = {}


def tile_counters(tiles, device, known=None):
    """Zeros by tile for kernels whose programs share tiles, which leave zeros behind.

    The calls on a stream follow one another and have the same, which are never freed: launches that
    are repeated have their address. A CUDA graph that is captured gets its own, as it may run
    beside calls: `known` are those of an earlier kernel in it.
    """
    if known is not None and len(known) >= tiles:
        return known
    fresh = functools.partial(torch.zeros, tiles + 1024, dtype=torch.int32, device=device)
    if device.type != "cuda" or torch.cuda.is_current_stream_capturing():
        return fresh()
    stream = (device.index, torch.cuda.current_stream(device.index).cuda_stream)
    counters = COUNTERS.setdefault(stream, [])
    if not counters or len(counters[-1]) < tiles:
        counters.append(fresh())
    return counters[-1]


def overlapping():
    """Options of a launch that may overlap with the kernel before, where Triton knows them."""
    if INTERPRET.value:
        return {}
    from triton.backends.nvidia.compiler import CUDAOptions

    return {"launch_pdl": True} if hasattr(CUDAOptions, "launch_pdl") else {}


OVERLAPPING = overlapping()


@functools.cache
def planned(registers):
    """Options of a launch for which ptxas plans with so many registers in a thread: it loads ahead
    where it would save them, for more programs at a time. Nothing on other GPUs.
    """
    if INTERPRET.value or torch.version.hip is not None:
        return {}
    return {"maxnreg": registers}
