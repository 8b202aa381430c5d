"""Views of tensors that kernels read in place, without a statement of the host program."""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import BlockArgument, SSAValue

from coda_ir.dialects.coda.shapes import element_bytes, shape_of
from coda_ir.storage import ALIGNMENT
from coda_ir.symbolic_shapes import Dim, Dims

Step = tuple[str, Dims]
"""A method of a tensor that gives a view, and its arguments: `("narrow", (2, 0, 64))`."""


@dataclass(frozen=True)
class Part:
    """A tensor that only kernels read: the bytes from `start` on of one that several share."""

    workspace: str
    """The variable of the shared tensor."""
    start: int
    dtype: str
    shape: str

    def text(self, workspace: str, start: str) -> str:
        """Return the expression of the part, given those of the workspace and of its start."""
        return f"part({workspace}, {start}, {self.dtype}, {self.shape})"


@dataclass(frozen=True)
class View:
    """A view of a part of the workspace, or of the tensor in a variable: the methods to call on
    it, in order.

    The methods take microseconds of the host. A direct launch calls them once for each combination
    of sizes (see `launches.py`); only what PyTorch reads needs a statement.
    """

    root: str | Part
    steps: tuple[Step, ...]
    dims: Dims
    """The dimensions of the result."""
    is_dense: bool
    """True where it is contiguous if the root is."""
    argument: BlockArgument | None
    """The argument of the program that the root is, whose strides are the caller's."""

    @property
    def has_stated_strides(self) -> bool:
        return self.is_dense and self.argument is None

    @property
    def variable(self) -> str:
        """The variable whose memory the view is in."""
        return self.root if isinstance(self.root, str) else self.root.workspace

    def expression(self, extent: Callable[[Dim], str]) -> str:
        """Return the expression of the view, given those of extents."""
        root = self.root
        return self.text(
            root if isinstance(root, str) else root.text(root.workspace, str(root.start)), extent
        )

    def text(self, root: str, extent: Callable[[Dim], str]) -> str:
        """Return the expression of the view, given those of the root and of extents."""
        calls = [f".{name}({', '.join(map(extent, given)) or '()'})" for name, given in self.steps]
        return "".join([root, *calls])

    @property
    def symbolic(self) -> list[Dim]:
        """The symbolic extents of the result and of the calls."""
        given = [dim for _, arguments in self.steps for dim in arguments]
        return [dim for dim in (*self.dims, *given) if isinstance(dim, str)]


def is_always_view(step: Step, before: Dims) -> bool:
    """Return whether a step copies from no tensor with extents `before`, whatever its strides."""
    name, extents = step
    return name != "reshape" or [n for n in before if n != 1] == [n for n in extents if n != 1]


def keeps_order(base: SSAValue, step: Step) -> bool:
    """Return whether a view of a contiguous tensor is contiguous, with the same alignment."""
    name, given = step
    if name != "narrow":
        return name == "reshape"
    dim, start, _ = given
    assert isinstance(dim, int) and isinstance(start, int)
    shape = shape_of(base)
    offset = start * prod(shape[dim + 1 :]) * element_bytes(base.type)
    is_known = DYNAMIC_INDEX not in shape[dim + 1 :]
    return set(shape[:dim]) <= {1} and is_known and offset % ALIGNMENT == 0
