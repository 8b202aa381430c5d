"""The kernels and calls that a program runs, one after the other: what fuses, and what does not."""

from collections.abc import Iterator

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation

from coda_ir.context import make_context
from coda_ir.dialects.coda import ConcatOp, ConstantOp, ExtentOp
from coda_ir.dialects.gemm import PackWeightOp
from coda_ir.dialects.torch import CallOp
from coda_ir.functions import functions_of
from coda_ir.passes.layout.schedule import SchedulePass
from coda_ir.passes.pipelines.coda_to_gemm import CodaToGemmPass
from coda_ir.storage import (
    filling,
    is_filled_in_place,
    is_looked_up_where_read,
    is_view,
    storage_root,
)
from support.outside_of_gemms import Outside

NOT_RUN = (ConstantOp, ExtentOp, PackWeightOp, ReturnOp)
"""Operators that run nothing in a call: extents are arguments of kernels, and vectors that are
computed from weights are kept between calls."""


def kernel_steps(module: ModuleOp) -> dict[str, str]:
    """The operators of the scheduled level that run something, by function."""
    return {name: " ".join(_steps(func)) for name, func in _scheduled(module).items()}


def explained_steps(module: ModuleOp) -> dict[str, str]:
    """The same with the reason, one of `REASONS`, behind each step that is no product."""
    functions = _scheduled(module).items()
    return {name: " ".join(_steps(func, Outside(func))) for name, func in functions}


def _scheduled(module: ModuleOp) -> dict[str, FuncOp]:
    for step in (CodaToGemmPass(), SchedulePass(target="sm_90")):
        step.apply(make_context(), module)
    return functions_of(module)


def _steps(func: FuncOp, outside: Outside | None = None) -> Iterator[str]:
    for op in filter(_is_run, func.body.block.ops):
        reason = outside.reason(op) if outside else None
        yield from (f"{step}({reason})" if reason else step for step in _steps_of(op))


def _is_run(op: Operation) -> bool:
    return not (isinstance(op, NOT_RUN) or is_view(op) or is_looked_up_where_read(op))


def _steps_of(op: Operation) -> list[str]:
    if isinstance(op, ConcatOp) and is_filled_in_place(op):
        others = [part for part in op.parts if storage_root(part) is not op.result]
        return ["copy" if filling(part) is None else "fill" for part in others]
    return [op.callee.data if isinstance(op, CallOp) else op.name.split(".")[1]]


ATTENTION_BLOCK = "fused attention fused finalize fused fused"
"""Two GEMMs around attention, and two of the network, which applies the norm before it."""

POST_NORM_BLOCK = "fused attention fused finalize fused fused map(sums)"
"""The same with norms after the sums. The GEMMs after a norm apply it to what they read: one to
its accumulators, the other to the tile that it adds. Only the norm that the block returns is
stored, by a map."""

IN_ONE_TILE = "fused attention fused fused fused"
"""The same where a tile of the GEMM before a norm has whole rows: it stores the norm."""

NORM_OF_GROUPS = "map(arguments) finalize map(arguments) map(arguments)"
"""Sums of columns, the sums of all tiles, scale and shift, the norm."""

BLOCK_STEPS: dict[str, str] = {
    "llama.llama_block": f"rms_norm(arguments) {ATTENTION_BLOCK}",
    "llama.window_attention": "fused attention",
    "llama.qk_norm_attention": "fused attention",
    # Each map adds a norm of what the GEMM before stored to the residual. That sum is what the next
    # GEMM multiplies, which has no row scale to apply later.
    "llama.olmo2_block": "fused attention fused map(sums) fused fused map(sums)",
    "llama.gated_attention": "rms_norm(arguments) fused attention fused fused",
    # The norm of the heads of the difference of two attentions.
    "llama.differential_attention": "fused attention attention map(results) fused",
    "gpt.gpt2_block": f"layer_norm(arguments) {ATTENTION_BLOCK}",
    "gpt.gptj_block": "layer_norm(arguments) fused attention fused",
    # The tables, with ones and zeros for the columns that are not rotated.
    "gpt.neox_block": (
        "layer_norm(arguments) pad(arguments) pad(arguments) fused attention "
        "layer_norm(arguments) fused fused"
    ),
    "gpt.cohere_block": "layer_norm(arguments) fused attention fused",
    "bert.post_norm_block": POST_NORM_BLOCK,
    "bert.post_norm_block (DeepNorm)": POST_NORM_BLOCK,
    "bert.cross_attention": "layer_norm(arguments) fused fused attention fused",
    "bert.alibi_attention": "fused attention",
    "residual.rezero": "fused",
    "residual.layer_scale": "fused",
    "residual.value_residual": "fused",
    # Sums of columns, divided by the positions of the call.
    "residual.mean_of_positions": "sum_to(arguments) map(arguments)",
    "residual.lora": "fused fused",
    # The lengths of the rows of the adapted weight, and the two maps.
    "residual.dora": "fused finalize fused fused",
    # Sums of streams; the last map has rows of four streams.
    "residual.hyper_connection": "map(arguments) fused map(shape)",
    # 1 + the weight of a norm of x. Each map adds a norm to the residual, as in OLMo 2; the first
    # one sums up the rows of the norm that follows.
    "gemma.gemma2_block": (
        "map(arguments) rms_norm(arguments) fused attention fused map(sums) finalize fused fused "
        "map(sums)"
    ),
    "gemma.capped_logits": "fused",
    # The silu of the condition; 1 + the scale of the norm of x, one row for each sample, which is
    # one of six parts of the columns of a GEMM. The other norm moves past its GEMM where that moves
    # fewer bytes than a map that stores it (`modulated-norms`): with 64 samples of 256 rows, not
    # with 8 of 1024, which the pass assumes for symbols.
    "dit.dit_block": (
        "map(arguments) fused map(shape) layer_norm(arguments) fused attention fused map(sums) "
        "fused fused"
    ),
    "t5.t5_block": f"rms_norm(arguments) {ATTENTION_BLOCK}",
    # The map is the softmax, or the scale, of what `topk` chose.
    "moe.top_k_gates": "fused topk(library) map(results) scatter(library)",
    "moe.softmax_gates": "fused topk(library) map(results) scatter(library)",
    "moe.sigmoid_gates": "fused topk(library) gather(library) map(results) scatter(library)",
    "moe.dense_experts": "fused fused",
    # The order of the rows by expert, and where those of each end; the map after it divides by k,
    # for the rows that a GEMM gathers. The other GEMM scatters what it stores, and reads its scales
    # there. The last map adds up what k experts give for a token.
    "moe.grouped_experts": (
        "fused topk(library) map(results) group_order(library) map(results) fused fused map(shape)"
    ),
    "moe.gpt_oss_expert": "fused fused",
    "mla.mla_attention": "fused finalize fused attention",
    "unet.group_norm_attention": f"{NORM_OF_GROUPS} fused attention fused",
    # The first map after the norm is the silu of the time; the others are the scale and shift, and
    # the norm, of what the GEMM before stored: columns cross tiles.
    "unet.pointwise_resnet_block": (
        f"{NORM_OF_GROUPS} map(arguments) fused fused finalize map(sums) map(sums) fused"
    ),
    "unet.film_block": "fused fused fused",
    # The convolution; shares of the length of each column of a sample, and what they scale, of what
    # the GEMM before stored.
    "unet.convnext_block": "map(rows) finalize fused finalize map(sums) map(sums) fused",
    # Norms of an argument and of rows of a table, side by side.
    "mla.multi_token_head": (
        "map(arguments) rms_norm(arguments) rms_norm(arguments) concat(arguments) fused finalize "
        "fused"
    ),
    # Rows mixed with those before, for two GEMMs.
    "mamba.channel_mix": "map(rows) fused fused fused",
    "mamba.causal_convolution": "map(rows)",
    # The convolution; -exp of a weight. The GEMM of the gate runs after the scan, whose results and
    # skip are read by its epilogue.
    "mamba.selective_block": (
        "fused map(rows) fused fused map(arguments) selective_scan fused fused"
    ),
    "mamba.state_space_block": "fused map(rows) map(arguments) ssd fused finalize fused",
    "mamba.gated_output": "fused fused",
    "mamba.gated_norm_output": "fused finalize fused",
    "mamba.retention_output": "layer_norm(arguments) fused fused",
    "quantize.int8_block_linear": "fused",
    "quantize.float8_block_swiglu": "fused",
    # The scale of a row is known when all tiles of the row are.
    "quantize.int8_row_linear": "fused map(sums)",
    "quantize.float8_linear": "fused",
    "quantize.float8_mlp": "fused fused",
    "quantize.float8_block_mlp": "fused fused",
    "quantize.float8_row_mlp": "fused map(sums) fused",
}
"""The steps of each block of the standard library at eight times its widths (`widened`), with the
reason (`REASONS`) for each that is neither a product nor, as `finalize`, the sums of its tiles for
another kernel. A `map` that needs these sums adds them up itself."""

STEPS_IN_ONE_TILE: dict[str, str] = {
    "llama.olmo2_block": IN_ONE_TILE,
    "bert.post_norm_block": IN_ONE_TILE,
    "gemma.gemma2_block": f"map(arguments) rms_norm(arguments) {IN_ONE_TILE}",
    "dit.dit_block": f"map(arguments) fused map(shape) layer_norm(arguments) {IN_ONE_TILE}",
}
"""The steps of blocks whose rows are so short that one tile of a GEMM holds a whole row."""

EXAMPLE_STEPS: dict[str, str] = {
    "quantizable_linear": "fused finalize",
    "gated_linear": "fused",
    # Their rows take several tiles of a GEMM: a map after it stores each norm.
    "dit_block": BLOCK_STEPS["dit.dit_block"],
    "gemma_block": BLOCK_STEPS["gemma.gemma2_block"],
    "gpt2_block": BLOCK_STEPS["gpt.gpt2_block"],
    "linear_bias_gelu": "fused",
    "llama_layer": "fused finalize fused fused finalize fused",
    "llama_mlp": "rms_norm(arguments) fused fused",
    "lm_head_cross_entropy": "rms_norm(arguments) fused finalize finalize",
    "offset_rms_norm": "map(arguments) rms_norm(arguments)",
    "qwen3_block": f"rms_norm(arguments) {ATTENTION_BLOCK}",
}
"""The steps of the functions of the examples."""
