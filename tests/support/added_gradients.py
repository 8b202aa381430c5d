"""Who adds gradients: what PyTorch adds in place."""

from collections import Counter
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import torch

# PyTorch has no complete types for it.
DispatchMode: Any = import_module("torch.utils._python_dispatch").TorchDispatchMode


class Sums(DispatchMode):
    """Counts the shapes that PyTorch adds in place."""

    def __init__(self, shapes: Counter[tuple[int, ...]]):
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self.shapes = shapes

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func is torch.ops.aten.add_.Tensor:
            self.shapes[tuple(args[0].shape)] += 1
        return func(*args, **(kwargs or {}))
