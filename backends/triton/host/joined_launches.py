"""Launches of one program each that become one launch: the steps of a router for a few tokens.

    @triton.jit
    def topk_then_group_order(x_ptr, values_ptr, ids_ptr, M, ids_ptr_1, order_ptr, ends_ptr, M_1):
        topk_step(x_ptr, values_ptr, ids_ptr, M)
        tl.debug_barrier()
        group_order_step(ids_ptr_1, order_ptr, ends_ptr, M_1)

A kernel that is a single program may run in the program of the kernel before: after a barrier, its
threads see what all others of the block have stored. If several programs share the K of the only
tile of a GEMM, the last of them goes on with the steps. Values between steps stay in their tensors.
Kernels with tensor descriptors join none: a barrier of threads does not order what the threads
store and what the tensor memory accelerator loads.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from coda_ir.backends.triton.dependent_launch import Launch
from coda_ir.backends.triton.host.views import View
from coda_ir.backends.triton.host_values import ROWS, HostValue, Place, constant
from coda_ir.backends.triton.kernel import EmittedKernel, KernelArgument, call, indented
from coda_ir.backends.triton.kernel_text import signature
from coda_ir.backends.triton.names import NameAllocator, symbols_of

MAX_STEPS = 24
"""Kernels in one, at most: the time to compile a kernel grows with its length."""


@dataclass(frozen=True)
class Launched:
    """A launch whose statement is not written yet."""

    kernel: EmittedKernel
    rows: str
    operands: Sequence[str | View]
    outputs: Sequence[str | View]

    @property
    def programs(self) -> int | None:
        """The number of programs, if it is known."""
        return self.kernel.grid.count(int(self.rows)) if self.rows.isdecimal() else None

    def can_begin(self) -> bool:
        """Return whether steps may follow in the kernel: one program, or one tile of programs."""
        kernel, shared = self.kernel, self.kernel.shared_tiles
        is_plain = kernel.language == "triton" and kernel.source.count("@triton.jit") == 1
        if not is_plain or kernel.has_descriptors:
            return False
        return self.rows != "0" and self.programs == (1 if shared is None else shared.programs)

    def can_follow(self) -> bool:
        """Return whether the kernel may be a step after another one."""
        return self.can_begin() and self.kernel.shared_tiles is None


@dataclass
class WaitingLaunches:
    """Launches without a statement yet, which the next one may join."""

    launches: list[Launched] = field(default_factory=list[Launched])
    positions: list[int] = field(default_factory=list[int])
    """The index of each launch among `HostKernels.launches`."""
    dead: list[str] = field(default_factory=list[str])
    """Variables to drop after them."""

    def accepts(self, launch: Launched) -> bool:
        """Return whether a launch may follow these: its loops have no separate stages."""
        stages = {EmittedKernel.num_stages, *(x.kernel.num_stages for x in self.launches[:1])}
        is_free = len(self.launches) < MAX_STEPS and launch.kernel.num_stages in stages
        return is_free and launch.can_follow()

    def add(self, launch: Launched, position: int) -> None:
        self.launches.append(launch)
        self.positions.append(position)


def joined(launches: Sequence[Launched], name: str) -> Launched:
    """Return one launch, of a kernel with this name, that does what several do in order."""
    kernels = [launch.kernel for launch in launches]
    head, shares_tile = kernels[0], kernels[0].shared_tiles is not None
    names = NameAllocator([name, *symbols_of("\n".join(kernel.source for kernel in kernels))])
    steps = {each.name: each for each in kernels[shares_tile:]}
    functions = {each: names.fresh(f"{each}_step") for each in steps}
    arguments: list[KernelArgument] = []
    calls: list[str] = []
    for number, kernel in enumerate(kernels):
        own = _arguments_of(launches, number)
        if number or not shares_tile:
            own = [replace(each, name=names.fresh(each.name)) for each in own]
            barrier = ["tl.debug_barrier()"] if number else []
            calls += [*barrier, *call(functions[kernel.name], [each.name for each in own])]
        arguments += own
    # The programs of a tile read memory before the first step, and wait only if they do alone.
    launch = Launch(any(kernel.is_dependent for kernel in kernels[: 1 if shares_tile else None]))
    body = _with_tail(head, calls) if shares_tile else [*launch.wait(), *calls]
    asserts = any(kernel.asserts for kernel in kernels)
    entry = [*signature(name, arguments, asserts=asserts), *indented(body), ""]
    sources = [*(_step(steps[each], functions[each]) for each in steps), "\n".join(entry)]
    made = replace(
        head,
        name=name,
        source="\n\n\n".join(sources),
        arguments=tuple(arguments),
        grid=constant(launches[0].programs or 1),
        num_warps=head.num_warps if shares_tile else max(each.num_warps for each in kernels),
        description="; then ".join(each.description for each in kernels),
        asserts=asserts,
        imports=frozenset[str]().union(*(each.imports for each in kernels)),
        constants=frozenset[str]().union(*(each.constants for each in kernels)),
        is_dependent=launch.is_dependent,
    )
    operands = [operand for each in launches for operand in each.operands]
    outputs = [output for each in launches for output in each.outputs]
    return Launched(made, launches[0].rows, operands, outputs)


def _arguments_of(launches: Sequence[Launched], number: int) -> list[KernelArgument]:
    """Return the arguments of a launch by the operands and outputs of all launches."""
    before, launch = launches[:number], launches[number]
    operands = sum(len(each.operands) for each in before)
    outputs = sum(len(each.outputs) for each in before)

    def moved(place: Place) -> Place:
        return replace(place, index=place.index + (operands, outputs)[place.kind == "outputs"])

    def of_all(value: HostValue) -> HostValue:
        pieces = tuple(
            piece if isinstance(piece, str) else launch.rows if piece == ROWS else moved(piece)
            for piece in value.pieces
        )
        return HostValue(pieces, None if value.tensor is None else moved(value.tensor))

    return [replace(each, value=of_all(each.value)) for each in launch.kernel.arguments]


def _step(kernel: EmittedKernel, name: str) -> str:
    """Return a kernel as a function that a single program calls."""
    source = kernel.source.replace(f"def {kernel.name}(", f"def {name}(", 1)
    # The second axis of all grids has one program.
    return source.replace("tl.program_id(0)", "tl.program_id(1)").rstrip()


def _with_tail(kernel: EmittedKernel, tail: Sequence[str]) -> list[str]:
    """Return the body of a kernel whose last program of the tile goes on with `tail`."""
    (function,) = ast.parse(kernel.source).body
    assert isinstance(function, ast.FunctionDef), "a kernel is a function"
    last = function.body[-1]
    assert isinstance(last, ast.If) and not last.orelse, "the last program stores the results"
    lines = kernel.source.rstrip().split("\n")[function.body[0].lineno - 1 :]
    return [*(line.removeprefix("    ") for line in lines), *indented(tail)]
