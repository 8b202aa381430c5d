"""The host program of an emitted module: allocations, launches in order, the results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from coda_ir.backends.triton.equal_code import code_of
from coda_ir.backends.triton.host_buffers import HostBuffers
from coda_ir.backends.triton.host_names import (
    SymbolNames,
    argument_hints,
    is_symbol,
    torch_type,
    unpacked,
    wrapped,
)
from coda_ir.backends.triton.host_prelude import HOST_NAMES
from coda_ir.backends.triton.host_replay import Replay
from coda_ir.backends.triton.kernel import (
    EmittedKernel,
    NameAllocator,
    indented,
    location_comment,
)
from coda_ir.backends.triton.launches import LaunchFunctions, direct_launch, launch_lines
from coda_ir.backends.triton.prelude import helper_names
from coda_ir.backends.triton.stand_ins import stand_in_launch
from coda_ir.diagnostics import CodaError
from coda_ir.dialects.coda import ConcatOp, ConstantOp
from coda_ir.dialects.coda.shapes import element_type_of, is_float, shape_of
from coda_ir.dialects.gemm import NumericsMode, numerics_mode
from coda_ir.remarks import format_location
from coda_ir.storage import BOXED, may_be_overwritten, placement
from coda_ir.symbolic_shapes import Dims, SymbolicShapes, SymbolicSize


@dataclass
class UsedKernel:
    """A kernel of the module, and the comments with the places in the source it stands for."""

    kernel: EmittedKernel
    places: list[str] = field(default_factory=list[str])


class HostProgram:
    """Collects the statements of `run` while the operators are emitted in order."""

    def __init__(self, func: FuncOp, *, direct_launch: bool = False):
        self.func = func
        self._is_direct = direct_launch
        self.shapes = SymbolicShapes(func)
        self.is_boxed = BOXED in func.attributes and bool(func.args)
        self.kernels: dict[str, UsedKernel] = {}
        self.launches: list[tuple[Operation, str]] = []
        self.stand_ins: dict[str, None] = {}
        """What launches are for the compiler of kernels, in order (see `stand_ins.py`)."""
        # One set of names for kernels and variables, so that neither hides the other.
        self.names = NameAllocator(("device", *HOST_NAMES, *helper_names()))
        self.symbols = SymbolNames(self.names)
        self.launch_functions = LaunchFunctions(self.names)
        self.buffers = HostBuffers(func)
        wanted = direct_launch and not self.is_boxed
        self._replay = Replay(func, self.shapes, is_wanted=wanted)
        self.lines: list[str] = []
        self._bindings: list[tuple[BlockArgument, list[str]]] = []
        self._dense_arguments: set[SSAValue] = set()
        self._dense: dict[SSAValue, str] = {}
        self._row_counts: dict[SymbolicSize, str] = {}
        self._variables: dict[SSAValue, str] = {}
        self._temporaries: list[str] = []
        self._counters: str | None = None
        self._packs: list[str] = []
        self._pack_count = 0
        self._place: str | None = None
        self._declare_arguments()
        self._unused = self._hold_arguments() if self.is_boxed else []

    # Names of what comes in

    def _declare_arguments(self) -> None:
        hints = argument_hints(self.func)
        for argument, hint in zip(self.func.args, hints, strict=True):
            self._variables[argument] = self.names.fresh(hint)
        self.parameters = [self._variables[argument] for argument in self.func.args]
        for argument in self.func.args:
            bound: list[str] = []
            for dim in self.shapes.dims(argument):
                symbol = dim if isinstance(dim, str) and is_symbol(dim) else ""
                bound.append("" if self.symbols.is_bound(symbol) else symbol)
                if bound[-1]:
                    self.symbols.bind(symbol)
            self._bindings.append((argument, bound))

    def _hold_arguments(self) -> list[str]:
        """Have arguments dropped after their last use, but for weights, which others hold; gives
        those without a use.
        """
        entries = self.func.arg_attrs.data if self.func.arg_attrs else ()
        unused: list[str] = []
        for index, argument in enumerate(self.func.args):
            if index < len(entries) and "coda.weight" in entries[index].data:
                continue
            name = self._variables[argument]
            if self.buffers.is_used(argument):
                self.buffers.own(argument, [name])
            else:
                unused.append(name)
        return unused

    # What operators use

    def dims(self, value: SSAValue) -> Dims:
        return self.shapes.dims(value)

    def variable(self, value: SSAValue) -> str:
        """The tensor of a value, with whatever strides it has."""
        if value not in self._variables:
            assert isinstance(value.owner, ConstantOp), "values are defined before they are used"
            self.assign(value, _constant_tensor(value.owner), is_dense=True, hint="constant")
        return self._variables[value]

    def is_dense(self, value: SSAValue) -> bool:
        """Whether `variable(value)` is known to be contiguous: it may have a copy that is."""
        return value in self._dense and self._dense[value] == self._variables[value]

    def operand(self, value: SSAValue) -> str:
        """The tensor of a value, contiguous, as kernels need it."""
        self.variable(value)
        if isinstance(value, BlockArgument):
            self._dense_arguments.add(value)
            return self._variables[value]
        if value not in self._dense:
            self._replay.refuse()
            name = self.names.fresh(f"dense_{self._variables[value]}")
            self.lines.append(f"{name} = dense({self._variables[value]})")
            self.buffers.keep(value, [name])
            self._dense[value] = name
        return self._dense[value]

    def dense_expanded(self, value: SSAValue, dims: Dims, *, add_column: bool = False) -> str:
        """A contiguous tensor with the elements of `value` broadcast to `dims`."""
        self._replay.refuse()
        source = self.variable(value) + ("[..., None]" if add_column else "")
        name = self.names.fresh(f"expanded_{self._variables[value]}")
        extents = ", ".join(map(self.symbols.extent, dims))
        self.lines.append(f"{name} = dense({source}.expand({extents}))")
        self._temporaries.append(name)
        return name

    def size(self, dims: Dims) -> str:
        """The product of extents as a number or a variable."""
        size = SymbolicSize.product(dims)
        if not size.symbols:
            return str(int(size))
        symbols = [dim for dim in dims if dim != 1]
        if len(symbols) == 1 and is_symbol(symbols[0]):
            return self.symbols.extent(symbols[0])
        if size not in self._row_counts:
            name = self.names.fresh("rows")
            factors = " * ".join(self.symbols.extent(dim) for dim in symbols)
            self.lines.append(f"{name} = {factors}")
            self._row_counts[size] = name
        return self._row_counts[size]

    def bind(self, dim: int | str, expression: str) -> None:
        """Give a new symbol its extent; nothing to do for a number or a known symbol."""
        if isinstance(dim, str) and not self.symbols.is_bound(dim):
            self.lines.append(f"{self.symbols.bind(dim)} = {expression}")

    def symbol(self, symbol: str, op: Operation) -> str:
        """The variable of a symbol that `op` needs. Raises CodaError where nothing tells it."""
        if not self.symbols.is_bound(symbol):
            raise CodaError(
                f"{format_location(op.location)}: {op.name}: the extent {symbol} cannot be told "
                "from the arguments",
                "name it in the dimensions of an argument",
            )
        return self.symbols.extent(symbol)

    def bind_shape(self, value: SSAValue) -> None:
        """Take symbols that are not known yet from the shape of a tensor that exists."""
        for axis, dim in enumerate(self.dims(value)):
            if is_symbol(dim):
                self.bind(dim, f"{self._variables[value]}.shape[{axis}]")

    def assign(self, result: SSAValue, expression: str, *, is_dense: bool, hint: str) -> str:
        """Give a result the value of a PyTorch expression."""
        name = self.names.fresh(result.name_hint, hint)
        self.lines.append(f"{name} = {expression}")
        self._replay.computed(result, is_dense=is_dense)
        self._variables[result] = name
        self.buffers.keep(result, [name])
        if is_dense:
            self._dense[result] = name
        self.bind_shape(result)
        return name

    def assign_all(
        self, results: Sequence[SSAValue], expression: str, *, hint: str, is_dense: bool = False
    ) -> None:
        """Give several results the tensors of a PyTorch expression."""
        self._replay.refuse()
        names = [self.names.fresh(result.name_hint, hint) for result in results]
        self.lines.append(f"{', '.join(names)} = {expression}")
        for result, name in zip(results, names, strict=True):
            self._variables[result] = name
            self.buffers.keep(result, [name])
            if is_dense:
                self._dense[result] = name
            self.bind_shape(result)

    def expect(self, result: SSAValue, call: str) -> None:
        """Check what PyTorch gave: kernels rely on the type that the program states."""
        name, dims = self._variables[result], self.dims(result)
        extents = [
            f"{name}.shape[{axis}]" if self.symbols.unbound(dim) else self.symbols.extent(dim)
            for axis, dim in enumerate(dims)
        ]
        shape = f"({', '.join(extents)}{',' * (len(dims) == 1)})"
        dtype = torch_type(element_type_of(result))
        self._replay.refuse()
        self.lines.append(f"expect({name}, {dtype}, {shape}, {call!r})")

    def owned(self, value: SSAValue) -> str:
        """The tensor of an operand in whose place a kernel stores a result: a copy of what the
        caller keeps.
        """
        name = self.operand(value)
        if may_be_overwritten(value):
            return name
        self._replay.refuse()
        copy = self.names.fresh(f"{name}_copy")
        self.lines.append(f"{copy} = {name}.clone()")
        self.buffers.keep(value, [copy])
        return copy

    def overwrite(self, result: SSAValue, tensor: str) -> None:
        """Give a result the tensor of the operand in whose place it is stored."""
        self._variables[result] = self._dense[result] = tensor

    def allocate(self, result: SSAValue, hint: str = "out") -> str:
        """A tensor for a result: a new one, the buffer of a value that is dead, or a part."""
        placed = placement(result)
        if placed is not None:
            return self._allocate_part(result, *placed)
        name = self.names.fresh(result.name_hint, hint)
        self._variables[result] = self._dense[result] = name
        self._check_known(result)
        previous = self.buffers.holder(result)
        if previous is None:
            self.lines.append(self.empty(name, result))
            self._replay.allocated(result, self.lines[-1])
        else:
            tensor, dead = self._reused(previous, result), self._variables[previous]
            self.lines.append(f"{name} = {tensor}  # the storage of {dead}, which is dead")
        self.buffers.take(result, name)
        return name

    def _allocate_part(self, result: SSAValue, joined: ConcatOp, start: int) -> str:
        """The rows, from `start` on, of a concatenation that `result` is a part of."""
        if joined.result not in self._variables:
            self.allocate(joined.result, "joined")
        stop = start + shape_of(result)[0]
        rows = f"{self._variables[joined.result]}[{start}:{stop}]"
        return self.assign(result, rows, is_dense=True, hint="part")

    def empty(self, name: str, like: SSAValue, dims: Dims | None = None) -> str:
        """The statement that allocates a tensor of the type of `like`."""
        dims = self.dims(like) if dims is None else dims
        shape, dtype = self.symbols.shape(dims), torch_type(element_type_of(like))
        if self._is_direct:
            return f"{name} = empty({shape}, {self.symbols.strides(dims)}, {dtype})"
        return f"{name} = torch.empty({shape}, dtype={dtype}, device=device)"

    def temporary(self, hint: str, like: SSAValue, dims: Dims) -> str:
        """A tensor that is needed by the current operator only."""
        name = self.names.fresh(hint)
        self.lines.append(self.empty(name, like, dims))
        self._temporaries.append(name)
        return name

    def temporaries(self, expression: str, hints: Sequence[str]) -> list[str]:
        """Tensors of a PyTorch expression that are needed by the current operator only."""
        self._replay.refuse()
        names = [self.names.fresh(hint) for hint in hints]
        self.lines.append(f"{', '.join(names)} = {expression}")
        self._temporaries += names
        return names

    def number(self, expression: str, hint: str) -> str:
        """A literal, or a variable with the value of an expression of integers."""
        if expression.isdecimal():
            return expression
        name = self.names.fresh(hint)
        self.lines.append(f"{name} = {expression}")
        return name

    def scratch(self, elements: str, hint: str) -> str:
        """So many float32 with anything in them, that are needed by the current operator only."""
        name = self.names.fresh(hint)
        empty = f"torch.empty({elements}, dtype=torch.float32, device=device)"
        if self._is_direct:
            empty = f"empty(({elements},), (1,), torch.float32)"
        self.lines.append(f"{name} = {empty}")
        self._temporaries.append(name)
        return name

    def counters(self, tiles: str) -> str:
        """Zeros for the tiles of a kernel, which leaves zeros for the next one."""
        known = "" if self._counters is None else f", {self._counters}"
        self._counters = self._counters or self.names.fresh("counters")
        self.lines.append(f"{self._counters} = tile_counters({tiles}, device{known})")
        return self._counters

    def _check_known(self, result: SSAValue) -> None:
        for dim in self.dims(result):
            for symbol in self.symbols.unbound(dim):
                owner = result.owner
                assert isinstance(owner, Operation)
                raise CodaError(
                    f"{format_location(owner.location)}: {owner.name}: the extent {symbol} of a "
                    "result cannot be told from the arguments",
                    "name it in the dimensions of an argument",
                )

    def _reused(self, previous: SSAValue, result: SSAValue) -> str:
        """The tensor of a dead value, as the one of `result`."""
        owner = result.owner
        assert isinstance(owner, Operation)
        same_size = self.shapes.numel(previous) == self.shapes.numel(result)
        same_type = element_type_of(previous) == element_type_of(result)
        is_dead = self.buffers.is_dead_before(previous, owner)
        if not (same_size and same_type and is_dead):
            raise CodaError(
                f"{format_location(owner.location)}: {owner.name}: coda.buffers puts a result "
                f"into buffer {self.buffers.buffer(result)}, which does not fit or is still in use",
                "run the pass 'plan-buffers' again, after all passes that change the program",
            )
        variable = self._variables[previous]
        if self.dims(previous) == self.dims(result):
            return variable
        return f"{variable}.view({self.symbols.shape(self.dims(result))})"

    def launch(
        self, kernel: EmittedKernel, rows: str, operands: Sequence[str], outputs: Sequence[str]
    ) -> None:
        if self._is_direct:
            launch = direct_launch(kernel, rows, operands, outputs)
            lines = [launch.call(self.launch_functions.name_of(launch))]
        else:
            lines = launch_lines(kernel, rows, operands, outputs)
        stand_in = stand_in_launch(kernel)
        if stand_in is not None:
            self.stand_ins[stand_in] = None
        has_descriptors = any(a.type.startswith("tensordesc") for a in kernel.arguments)
        if has_descriptors and not kernel.runs_without_rows:
            # A descriptor of no rows does not exist; a grid of 0 is skipped by Triton itself.
            lines = [f"if {rows}:", *indented(lines)]
        self.lines += lines

    def use_kernel(self, kernel: EmittedKernel, op: Operation) -> EmittedKernel:
        """`kernel`, under the name of the one with the same code where the module has one."""
        key = code_of(kernel.source)
        used = self.kernels.setdefault(key, UsedKernel(kernel))
        name = used.kernel.name
        self.names.reserve(name)
        self.launches.append((op, name))
        place = location_comment(op.location)
        if place is not None and place not in used.places:
            used.places.append(place)
        # What is passed to equal code may differ: the strides of a weight, for one.
        fp_fusion = numerics_mode(self.func) == NumericsMode.FP32_EPILOGUE
        arguments = tuple(
            replace(argument, name=known.name)
            for argument, known in zip(kernel.arguments, used.kernel.arguments, strict=True)
        )
        source = used.kernel.source
        return replace(kernel, name=name, source=source, arguments=arguments, fp_fusion=fp_fusion)

    def pack(
        self,
        op: Operation,
        operands: Sequence[str],
        compute: Callable[[str], Sequence[str]],
        *,
        is_kept: bool,
    ) -> None:
        """What `compute` makes of weights, given a variable; it `is_kept` if these are arguments.

        What is kept is looked up before arguments are made dense: their identity is the key.
        """
        result = op.results[0]
        name = self.names.fresh(result.name_hint, "packed")
        self._variables[result] = self._dense[result] = name
        self._pack_count += 1
        self._replay.refuse()
        if not is_kept:
            self.buffers.keep(result, [name])
            self.lines += compute(name)
            return
        key = f"{self._pack_count}, {', '.join(operands)}"
        self._packs += [
            f"{name} = PACKED.find({key})",
            f"if {name} is None:",
            *indented(compute(name)),
            f"    PACKED.keep({key.replace(', ', f', {name}, ', 1)})",
        ]

    # The whole program

    def begin_operator(self, op: Operation) -> None:
        self._start = len(self.lines)

    def end_operator(self, op: Operation) -> None:
        """Say where the statements come from; drop what is dead, unless nothing follows."""
        place = location_comment(op.location)
        if place not in (None, self._place) and len(self.lines) > self._start:
            self.lines.insert(self._start, place)
            self._place = place
        dead = [*self._temporaries, *self.buffers.dead_after(op)]
        self._temporaries = []
        if dead and not isinstance(op.next_op, ReturnOp):
            self.lines.append(f"del {', '.join(dict.fromkeys(dead))}")

    def returned(self, op: ReturnOp) -> None:
        self.lines.append(f"return {', '.join(map(self.variable, op.operands)) or '()'}")

    def render_body(self) -> list[str]:
        """The statements of `run`, or of `run_boxed` where the function is boxed."""
        head = self._boxed_head() if self.is_boxed else self._head()
        for argument, bound in self._bindings:
            used = [self.symbols.variable(s) if s in self.symbols.used else "_" for s in bound]
            if any(name != "_" for name in used):
                head += unpacked(used, f"{self._variables[argument]}.shape")
        if not self.is_boxed:
            device = f"{self.parameters[0]}.device" if self.parameters else 'torch.device("cpu")'
            head.append(f"device = {device}")
        if self._unused:
            head.append(f"del {', '.join(self._unused)}")
        if not self._is_direct:
            return wrapped([*head, *self._packs, *self._made_dense(), *self.lines], limit=96)
        lines = self.lines
        if self._replay.is_possible:
            start = self._replay.head(self.symbols.extent, self.variable, lines[-1])
            head += ["stream, empty = direct_stream(device), empty_on(device)", *start]
            lines = self._replay.body(lines)
        else:
            head.append("call, empty = direct_call(device), empty_on(device)")
        return wrapped([*head, *self._packs, *self._made_dense(), *lines], limit=96)

    def _made_dense(self) -> list[str]:
        """Copies of the arguments that kernels cannot take, looked for in one call."""
        arguments = [argument for argument in self.func.args if argument in self._dense_arguments]
        names = [self._variables[argument] for argument in arguments]
        copies = [f"{name} = dense({name})" for name in names]
        if len(names) < 2:
            return copies
        return [f"if not are_dense({', '.join(names)}):", *indented(copies)]

    def _head(self) -> list[str]:
        return _device_guard(self.parameters[0], self.parameters) if self.parameters else []

    def _boxed_head(self) -> list[str]:
        """The first tensor tells the device while the list has it; nothing holds them but names."""
        return [
            "device = arguments[0].device",
            'if device.type == "cuda" and device.index != torch.cuda.current_device():',
            "    with torch.cuda.device(device):",
            "        return run_boxed(arguments)",
            *unpacked(self.parameters, "arguments"),
            "arguments.clear()",
        ]


def _device_guard(first: str, parameters: Sequence[str]) -> list[str]:
    return [
        f"if {first}.is_cuda and {first}.device.index != torch.cuda.current_device():",
        f"    with torch.cuda.device({first}.device):",
        f"        return run({', '.join(parameters)})",
    ]


def _constant_tensor(op: ConstantOp) -> str:
    """A tensor with a constant, for what does not have it in its kernel."""
    type = element_type_of(op.result)
    literal = repr(float(op.number) if is_float(type) else int(op.number))
    if literal in ("inf", "-inf", "nan"):
        literal = f'float("{literal}")'
    return f"torch.full((), {literal}, dtype={torch_type(type)}, device=device)"
