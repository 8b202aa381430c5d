# pyright: basic
"""Host functions for launching kernels: numbers of programs, counters of tiles, launch options."""

import functools

import torch

from coda_ir.backends.triton.runtime.header import INTERPRET


@functools.cache
def multiprocessors(device):
    return torch.cuda.get_device_properties(device).multi_processor_count


def programs(tiles, device):
    """Return the number of persistent programs for `tiles` tiles: one for each multiprocessor, or
    one for each tile if there are fewer tiles.
    """
    return min(tiles, multiprocessors(device))


COUNTERS = {}


def tile_counters(tiles, device, known=None):
    """Return at least `tiles` int32 counters, all 0, for kernels in which several programs work on
    one tile. Each kernel leaves them at 0.

    Calls on one stream run one after another and share their counters. These are never freed, so a
    repeated launch finds them at the same address. A CUDA graph under capture gets its own
    counters, since it may run beside other calls.

    `known`: the counters of an earlier kernel of the same call, which are returned if there are
    enough.
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
    """Return the options of programmatic dependent launch; none if Triton does not support it."""
    if INTERPRET.value:
        return {}
    from triton.backends.nvidia.compiler import CUDAOptions

    return {"launch_pdl": True} if hasattr(CUDAOptions, "launch_pdl") else {}


OVERLAPPING = overlapping()


@functools.cache
def planned(registers):
    """Return the launch options that limit a thread to `registers` registers; none on GPUs other
    than NVIDIA's. Given this limit, ptxas uses the registers to load ahead instead of saving them
    for higher occupancy.
    """
    if INTERPRET.value or torch.version.hip is not None:
        return {}
    return {"maxnreg": registers}
