"""Launches on stand-ins of the kernels for masks that PyTorch's attention kernels add to scores.

The host functions of `runtime/attention_gradient.py` launch them, as they choose the kernel.
"""

from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerType, bf16, f16, f32
from xdsl.ir import Operation, SSAValue

from coda_ir.backends.triton.host.program import HostProgram
from coda_ir.backends.triton.kernel import triton_type
from coda_ir.backends.triton.kernel_text import next_power_of_2
from coda_ir.dialects import coda, torch
from coda_ir.dialects.coda.shapes import element_type_of, shape_of


def compile_masks_ahead(host: HostProgram, op: Operation) -> None:
    """Add the launches that attention with gradients, or its gradient, may need for its mask."""
    if isinstance(op, coda.AttentionLike):
        q, k, columns, mask = op.q, op.k, op.value_columns, op.mask
        is_forward = isinstance(op, coda.AttentionOp)
        is_square = host.dims(q)[-2] == host.dims(k)[-2]
        makes_mask = op.window is not None or (bool(op.causal.value.data) and not is_square)
        if op.softcap is not None or (mask is None and not makes_mask):
            return
    elif isinstance(op, torch.CallOp) and (found := torch.masked_operands(op)):
        q, _, v, mask = found
        columns, is_forward = shape_of(v)[-1], op.callee.data == torch.FUSED_ATTENTION
    else:
        return
    host.kernels.stand_ins |= dict.fromkeys(_launches(q, mask, columns, is_forward=is_forward))


def _launches(q: SSAValue, mask: SSAValue | None, columns: int, *, is_forward: bool) -> list[str]:
    """Return launches for rows of keys whose number is a multiple of 16. Kernels for others are
    compiled at their first launch.
    """
    type = element_type_of(q)
    mask_type = IntegerType(1) if mask is None else element_type_of(mask)
    if type not in (bf16, f16, f32) or mask_type not in (IntegerType(1), type):
        return []  # PyTorch has no kernel for them.
    tensors = ", ".join(
        f'tensor("{name}")' for name in (triton_type(mask_type), triton_type(type), "fp32", "fp32")
    )
    numbers = "16, 16, 16, 16, 1, 16, 16, 16, 16, 1.0, 1.0"
    launches = [f"bound_mask[(1,)]({tensors}, {numbers}, BLOCK=1024)"]
    if is_forward and type == bf16 and columns != DYNAMIC_INDEX:
        # Only cuDNN's results are cleared, which adds masks of this type alone.
        arguments = 'tensor("bf16"), tensor("fp32"), 16, 16, 16, 16, 16, 16, 1.0'
        constants = f"COLUMNS={columns}, LANES={next_power_of_2(columns)}, BLOCK=128"
        launches.append(f"clear_unseen[(1,)]({arguments}, {constants})")
    return launches
