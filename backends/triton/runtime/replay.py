# pyright: basic, reportOptionalMemberAccess=false
"""Calls that repeat earlier ones: their launches are prepared. See `host/replay.py`."""

import threading

import torch

from coda_ir.backends.triton.runtime.direct import ADDRESS, Call, keep
from coda_ir.backends.triton.runtime.tensors import are_dense

IS_CONTIGUOUS = torch.Tensor.is_contiguous
IS_CAPTURING = torch.cuda.is_current_stream_capturing if torch.cuda.is_available() else bool


class Calls:
    """The calls of `run` so far: the launches of each by stream, sizes and addresses.

    A call like earlier ones, whose arguments, results and temporaries are at the same places, is
    these launches. They are collected in the second one. No tensor is kept.
    """

    MOST_BYTES = 32 << 20
    """Of the temporaries of a call that are allocated, and freed, together. Those of a larger call,
    which takes longer on the GPU than on the host, are freed one by one."""

    def __init__(self):
        self.sizes = {}
        self.known = {}
        self.is_observed = False
        self.seen = {}
        """Where calls are observed: the memory and the launches of the last one by thread."""

    def observed(self):
        """The address and the bytes of what the last call of this thread needed meanwhile, and its
        launches; None where they are not known, or have been given.
        """
        return self.seen.pop(threading.get_ident(), None)

    def are_small(self, sizes):
        """Whether calls with these sizes of symbols are known to need little memory."""
        size = self.sizes.get(sizes)
        return size is not None and size <= self.MOST_BYTES

    def begin(self, stream, allocate, sizes, *tensors):
        """Repeat an earlier call, and give None; else the Call that is to be made."""
        size = self.sizes.get(sizes)
        if size is None:  # forgotten meanwhile, by another thread
            return Call(stream, self, sizes, allocate)
        work = allocate((size,), (1,), torch.uint8)
        # What a graph is captured with must not be what calls beside it use.
        if stream is None or IS_CAPTURING() or not all(map(IS_CONTIGUOUS, tensors)):
            return Call(stream, self, sizes, allocate, work)
        key = (stream, sizes, ADDRESS(work), *map(ADDRESS, tensors))
        launches = self.known.get(key)
        if launches:
            for launch in launches:
                launch()
            return None
        if launches is None:
            # Copies of arguments are elsewhere in the next call.
            is_repeatable = are_dense(*tensors)
            if is_repeatable:
                keep(self.known, key, ())
            if not (is_repeatable and self.is_observed):
                return Call(stream, self, sizes, allocate)
        return Call(stream, self, sizes, allocate, work, key)


CALLS = Calls()
