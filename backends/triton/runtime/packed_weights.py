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
    """

    def __init__(self):
        self.entries = collections.OrderedDict()
        self.lock = threading.Lock()

    def clear(self):
        with self.lock:
            self.entries.clear()

    @staticmethod
    def state(tensors):
        if any(x.is_inference() for x in tensors):
            return None
        if tensors[0].is_cuda and torch.cuda.is_current_stream_capturing():
            return None
        return [(x.data_ptr(), x._version, x.stride(), x.untyped_storage()._cdata) for x in tensors]

    def find(self, place, *tensors):
        """The vector of place number `place` in `run` for these tensors, or None."""
        with self.lock:
            entry = self.entries.get((place, *map(id, tensors)))
        if entry is None:
            return None
        references, _, state, packed = entry
        alive = all(ref() is x for ref, x in zip(references, tensors))
        return packed if alive and state == self.state(tensors) else None

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
        # The address of a storage is not given to another one as long as this refers to it.
        storages = [
            torch.multiprocessing.reductions.StorageWeakRef(x.untyped_storage()) for x in tensors
        ]
        with self.lock:
            self.entries[key] = (references, storages, state, packed)
            while len(self.entries) > 1024:
                self.entries.popitem(last=False)


PACKED = PackedWeights()
