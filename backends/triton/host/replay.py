"""Calls that repeat an earlier one: host programs that do nothing but allocate and launch kernels.

    def run(x, w):
        ...
        out = None
        if CALLS.are_small((B,)):
            out = empty((B, 64), (64, 1), torch.bfloat16)
            call = CALLS.begin(stream, empty, (B,), x, w, out)
            if call is None:
                return out
        else:
            call = Call(stream, CALLS, (B,), empty)
        empty = call.empty
        ...                                  # temporaries, launches
        if out is None:
            out = call.allocate((B, 64), (64, 1), torch.bfloat16)
        ...
        call.keep()
        return out

Sizes and addresses decide all launches of such a program, so they are prepared once: results are
allocated first, and what is only needed within a call is part of one more allocation. Large calls
take longer on the GPU than on the host; they allocate when they need it, and need less at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from coda_ir.backends.triton.host.extents import is_symbol
from coda_ir.backends.triton.kernel import indented
from coda_ir.storage import is_view
from coda_ir.symbolic_shapes import SymbolicShapes


class Replay:
    """Finds out whether the calls of a host program can be repeated, and says how."""

    def __init__(self, func: FuncOp, shapes: SymbolicShapes, *, is_wanted: bool):
        last = func.body.block.last_op
        self._results = set(() if last is None else last.operands)
        self._arguments = func.args
        self._allocations: dict[SSAValue, str] = {}
        dims = [dim for argument in func.args for dim in shapes.dims(argument)]
        # Without them, sizes do not tell all that a launch depends on.
        are_known = all(isinstance(dim, int) or is_symbol(dim) for dim in dims)
        self._is_possible = is_wanted and bool(func.args) and are_known
        self._symbols = list(dict.fromkeys(dim for dim in dims if isinstance(dim, str)))

    @property
    def is_possible(self) -> bool:
        """Whether results are allocated, or arguments, and nothing was refused so far."""
        known = {*self._allocations, *self._arguments}
        return self._is_possible and self._results <= known

    def refuse(self) -> None:
        """Say that the program does something else, too."""
        self._is_possible = False

    def computed(self, value: SSAValue, *, is_dense: bool) -> None:
        """Say that a value is an expression of PyTorch; a view of what is dense is harmless."""
        owner = value.owner
        is_plain = isinstance(owner, Operation) and is_view(owner) and is_dense
        if not is_plain or value in self._results:
            self.refuse()

    def allocated(self, value: SSAValue, line: str) -> None:
        """Say how a value is allocated that has a tensor of its own."""
        if value in self._results:
            self._allocations[value] = line

    def head(
        self, extent: Callable[[str], str], variable: Callable[[SSAValue], str], returned: str
    ) -> list[str]:
        """The statements before the first launch."""
        sizes = ", ".join(map(extent, self._symbols))
        sizes += "," * (len(self._symbols) == 1)
        used = [argument for argument in self._arguments if argument.uses]
        tensors = [variable(value) for value in [*used, *self._allocations]]
        lines = [f"{name} = None" for name in map(_name, self._allocations.values())]
        begin = f"call = CALLS.begin({', '.join(['stream', 'empty', f'({sizes})', *tensors])})"
        return [
            *lines,
            f"if CALLS.are_small(({sizes})):",
            *indented([*self._allocations.values(), begin, "if call is None:"]),
            *indented(indented([returned])),
            "else:",
            *indented([f"call = Call(stream, CALLS, ({sizes}), empty)"]),
            "empty = call.empty",
        ]

    def body(self, lines: Sequence[str]) -> list[str]:
        """The statements of the program, of which the last one returns."""
        first = set(self._allocations.values())
        others: list[str] = []
        for line in lines[:-1]:
            if line in first:
                late = line.replace(" = empty(", " = call.allocate(", 1)
                others += [f"if {_name(line)} is None:", *indented([late])]
            else:
                others.append(line)
        return [*others, "call.keep()", lines[-1]]


def _name(allocation: str) -> str:
    return allocation.partition(" = ")[0]
