"""PyTorch's trees: the structure of the arguments and results of a model.

`torch.export` states the structure of a call as a tree of this module, and PyTorch documents it
under this name only. It is imported here once.
"""

from typing import Any

import torch.utils._pytree as _pytree

pytree: Any = _pytree
"""Without types, which PyTorch's trees do not have completely."""
