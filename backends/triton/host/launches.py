"""Kernel launches of the host program: through Triton, or directly.

Triton spends tens of microseconds of Python on a launch. A direct launch repeats an earlier one:

    @direct(gemm_residual, (0, 1, 2, 3))
    def launch_gemm_residual(kernel, rows, a, w_down, x, tile):
        return kernel[((rows + 127) // 128 * 16,)](
            TensorDescriptor(a, [rows, 11008], [11008, 1], [128, 64]),
            ...
        )

    def run(x, w_down):
        ...
        launch_gemm_residual(stream, (B,), a, w_down, x, out)

The function has the launch as Triton expects it. `direct` (runtime/direct.py) calls it where it has
to, and else passes what an earlier call passed: numbers and addresses decide that. `direct` takes
the position of the tensor that each tensor of the kernel is, or is a view of: views that only
kernels read are made in the function.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from coda_ir.backends.triton.host.views import Part, View
from coda_ir.backends.triton.host_values import ROW_COUNT, ROWS, Place, constant
from coda_ir.backends.triton.kernel import EmittedKernel, KernelArgument, definition, indented
from coda_ir.backends.triton.names import LocalNames, NameAllocator, finished
from coda_ir.symbolic_shapes import Dim


@dataclass(frozen=True)
class DirectLaunch:
    """A function that launches a kernel, and its call."""

    kernel: str
    body: tuple[str, ...]
    numbers: Mapping[str, str]
    """The arguments for the first parameters: expressions of integers by parameter."""
    tensors: Mapping[str, str]
    """The arguments for the other parameters."""
    origins: tuple[int, ...]
    """For each tensor that the kernel takes, the position among `tensors` of its memory."""
    types: tuple[str, ...]
    """The element types of the kernel's arguments, for which Triton compiles it."""

    def function(self, name: str) -> str:
        """Return the source of the function."""
        header = definition(name, ("kernel", *self.numbers, *self.tensors))
        decorator = f"@direct({self.kernel}, {self.origins!r})"
        return finished("\n".join([decorator, *header, *indented(self.body)]))

    def call(self, name: str) -> str:
        """Return the statement of `run`."""
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
        """The sources of the functions, in the order of their first launches."""

    def name_of(self, launch: DirectLaunch) -> str:
        """Return the name of the function of a launch."""
        key = (launch.kernel, launch.body, *map(tuple, (launch.numbers, launch.tensors)))
        key = (*key, launch.origins, launch.types)
        if key not in self._known:
            name = self._known[key] = self._names.fresh(f"launch_{launch.kernel}")
            self.sources.append(launch.function(name))
        return self._known[key]


def direct_launch(
    kernel: EmittedKernel,
    rows: str,
    operands: Sequence[str | View],
    outputs: Sequence[str | View],
    extent: Callable[[Dim], str] = str,
) -> DirectLaunch:
    """Return the direct form of `EmittedKernel.launch`, which also accepts views as operands.

    Every number but a literal is a parameter, so that numbers and addresses decide the launch.
    Parameters are named after those of the kernel: equal launches have equal functions. `extent`
    writes an extent of a view.
    """
    given = {Place("operands", index): value for index, value in enumerate(operands)}
    outputs_given = {Place("outputs", index): value for index, value in enumerate(outputs)}
    return _Writer(kernel, {**given, **outputs_given}, extent).launch(rows)


class _Writer:
    """Emits the function of one direct launch."""

    def __init__(
        self, kernel: EmittedKernel, given: Mapping[Place, str | View], extent: Callable[[Dim], str]
    ):
        self._kernel, self._given, self._extent = kernel, given, extent
        names = LocalNames()
        self._names = names
        self._numbers, self._tensors = _Parameters(names), _Parameters(names)
        self._views: list[str] = []

    def launch(self, rows: str) -> DirectLaunch:
        kernel, arguments = self._kernel, self._kernel.arguments
        numbers = [each for each in arguments if self._is_number(each)]
        written = [each.value for each in arguments if each not in numbers]
        written += [each.value for each in numbers if each.value == ROW_COUNT]
        needed = {place for value in (kernel.grid, *written) for place in value.places}
        count = self._numbers.of(rows, "rows") if ROWS in needed else rows
        texts = {place: text for place, text in self._given.items() if isinstance(text, str)}
        passed = {
            each: constant(self._numbers.of(each.value.text({**texts, ROWS: rows}), each.name))
            for each in numbers
        }
        tensors = {
            place: self._tensor(place, value)
            for place, value in self._given.items()
            if place in needed
        }
        launched = replace(
            kernel,
            name="return kernel",
            arguments=tuple(replace(a, value=passed.get(a, a.value)) for a in arguments),
        )
        body = [*self._views, *launched.launch({**tensors, ROWS: count})]
        return DirectLaunch(
            kernel.name,
            tuple(body),
            self._numbers.expressions,
            self._tensors.expressions,
            tuple(self._origin(each) for each in arguments if each.type != "i32"),
            tuple(each.type for each in arguments),
        )

    def _is_number(self, argument: KernelArgument) -> bool:
        """Return whether the host program passes a number; those of views follow from others."""
        values = [self._given.get(place) for place in argument.value.places]
        return argument.type == "i32" and not any(isinstance(value, View) for value in values)

    def _tensor(self, place: Place, value: str | View) -> str:
        """Return the variable of the function for an operand or an output."""
        hint = _name_of(self._kernel, place)
        if isinstance(value, str):
            return self._tensors.of(value, hint)
        root = self._root(value.root, f"{hint}_base")
        for dim in value.symbolic:
            self._number(dim)
        name = self._names.fresh(hint)
        self._views.append(f"{name} = {value.text(root, self._number)}")
        return name

    def _root(self, root: str | Part, hint: str) -> str:
        """Return the expression of what a view is of. Equal launches differ in where parts start,
        so that these are numbers.
        """
        if isinstance(root, str):
            return self._tensors.of(root, hint)
        workspace = self._tensors.of(root.workspace, "workspace")
        return root.text(workspace, self._numbers.passed(str(root.start), "start"))

    def _number(self, dim: Dim) -> str:
        text = self._extent(dim)
        return self._numbers.of(text, text if text.isidentifier() else "extent")

    def _origin(self, argument: KernelArgument) -> int:
        value = self._given[argument.value.places[0]]
        return self._tensors.position(value if isinstance(value, str) else value.variable)


class _Parameters:
    """The parameters that pass expressions of the host program."""

    def __init__(self, names: LocalNames):
        self._names = names
        self._by_value: dict[str, str] = {}

    @property
    def expressions(self) -> dict[str, str]:
        """The expressions to pass, by parameter."""
        return {name: value for value, name in self._by_value.items()}

    def position(self, value: str) -> int:
        """Return the position of an expression among the parameters."""
        return list(self._by_value).index(value)

    def of(self, value: str, hint: str) -> str:
        """Return the parameter for an expression, or the literal that it is."""
        return value if value.isdecimal() else self.passed(value, hint)

    def passed(self, value: str, hint: str) -> str:
        """Return the parameter for an expression."""
        if value not in self._by_value:
            self._by_value[value] = self._names.fresh(hint)
        return self._by_value[value]


def _name_of(kernel: EmittedKernel, place: Place) -> str:
    """Return the name of a tensor in a kernel, without a suffix for how it is passed."""
    for argument in kernel.arguments:
        if argument.value.tensor == place:
            return argument.name.removesuffix("_ptr").removesuffix("_desc")
    return "tensor"
