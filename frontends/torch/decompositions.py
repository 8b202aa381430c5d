"""Decompositions of ATen's operators into those that the importer knows."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from math import prod
from typing import Any

import torch
import torch.nn.functional as F

from coda_ir.frontends.torch.encoder_layers import encoder_layer, multi_head_attention
from coda_ir.frontends.torch.losses import loss_rules
from coda_ir.frontends.torch.masked_rows import masked_scatter

_KEPT = """
linear matmul bmm addmm baddbmm layer_norm rms_norm group_norm batch_norm
scaled_dot_product_attention _scaled_dot_product_flash_attention_for_cpu silu gelu relu sigmoid
softmax conv1d conv2d transpose mean rsqrt pad split cross_entropy_loss binary_cross_entropy
special_log_ndtr special_entr logit sinc xlogy special_xlog1py detach index_copy index_fill
"""
KEPT_OPERATORS = frozenset(_KEPT.split())
"""Operators of ATen that stay whole: their decompositions would have to be found again, or have
derivatives of NaN where theirs are finite.
"""


@cache
def decompositions() -> Mapping[Any, Callable[..., Any]]:
    """Return decompositions of operators that the importer does not know: PyTorch's, or ours where
    it has none, or where the derivative of PyTorch's is NaN although the operator has one.
    """
    table: dict[Any, Any] = dict(torch.export.default_decompositions())
    known: Any = torch.ops.aten
    ours = {
        known._native_batch_norm_legit_no_training.default: _batch_norm,
        known.roll.default: _roll,
        known.var.correction: _var,
        known.var_mean.correction: _var_mean,
        known.std.correction: _std,
        known.std_mean.correction: _std_mean,
        known.linalg_vector_norm.default: _vector_norm,
        known.as_strided.default: _as_strided,
        known.as_strided_scatter.default: _as_strided_scatter,
        known.eye.default: _eye,
        known.eye.m: _eye,
        known.masked_scatter.default: masked_scatter,
        known._native_multi_head_attention.default: multi_head_attention,
        known._transformer_encoder_layer_fwd.default: encoder_layer,
        **activation_rules(),
        **loss_rules(table),
    }
    kept = {
        overload: rule
        for overload, rule in table.items()
        if overload.namespace != "aten" or overload.overloadpacket.__name__ not in KEPT_OPERATORS
    }
    return kept | ours


@contextmanager
def losses_of_rows() -> Generator[None]:
    """Within the context, `cross_entropy_loss` without a reduction returns one loss for each row
    when it is traced.

    PyTorch's rule for `nll_loss` takes the reduction by name, but operators have its number. Where
    sizes are symbolic, fake tensors of the losses would have the shape of their mean.
    """
    # PyTorch documents no way to leave a rule out. Without the table there is no such rule.
    rules: dict[Any, Any] = getattr(import_module("torch._decomp"), "decomposition_table", {})
    operator: Any = torch.ops.aten.nll_loss
    rule = rules.pop(operator.default, None)
    try:
        yield
    finally:
        if rule is not None:
            rules[operator.default] = rule


def activation_rules() -> Mapping[Any, Callable[..., Any]]:
    """Return decompositions of activations that the IR has no operators for, which compute in
    float32 at least, like PyTorch's kernels, and whose derivatives at bounds are PyTorch's.
    """
    known: Any = torch.ops.aten
    rules = (_softplus, _logaddexp, _elu, _celu, _leaky_relu, _hardtanh, _hardsigmoid, _hardswish)
    return {getattr(known, rule.__name__[1:]).default: rule for rule in rules}


def batch_norm_rules() -> Mapping[Any, Callable[..., Any]]:
    """Return PyTorch's decomposition of a training batch norm; its meta kernel errs in 16 bits."""
    # PyTorch documents no decompositions beside those for export, which keep this operator whole.
    find: Callable[..., Any] = getattr(import_module("torch._decomp"), "get_decompositions")  # noqa: B009
    return find([torch.ops.aten._native_batch_norm_legit_functional])


def normalized_channels(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    mean: torch.Tensor,
    variance: torch.Tensor,
    eps: float,
) -> torch.Tensor:
    """Decompose a batch norm by stored statistics into a scale and a shift of each channel, in
    float32 at least.
    """
    wide = _widened(x)

    def column(value: torch.Tensor) -> torch.Tensor:
        return value.to(wide.dtype).reshape(-1, *(1 for _ in x.shape[2:]))

    scale = (column(variance) + eps).rsqrt()
    y = (wide - column(mean)) * (scale if weight is None else scale * column(weight))
    return (y if bias is None else y + column(bias)).to(x.dtype)


def _batch_norm(x: torch.Tensor, *args: Any) -> tuple[torch.Tensor, ...]:
    """Decompose a batch norm by stored statistics; it returns none of the batch."""
    *params, _, eps = args
    return normalized_channels(x, *params, eps), x.new_empty(0), x.new_empty(0)


def _roll(x: torch.Tensor, shifts: Sequence[int], dims: Sequence[int] = ()) -> Any:
    """Decompose a rotation of known dimensions into parts, which kernels join."""
    sizes = [x.shape[dim] for dim in dims]
    if not dims or not all(isinstance(number, int) for number in (*shifts, *sizes)):
        return NotImplemented
    for shift, dim, size in zip(shifts, dims, sizes, strict=True):
        start = -shift % max(size, 1)
        parts = x.narrow(dim, start, size - start), x.narrow(dim, 0, start)
        x = torch.cat(parts, dim) if start else x
    return x


def _var(
    x: torch.Tensor,
    dim: Sequence[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> Any:
    """Decompose a variance over a known number of elements into the mean of squares."""
    dims = list(dim or range(x.dim()))
    count = prod(x.shape[axis] for axis in dims)
    if not x.is_floating_point() or not isinstance(count, int):
        return NotImplemented
    wide = _widened(x)
    apart = wide - wide.mean(dims, keepdim=True)
    total = (apart * apart).sum(dims, keepdim=keepdim)
    return (total / max(0, count - (1 if correction is None else correction))).to(x.dtype)


def _var_mean(
    x: torch.Tensor, dim: Sequence[int] | None = None, *, keepdim: bool = False, **options: Any
) -> Any:
    """Decompose a variance and a mean like `_var`."""
    variance = _var(x, dim, keepdim=keepdim, **options)
    mean = x.mean(list(dim or range(x.dim())), keepdim=keepdim)
    return variance if variance is NotImplemented else (variance, mean)


def _std(x: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor:
    """Decompose a standard deviation, whose derivative is 0 for equal elements."""
    return _root(torch.var(_widened(x), *args, **options)).to(x.real.dtype)


def _std_mean(x: torch.Tensor, *args: Any, **options: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Decompose a standard deviation and a mean like `_std`."""
    variance, mean = torch.var_mean(_widened(x), *args, **options)
    return _root(variance).to(x.real.dtype), mean.to(x.dtype)


def _vector_norm(
    x: torch.Tensor,
    ord: float = 2,
    dim: Sequence[int] | None = None,
    *args: Any,
    **options: Any,
) -> Any:
    """Count dimensions from the first one: with PyTorch 2.11, fake tensors keep those of extent 1
    that count from the last one.
    """
    if all(axis >= 0 for axis in dim or ()) or not x.dim():
        return NotImplemented
    return torch.linalg.vector_norm(
        x, ord, [axis % x.dim() for axis in dim or ()], *args, **options
    )


def _as_strided(
    x: torch.Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Any:
    """Decompose a view by strides into elements of a tensor that has its memory alone, by their
    numbers in memory.

    A compiled program may store the tensor in another layout, or not at all. What reads memory of
    other tensors is left whole, which the importer refuses.
    """
    in_memory = x.permute(_order_in_memory(x))
    number = _numbers_in_memory(in_memory, size, stride, storage_offset or 0)
    return NotImplemented if number is None else in_memory.reshape(-1)[number]


def _as_strided_scatter(
    x: torch.Tensor,
    source: torch.Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Any:
    """Decompose writing to a view by strides, such as to a diagonal, like `_as_strided`."""
    order = _order_in_memory(x)
    in_memory = x.permute(order)
    number = _numbers_in_memory(in_memory, size, stride, storage_offset or 0)
    if number is None:
        return NotImplemented
    written = in_memory.reshape(-1).scatter(0, number.reshape(-1), source.reshape(-1))
    return written.view(in_memory.shape).permute([order.index(axis) for axis in range(x.dim())])


def _order_in_memory(x: torch.Tensor) -> list[int]:
    return sorted(range(x.dim()), key=x.stride, reverse=True)


def _numbers_in_memory(
    in_memory: torch.Tensor, size: Sequence[int], stride: Sequence[int], first: int
) -> torch.Tensor | None:
    """Return the numbers of the elements of a view by strides; None if they may be of others."""
    last = first + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    is_whole = in_memory.is_contiguous() and in_memory.storage_offset() == 0
    if not is_whole or not last < in_memory.numel():
        return None
    number = torch.full([1] * len(size), first, device=in_memory.device)
    for axis, (n, step) in enumerate(zip(size, stride, strict=True)):
        shape = [1] * len(size)
        shape[axis] = n
        number = number + torch.arange(n, device=in_memory.device).mul(step).reshape(shape)
    return number


def _eye(
    rows: int,
    columns: int | None = None,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
    **_: Any,
) -> torch.Tensor:
    """Decompose an identity matrix; PyTorch counts in the narrowest integers, which may be
    unsigned integers of 16 bits, a type that the IR lacks.
    """
    row = torch.arange(rows, device=device).unsqueeze(1)
    column = torch.arange(rows if columns is None else columns, device=device)
    return (row == column).to(dtype or torch.get_default_dtype())


def _root(variance: torch.Tensor) -> torch.Tensor:
    is_zero = variance == 0
    return torch.where(is_zero, 0, torch.where(is_zero, 1, variance).sqrt())


def _widened(x: torch.Tensor) -> torch.Tensor:
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def _softplus(x: torch.Tensor, beta: float = 1, threshold: float = 20) -> Any:
    if beta in (0, 1) or threshold != 20:
        return NotImplemented
    return (F.softplus(_widened(x) * beta) * (1 / beta)).to(x.dtype)


def _logaddexp(a: torch.Tensor, b: torch.Tensor) -> Any:
    """The larger one, and what it lacks; equal infinities have no difference."""
    if a.is_complex() or b.is_complex():
        return NotImplemented
    wide, other = _widened(a), _widened(b)
    apart = torch.where(wide == other, 0, (wide - other).abs())
    total = torch.maximum(wide, other) + F.softplus(-apart)
    return total.to(torch.result_type(a, b))


def _elu(x: torch.Tensor, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Any:
    if scale == 1 == input_scale or input_scale <= 0:
        return NotImplemented
    wide = _widened(x)
    inner = wide if input_scale == 1 else wide * input_scale
    return (F.elu(inner, alpha * input_scale) * (scale / input_scale)).to(x.dtype)


def _celu(x: torch.Tensor, alpha: float = 1) -> Any:
    """Decompose the continuous ELU; where x is above 0, the quotient may overflow."""
    if alpha <= 0:
        return NotImplemented
    y = torch.ops.aten.elu.default(x, alpha, 1, 1 / alpha)
    return y if alpha >= 1 else torch.where(x > 0, x, y)


def _leaky_relu(x: torch.Tensor, negative_slope: float = 0.01) -> torch.Tensor:
    wide = _widened(x)
    return (wide.relu() + wide.clamp(max=0) * negative_slope).to(x.dtype)


def _hardtanh(x: torch.Tensor, min_val: float = -1, max_val: float = 1) -> Any:
    if not x.is_floating_point():
        return NotImplemented
    limited = x.relu() if min_val == 0 else torch.where(x <= min_val, min_val, x)
    return torch.where(limited >= max_val, max_val, limited)


def _hardsigmoid(x: torch.Tensor) -> torch.Tensor:
    return (_up_to_six(_widened(x)) / 6).to(x.dtype)


def _hardswish(x: torch.Tensor) -> torch.Tensor:
    wide = _widened(x)
    return (wide * _up_to_six(wide) / 6).to(x.dtype)


def _up_to_six(x: torch.Tensor) -> torch.Tensor:
    shifted = (x + 3).relu()
    return torch.where(shifted >= 6, 6, shifted)
