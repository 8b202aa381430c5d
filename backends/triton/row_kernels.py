"""Kernels of block-level operators that reduce rows and stay unfused.

Statistics are computed in float32 from the stored values, and results are rounded once, when
they are stored.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from xdsl.dialects.builtin import DYNAMIC_INDEX, f32
from xdsl.ir import Attribute, SSAValue

from coda_ir.backends.triton.argument_list import Pitch, row_start
from coda_ir.backends.triton.host_values import ROW_COUNT, constant, nth_operand, nth_output
from coda_ir.backends.triton.kernel import EmittedKernel, KernelArgument
from coda_ir.backends.triton.kernel_text import (
    NEGATIVE_INFINITY,
    emitted,
    load,
    over_blocks,
    pointer_argument,
)
from coda_ir.backends.triton.row_kernel_text import Load, RowKernelText
from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, shape_of

Pitches: TypeAlias = Mapping[SSAValue, Pitch]
"""The elements between the starts of the rows of operands that are ranges of larger tensors."""


def _columns(value: SSAValue) -> int | None:
    extent = shape_of(value)[-1]
    return None if extent == DYNAMIC_INDEX else extent


def _start(
    name: str, x: SSAValue, columns: int | None, pitches: Pitches, other: str = "0.0"
) -> tuple[RowKernelText, Load]:
    """Begin a kernel that reads `x`, its operand 0, which is `other` after its last column."""
    text = RowKernelText(name, columns)
    text.operand("x", element_type_of(x), 0)
    start = row_start("row.to(tl.int64)", pitches[x]) if x in pitches else None
    return text, Load("x", element_type_of(x), other=other, start=start)


def _parameters(
    text: RowKernelText, values: Sequence[SSAValue], names: Sequence[str], pitches: Pitches
) -> list[Load]:
    """Return the parameters of a norm, which are the operands from number 1 on."""
    loads: list[Load] = []
    for index, (value, name) in enumerate(zip(values, names, strict=False), 1):
        text.operand(name, element_type_of(value), index)
        start = None
        if any(extent != 1 for extent in shape_of(value)[:-1]):
            text.sample_argument(f"{name}_repeats", index)
            # Rows past the end have the sample of the last one: the load needs no other mask.
            sample = f"(tl.minimum(row, M - 1) // {name}_repeats).to(tl.int64)"
            start = f"{sample} * {pitches.get(value, text.extent)}"
        loads.append(Load(name, element_type_of(value), per_row=False, start=start))
    return loads


def rms_norm_kernel(op: coda.RMSNormOp, name: str, pitches: Pitches) -> EmittedKernel:
    """Emit x · rstd (⊙ weight) for M rows; with `group`, for M · N / group rows of that width."""
    columns = None if op.group_size == DYNAMIC_INDEX else op.group_size
    text, x = _start(name, op.x, columns, pitches)
    weights = _parameters(text, [op.weight] if op.weight else [], ["weight"], pitches)
    text.result("out", element_type_of(op.result))
    text.begin()
    _emit_rms(text, x, op.eps.value.data)
    text.sweep([x, *weights], [_scaled("x * rstd", weights), _store_y(text, op.result)])
    return text.finish("RMSNorm")


def _emit_rms(text: RowKernelText, x: Load, eps: float) -> None:
    text.reduce("square_sum", "sum", [x], "x * x")
    text.lines.append(f"rstd = tl.rsqrt(square_sum / {text.extent} + {eps!r})")


def _emit_moments(text: RowKernelText, x: Load, eps: float) -> None:
    """Emit the mean, and the variance in a second sweep: E[x²] − mean² would cancel."""
    text.reduce("total", "sum", [x], "x")
    text.lines.append(f"mean = total / {text.extent}")
    centered = "centered = tl.where(inside, x - mean, 0.0)"
    text.reduce("square_sum", "sum", [x], "centered * centered", [centered])
    text.lines.append(f"rstd = tl.rsqrt(square_sum / {text.extent} + {eps!r})")


def _scaled(normalized: str, parameters: Sequence[Load]) -> str:
    expression = normalized
    for parameter in parameters:
        expression += f" {'*' if parameter.name == 'weight' else '+'} {parameter.name}"
    return f"y = {expression}"


def _store_y(text: RowKernelText, result: SSAValue) -> str:
    return text.store_elements("y", element_type_of(result))


def layer_norm_kernel(op: coda.LayerNormOp, name: str, pitches: Pitches) -> EmittedKernel:
    """Emit (x − mean) · rstd (⊙ weight) (+ bias)."""
    text, x = _start(name, op.x, _columns(op.x), pitches)
    given = {"weight": op.weight, "bias": op.bias}
    names = [name for name, value in given.items() if value is not None]
    parameters = _parameters(text, op.params, names, pitches)
    text.result("out", element_type_of(op.result))
    text.begin()
    _emit_moments(text, x, op.eps.value.data)
    text.sweep(
        [x, *parameters], [_scaled("(x - mean) * rstd", parameters), _store_y(text, op.result)]
    )
    return text.finish("LayerNorm")


def norm_stats_kernel(op: coda.NormStatsOp, name: str, pitches: Pitches) -> EmittedKernel:
    """Emit rstd, and the mean for kind "layer"."""
    text, x = _start(name, op.x, _columns(op.x), pitches)
    outputs = ("rstd", "mean")[: len(op.stats)]
    for index, output in enumerate(outputs):
        text.result(output, f32, index)
    text.begin()
    emit = _emit_moments if len(outputs) == 2 else _emit_rms
    emit(text, x, op.eps.value.data)
    for output in outputs:
        text.store_column(output, output, f32)
    return text.finish("row statistics of a norm")


def softmax_kernel(op: coda.SoftmaxOp, name: str, pitches: Pitches) -> EmittedKernel:
    """Emit exp(x − max) / sum; a row with NaN or +inf, or of -inf alone, is NaN, as in PyTorch."""
    text, x = _start(name, op.x, _columns(op.x), pitches, NEGATIVE_INFINITY)
    text.result("out", element_type_of(op.result))
    text.begin()
    text.reduce("largest", "max", [x], "x")
    text.reduce("total", "sum", [x], "tl.exp(x - largest)")
    text.sweep([x], ["y = tl.exp(x - largest) / total", _store_y(text, op.result)])
    return text.finish("softmax")


def reduce_kernel(op: coda.ReduceOp, name: str, pitches: Pitches) -> EmittedKernel:
    """Emit sum, mean, max or lse of each row, like torch.sum, mean, amax, logsumexp."""
    kind = op.kind.data
    other = NEGATIVE_INFINITY if kind in ("max", "lse") else "0.0"
    text, x = _start(name, op.x, _columns(op.x), pitches, other)
    text.result("out", element_type_of(op.result))
    text.begin()
    if kind == "max":
        text.reduce("result", "max", [x], "x")
    elif kind == "lse":
        _emit_logsumexp(text, x)
    else:
        text.reduce("result", "sum", [x], "x")
    if kind == "mean":
        text.lines.append(f"result = result / {text.extent}")
    text.store_column("out", "result", element_type_of(op.result))
    return text.finish(f"{kind} of each row")


def _emit_logsumexp(text: RowKernelText, x: Load) -> None:
    """Emit a logsumexp that subtracts no infinity: inf gives inf, and a row of -inf gives -inf."""
    text.reduce("largest", "max", [x], "x")
    text.lines.append('shift = tl.where(tl.abs(largest) == float("inf"), 0.0, largest)')
    text.reduce("total", "sum", [x], "tl.exp(x - shift)")
    text.lines.append("result = shift + tl.log(total)")


def cross_entropy_kernel(op: coda.CrossEntropyOp, name: str) -> EmittedKernel:
    """Emit the loss of each row: 0 for an ignored target; one that is no column is an error."""
    logits, target = element_type_of(op.logits), element_type_of(op.target)
    text = RowKernelText(name, _columns(op.logits))
    text.operand("logits", logits, 0)
    text.operand("target", target, 1)
    text.result("loss", f32)
    x = Load("logits", logits, other=NEGATIVE_INFINITY)
    ignored = op.ignore_index.value.data
    text.begin()
    text.lines += [f"target = {_load_target(ignored)}", _checked_target(text, ignored)]
    text.reduce("largest", "max", [x], "logits")
    text.reduce("total", "sum", [x], "tl.exp(logits - largest)")
    chosen = "chosen_logit = tl.where(inside & (column == target), logits, 0.0)"
    text.reduce("chosen", "sum", [x], "chosen_logit", [chosen])
    text.lines += [
        "loss = tl.log(total) - (chosen - largest)",
        f"loss = tl.where(target == {ignored}, 0.0, loss)",
    ]
    text.store_column("loss", "loss", f32)
    if op.row_lse:
        _store_row_lse(text)
    return text.finish("cross-entropy of each row")


def _store_row_lse(text: RowKernelText) -> None:
    """Emit the logsumexp of each row as a float32, and what that lacks."""
    text.lines += [
        "wide = largest.to(tl.float64) + tl.log(total).to(tl.float64)",
        "lse = wide.to(tl.float32)",
        "rest = rest_of(wide, lse)",
    ]
    for index, part in enumerate(("lse", "rest"), 1):
        text.result(part, f32, index)
        text.store_column(part, part, f32)


def cross_entropy_grad_kernel(op: coda.CrossEntropyGradOp, name: str) -> EmittedKernel:
    """Emit (softmax − onehot) · dloss of each row: 0 where the target is ignored.

    Operand 2 is the gradient of a row's loss, one for all rows where the loss is a sum or a mean.
    """
    type, index_type = element_type_of(op.logits), element_type_of(op.target)
    text = RowKernelText(name, _columns(op.logits))
    text.operand("logits", type, 0)
    text.operand("target", index_type, 1)
    text.operand("dloss", element_type_of(op.dloss), 2)
    x = Load("logits", type, other=NEGATIVE_INFINITY)
    ignored = op.ignore_index.value.data
    column = f"{op.first_column} + column" if op.first_column else "column"
    place = "row" if op.reduction.data == "none" else "row * 0"
    text.begin()
    text.lines.append(f"target = {_load_target(ignored)}")
    if op.start is None:
        text.lines.append(_checked_target(text, ignored))
    text.lines += [
        f"dloss = {load(f'dloss_ptr + {place}', element_type_of(op.dloss), 'row < M', '0.0')}"
    ]
    softmax = _softmax_of(text, x, len(op.row_lse))
    text.result("out", element_type_of(op.result))
    gradient = [
        f"share = {softmax} - tl.where({column} == target, 1.0, 0.0)",
        f"y = tl.where(target == {ignored}, 0.0, share * dloss)",
        _store_y(text, op.result),
    ]
    if op.moment is None:
        text.sweep([x], gradient)
    else:
        text.result("moment", f32, 1)
        text.reduce("moment", "sum", [x], "tl.where(inside, logits * y, 0.0)", gradient)
        text.store_column("moment", "moment", f32)
    return text.finish("gradient of the cross-entropy of each row")


def _softmax_of(text: RowKernelText, x: Load, lse_parts: int) -> str:
    """Return the softmax of the logits `x`, from their logsumexp if it is given in parts."""
    if not lse_parts:
        text.reduce("largest", "max", [x], "logits")
        text.reduce("total", "sum", [x], "tl.exp(logits - largest)")
        return "tl.exp(logits - largest) / total"
    parts = ("lse", "rest")[:lse_parts]
    for index, part in enumerate(parts, 3):
        text.operand(part, f32, index)
        text.lines.append(f"{part} = {load(f'{part}_ptr + row', f32, 'row < M', '0.0')}")
    return f"tl.exp({' - '.join(('logits', *parts))})"


def _load_target(ignored: int) -> str:
    return f"tl.load(target_ptr + row, mask=row < M, other={ignored})"


def _checked_target(text: RowKernelText, ignored: int) -> str:
    return f"target = checked_index(target, {text.extent}, {ignored})"


def loss_reduction_kernel(op: coda.CrossEntropyOp, name: str) -> EmittedKernel:
    """Emit the sum of the losses (operand 0), or their mean over the targets (operand 1) that
    count.

    One program in a fixed order: deterministic.
    """
    mean, block = op.reduction.data == "mean", 1024
    arguments = [pointer_argument("loss_ptr", f32, nth_operand(0))]
    if mean:
        target = element_type_of(op.target)
        arguments.append(pointer_argument("target_ptr", target, nth_operand(1)))
    arguments.append(pointer_argument("out_ptr", f32, nth_output(0)))
    arguments.append(KernelArgument("M", "i32", ROW_COUNT))
    ignored = op.ignore_index.value.data
    body = [
        f"row = start + tl.arange(0, {block})",
        "total += tl.load(loss_ptr + row, mask=row < M, other=0.0)",
    ]
    counting = [
        f"target = {_load_target(ignored)}",
        f"count += (target != {ignored}).to(tl.float32)",
    ]
    lines = [
        f"total = tl.zeros(({block},), tl.float32)",
        *([f"count = tl.zeros(({block},), tl.float32)"] if mean else []),
        *over_blocks("M", block, [*body, *(counting if mean else [])]),
        "result = tl.sum(total, 0)" + (" / tl.sum(count, 0)" if mean else ""),
        "tl.store(out_ptr, result)",
    ]
    summary = f"{op.reduction.data} of the losses of the rows"
    return emitted(name, arguments, lines, summary=summary, grid=constant(1))


def _pack_arguments(
    weight: Attribute, vector: Attribute | None, n_axis: int
) -> list[KernelArgument]:
    """Return the tensors and strides of a weight whose dimension `n_axis` is N."""
    w, v = pointer_argument("w_ptr", weight, nth_operand(0)), nth_operand(1)
    pointers = [] if vector is None else [pointer_argument("v_ptr", vector, v)]
    strides = [] if vector is None else [KernelArgument("stride_v", "i32", v.stride(0))]
    return [
        w,
        *pointers,
        pointer_argument("out_ptr", f32, nth_output(0)),
        KernelArgument("N", "i32", ROW_COUNT),
        KernelArgument("stride_n", "i32", nth_operand(0).stride(n_axis)),
        KernelArgument("stride_k", "i32", nth_operand(0).stride(1 - n_axis)),
        *strides,
    ]


def pack_weight_kernel(
    weight: Attribute, vector: Attribute | None, depth: int | None, *, is_nk: bool, name: str
) -> EmittedKernel:
    """Emit v[n] = sum over k of W[n, k] (· vector[k]), from strided operands."""
    block_n, block_k, n_axis = 32, 128, 0 if is_nk else 1
    extent = "K" if depth is None else str(depth)
    arguments = _pack_arguments(weight, vector, n_axis)
    if depth is None:
        arguments.append(KernelArgument("K", "i32", nth_operand(0).shape(1 - n_axis)))
    body = [
        f"k = (start + tl.arange(0, {block_k})[None, :]).to(tl.int64)",
        f"inside = (n < N) & (k < {extent})",
        f"w = {load('w_ptr + n * stride_n + k * stride_k', weight, 'inside')}",
    ]
    if vector is not None:
        body.append(f"v = {load('v_ptr + k * stride_v', vector, f'k < {extent}')}")
    body.append(f"total += {'w' if vector is None else 'w * v'}")
    lines = [
        f"n = (tl.program_id(0) * {block_n} + tl.arange(0, {block_n})[:, None]).to(tl.int64)",
        f"total = tl.zeros(({block_n}, {block_k}), tl.float32)",
        *over_blocks(extent, block_k, body),
        "tl.store(out_ptr + n, tl.sum(total, 1, keep_dims=True), mask=n < N)",
    ]
    summary = "sums of a weight" if vector is None else "weight times vector"
    summary += ", in float32"
    grid = ROW_COUNT.ceiling(block_n)
    return emitted(name, arguments, lines, summary=summary, grid=grid)
