"""The interpreter: runs a function of the IR operator by operator."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TypeAlias

import torch
from xdsl.dialects.builtin import DYNAMIC_INDEX, Float64Type, ModuleOp
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.traits import SymbolTable

from coda_ir.backends.reference.block_ops import BLOCK_HANDLERS
from coda_ir.backends.reference.fused_attention import ATTENTION_HANDLERS
from coda_ir.backends.reference.gemm_ops import GEMM_HANDLERS
from coda_ir.backends.reference.gradient_ops import GRADIENT_HANDLERS
from coda_ir.backends.reference.numerics import Handlers, Numerics, Precision, place
from coda_ir.backends.reference.scan import SCAN_HANDLERS
from coda_ir.backends.reference.torch_calls import call_torch, check_results, vjp_of_torch
from coda_ir.diagnostics import ArgumentError, InvalidProgramError, LoweringError
from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, format_shape, shape_of, shapes_agree
from coda_ir.dialects.gemm import FinalizeOp, FusedOp, MapOp, is_wide_partial, numerics_mode
from coda_ir.dialects.torch import CallOp as TorchCallOp, VjpOp
from coda_ir.functions import find_entry
from coda_ir.shape_rules import UNKNOWN
from coda_ir.signatures import entry_of, signature_of, stated_dtype
from coda_ir.storage import last_uses
from coda_ir.symbolic_shapes import Dims, SymbolicShapes, SymbolicSize, declared_dims

Tensors: TypeAlias = Sequence[torch.Tensor]

LAYOUT = (coda.TransposeOp, coda.SliceOp, coda.ShiftOp, coda.ConcatOp)
"""Operators that compute nothing: they keep the type of their operands."""

Programs: TypeAlias = Mapping[str, Callable[[Tensors], Tensors]]

HANDLERS: Handlers = {
    **BLOCK_HANDLERS,
    **SCAN_HANDLERS,
    **GRADIENT_HANDLERS,
    **GEMM_HANDLERS,
    **ATTENTION_HANDLERS,
}


def run_function(
    func_op: FuncOp, args: Tensors, precision: Precision = "float64"
) -> tuple[torch.Tensor, ...]:
    """Run a function of one or several levels, and return its results.

    `args` are tensors of the shapes that the function states, on the CPU. Their floats may have any
    floating-point type.

    * `precision="float64"`: every float is a float64 and nothing is rounded; float results are
      float64.
    * `precision="stated"`: floats are rounded to the types that the IR states. Operators compute
      in float32 (in float64 where a value states f64) and round their results; a sum is rounded to
      that once, or in the steps of a stated order; partials are per tile of the schedule, of 128
      columns without one.

    NaN and infinities go through as in PyTorch. Raises CodaError for arguments that do not
    fit and for operators that the backend does not know.
    """
    return _Run(func_op, precision).run(args)


def run_boxed(
    func_op: FuncOp, args: list[torch.Tensor], precision: Precision = "float64"
) -> tuple[torch.Tensor, ...]:
    """Like `run_function`, but empty the list of arguments: each is freed after its last use."""
    run = _Run(func_op, precision)
    run.bind(args)
    args.clear()
    return run.results()


def call_on_device(
    func_op: FuncOp, args: Tensors, device: torch.device, programs: Programs
) -> tuple[torch.Tensor, ...]:
    """Run a function on `device` by PyTorch operators; each `func.call` runs the function of that
    name in `programs`.

    Can be traced: it looks at no data. Floats compute in float32, as Inductor computes, and are
    rounded to the types that the IR states.
    """
    return _Run(func_op, "stated", device=device, programs=programs).run(args)


@dataclass(frozen=True)
class Trace:
    """The values that a function computed: its results and every value of its body."""

    results: tuple[torch.Tensor, ...]
    values: Mapping[SSAValue, torch.Tensor]


def trace_function(
    func_op: FuncOp,
    args: Tensors,
    precision: Precision = "float64",
    replaced: Mapping[SSAValue, torch.Tensor] | None = None,
) -> Trace:
    """Like `run_function`, but return the intermediate values, too.

    A value of `replaced` is taken from there instead of what its operator computes.
    """
    run = _Run(func_op, precision, replaced, keeps_values=True)
    return Trace(run.run(args), run.values)


def run_module(
    module: ModuleOp, args: Tensors, entry: str | None = None, precision: Precision = "float64"
) -> tuple[torch.Tensor, ...]:
    """Run the function `entry` of `module`, or its only function; see `run_function`.

    Raises CodaError where there is no such function, or none is named and several are public.
    """
    return run_function(find_entry(module, entry), args, precision)


def check_arguments(func_op: FuncOp, args: Tensors) -> dict[str, int]:
    """Return the sizes of the symbols of `func_op` for a call with `args`.

    Raises CodaError for a wrong number of arguments, a wrong shape, an integer where a float is
    expected or the other way round, a symbol bound to two sizes, and a function that takes or
    returns something else than tensors.
    """
    name = signature_of(func_op).name
    if len(args) != len(func_op.args):
        raise ArgumentError(
            f"{name} takes {len(func_op.args)} arguments, not {len(args)}",
            "pass one tensor per parameter, in order",
        )
    symbols: dict[str, int] = {}
    for index, (parameter, tensor) in enumerate(zip(func_op.args, args, strict=True)):
        what = f"argument {index} ({parameter.name_hint or '?'}) of {name}"
        _check_tensor(what, parameter, tensor)
        declared = declared_dims(entry_of(func_op.arg_attrs, index))
        if declared is not None:
            _bind(what, declared, tensor.shape, symbols)
    return symbols


def _check_tensor(what: str, parameter: SSAValue, tensor: torch.Tensor) -> None:
    if not shapes_agree(tensor.shape, shape_of(parameter)):
        raise ArgumentError(
            f"{what} has shape {format_shape(tensor.shape)}, "
            f"expected {format_shape(shape_of(parameter))}",
            "pass a tensor of the stated shape",
        )
    expected = stated_dtype(parameter.type)
    if tensor.is_floating_point() != expected.is_floating_point:
        raise ArgumentError(
            f"{what} has element type {tensor.dtype}, expected {expected}",
            f"convert it: .to({expected})",
        )


def _bind(what: str, dims: Dims, shape: Sequence[int], symbols: dict[str, int]) -> None:
    for dim, extent in zip(dims, shape, strict=True):
        if not isinstance(dim, str) or dim == UNKNOWN:
            continue
        if symbols.setdefault(dim, extent) != extent:
            raise ArgumentError(
                f"{what}: {dim} is {extent} here and {symbols[dim]} in an earlier argument",
                "pass tensors that agree in every symbolic dimension",
            )


class _Run:
    """The execution of one function: its values and the sizes of its symbols."""

    def __init__(
        self,
        func_op: FuncOp,
        precision: Precision,
        replaced: Mapping[SSAValue, torch.Tensor] | None = None,
        *,
        keeps_values: bool = False,
        device: torch.device | None = None,
        programs: Programs | None = None,
    ):
        """Set up a run; see `call_on_device`. `keeps_values` keeps values after their last use."""
        self.func_op = func_op
        self.device, self.programs = device, programs or {}
        self.precision: Precision = precision
        self.mode = numerics_mode(func_op)
        self.replaced = replaced or {}
        self.values: dict[SSAValue, torch.Tensor] = {}
        uses_symbols = any(map(_uses_symbols, func_op.body.block.ops))
        self._shapes = SymbolicShapes(func_op) if uses_symbols else None
        self._dead = last_uses(() if keeps_values else func_op.body.block.ops, lambda value: value)
        self._symbols: dict[str, int] = {}

    def run(self, args: Tensors) -> tuple[torch.Tensor, ...]:
        self.bind(args)
        return self.results()

    def bind(self, args: Tensors) -> None:
        check_arguments(self.func_op, args)
        for parameter, tensor in zip(self.func_op.args, args, strict=True):
            self._store(parameter, tensor.detach().cpu() if self.device is None else tensor)

    def results(self) -> tuple[torch.Tensor, ...]:
        # What operators make is beside their operands, whatever PyTorch's default device is.
        # Skip the device mode where it changes nothing: it slows every call of PyTorch.
        is_default = self.device is not None or torch.get_default_device().type == "cpu"
        with nullcontext() if is_default else torch.device("cpu"):
            return self._results()

    def _results(self) -> tuple[torch.Tensor, ...]:
        for op in self.func_op.body.block.ops:
            if isinstance(op, ReturnOp):
                return tuple(map(self._returned, op.operands))
            self._step(op)
        raise InvalidProgramError(f"function {self.func_op.sym_name.data} does not return")

    def _step(self, op: Operation) -> None:
        results = self._compute(op, [self.values[operand] for operand in op.operands])
        for value, result in zip(op.results, results, strict=True):
            self._store(value, result)
        for value in self._dead.get(op, ()):
            del self.values[value]

    def _store(self, value: SSAValue, tensor: torch.Tensor) -> None:
        numerics = Numerics.of(self.precision, ())
        tensor = self.replaced.get(value, tensor)
        # PyTorch rounds a Python number to the type that an operator computes in.
        is_number = isinstance(value.owner, coda.ConstantOp) and tensor.is_floating_point()
        type = Float64Type() if is_number else element_type_of(value)
        self.values[value] = numerics.store(tensor, type)
        if self._shapes is not None:
            self._symbols |= _symbol_extents(self._shapes.dims(value), tensor.shape)

    def _returned(self, value: SSAValue) -> torch.Tensor:
        return Numerics.of(self.precision, ()).store(self.values[value], element_type_of(value))

    def _compute(self, op: Operation, operands: Tensors) -> Tensors:
        if isinstance(op, CallOp):
            return self._call(op, operands)
        if isinstance(op, TorchCallOp | coda.LibraryCallOp):
            exact = self.precision == "float64"
            given = operands if exact else _in_stated_types(op, operands)
            results = call_torch(op, given, self._symbols, exact=exact, device=self.device)
            if isinstance(op, coda.LibraryCallOp):
                return results
            assert self._shapes is not None, "the function calls PyTorch"
            dims = [self._shapes.dims(value) for value in op.outputs]
            check_results(op, results, dims, self._symbols, exact=exact)
            return results
        if isinstance(op, VjpOp):
            exact = self.precision == "float64"
            given = operands if exact else _in_stated_types(op, operands)
            return vjp_of_torch(op, given, self._symbols, exact=exact)
        if isinstance(op, coda.ReshapeOp):
            return [operands[0].reshape(self._reshaped(op, operands[0]))]
        handler = HANDLERS.get(type(op))
        if handler is None:
            raise LoweringError(
                f"{op.name}{place(op)} is not supported by the reference backend",
                "lower it to operators of the dialects coda and gemm",
            )
        numerics = Numerics.of(self.precision, _types(op), self.mode, self.device)
        kept = op.operands if self._keeps_types(op) else _wide_partials(op)
        lifted = [
            operand if value in kept else numerics.lift(operand)
            for value, operand in zip(op.operands, operands, strict=True)
        ]
        return handler(op, lifted, numerics)

    def _keeps_types(self, op: Operation) -> bool:
        """Return whether `op` computes in the types of its operands, as a library does."""
        is_library = self.device is not None and isinstance(
            op, coda.LinearOp | coda.GroupedLinearMap
        )
        return is_library or isinstance(op, LAYOUT)

    def _call(self, op: CallOp, operands: Tensors) -> Tensors:
        program = self.programs.get(op.callee.string_value())
        if program is not None:
            return program(operands)
        callee = SymbolTable.lookup_symbol(op, op.callee)
        if not isinstance(callee, FuncOp):
            raise InvalidProgramError(
                f"func.call{place(op)}: no function {op.callee.string_value()}"
            )
        return run_function(callee, operands, self.precision)

    def _reshaped(self, op: coda.ReshapeOp, x: torch.Tensor) -> tuple[int, ...]:
        """Return the shape of the result; several dynamic extents require the symbols of x."""
        stated = shape_of(op.result)
        if stated.count(DYNAMIC_INDEX) <= 1:
            return tuple(-1 if extent == DYNAMIC_INDEX else extent for extent in stated)
        assert self._shapes is not None, "the function has such a reshape"
        shapes, known = self._shapes, self._symbols
        sizes = [SymbolicSize.product([dim]) for dim in shapes.dims(op.result)]
        unknown = [size for size in sizes if not size.symbols <= known.keys()]
        if len(unknown) > 1:
            raise InvalidProgramError(
                f"coda.reshape{place(op)}: the extents of {format_shape(stated)} do not follow "
                f"from {', '.join(map(str, shapes.dims(op.x)))}",
                "leave at most one extent of the result to be computed",
            )
        return tuple(-1 if size in unknown else size.evaluate(known) for size in sizes)


def _in_stated_types(op: Operation, operands: Tensors) -> Tensors:
    """Return the operands of a call, with numbers rounded to their own types, which decide about
    that of the result.
    """
    types = [stated_dtype(value.type) for value in op.operands]
    return [x.to(type) for x, type in zip(operands, types, strict=True)]


def _uses_symbols(op: Operation) -> bool:
    """Return whether `op` needs sizes of symbols, as arguments or for more than one extent."""
    several = isinstance(op, coda.ReshapeOp) and shape_of(op.result).count(DYNAMIC_INDEX) > 1
    return several or isinstance(op, TorchCallOp | VjpOp)


def _symbol_extents(dims: Dims, shape: Sequence[int]) -> Mapping[str, int]:
    """Return the symbols among extents, and those that multiples such as `2*M` determine."""
    known = {dim: extent for dim, extent in zip(dims, shape, strict=True) if isinstance(dim, str)}
    found = [(SymbolicSize.of(dim).multiple, known[dim]) for dim in known if "*" in dim]
    return {m[0]: extent // m[1] for m, extent in found if m is not None} | known


def _wide_partials(op: Operation) -> list[SSAValue]:
    """Return the operands that are stored in a wider type than `op` computes in."""
    partials = op.partials if isinstance(op, FinalizeOp) else ()
    return [value for value in partials if is_wide_partial(value)]


def _types(op: Operation) -> list[Attribute]:
    match op:
        # Partials may be wider than what an epilogue computes in.
        case FusedOp() | MapOp():
            values = op.operands
        case FinalizeOp():
            values = (*op.ports, *op.results)
        case _:
            values = (*op.operands, *op.results)
    return [value.type for value in values]
