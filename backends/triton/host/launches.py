"""How the host program launches kernels: through Triton, or directly.

Triton spends tens of microseconds of Python on a launch. A direct launch repeats an earlier one:

    @direct(gemm_residual)
    def launch_gemm_residual(kernel, rows, a, w_down, x, tile):
        return kernel[((rows + 127) // 128 * 16,)](
            TensorDescriptor(a, [rows, 11008], [11008, 1], [128, 64]),
            ...
        )

    def run(x, w_down):
        ...
        launch_gemm_residual(stream, (B,), a, w_down, x, out)

The function has the launch as Triton wants it. `direct` (runtime/direct.py) calls it where it has
to, and else passes what an earlier call passed: numbers and addresses decide that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from string import Formatter

from coda_ir.backends.triton.kernel import (
    EmittedKernel,
    definition,
    indented,
)
from coda_ir.backends.triton.names import LocalNames, NameAllocator, finished


@dataclass(frozen=True)
class DirectLaunch:
    """The function that launches a kernel, and the call of it."""

    kernel: str
    body: tuple[str, ...]
    numbers: Mapping[str, str]
    """What is passed for the first parameters: expressions of integers by parameter."""
    tensors: Mapping[str, str]
    """What is passed for the others."""
    types: tuple[str, ...]
    """The element types of the kernel's arguments, for which Triton compiles it."""

    def function(self, name: str) -> str:
        """The source of the function."""
        header = definition(name, ("kernel", *self.numbers, *self.tensors))
        return finished("\n".join([f"@direct({self.kernel})", *header, *indented(self.body)]))

    def call(self, name: str) -> str:
        """The statement of `run`."""
        numbers = ", ".join(self.numbers.values())
        if len(self.numbers) == 1:
            numbers += ","
        return f"{name}({', '.join(('stream', f'({numbers})', *self.tensors.values()))})"


class LaunchFunctions:
    """The functions of a module that launch kernels directly; equal launches share one."""

    def __init__(self, names: NameAllocator):
        self._names = names
        self._known: dict[object, str] = {}
        self.sources: list[str] = []
        """Of the functions, in the order of their first launches."""

    def name_of(self, launch: DirectLaunch) -> str:
        """The name of the function of a launch."""
        key = (launch.function("launch"), launch.types)
        if key not in self._known:
            name = self._known[key] = self._names.fresh(f"launch_{launch.kernel}")
            self.sources.append(launch.function(name))
        return self._known[key]


def direct_launch(
    kernel: EmittedKernel, rows: str, operands: Sequence[str], outputs: Sequence[str]
) -> DirectLaunch:
    """The direct form of `EmittedKernel.launch`.

    Every number but a literal is a parameter, so that numbers and addresses decide the launch.
    Parameters are named after those of the kernel: equal launches have equal functions.
    """
    names, fields = LocalNames(), _fields(kernel)
    numbers, tensors = _Parameters(names), _Parameters(names)

    def parameter(field: str, value: str) -> str:
        return tensors.of(value, _name_of(kernel, field)) if field in fields else value

    count = numbers.of(rows, "rows") if "rows" in fields else rows
    given = {"operands": operands, "outputs": outputs}
    arguments = [
        replace(each, value=numbers.of(each.value.format(rows=rows, **given), each.name))
        if each.type == "i32"
        else each
        for each in kernel.arguments
    ]
    inner = {
        kind: [parameter(f"{kind}[{index}]", value) for index, value in enumerate(values)]
        for kind, values in given.items()
    }
    launched = replace(kernel, name="return kernel", arguments=tuple(arguments))
    body = launched.launch(count, **inner)
    types = tuple(each.type for each in kernel.arguments)
    return DirectLaunch(kernel.name, tuple(body), numbers.expressions, tensors.expressions, types)


def _fields(kernel: EmittedKernel) -> set[str]:
    """The fields of `EmittedKernel.launch` that a launch needs, other than for numbers of its own:
    `rows`, `operands[0]`.
    """
    values = [each.value for each in kernel.arguments if each.type != "i32"]
    values += [each.value for each in kernel.arguments if each.value == "{rows}"]
    parts = (part for text in (kernel.grid, *values) for part in Formatter().parse(text))
    return {field for _, field, _, _ in parts if field}


class _Parameters:
    """The parameters for expressions of the host program."""

    def __init__(self, names: LocalNames):
        self._names = names
        self._by_value: dict[str, str] = {}

    @property
    def expressions(self) -> dict[str, str]:
        """The expressions to pass, by parameter."""
        return {name: value for value, name in self._by_value.items()}

    def of(self, value: str, hint: str) -> str:
        """The parameter for an expression, or the literal that it is."""
        if value.isdecimal():
            return value
        if value not in self._by_value:
            self._by_value[value] = self._names.fresh(hint)
        return self._by_value[value]


def _name_of(kernel: EmittedKernel, field: str) -> str:
    """The name of a tensor in a kernel, without how it is passed."""
    place = f"{{{field}}}"
    for argument in kernel.arguments:
        descriptors = (f"TensorDescriptor({place},", f"TileDescriptor({place},")
        if argument.value == place or argument.value.startswith(descriptors):
            return argument.name.removesuffix("_ptr").removesuffix("_desc")
    return "tensor"
