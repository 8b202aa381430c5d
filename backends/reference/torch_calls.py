"""Calls of PyTorch (dialect `torch`), in the stated types or in float64."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from coda_ir.backends.reference.fused_attention import fused_attention, fused_attention_grad
from coda_ir.backends.reference.numerics import place
from coda_ir.diagnostics import ArgumentError, CodaError, InvalidProgramError
from coda_ir.dialects.coda import LibraryCallOp
from coda_ir.dialects.torch import FUSED_ATTENTION, FUSED_ATTENTION_GRAD, CallOp, VjpOp
from coda_ir.float64 import grouped_mm
from coda_ir.signatures import stated_dtype
from coda_ir.symbolic_shapes import Dim, Dims, SymbolicSize

Tensors = Sequence[torch.Tensor]

_NARROW = ("bfloat16", "float16", "float32", "half", "float", "float8_e4m3fn", "float8_e5m2")


class CallError(ArgumentError, RuntimeError):
    """A call of PyTorch fails on its operands."""


class _Float64Torch:
    """`torch` with float64 in place of every narrower type."""

    def __getattr__(self, name: str) -> Any:
        return torch.float64 if name in _NARROW else getattr(torch, name)


def call_torch(
    op: CallOp | LibraryCallOp,
    operands: Tensors,
    symbols: Mapping[str, int],
    *,
    exact: bool,
    device: torch.device | None = None,
) -> list[torch.Tensor]:
    """Return the results of a call on `operands`, in their stated types, or in float64 if `exact`.

    What the call makes is on `device`, by default the CPU.

    Raises CodaError for an operator that PyTorch does not have and for a symbol without a value.
    """
    results = _results(op, operands, symbols, device or torch.device("cpu"), exact=exact)
    return results if op.picks is None else [results[position] for position in op.picks]


def vjp_of_torch(
    op: VjpOp, operands: Tensors, symbols: Mapping[str, int], *, exact: bool
) -> list[torch.Tensor]:
    """Return the gradients of a call for some of its inputs; see `call_torch`."""
    count = len(op.inputs)
    inputs = [value.detach() for value in operands[:count]]
    d_outputs = operands[count:]
    leaves = [inputs[number].requires_grad_() for number in op.differentiated]
    with torch.enable_grad():
        results = _results(op, inputs, symbols, torch.device("cpu"), exact=exact)
    # A result that depends on none of them has no derivative; its product is 0.
    pairs = zip(op.positions, d_outputs, strict=True)
    known = [(results[i], d_output) for i, d_output in pairs if results[i].requires_grad]
    if not known:
        return [torch.zeros_like(leaf) for leaf in leaves]
    of, weights = zip(*known, strict=True)
    return list(torch.autograd.grad(of, leaves, weights, materialize_grads=True))


def _results(
    op: CallOp | LibraryCallOp | VjpOp,
    operands: Tensors,
    symbols: Mapping[str, int],
    device: torch.device,
    *,
    exact: bool,
) -> list[torch.Tensor]:
    """Return all results of the callee."""
    function = _IMPLEMENTED.get(op.callee.data) or overload(op)
    if exact and op.callee.data in _WITHOUT_FLOAT64:
        function = _WITHOUT_FLOAT64[op.callee.data]
    namespace = {"torch": _Float64Torch() if exact else torch, "device": device}
    try:
        arguments, named = op.template.evaluate(operands, symbols, namespace)
    except KeyError as error:
        raise InvalidProgramError(
            f"{op.name}{place(op)}: the dimension {error.args[0]} has no value",
            "name it in the dimensions of an argument (coda.dims)",
        ) from error
    try:
        result = function(*arguments, **named)
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, IndexError, ValueError) as error:
        where = place(op).removeprefix(" at ")
        message = f"{op.callee.data} fails: {error}"
        raise CallError(f"{where}: {message}" if where else message) from error
    return [result] if isinstance(result, torch.Tensor) else list(result)


def check_results(
    op: CallOp, results: Tensors, dims: Sequence[Dims], symbols: Mapping[str, int], *, exact: bool
) -> None:
    """Raise CodaError unless the results of a call have the types that the program states.

    `dims` are those of the results; where `exact`, floats have any floating-point type.
    """
    if len(results) != len(op.outputs):
        raise _other_results(op, f"{len(results)} results", str(len(op.outputs)))
    for value, result, extents in zip(op.outputs, results, dims, strict=True):
        shape = [_extent(dim, symbols) for dim in extents]
        dtype = stated_dtype(value.type)
        dtype = torch.float64 if exact and dtype.is_floating_point else dtype
        is_float = exact and dtype.is_floating_point and result.is_floating_point()
        fits = len(shape) == result.ndim and all(
            stated in (None, actual) for stated, actual in zip(shape, result.shape, strict=True)
        )
        if not fits or not (is_float or result.dtype == dtype):
            stated = ", ".join("?" if extent is None else str(extent) for extent in shape)
            actual = f"{result.dtype} {list(result.shape)}"
            raise _other_results(op, actual, f"{dtype} [{stated}]")


def _extent(dim: Dim, symbols: Mapping[str, int]) -> int | None:
    """Return an extent if its symbols are known."""
    size = SymbolicSize.of(dim)
    return size.evaluate(symbols) if size.symbols <= symbols.keys() else None


def _other_results(op: CallOp, actual: str, stated: str) -> CodaError:
    return InvalidProgramError(
        f"{op.callee.data}{place(op)} gives {actual}, but the program states {stated}",
        "pass larger tensors if this is a range that is empty or out of bounds; otherwise "
        "state the type that PyTorch gives",
    )


_WITHOUT_FLOAT64: Mapping[str, Callable[..., torch.Tensor]] = {
    "aten._grouped_mm.default": grouped_mm
}
"""Replacements of operators whose kernels have no float64."""


def _histogram(x: torch.Tensor, bins: int = 100, min: float = 0, max: float = 0) -> torch.Tensor:
    """`torch.histc`, also for integers, which PyTorch supports on GPUs only.

    Float64 has them exactly up to 2^53.
    """
    values = x if x.is_floating_point() else x.double()
    return torch.histc(values, bins, min, max).to(x.dtype)


def first_topk(
    x: torch.Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> Sequence[torch.Tensor]:
    """`torch.topk` that takes the first of equal elements, as the kernels do.

    PyTorch leaves open which one.
    """
    parts = x.sort(dim=dim, descending=largest, stable=True)
    return [part.narrow(dim, 0, k) if part.dim() else part for part in parts]


_IMPLEMENTED: Mapping[str, Callable[..., torch.Tensor | Sequence[torch.Tensor]]] = {
    FUSED_ATTENTION: fused_attention,
    FUSED_ATTENTION_GRAD: fused_attention_grad,
    "aten.histc.default": _histogram,
    "aten.topk.default": first_topk,
}
"""Operators that PyTorch runs on some devices only, or leaves partly undefined."""


def overload(op: CallOp | LibraryCallOp | VjpOp) -> Any:
    """Return the PyTorch operator that `op` calls. Raises CodaError if it does not exist."""
    function: Any = torch.ops
    for part in op.callee.data.split("."):
        function = getattr(function, part, None)
        if function is None:
            raise InvalidProgramError(
                f"{op.name}{place(op)}: PyTorch has no operator {op.callee.data}",
                "import the library that registers it",
            )
    return function
