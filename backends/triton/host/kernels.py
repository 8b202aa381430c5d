"""The kernels of an emitted module, and the host statements that launch them."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from coda_ir.backends.triton.equal_code import code_of
from coda_ir.backends.triton.host.functions import module_names
from coda_ir.backends.triton.host.joined_launches import Launched, joined
from coda_ir.backends.triton.host.launches import LaunchFunctions, direct_launch
from coda_ir.backends.triton.host.views import View
from coda_ir.backends.triton.host_values import ROWS, constant, given
from coda_ir.backends.triton.kernel import EmittedKernel, KernelArgument, indented, location_comment
from coda_ir.backends.triton.kernel_text import is_stride
from coda_ir.backends.triton.names import NameAllocator
from coda_ir.dialects.gemm import numerics_mode
from coda_ir.symbolic_shapes import Dim


@dataclass
class UsedKernel:
    """A kernel of the module, with comments about the source locations of its operators."""

    kernel: EmittedKernel
    places: list[str] = field(default_factory=list[str])


class HostKernels:
    """The kernels in the order of their first launch; kernels with the same code are one."""

    def __init__(self, func: FuncOp, *, direct_launch: bool):
        self.names = NameAllocator(module_names())
        """Names of kernels and of the functions that launch them."""
        self.launches: list[tuple[Operation, str]] = []
        """Operators, with the names of their kernels."""
        self.stand_ins: dict[str, None] = {}
        """Launches on stand-ins, by which kernels compile ahead, in order (`stand_in_launch`)."""
        self.functions = LaunchFunctions(self.names)
        """The functions of direct launches."""
        self._used: dict[str, UsedKernel] = {}
        self._launched: dict[str, None] = {}
        """Names of the kernels that the host launches, in order; others are steps of these."""
        self._known: dict[Hashable, tuple[EmittedKernel, UsedKernel]] = {}
        """Kernels by a key that is equal for equal operators."""
        self.is_direct = direct_launch
        # Products and sums are contracted where nothing else is asked for.
        self._fp_fusion = not numerics_mode(func).is_strict

    @property
    def used(self) -> Sequence[UsedKernel]:
        by_name = {used.kernel.name: used for used in self._used.values()}
        return tuple(by_name[name] for name in self._launched)

    def shared(
        self, op: Operation, key: Hashable, emit: Callable[[NameAllocator], EmittedKernel]
    ) -> EmittedKernel:
        """Return the kernel that `emit` makes for `op`, or an existing one with the same code. With
        a `key`, which has all that `emit` reads, it is called once for equal keys.
        """
        if key is None or key not in self._known:
            found, used = self._shared(emit(self.names.copy()))
            self._known[key] = replace(found, fp_fusion=self._fp_fusion), used
        kernel, used = self._known[key]
        self._note(op, used)
        return kernel

    def last_launch(self, kernel: EmittedKernel) -> int:
        """Return the position among `launches` of the last operator that runs as `kernel`."""
        found = reversed(list(enumerate(self.launches)))
        return next(position for position, (_, name) in found if name == kernel.name)

    def join(self, launches: Sequence[Launched], positions: Sequence[int]) -> Launched:
        """Return one launch in place of several; operators at these positions run as its kernel."""
        if len(launches) == 1:
            return launches[0]
        name = "_then_".join((launches[0].kernel.name, launches[-1].kernel.name))
        made = joined(launches, self.names.copy().fresh(name))
        kernel, _ = self._shared(made.kernel)
        for position in positions:
            self.launches[position] = (self.launches[position][0], kernel.name)
        return replace(made, kernel=kernel)

    def _shared(self, kernel: EmittedKernel) -> tuple[EmittedKernel, UsedKernel]:
        """Return a kernel under the name of an existing one with the same code."""
        used = self._used.setdefault(code_of(kernel.source), UsedKernel(kernel))
        self.names.reserve(used.kernel.name)
        # What is passed to equal code may differ: the strides of a weight, for one.
        arguments = tuple(
            replace(argument, name=known.name)
            for argument, known in zip(kernel.arguments, used.kernel.arguments, strict=True)
        )
        name, source = used.kernel.name, used.kernel.source
        return replace(kernel, name=name, source=source, arguments=arguments), used

    def _note(self, op: Operation, used: UsedKernel) -> None:
        """Record that `op` runs as a kernel."""
        self.launches.append((op, used.kernel.name))
        place = location_comment(op.location)
        if place is not None and place not in used.places:
            used.places.append(place)

    def launch(
        self,
        kernel: EmittedKernel,
        rows: str,
        operands: Sequence[str | View],
        outputs: Sequence[str | View],
        extent: Callable[[Dim], str],
    ) -> list[str]:
        """Return the statements of a launch; see `EmittedKernel.launch`. Only direct launches
        accept views, whose extents `extent` writes.
        """
        if self.is_direct:
            self._launched[kernel.name] = None
            launch = direct_launch(kernel, rows, operands, outputs, extent)
            lines = [launch.call(self.functions.name_of(launch))]
        else:
            lines = self.statement(kernel, rows, *map(_variables, (operands, outputs)))
        stand_in = stand_in_launch(kernel)
        if stand_in is not None:
            self.stand_ins[stand_in] = None
        if kernel.has_descriptors and not (kernel.runs_without_rows or rows.isdecimal()):
            # A descriptor of no rows does not exist; a grid of 0 is skipped by Triton itself.
            return [f"if {rows}:", *indented(lines)]
        return lines

    def statement(
        self, kernel: EmittedKernel, rows: str, operands: Sequence[str], outputs: Sequence[str]
    ) -> list[str]:
        """Return the statement of a launch by Triton, wherever the program has it."""
        self._launched[kernel.name] = None
        return kernel.launch(given(rows, operands, outputs))


def _variables(tensors: Sequence[str | View]) -> list[str]:
    """Return tensors that are variables, as all are in Triton's launches."""
    variables = [x for x in tensors if isinstance(x, str)]
    assert len(variables) == len(tensors), "Triton's launches take variables"
    return variables


# Launches with stand-ins


NUMBER = "16"
"""The value passed for every extent, and for a pitch, on which a kernel is specialized."""


def stand_in_launch(kernel: EmittedKernel) -> str | None:
    """Return the launch of a kernel with stand-ins for its tensors, so that the compiled kernel is
    known before there are tensors; None for a kernel with strides.

        gemm_residual[(1,)](
            TensorDescriptor(tensor("bf16"), [16, 11008], [11008, 1], [128, 64]),
            tensor("fp32"),
            16,
            num_warps=8,
            num_stages=3,
        )

    Triton compiles a kernel for the types of its arguments, for addresses that are multiples of 16,
    as those of dense tensors are, and for numbers that it specializes on: strides, and a pitch. A
    kernel for another pitch is compiled at its first launch. `coda_ir/launching/kernels_ahead.py`
    evaluates the text.
    """
    if any(map(is_stride, kernel.arguments)):
        return None
    arguments = [replace(each, value=constant(_stand_in(each))) for each in kernel.arguments]
    launched = replace(kernel, arguments=tuple(arguments), grid=constant(1))
    return "\n".join(launched.launch({}))


def launched_kernel(launch: str) -> str:
    """Return the name of the kernel of a launch."""
    return launch.partition("[")[0]


def _stand_in(argument: KernelArgument) -> str:
    """Return the text that is passed for an argument."""
    if argument.type == "i32":
        return NUMBER
    pointee = argument.type.removeprefix("*").removeprefix("tensordesc<").partition("[")[0]
    stand_in = f'tensor("{pointee}")'
    tensors = dict.fromkeys(argument.value.places, stand_in)
    return argument.value.text({**tensors, ROWS: NUMBER})
