"""The statements of the host program: allocations, launches in order, the results."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import takewhile
from math import prod

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from coda_ir.backends.triton.copy_kernel import Copy
from coda_ir.backends.triton.host.arguments import HostArguments
from coda_ir.backends.triton.host.buffers import HostBuffers
from coda_ir.backends.triton.host.element_places import ElementPlaces
from coda_ir.backends.triton.host.extents import Extents
from coda_ir.backends.triton.host.joined_launches import Launched, WaitingLaunches
from coda_ir.backends.triton.host.kernels import HostKernels
from coda_ir.backends.triton.host.literals import known_tensor
from coda_ir.backends.triton.host.text import torch_type
from coda_ir.backends.triton.host.views import Part, Step, View, is_always_view, keeps_order
from coda_ir.backends.triton.kernel import EmittedKernel, indented, location_comment
from coda_ir.backends.triton.names import LocalNames
from coda_ir.dialects.coda import IndexOp
from coda_ir.dialects.coda.shapes import element_bytes, element_type_of, shape_of
from coda_ir.dialects.coda.weights import is_weight
from coda_ir.dialects.torch import CallOp
from coda_ir.storage import (
    BOXED,
    has_transposed_rows,
    may_be_overwritten,
    only_kernels_read,
    place_of,
    placement,
)
from coda_ir.symbolic_shapes import Dims


class HostProgram:
    """Collects the statements of `run` while the operators are emitted in order."""

    def __init__(self, func: FuncOp, *, direct_launch: bool = False):
        self.func = func
        self.is_direct = direct_launch
        self.uses_stream = False
        """True if a host function that launches kernels gets the stream."""
        self.is_boxed = BOXED in func.attributes and bool(func.args)
        self.names = LocalNames()
        """Names of variables; they are final when `run` is complete."""
        self.lines: list[str] = []
        """The statements so far; `flush` comes before one that reads what kernels store."""
        self._waiting = WaitingLaunches()
        self.extents = Extents(func, self.names, self.lines)
        self.arguments = HostArguments(func, self.names, self.extents)
        self.kernels = HostKernels(func, direct_launch=direct_launch)
        self.buffers = HostBuffers(func)
        self.workspace = self.names.fresh("workspace")
        self.packs: list[str] = []
        """The statements that make what is kept of weights."""
        self.unused = self._hold_arguments() if self.is_boxed else []
        """Arguments without a use that are to be dropped."""
        self._variables: dict[SSAValue, str] = {**self.arguments.variables}
        self._views: dict[SSAValue, View] = {}
        self._pending: set[SSAValue] = set()
        """Views without a variable, as only direct launches have read them so far."""
        self._late: dict[SSAValue, Callable[[], None]] = {}
        """Functions that emit the copies by PyTorch of values that nothing has read so far."""
        self._dense: dict[SSAValue, str] = {}
        self._copies: dict[tuple[SSAValue, ElementPlaces], str] = {}
        """The copies of views, by the tensor and the places in it."""
        self._shared: dict[tuple[SSAValue, str], list[str]] = {}
        """The tensors of calls of host functions that several operators read."""
        self._temporaries: list[str] = []
        self._counters: str | None = None
        self._pack_count = 0
        self._place: str | None = None

    def _hold_arguments(self) -> list[str]:
        """Drop arguments other than weights after their last use; return those without a use."""
        held = {x: name for x, name in self.arguments.variables.items() if not is_weight(x)}
        for argument in filter(self.buffers.is_used, held):
            self.buffers.own(argument, [held[argument]])
        return [name for argument, name in held.items() if not self.buffers.is_used(argument)]

    def flush(self) -> None:
        """Write the statement of pending launches, before code that reads their results."""
        if self._waiting.launches:
            waiting, self._waiting = self._waiting, WaitingLaunches()
            made = self.kernels.join(waiting.launches, waiting.positions)
            self.lines += self.kernels.launch(
                made.kernel, made.rows, made.operands, made.outputs, self.extents.of
            )
            self._drop(waiting.dead)

    def _drop(self, variables: Sequence[str]) -> None:
        """Drop variables, after the launches that wait."""
        if self._waiting.launches:
            self._waiting.dead += variables
        elif variables:
            self.lines.append(f"del {', '.join(dict.fromkeys(variables))}")

    # What operators use

    def dims(self, value: SSAValue) -> Dims:
        return self.extents.dims(value)

    def variable(self, value: SSAValue) -> str:
        """Return the tensor of a value, with any strides."""
        if write := self._late.pop(value, None):
            write()
        if value in self._pending:
            self._pending.remove(value)
            view = self._views[value]
            text = view.expression(self.extents.of)
            self._assign_unread(value, text, "view", is_dense=view.has_stated_strides)
        if value not in self._variables:
            self._assign_unread(value, *known_tensor(value, self.extents))
        return self._variables[value]

    def is_dense(self, value: SSAValue) -> bool:
        """Return whether `variable(value)` is known to be contiguous; it may be a copy."""
        if value in self._pending:
            return self._views[value].has_stated_strides
        return value in self._dense and self._dense[value] == self._variables.get(value)

    def view(self, result: SSAValue, base: SSAValue, step: Step, *, hint: str) -> None:
        """Assign a result a view of another value, or a copy if no such view exists."""
        places, (name, extents) = ElementPlaces.of(base, self.dims), step
        # A reshape copies where it merges dimensions that are not one in memory.
        merges = name == "reshape" and places is not None and places[1].reshaped(extents) is None
        copy = self.copied(base) if merges else None
        view = self._view_of(base, step, self.dims(result))
        if copy is not None:
            view = View(copy, (step,), self.dims(result), is_dense=True, argument=None)
        is_view = view.is_dense or is_always_view(step, self.dims(base))
        if is_view:
            # Views of a copy begin with the copy, which is not made again.
            self._views[result] = view
            if self.is_direct:
                self._pending.add(result)
                return

        def write() -> None:
            x = copy or self.variable(base)
            is_dense = view.has_stated_strides and (copy is not None or self.is_dense(base))
            text = replace(view, steps=(step,)).text(x, self.extents.of)
            assign = self._assign_unread if is_view else self.assign
            assign(result, text, is_dense=is_dense, hint=hint)

        if is_view or any(map(self.extents.unbound, self.dims(result))):
            write()
        else:
            self._late[result] = write

    def _view_of(self, base: SSAValue, step: Step, dims: Dims) -> View:
        is_dense, around = keeps_order(base, step), self._views.get(base)
        if around is not None:
            steps, is_dense = (*around.steps, step), is_dense and around.is_dense
            return replace(around, steps=steps, dims=dims, is_dense=is_dense)
        argument = base if isinstance(base, BlockArgument) else None
        is_dense = is_dense and (argument is not None or self.is_dense(base))
        return View(self.variable(base), (step,), dims, is_dense, argument)

    def kernel_operand(self, value: SSAValue, *, is_range: bool = False) -> str | View:
        """Return the tensor that a kernel gets for a value: contiguous, or with its strides."""
        if value in self._pending:
            view = self._views[value]
            if view.is_dense and view.argument is not None:
                self.arguments.need_dense(view.argument)
            if view.is_dense or is_range:
                return view
        return self.variable(value) if is_range else self.operand(value)

    def of_arguments(self, values: Sequence[SSAValue]) -> tuple[list[str], list[str]] | None:
        """Return the arguments that values are, or are views of, and the expressions of the values;
        None if a value is neither.
        """
        views = [self._views.get(value) for value in values]
        arguments = [
            value if view is None else view.argument
            for value, view in zip(values, views, strict=True)
        ]
        variables = [self._variables[x] for x in arguments if isinstance(x, BlockArgument)]
        if len(variables) < len(values):
            return None
        texts = [
            name if view is None else view.text(name, self.extents.of)
            for name, view in zip(variables, views, strict=True)
        ]
        return variables, texts

    def operand(self, value: SSAValue) -> str:
        """The tensor of a value, contiguous, as kernels need it."""
        if isinstance(value, BlockArgument):
            self.arguments.need_dense(value)
            return self.variable(value)
        if value not in (self._late.keys() | self._pending) or self.is_dense(value):
            self.variable(value)
        if value not in self._dense:
            # A kernel that copies reads the root of a view: there is no statement for the view.
            self._dense[value] = self.copied(value) or self._made_dense(value)
        return self._dense[value]

    def _made_dense(self, value: SSAValue) -> str:
        """Make a tensor dense where a call finds that it is not."""
        tensor = self.variable(value)
        name = self.names.fresh(f"dense_{tensor}")
        self.flush()
        self.lines.append(f"{name} = dense({tensor})")
        self.buffers.keep_copy(value, name)
        return name

    def copied(self, value: SSAValue, order: Sequence[int] | None = None) -> str | None:
        """Return a dense copy of a part or a transposition of a dense tensor, by a kernel, with its
        dimensions in another `order` if that is given; None where PyTorch has to copy.
        """
        found = self.places(value)
        if found is None:
            return None
        base, places = found
        order = range(len(places.dims)) if order is None else order
        places = places.permuted(order)
        copy = Copy.of(places, element_type_of(value))
        if copy is None:
            return None
        if (base, places) not in self._copies:
            dims = tuple(self.dims(value)[axis] for axis in order)
            name = self._copies[base, places] = self.names.fresh(value.name_hint, "copy")
            self.lines.append(self.empty(name, value, dims))
            self.buffers.keep_copy(value, name)
            op = value.owner
            assert isinstance(op, Operation), "a view"
            kernel = self.kernels.shared(op, copy, lambda names: copy.kernel(names.fresh("copy")))
            rows = self.extents.quotient(dims, copy.tile_elements)
            self.launch(kernel, rows, [self.operand(base)], [name])
        return self._copies[base, places]

    def places(self, value: SSAValue) -> tuple[SSAValue, ElementPlaces] | None:
        """Return the dense tensor of which a value is a part or a transposition, and the places of
        its elements there; None for other values.
        """
        found = ElementPlaces.of(value, self.dims)
        if found is None:
            return None
        # A dense copy of a tensor takes less than one of its repeated elements by PyTorch.
        return found if found[1].has_repeats or self._is_kept_dense(found[0]) else None

    def _is_kept_dense(self, value: SSAValue) -> bool:
        """Return whether a tensor is dense, or is made so if a caller's or PyTorch's is not: slices
        that PyTorch selects are, unless it keeps an unusual order of the tensor.
        """
        is_made = isinstance(value, BlockArgument) or isinstance(value.owner, IndexOp)
        return is_made or self.is_dense(value)

    def assign(self, result: SSAValue, expression: str, *, is_dense: bool, hint: str) -> str:
        """Assign a PyTorch expression to a result."""
        self.assign_all([result], expression, hint=hint, is_dense=is_dense)
        return self._variables[result]

    def assign_all(
        self, results: Sequence[SSAValue], expression: str, *, hint: str, is_dense: bool = False
    ) -> None:
        """Assign the tensors of a PyTorch expression to several results."""
        self.flush()
        self._name(results, expression, hint, is_dense=is_dense)

    def _assign_unread(
        self, result: SSAValue, expression: str, hint: str, *, is_dense: bool = True
    ) -> str:
        """Assign a PyTorch expression that reads no elements, ahead of the launches that wait."""
        self._name([result], expression, hint, is_dense=is_dense)
        return self._variables[result]

    def _name(
        self, results: Sequence[SSAValue], expression: str, hint: str, *, is_dense: bool
    ) -> None:
        names = [self.names.fresh(result.name_hint, hint) for result in results]
        self.lines.append(f"{', '.join(names)} = {expression}")
        for result, name in zip(results, names, strict=True):
            self._variables[result] = name
            self.buffers.keep(result, [name])
            if is_dense:
                self._dense[result] = name
            self.extents.bind_shape(result, name)

    def owned(self, value: SSAValue) -> str:
        """Return an operand's tensor for a kernel to overwrite: a copy if the caller keeps it."""
        name = self.operand(value)
        if may_be_overwritten(value):
            return name
        copy = self.names.fresh(f"{name}_copy")
        self.flush()
        self.lines.append(f"{copy} = {name}.clone()")
        self.buffers.keep(value, [copy])
        return copy

    def overwrite(self, result: SSAValue, tensor: str) -> None:
        """Assign a result the tensor of the operand that it overwrites."""
        self._variables[result] = self._dense[result] = tensor

    def allocate(self, result: SSAValue, hint: str = "out") -> str:
        """Allocate a result: a new tensor, a dead value's buffer, or a part of another tensor."""
        whole = placement(result)
        if whole is not None:
            return self._allocate_part(result, whole)
        name = self.names.fresh(result.name_hint, hint)
        self._variables[result] = name
        self.extents.check_known(result)
        if has_transposed_rows(result):
            batch, rows, columns = self.dims(result)
            self.lines.append(f"{self.empty(name, result, (rows, batch, columns))}.transpose(0, 1)")
            self.buffers.take(result, name)
            return name
        self._dense[result] = name
        previous = self.buffers.holder(result)
        if previous is None:
            self.lines.append(self.empty(name, result))
        else:
            tensor, dead = self._reused(previous, result), self._variables[previous]
            self.lines.append(f"{name} = {tensor}  # reuses the storage of {dead}")
        self.buffers.take(result, name)
        return name

    def output(self, result: SSAValue) -> str | View:
        """Return where a kernel stores a result: a part of the workspace if direct launches alone
        read it, otherwise an allocated tensor.
        """
        dims, start = self.dims(result), None
        extents = list(map(self.extents.of, dims))
        if self.is_direct and only_kernels_read(result) and all(map(str.isdecimal, extents)):
            start = self.buffers.place(result, prod(map(int, extents)) * element_bytes(result.type))
        if start is None:
            return self.allocate(result)
        self._views[result] = view = self.part(start, torch_type(element_type_of(result)), dims)
        self._pending.add(result)
        return view

    def part(self, start: int, type: str, dims: Dims) -> View:
        """Return a tensor that begins at a byte of the workspace."""
        part = Part(self.workspace, start, type, self.extents.shape(dims))
        return View(part, (), dims, is_dense=True, argument=None)

    def _allocate_part(self, result: SSAValue, whole: SSAValue) -> str:
        """Allocate the rows of a concatenation that `result` is, or all of it if `result` is stored
        among its columns by the kernel. A row of a cache is stored in the operand of its call.
        """
        op = whole.owner
        assert isinstance(op, Operation), "a concatenation, or a call"
        if isinstance(op, CallOp) and (row := op.stored_row) is not None:
            changed = op.inputs[0]
            self.overwrite(whole, self.operand(changed))
            extent = shape_of(changed)[row.dim]
            self.check_index(row.number, extent, None, -extent if row.counts_from_end else 0)
        elif whole not in self._variables:
            self.allocate(whole, "joined")
        name = self._variables[whole]
        if place_of(result) is not None:
            return name
        parts = takewhile(lambda x: x is not result, op.operands)
        start = sum(shape_of(part)[0] for part in parts)
        rows = f"{name}[{start}:{start + shape_of(result)[0]}]"
        return self._assign_unread(result, rows, "part")

    def empty(self, name: str, like: SSAValue, dims: Dims | None = None) -> str:
        """Return the statement that allocates a tensor of the type of `like`."""
        dims = self.dims(like) if dims is None else dims
        shape, dtype = self.extents.shape(dims), torch_type(element_type_of(like))
        return f"{name} = {self._empty(shape, self.extents.strides(dims), dtype)}"

    def _empty(self, shape: str, strides: str, dtype: str) -> str:
        """Allocate a tensor; with stated strides, PyTorch takes half a microsecond less."""
        if self.is_direct:
            return f"torch.empty_strided({shape}, {strides}, dtype={dtype}, device=device)"
        return f"torch.empty({shape}, dtype={dtype}, device=device)"

    def temporaries(self, expression: str, hints: Sequence[str]) -> list[str]:
        """Return tensors of a PyTorch expression that only the current operator needs."""
        names = self._named(expression, hints)
        self._temporaries += names
        return names

    def shared(self, value: SSAValue, function: str, hints: Sequence[str]) -> list[str]:
        """Return the tensors that a host function computes from a value, for all operators."""
        if (value, function) not in self._shared:
            names = self._named(f"{function}({self.variable(value)})", hints)
            for name in names:
                self.buffers.keep_copy(value, name)
            self._shared[value, function] = names
        return self._shared[value, function]

    def _named(self, expression: str, hints: Sequence[str]) -> list[str]:
        """Assign the tensors of a PyTorch expression to new variables."""
        names = [self.names.fresh(hint) for hint in hints]
        self.flush()
        self.lines.append(f"{', '.join(names)} = {expression}")
        return names

    def stream_argument(self) -> str:
        """Return the argument for a host function of direct launches: the stream."""
        self.uses_stream = self.is_direct
        return ", stream=stream" if self.is_direct else ""

    def number(self, expression: str, hint: str) -> str:
        """Return a literal, or a variable with the value of an expression of integers."""
        if expression.isdecimal():
            return expression
        name = self.names.fresh(hint)
        self.lines.append(f"{name} = {expression}")
        return name

    def scratch(self, elements: str, hint: str, type: str = "torch.float32") -> str:
        """Return this many uninitialized elements that only the current operator needs."""
        name = self.names.fresh(hint)
        self.lines.append(f"{name} = {self._empty(f'({elements},)', '(1,)', type)}")
        self._temporaries.append(name)
        return name

    def counters(self, tiles: str) -> str:
        """Return zeros for the tiles of a kernel, which leaves zeros for the next one."""
        known = "" if self._counters is None else f", {self._counters}"
        self._counters = self._counters or self.names.fresh("counters")
        self.lines.append(f"{self._counters} = tile_counters({tiles}, device{known})")
        return self._counters

    def _reused(self, previous: SSAValue, result: SSAValue) -> str:
        """Return the tensor of a dead value, as that of `result`."""
        self.buffers.check_fit(previous, result, self.extents.shapes)
        variable = self._variables[previous]
        if self.dims(previous) == self.dims(result):
            return variable
        return f"{variable}.view({self.extents.shape(self.dims(result))})"

    def check_index(
        self, index: SSAValue, extent: str | int, ignored: int | None, least: str | int = 0
    ) -> None:
        """Emit a check of indices on a CPU: each must be from `least` to below `extent`, or
        ignored; on GPUs kernels check.
        """
        if not self.kernels.is_direct:
            name, last = self.variable(index), f", {least}" if least else ""
            self.flush()
            self.lines.append(f'check_index("{name}", {name}, {extent}, {ignored}{last})')

    def launch(
        self,
        kernel: EmittedKernel,
        rows: str,
        operands: Sequence[str | View],
        outputs: Sequence[str | View],
    ) -> None:
        launch = Launched(kernel, rows, operands, outputs)
        if not self._waiting.accepts(launch):
            self.flush()
        self._waiting.add(launch, self.kernels.last_launch(kernel))
        if not launch.can_begin():
            self.flush()

    def pack(self, op: Operation, compute: Callable[[str, Sequence[str]], Sequence[str]]) -> None:
        """Make `compute` write values that follow from weights alone to a variable, which is kept
        between calls if its operands are arguments or views of them.

        What is kept is looked up before arguments are made dense: their identity is the key.
        """
        result = op.results[0]
        name = self.names.fresh(result.name_hint, "packed")
        self._variables[result] = self._dense[result] = name
        self._pack_count += 1
        of_arguments = self.of_arguments(op.operands)
        if of_arguments is None:
            self.buffers.keep(result, [name])
            self.flush()
            self.lines.extend(compute(name, [self.variable(x) for x in op.operands]))
            return
        arguments, operands = of_arguments
        others = ", ".join(arguments)
        self.packs += [
            f"{name} = PACKED.find({self._pack_count}, {others})",
            f"if {name} is None:",
            *indented(compute(name, operands)),
            f"    PACKED.keep({self._pack_count}, {name}, {others})",
        ]

    # The whole program

    def begin_operator(self) -> None:
        self._start = len(self.lines)

    def end_operator(self, op: Operation) -> None:
        """Add a comment with the statements' source; drop dead values, unless nothing follows."""
        place = location_comment(op.location)
        if place not in (None, self._place) and len(self.lines) > self._start:
            self.lines.insert(self._start, place)
            self._place = place
        dead = [*self._temporaries, *self.buffers.dead_after(op)]
        self._temporaries = []
        if not isinstance(op.next_op, ReturnOp):
            self._drop(dead)

    def returned(self, op: ReturnOp) -> None:
        self.flush()
        self.lines.append(f"return {', '.join(map(self.variable, op.operands)) or '()'}")
