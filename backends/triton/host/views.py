"""Views of tensors that kernels read where they are, without a statement of the host program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from coda_ir.symbolic_shapes import Dim, Dims

Step = tuple[str, Dims]
"""A method of a tensor that gives a view, and its arguments: `("narrow", (2, 0, 64))`."""


@dataclass(frozen=True)
class View:
    """A view of the tensor in the variable `root`: the methods to call on it, in order.

    The methods take microseconds of the host. A direct launch calls them once for each combination
    of sizes (see `launches.py`); only what PyTorch reads needs a statement.
    """

    root: str
    steps: tuple[Step, ...]
    dims: Dims
    """The dimensions of the result."""
    is_dense: bool
    """Whether it is contiguous."""

    def text(self, root: str, extent: Callable[[Dim], str]) -> str:
        """The expression of the view, given those of the root and of extents."""
        calls = [f".{name}({', '.join(map(extent, given)) or '()'})" for name, given in self.steps]
        return "".join([root, *calls])

    @property
    def symbolic(self) -> list[Dim]:
        """The extents of the result, and in the calls, that are no numbers."""
        given = [dim for _, arguments in self.steps for dim in arguments]
        return [dim for dim in (*self.dims, *given) if isinstance(dim, str)]
