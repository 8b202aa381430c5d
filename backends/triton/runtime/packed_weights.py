# pyright: basic
"""Tensors computed from weights alone, which are kept between calls."""

import collections
import threading
import weakref

import torch


class PackedWeights:
    """Tensors computed from weights alone, kept between calls of `run`.

    An entry holds as long as its tensors are the same objects with the same storage and version,
    so that a weight that was updated in place is packed again. Only what bypasses the version
    counter (writing through `.data`) is not seen: call PACKED.clear() after it. Inference tensors
    have no version and are packed in each call, as are all while a CUDA graph is captured, which
    then packs in each replay. At most 1024 entries are kept; one goes when its weight does.

    PyTorch documents the version counter, and `_version` is the only way to read it. Without that
    name all are packed in each call.
    """

    def __init__(self):
        self.entries = collections.OrderedDict()
        self.lock = threading.Lock()

    def clear(self):
        with self.lock:
            self.entries.clear()

    @staticmethod
    def state(tensors):
        if any(x.is_inference() or not hasattr(x, "_version") for x in tensors):
            return None
        if tensors[0].is_cuda and torch.cuda.is_current_stream_capturing():
            return None
        return [(x.data_ptr(), x._version, x.stride(), storage_of(x)) for x in tensors]

    def find(self, place, *tensors):
        """The vector of place number `place` in `run` for these tensors, or None."""
        with self.lock:
            entry = self.entries.get((place, *map(id, tensors)))
        if entry is None:
            return None
        references, state, packed = entry
        alive = all(ref() is x for ref, x in zip(references, tensors))
        if not alive or state != self.state(tensors):
            return None
        if packed.is_cuda:
            # Once the entry is dropped, its memory is not reused before this stream has read it.
            packed.record_stream(torch.cuda.current_stream(packed.device))
        return packed

    def keep(self, place, packed, *tensors):
        state = self.state(tensors)
        if state is None:
            return
        if packed.is_cuda:
            # What is kept may be read by any stream.
            torch.cuda.current_stream(packed.device).synchronize()
        key = (place, *map(id, tensors))

        def forget(_):
            self.entries.pop(key, None)

        references = [weakref.ref(x, forget) for x in tensors]
        with self.lock:
            self.entries[key] = (references, state, packed)
            while len(self.entries) > 1024:
                self.entries.popitem(last=False)


def storage_of(x):
    """The storage of x, whose address no other one has while this refers to it."""
    return torch.multiprocessing.reductions.StorageWeakRef(x.untyped_storage())


PACKED = PackedWeights()
