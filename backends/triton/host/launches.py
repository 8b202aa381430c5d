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

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from coda_ir.backends.triton.kernel import (
    EmittedKernel,
    KernelArgument,
    definition,
    indented,
)
from coda_ir.backends.triton.names import LocalNames, NameAllocator, finished


def launch_lines(
    kernel: EmittedKernel, rows: str, operands: Sequence[str], outputs: Sequence[str]
) -> list[str]:
    """The launch of a kernel, with a grid of plain arithmetic."""
    first, *rest = kernel.launch(rows, operands, outputs)
    return [with_plain_ceilings(first), *rest]


def with_plain_ceilings(expression: str) -> str:
    """The expression without `triton.cdiv`, which takes microseconds."""

    def ceiling(match: re.Match[str]) -> str:
        extent, block = match[1], int(match[2])
        if extent.isdecimal():
            return str(-(-int(extent) // block))
        return f"({extent} + {block - 1}) // {block}"

    return re.sub(r"triton\.cdiv\(([^,]+), (\d+)\)", ceiling, expression)


@dataclass(frozen=True)
class DirectLaunch:
    """The function that launches a kernel, and the call of it."""

    kernel: str
    body: tuple[str, ...]
    numbers: Mapping[str, str]
    """What is passed for the first parameters: expressions of integers by parameter."""
    tensors: Mapping[str, str]
    """What is passed for the others."""

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
        self._by_text: dict[str, str] = {}
        self.sources: list[str] = []
        """Of the functions, in the order of their first launches."""

    def name_of(self, launch: DirectLaunch) -> str:
        """The name of the function of a launch."""
        text = launch.function("launch")
        if text not in self._by_text:
            name = self._names.fresh(f"launch_{launch.kernel}")
            self._by_text[text] = name
            self.sources.append(launch.function(name))
        return self._by_text[text]


def direct_launch(
    kernel: EmittedKernel, rows: str, operands: Sequence[str], outputs: Sequence[str]
) -> DirectLaunch:
    """The direct form of `launch_lines`.

    Every number but a literal is a parameter, so that numbers and addresses decide the launch.
    Parameters are named after those of the kernel: equal launches have equal functions.
    """
    names = LocalNames()
    numbers, tensors = _Parameters(names), _Parameters(names)
    arguments: list[KernelArgument] = []
    count = numbers.of(rows, "rows")
    for argument in kernel.arguments:
        value = argument.value
        if argument.type == "i32":
            value = value.format(rows=rows, operands=operands, outputs=outputs)
            value = numbers.of(value, argument.name)
        arguments.append(replace(argument, value=value))
    inner = {
        kind: [
            tensors.of(value, _name_of(kernel, f"{{{kind}[{index}]}}"))
            for index, value in enumerate(values)
        ]
        for kind, values in (("operands", operands), ("outputs", outputs))
    }
    launched = replace(kernel, name="return kernel", arguments=tuple(arguments))
    body = launch_lines(launched, count, **inner)
    mentioned = set(re.findall(r"\w+", "\n".join(body)))
    return DirectLaunch(kernel.name, tuple(body), numbers.used(mentioned), tensors.used(mentioned))


class _Parameters:
    """The parameters that stand for expressions of the host program."""

    def __init__(self, names: LocalNames):
        self._names = names
        self._by_value: dict[str, str] = {}

    def of(self, value: str, hint: str) -> str:
        """The parameter for an expression, or the literal that it is."""
        if value.isdecimal():
            return value
        if value not in self._by_value:
            self._by_value[value] = self._names.fresh(hint)
        return self._by_value[value]

    def used(self, mentioned: Collection[str]) -> dict[str, str]:
        """The expressions by parameter, of those that are mentioned."""
        return {name: value for value, name in self._by_value.items() if name in mentioned}


def _name_of(kernel: EmittedKernel, place: str) -> str:
    """What the kernel calls a tensor, without saying how it is passed."""
    for argument in kernel.arguments:
        descriptors = (f"TensorDescriptor({place},", f"TileDescriptor({place},")
        if argument.value == place or argument.value.startswith(descriptors):
            return argument.name.removesuffix("_ptr").removesuffix("_desc")
    return "unused"
