"""A Hugging Face model with the kernels of Liger, beside the same model without them."""

from __future__ import annotations

import copy
from importlib import import_module
from itertools import chain
from typing import Any


class LigerModel:
    """A copy of a model that Liger has patched; it shares the parameters.

    Liger also replaces functions of the module that the model's class is from. They stand there
    during calls only, so that the model itself stays as it was. Raises ImportError where Liger is
    not installed, or does not know the model.
    """

    def __init__(self, model: Any):
        if model.device.type != "cuda":
            raise ImportError("its kernels are for GPUs")
        self._names: dict[str, Any] = vars(import_module(type(model).__module__))
        self._model = _sharing_copy(model)
        before = dict(self._names)
        self._apply(model.config.model_type)
        changed = {name: value for name, value in self._names.items() if before[name] is not value}
        self._restored = {name: before[name] for name in changed}
        self._replaced = changed
        self._names.update(self._restored)

    def _apply(self, kind: str) -> None:
        liger: Any = import_module("liger_kernel.transformers")
        apply: Any = getattr(liger, f"apply_liger_kernel_to_{kind}", None)
        if apply is None:
            raise ImportError(f"it does not know {kind}")
        apply(model=self._model)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._names.update(self._replaced)
        try:
            return self._model(*args, **kwargs)
        finally:
            self._names.update(self._restored)


def _sharing_copy(model: Any) -> Any:
    tensors = chain(model.parameters(), model.buffers())
    return copy.deepcopy(model, {id(tensor): tensor for tensor in tensors})
