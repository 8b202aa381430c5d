"""Operators of derivatives that are not pointwise: mostly calls of PyTorch, between kernels."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager

from coda_ir.backends.triton.embedding_grad_kernel import embedding_grad_kernel, own_ids_kernel
from coda_ir.backends.triton.host.program import HostProgram
from coda_ir.backends.triton.host.text import torch_type
from coda_ir.backends.triton.kernel import indented
from coda_ir.backends.triton.operators.attention_masks import compile_masks_ahead
from coda_ir.backends.triton.operators.launching import Writer, kernel_named, launch
from coda_ir.backends.triton.row_kernels import cross_entropy_grad_kernel
from coda_ir.dialects import coda, torch
from coda_ir.dialects.coda.shapes import element_type_of
from coda_ir.numbered_elements import reads_all_ids
from coda_ir.storage import is_placed


def attention_arguments(host: HostProgram, op: coda.AttentionLike) -> str:
    """Return the arguments of the host function `attention`."""
    arguments = [host.variable(value) for value in (op.q, op.k, op.v)]
    arguments += [str(op.head_dim.value.data), str(bool(op.causal.value.data))]
    numbers = {"window": op.window, "scale": op.scale, "softcap": op.softcap}
    arguments += [f"{name}={x.value.data!r}" for name, x in numbers.items() if x is not None]
    tensors = {"sinks": op.sinks, "mask": op.mask}
    arguments += [f"{name}={host.variable(x)}" for name, x in tensors.items() if x is not None]
    return ", ".join(arguments)


def _attention_grad(host: HostProgram, op: coda.AttentionGradOp) -> None:
    saved = ", ".join(map(host.variable, (op.d_out, op.out, op.lse)))
    arguments = attention_arguments(host, op)
    results = {"sinks": op.d_sinks, "mask": op.d_mask}
    wrt = [name for name, result in results.items() if result is not None]
    wanted = f", wrt={wrt}" if wrt else ""
    call = f"attention_grad({saved}, {arguments}{wanted}{host.stream_argument()})"
    compile_masks_ahead(host, op)
    host.assign_all(op.results, call, hint="gradient", is_dense=True)


ATTENTION_OF_HEADS = {
    torch.FUSED_ATTENTION: "attention_of_heads",
    torch.FUSED_ATTENTION_GRAD: "attention_of_heads_grad",
}
"""The host functions for calls of ATen's overrideable attention."""


def _weight_gradient(host: HostProgram, op: coda.WeightGradientOp) -> None:
    dtype = torch_type(element_type_of(op.result))
    call = f"weight_gradient({host.variable(op.dy)}, {host.variable(op.x)}, {dtype})"
    host.assign(op.result, call, is_dense=True, hint="weight_gradient")


def _sum_to(host: HostProgram, op: coda.SumToOp) -> None:
    x, dtype = host.variable(op.x), torch_type(element_type_of(op.result))
    call = f"{x}.to({dtype})"
    if op.summed_dims:
        shape = host.extents.shape(host.dims(op.result))
        call = f"sum_to({x}, {op.summed_dims}, {shape}, {dtype})"
    host.assign(op.result, call, is_dense=bool(op.summed_dims), hint="total")


def _broadcast(host: HostProgram, op: coda.BroadcastOp) -> None:
    if is_placed(op.result):
        return
    host.view(op.result, op.x, ("expand", host.dims(op.result)), hint="expanded")


def _cross_entropy_grad(host: HostProgram, op: coda.CrossEntropyGradOp) -> None:
    """Emit a kernel, and the number of targets that count."""
    kernel = kernel_named(host, op, "cross_entropy_grad", cross_entropy_grad_kernel)
    if op.start is None:
        columns = host.extents.of(host.dims(op.logits)[-1])
        host.check_index(op.target, columns, op.ignore_index.value.data)
    operands = [host.operand(value) for value in op.operands]
    if op.reduction.data == "mean":
        ignored = op.ignore_index.value.data
        call = f"mean_share({operands[2]}, {operands[1]}, {ignored})"
        (operands[2],) = host.temporaries(call, ["share"])
    # Those of the logits are known, as a result has their shape; the targets may be a product of
    # sizes that no argument of a backward has.
    rows = host.extents.size(host.dims(op.logits)[:-1])
    host.launch(kernel, rows, operands, [host.allocate(result) for result in op.results])


def _embedding_grad(host: HostProgram, op: coda.EmbeddingGradOp) -> None:
    """Emit one kernel for few ids or rows, else a sort, zeros, and one for the ids that occur."""
    if reads_all_ids(op):
        kernel = kernel_named(host, op, "embedding_grad", own_ids_kernel)
        rows = host.extents.size(host.dims(op.ids))
        launch(host, op, kernel, rows, [host.kernel_operand(x) for x in (op.ids, op.dy)])
        return
    kernel = kernel_named(host, op, "embedding_grad", embedding_grad_kernel)
    dy, rows = host.operand(op.dy), host.extents.size(host.dims(op.ids))
    ids, order = host.shared(op.ids, "sorted_ids", ("ids", "order"))
    table = host.allocate(op.result)
    host.flush()
    host.lines.append(f"{table}.zero_()")
    host.launch(kernel, rows, [ids, order, dy], [table])


def _vjp(host: HostProgram, op: torch.VjpOp) -> None:
    template = op.template
    symbols = {symbol: host.extents.symbol(symbol, op) for symbol in sorted(template.symbols)}
    parameters = [host.names.fresh(None, f"x{number}") for number in range(len(op.inputs))]
    callee = f"torch.ops.{op.callee.data}({template.render(parameters, symbols)})"
    function = f"lambda {', '.join(parameters)}: {callee}" if parameters else f"lambda: {callee}"
    inputs, d_outputs = (
        f"[{', '.join(map(host.variable, values))}]" for values in (op.inputs, op.d_outputs)
    )
    numbers = f"{[*op.differentiated]}, {[*op.positions]}"
    call = f"vjp({function}, {inputs}, {numbers}, {d_outputs})"
    hint = f"d_{op.callee.data.split('.')[1]}"
    with repeatable(host, op):
        is_alone = len(op.d_inputs) == 1
        call += "[0]" if is_alone else ""
        host.assign_all(op.d_inputs, call, hint=hint, is_dense=is_alone)


@contextmanager
def repeatable(
    host: HostProgram, op: torch.CallOp | coda.LibraryCallOp | torch.VjpOp
) -> Generator[None]:
    """Make the statements of a PyTorch call give the same bits in each run."""
    host.flush()
    start, needs = len(host.lines), torch.determinism_of(op)
    yield
    if needs != torch.Determinism.GIVEN:
        mode = "" if needs == torch.Determinism.STRICT else "warn_only=True"
        host.lines[start:] = [f"with deterministic({mode}):", *indented(host.lines[start:])]


WRITERS: Mapping[type, Writer] = {
    coda.AttentionGradOp: _attention_grad,
    coda.WeightGradientOp: _weight_gradient,
    coda.SumToOp: _sum_to,
    coda.BroadcastOp: _broadcast,
    coda.CrossEntropyGradOp: _cross_entropy_grad,
    coda.EmbeddingGradOp: _embedding_grad,
    torch.VjpOp: _vjp,
}
"""Emitters of the operators of derivatives that are not pointwise."""
