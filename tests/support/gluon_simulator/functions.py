"""The functions of `triton.experimental.gluon.language` on simulated values."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from support.gluon_simulator.dtypes import (
    Array,
    DType,
    as_dtype,
    bfloat16,
    float32,
    float64,
    int1,
    int32,
    rounded,
)
from support.gluon_simulator.errors import SimulationError
from support.gluon_simulator.layouts import DerivedLayout, items_of, sliced
from support.gluon_simulator.program import current, here
from support.gluon_simulator.tensors import (
    Operand,
    Tensor,
    aligned,
    as_tensor,
    broadcast as broadcast_values,
    elementwise,
    unwrapped,
)

# Values


def constexpr(value: Any) -> Any:
    """A constant is a plain Python value; as an annotation this says nothing."""
    return unwrapped(value)


def full(shape: Sequence[Any], value: Operand, dtype: Any, layout: object = None) -> Tensor:
    extents = tuple(int(unwrapped(extent)) for extent in shape)
    scalar = as_tensor(value).to(as_dtype(dtype))
    return Tensor(np.broadcast_to(scalar.values, extents), scalar.dtype, layout)


def zeros(shape: Sequence[Any], dtype: Any, layout: object = None) -> Tensor:
    return full(shape, 0, dtype, layout)


def full_like(
    input: Tensor, value: Operand, shape: Any = None, dtype: Any = None, layout: object = None
) -> Tensor:
    return full(shape or input.shape, value, dtype or input.dtype, layout or input.layout)


def zeros_like(
    input: Tensor, shape: Any = None, dtype: Any = None, layout: object = None
) -> Tensor:
    return full_like(input, 0, shape, dtype, layout)


def arange(start: Any, end: Any, layout: object = None) -> Tensor:
    start, end = unwrapped(start), unwrapped(end)
    if end <= start or (end - start) & (end - start - 1):
        raise ValueError(f"{here()}: arange({start}, {end}) has no power of 2 of elements")
    return Tensor(np.arange(start, end, dtype=np.int32), int32, layout)


def to_tensor(x: Operand) -> Tensor:
    return as_tensor(x)


def cast(
    input: Operand, dtype: Any, fp_downcast_rounding: None = None, bitcast: bool = False
) -> Tensor:
    return as_tensor(input).to(dtype, bitcast=bitcast)


def convert_layout(value: Tensor, layout: object, assert_trivial: bool = False) -> Tensor:
    return Tensor(value.values, value.dtype, layout)


set_auto_layout = convert_layout


def hinted(input: Any, values: Any = None) -> Any:
    """`multiple_of`, `max_contiguous`, `max_constancy`: a hint to the compiler."""
    return input


# Shapes


def expand_dims(input: Tensor, axis: Any) -> Tensor:
    return input.expand_dims(unwrapped(axis))


def reshape(input: Tensor, *shape: Any) -> Tensor:
    return input.reshape(*shape)


def ravel(x: Tensor) -> Tensor:
    return x.reshape(x.numel)


def permute(input: Tensor, *dims: Any) -> Tensor:
    return input.permute(*dims)


def broadcast(input: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    (a, b), layout = broadcast_values(input, other)
    return Tensor(a, input.dtype, layout), Tensor(b, other.dtype, layout)


def join(a: Tensor, b: Tensor) -> Tensor:
    (first, second), layout = broadcast_values(a, b)
    return Tensor(np.stack([first, second], -1), a.dtype, DerivedLayout("join", layout))


def split(a: Tensor) -> tuple[Tensor, Tensor]:
    if a.shape[-1] != 2:
        raise ValueError(f"{here()}: split takes a last dimension of 2, not of {a.shape[-1]}")
    layout = DerivedLayout("split", a.layout)
    return (
        Tensor(a.values[..., 0], a.dtype, layout),
        Tensor(a.values[..., 1], a.dtype, layout),
    )


def gather(src: Tensor, index: Tensor, axis: Any) -> Tensor:
    values = np.take_along_axis(src.values, index.values.astype(np.int64), unwrapped(axis))
    return Tensor(values, src.dtype, index.layout)


# Elements


def where(condition: Operand, x: Operand, y: Operand) -> Tensor:
    (first, second), dtype, layout = aligned(x, y)
    choice = as_tensor(condition).to(int1)
    (chosen, first, second), layout = broadcast_values(
        choice, Tensor(first, dtype, layout), Tensor(second, dtype, layout)
    )
    return Tensor(np.where(chosen, first, second), dtype, layout)


def _extended(x: Operand) -> Operand:
    """A bfloat16 as float32."""
    return x.to(float32) if isinstance(x, Tensor) and x.dtype == bfloat16 else x


def _propagates(propagate_nan: Any) -> bool:
    return propagate_nan is not None and propagate_nan.name == "ALL"


def maximum(x: Operand, y: Operand, propagate_nan: Any = None) -> Tensor:
    """The larger; of a NaN and a number the number, unless NaN propagates."""
    operation = np.maximum if _propagates(propagate_nan) else np.fmax
    return elementwise(operation, _extended(x), _extended(y))


def minimum(x: Operand, y: Operand, propagate_nan: Any = None) -> Tensor:
    operation = np.minimum if _propagates(propagate_nan) else np.fmin
    return elementwise(operation, _extended(x), _extended(y))


def _function(name: str, operation: Callable[[Array], Any]) -> Callable[[Operand], Tensor]:
    """A function of floats, computed in float64 and rounded once."""

    def apply(x: Operand) -> Tensor:
        x = as_tensor(x)
        if x.dtype not in (float32, float64):
            raise TypeError(f"{here()}: {name} takes fp32 and fp64, not {x.dtype}")
        values = np.asarray(operation(x.values.astype(np.float64)))
        return x.like(values.astype(x.dtype.numpy))

    return apply


def _erf(x: Array) -> Array:
    return torch.erf(torch.tensor(x)).numpy()


def _rsqrt(x: Array) -> Array:
    return 1.0 / np.sqrt(x)


def _reciprocal(x: Array) -> Array:
    return 1.0 / x


_EXACT: dict[str, Callable[[Array], Any]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "cos": np.cos,
    "sin": np.sin,
    "sqrt": np.sqrt,
    "sqrt_rn": np.sqrt,
    "rsqrt": _rsqrt,
    "erf": _erf,
    "floor": np.floor,
    "ceil": np.ceil,
}
FUNCTIONS = {name: _function(name, operation) for name, operation in _EXACT.items()}


def absolute(x: Operand) -> Tensor:
    x = as_tensor(x)
    return x.like(np.abs(x.values))


def fma(x: Operand, y: Operand, z: Operand) -> Tensor:
    (a, b, c), dtype, layout = aligned(x, y, z)
    exact = a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)
    return Tensor(rounded(exact.astype(np.float32), dtype), dtype, layout)


def divided(x: Operand, y: Operand, ieee_rounding: bool = False) -> Tensor:
    return as_tensor(x) / y


def cdiv(x: Any, div: Any) -> Any:
    return (x + div - 1) // div


_INSTRUCTIONS: dict[str, Callable[[Array], Any]] = {
    "ex2.approx": np.exp2,
    "lg2.approx": np.log2,
    "rcp.approx": _reciprocal,
    "rsqrt.approx": _rsqrt,
    "sqrt.approx": np.sqrt,
    "tanh.approx": np.tanh,
    "sin.approx": np.sin,
    "cos.approx": np.cos,
}


def inline_asm_elementwise(
    asm: Any, constraints: Any, args: Sequence[Tensor], dtype: Any, is_pure: Any, pack: Any
) -> Tensor:
    """A single instruction of a float32, exact to a rounding."""
    text = str(unwrapped(asm)).strip()
    names = [name for name in _INSTRUCTIONS if text.startswith(name)]
    is_single = text.rstrip(";").count(";") == 0
    if not (names and is_single and len(args) == 1 and unwrapped(pack) == 1):
        raise NotImplementedError(f"{here()}: the simulator does not know the assembly {text!r}")
    return _function(names[0], _INSTRUCTIONS[names[0]])(args[0])


# Reductions


def _reduced(x: Tensor, values: Array, axis: int | None, keep_dims: bool, dtype: DType) -> Tensor:
    layout = None if axis is None else sliced(x.layout, axis % len(x.shape))
    result = Tensor(values, dtype, layout)
    if not keep_dims:
        return result
    return result.expand_dims(axis) if axis is not None else result.reshape([1] * len(x.shape))


def total(input: Tensor, axis: Any = None, keep_dims: Any = False, dtype: Any = None) -> Tensor:
    """`gl.sum`: rounded once, as no order is stated."""
    x, axis = _extended(input), unwrapped(axis)
    if dtype is not None:
        x = x.to(dtype)
    elif not x.dtype.is_float and x.dtype.primitive_bitwidth < 32:
        x = x.to(int32)
    wide = np.float64 if x.dtype.is_float else x.dtype.numpy
    values = np.asarray(x.values.sum(axis, dtype=wide), x.dtype.numpy)
    return _reduced(x, values, axis, unwrapped(keep_dims), x.dtype)


def _extreme(operation: np.ufunc) -> Callable[..., Tensor]:
    def reduce_extreme(
        input: Tensor,
        axis: Any = None,
        return_indices: bool = False,
        return_indices_tie_break_left: bool = True,
        keep_dims: Any = False,
    ) -> Tensor:
        if return_indices:
            raise NotImplementedError("the simulator has no indices of extremes")
        x, axis = _extended(input), unwrapped(axis)
        values = np.asarray(operation.reduce(x.values, axis))
        return _reduced(x, values, axis, unwrapped(keep_dims), x.dtype)

    return reduce_extreme


largest, smallest = _extreme(np.fmax), _extreme(np.fmin)


def reduce(input: Any, axis: Any, combine_fn: Callable[..., Any], keep_dims: Any = False) -> Any:
    """`gl.reduce`: halves are combined until one element is left, in any number of tensors."""
    tensors: list[Tensor] = items_of(input)
    axis = unwrapped(axis)
    layout = tensors[0].layout
    parts: list[Tensor] = [Tensor(np.moveaxis(t.values, axis, -1), t.dtype) for t in tensors]
    while (extent := parts[0].shape[-1]) > 1:
        left = [part.like(part.values[..., : extent // 2]) for part in parts]
        right = [part.like(part.values[..., extent // 2 :]) for part in parts]
        combined: Any = combine_fn(*left, *right)
        parts = items_of(combined)
    source = Tensor(tensors[0].values, tensors[0].dtype, layout)
    results = tuple(
        _reduced(source, part.values[..., 0], axis, unwrapped(keep_dims), part.dtype)
        for part in parts
    )
    return results if isinstance(input, tuple) else results[0]


def xor_sum(input: Tensor, axis: Any = None, keep_dims: Any = False) -> Tensor:
    axis = unwrapped(axis)
    values = np.asarray(np.bitwise_xor.reduce(input.values, axis))
    return _reduced(input, values, axis, unwrapped(keep_dims), input.dtype)


def reduce_or(input: Tensor, axis: Any, keep_dims: Any = False) -> Tensor:
    axis = unwrapped(axis)
    values = np.asarray(np.bitwise_or.reduce(input.values, axis))
    return _reduced(input, values, axis, unwrapped(keep_dims), input.dtype)


# Programs


def program_id(axis: Any) -> Tensor:
    return Tensor(np.asarray(current().index[unwrapped(axis)], np.int32), int32)


def num_programs(axis: Any) -> Tensor:
    return Tensor(np.asarray(current().grid[unwrapped(axis)], np.int32), int32)


def num_warps() -> int:
    return current().running.warps


def num_ctas() -> int:
    return 1


def thread_barrier() -> None:
    """The threads of a partition are in step anyway."""


def assume(cond: Any) -> None:
    _assert(cond, "the kernel assumes what does not hold")


def static_assert(cond: Any, msg: Any = "") -> None:
    _assert(cond, f"static_assert {unwrapped(msg)}")


def device_assert(cond: Any, msg: Any = "", mask: Any = None) -> None:
    _assert(cond, f"device_assert {unwrapped(msg)}")


def _assert(cond: Any, message: str) -> None:
    if not as_tensor(cond).values.all():
        raise SimulationError(f"{here()}: {message}")


def static_print(*values: Any, **options: Any) -> None:
    """Messages of the compiler are not shown."""


device_print = static_print


def static_range(*bounds: Any) -> range:
    if any(isinstance(bound, Tensor) for bound in bounds):
        raise TypeError(f"{here()}: static_range takes constants")
    return range(*(unwrapped(bound) for bound in bounds))


def warp_specialize(
    functions_and_args: Sequence[tuple[Callable[..., Any], Sequence[Any]]],
    worker_num_warps: Sequence[Any],
    worker_num_regs: Sequence[Any],
) -> Any:
    """Run the partitions side by side; returns what the first one does."""
    warps = [int(unwrapped(number)) for number in worker_num_warps]
    registers = [int(unwrapped(number)) for number in worker_num_regs]
    workers = len(functions_and_args) - 1
    if not len(warps) == len(registers) == workers:
        raise ValueError(f"{here()}: {workers} workers, {warps} warps, {registers} registers")
    if any(number % 8 or not 24 <= number <= 256 for number in registers):
        raise ValueError(f"{here()}: registers are multiples of 8 from 24 to 256, not {registers}")
    return current().specialize(functions_and_args, warps)
