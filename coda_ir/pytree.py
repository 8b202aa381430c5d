"""PyTorch's trees: the structure of the arguments and results of a model.

`torch.export` describes the structure of a call as a tree of this module, which PyTorch documents
under this name only. This is the only place that imports it.
"""

from typing import Any

import torch.utils._pytree as _pytree

pytree: Any = _pytree
"""Without types, which PyTorch's trees do not have completely."""
