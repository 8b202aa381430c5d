# pyright: basic
"""A cache of tensors that are computed from weights alone."""

import collections
import threading
import weakref

import torch


class PackedWeights:
    """A cache of tensors that `run` computes from weights alone.

    An entry is valid while its weights are the same tensor objects with the same storage and
    version, so a weight that was updated in place is packed again. Writes that bypass the version
    counter (as through `.data`) are not detected: call PACKED.clear() after them. Inference tensors
    have no version, so they are packed in every call. While a CUDA graph is captured, all weights
    are packed, and the graph packs them in every replay. The cache has at most 1024 entries. An
    entry is dropped when one of its weights is freed.

    PyTorch documents the version counter, but `_version` is the only way to read it. If that
    attribute does not exist, weights are packed in every call.
    """

    def __init__(self):
        self.entries = collections.OrderedDict()
        self.lock = threading.Lock()

    def clear(self):
        with self.lock:
            self.entries.clear()

    @staticmethod
    def state(tensors):
        """Return what must not change while an entry is valid; None if tensors cannot be cached."""
        if any(x.is_inference() or not hasattr(x, "_version") for x in tensors):
            return None
        if tensors[0].is_cuda and torch.cuda.is_current_stream_capturing():
            return None
        return [(x.data_ptr(), x._version, x.stride(), storage_of(x)) for x in tensors]

    def find(self, place, *tensors):
        """Return the packed tensor number `place` of `run` for these weights, or None."""
        with self.lock:
            entry = self.entries.get((place, *map(id, tensors)))
        if entry is None:
            return None
        references, state, packed = entry
        alive = all(ref() is x for ref, x in zip(references, tensors))
        if not alive or state != self.state(tensors):
            return None
        if packed.is_cuda:
            # If the entry is dropped, its memory is not reused before this stream has read it.
            packed.record_stream(torch.cuda.current_stream(packed.device))
        return packed

    def keep(self, place, packed, *tensors):
        """Add packed tensor number `place` of `run` for these weights, if they can be cached."""
        state = self.state(tensors)
        if state is None:
            return
        if packed.is_cuda:
            # Any stream may read the entry from now on.
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
    """Return a weak reference to the storage of x; while it exists, its identity is unique."""
    return torch.multiprocessing.reductions.StorageWeakRef(x.untyped_storage())


PACKED = PackedWeights()
