"""Tensors that the fused backward of a Llama layer reads and writes: no M x N tensor too many.

The list has what the mathematics needs where every kernel reads its operands and stores its
results once.
"""

from collections import Counter
from functools import cache

import pytest
from support.goldens import EXAMPLES, small_example
from support.joints import function_of
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from coda_ir.api import parse
from coda_ir.context import make_context
from coda_ir.dialects import coda
from coda_ir.dialects.gemm import AttentionSumOp
from coda_ir.frontends.coda_text import parse_text
from coda_ir.passes.pipelines.coda_to_gemm import CodaToGemmPass
from coda_ir.passes.pipelines.differentiate import DifferentiatePass
from coda_ir.remarks import collect_remarks
from coda_ir.signatures import signature_of
from coda_ir.storage import is_filled_in_place
from coda_ir.symbolic_shapes import SymbolicShapes
from coda_ir.traffic import total_traffic

D, F, KV = 64, 80, 16
WIDTHS = {D: "D", F: "F", KV: "KV"}

NEEDED = {
    # Rotating dk back, with <k, dk> + <v, dv> by row: dk, k, v, dv -> dzk.
    "rotate k": ("KV KV KV KV", "KV"),
    # Rotating dq back, with <q, dq>: dq, q -> dzq.
    "rotate q": ("D D", "D"),
    # dzq, dzk, dv, and x2 and dx2 in the epilogue -> the gradient of x2, h2.
    "dX of q, k, v": ("D KV KV D D", "D D"),
    "dW of q, k, v": ("D D KV KV", ""),
    # dx2, and the pre-activations in the epilogue -> their gradients, the activation.
    "dX of down": ("D F F", "F F F"),
    "dW of down": ("D F", ""),
    # Both gradients, and x1 and dx2 in the epilogue -> the gradient of x1, h1.
    "dX of gate and up": ("F F D D", "D D"),
    "dW of gate and up": ("D F F", ""),
    "dX of out": ("D", "D"),
    "dW of out": ("D D", ""),
}
"""Columns of the tensors of B x T rows that each kernel of the layer between two attentions reads
and writes."""

ROTATIONS = ("rotate q", "rotate k")

NEEDED_WITH_ATTENTION = {
    # dy, y, q, k, v -> dzq: rotated back on chip, where <q, dq> is summed up by row.
    "dq": ("D D D KV KV", "D"),
    # dy, q, k, v -> dzk, dv: likewise <k, dk> + <v, dv>.
    "dk, dv": ("D D KV KV", "KV KV"),
    **{name: moved for name, moved in NEEDED.items() if name not in ROTATIONS},
}
"""The same of a whole layer."""


@cache
def trained_layer() -> ModuleOp:
    sizes = {"D": D, "F": F, "HEAD": 8, "KV_HEADS": KV // 8}
    module = parse(EXAMPLES / "llama_layer.coda", constants=sizes)
    DifferentiatePass().apply(make_context(), module)
    CodaToGemmPass().apply(make_context(), module)
    return module


def wide(values: set[SSAValue], shapes: SymbolicShapes) -> str:
    """The widths of those `values` that have B x T rows, and more columns than heads."""
    dims = [shapes.dims(value) for value in values]
    widths = [d[-1] for d in dims if d[:2] == ("B", "T") and isinstance(d[-1], int) and d[-1] >= KV]
    return " ".join(sorted(WIDTHS[width] for width in widths))


def kernels(func: FuncOp) -> list[Operation]:
    return [op for op in func.body.block.ops if not isinstance(op, coda.ConstantOp | ReturnOp)]


def test_backward_is_gemms_and_finalizes():
    counts = Counter(
        op.name for op in kernels(function_of(trained_layer(), "llama_layer_backward"))
    )
    # Attention gives dq and dk: no GEMM of the layer has them on chip to rotate them back.
    assert counts == {"gemm.fused": 8, "gemm.finalize": 4, "gemm.map": 2}


@cache
def trained_block() -> ModuleOp:
    """The gradient of a whole layer."""
    module = parse_text(LLAMA)
    DifferentiatePass().apply(make_context(), module)
    CodaToGemmPass().apply(make_context(), module)
    return module


def test_backward_of_a_whole_layer_is_gemms_attention_and_finalizes():
    counts = Counter(
        op.name for op in kernels(function_of(trained_block(), "llama_block_backward"))
    )
    assert counts == {"gemm.fused": 8, "gemm.finalize": 4, **ATTENTION}


@pytest.mark.parametrize("name", ["llama_layer", "llama_block"])
def test_backward_moves_what_it_needs(name: str):
    is_layer = name == "llama_layer"
    module = trained_layer() if is_layer else trained_block()
    func = function_of(module, f"{name}_backward")
    shapes = SymbolicShapes(func)
    moved = Counter(
        (wide(set(op.operands), shapes), wide(set(op.results), shapes)) for op in kernels(func)
    )
    del moved["", ""]
    needed = Counter(
        (" ".join(sorted(reads.split())), " ".join(sorted(writes.split())))
        for reads, writes in (NEEDED if is_layer else NEEDED_WITH_ATTENTION).values()
    )
    assert moved == needed


def test_bytes_of_the_backward():
    """Per row: the tensors above in bf16, and the statistics, their partials and sums in f32."""
    func = function_of(trained_layer(), "llama_layer_backward")
    row = {"B": 1, "T": 1}
    total = total_traffic(func)
    sizes = {**dict.fromkeys(total.symbols, 0), **row}
    statistics = total.evaluate(sizes) - total.evaluate({**sizes, "B": 0, "T": 0})
    columns = {"D": D, "F": F, "KV": KV}
    tiles = sum(
        2 * columns[name] for sides in NEEDED.values() for side in sides for name in side.split()
    )
    angles = 2 * 2 * 4 * 4
    # rstd and the sum that is removed from dx for both norms, and the result of each finalize.
    columns_of_floats = 4 * (2 * 2 + 2)
    assert statistics == tiles + angles + columns_of_floats


def test_forward_stores_what_it_saves():
    signature = signature_of(function_of(trained_layer(), "llama_layer_forward"))
    names = {spec.name for spec in signature.results}
    assert names == {
        *("x2", "q", "k", "v"),
        *("x1", "rstd", "rstd_1", "w_gate_out", "w_up_out"),
    }


# Other blocks

RELU2 = """
fn relu2_mlp(x: bf16[M, 32], x0: bf16[M, 32], weight wo: bf16[32, 32], weight norm: bf16[32],
         weight w_up: bf16[48, 32], weight w_down: bf16[32, 48]) -> bf16[M, 32] {
    x1 = x0 + linear(x, wo)
    return x1 + linear(relu2(linear(rms_norm(x1, norm, eps=1e-5), w_up)), w_down)
}"""

SCALED = """
fn scaled(x: bf16[M, 32], scale: bf16[], weight w: bf16[16, 32],
          weight v: bf16[32, 16]) -> bf16[M, 32] {
    return linear(silu(linear(x, w) * scale), v)
}"""

TIED = """
fn tied(ids: i64[B, T], target: i64[B, T], weight table: bf16[96, 32], weight w: bf16[32, 32],
        weight norm: bf16[32]) -> f32[] {
    x = embedding(ids, table)
    h = rms_norm(x + linear(x, w), norm, eps=1e-5)
    return cross_entropy(linear(h, table), target, reduction="mean", ignore_index=-100)
}"""

BRANCH = """
fn branch(x: bf16[M, 32], scale: bf16[], weight w: bf16[48, 32],
          weight v: bf16[32, 48]) -> bf16[M, 32] {
    return x + linear(silu(linear(x, w)), v) * scale
}"""

VIEWS = ("coda.slice", "coda.reshape", "coda.constant", "gemm.pack_weight", "func.return")

LLAMA = """
fn llama_block(x: bf16[B, T, 64], cos: f32[T, 8], sin: f32[T, 8], weight norm1: bf16[64],
               weight wq: bf16[64, 64], weight wk: bf16[16, 64], weight wv: bf16[16, 64],
               weight wo: bf16[64, 64], weight norm2: bf16[64], weight w_gate: bf16[80, 64],
               weight w_up: bf16[80, 64], weight w_down: bf16[64, 80]) -> bf16[B, T, 64] {
    h1 = rms_norm(x, norm1, eps=1e-5)
    q = rope(linear(h1, wq), cos, sin, head_dim=16)
    k = rope(linear(h1, wk), cos, sin, head_dim=16)
    x1 = x + linear(attention(q, k, linear(h1, wv), head_dim=16, causal=true), wo)
    h2 = rms_norm(x1, norm2, eps=1e-5)
    return x1 + linear(silu(linear(h2, w_gate)) * linear(h2, w_up), w_down)
}"""

ATTENTION = {"gemm.attention_dq": 1, "gemm.attention_dkv": 1}
"""Kernels that undo rotations, differentiate norms of heads and sum up rows in their epilogues."""

OTHERS: list[tuple[str, str | None, int, dict[str, int], int]] = [
    ("llama_block", LLAMA, 8, ATTENTION, 5248),
    ("gpt2_block", None, 8, ATTENTION, 2928),
    ("qwen3_block", None, 8, ATTENTION, 4232),
    # The norms after the projections need whole rows of what a GEMM gives, and of a result's
    # gradient, which one kernel reads once.
    ("gemma_block", None, 8, {**ATTENTION, "gemm.map": 2}, 4512),
    ("llama_mlp", None, 4, {}, 1420),
    ("relu2_mlp", RELU2, 6, {}, 1292),
    ("scaled", SCALED, 4, {}, 456),
    ("branch", BRANCH, 4, {}, 968),
    ("lm_head_cross_entropy", None, 2, {"coda.cross_entropy_grad": 1}, 1464),
    ("tied", TIED, 4, {"coda.cross_entropy_grad": 1, "coda.embedding_grad": 1}, 904),
]
"""Example or program, its GEMMs, what is neither a GEMM nor a finalize, and the bytes of a row that
the kernels of the GEMM level read and write, without their partial sums."""


def _is_filled(op: Operation) -> bool:
    """Return whether `op` joins what kernels store side by side."""
    return isinstance(op, coda.ConcatOp) and is_filled_in_place(op)


def small_block(name: str) -> ModuleOp:
    """An example, with heads as wide as tensor cores need them."""
    return small_example(EXAMPLES / f"{name}.coda", HEAD=16)


def bytes_of_a_row(func: FuncOp) -> int:
    """Return what the operators of the GEMM level read and write for one row of B x T or M."""
    shapes = SymbolicShapes(func)
    total = 0
    for op in kernels(func):
        if op.name.startswith("gemm."):
            traffic = shapes.traffic(op)
            nothing = dict.fromkeys(traffic.symbols, 0)
            row = {name: 1 for name in ("B", "T", "M") if name in nothing}
            total += traffic.evaluate({**nothing, **row}) - traffic.evaluate(nothing)
    return total


@pytest.mark.slow
@pytest.mark.parametrize(("name", "text", "gemms", "beside", "moved"), OTHERS)
def test_other_blocks(name: str, text: str | None, gemms: int, beside: dict[str, int], moved: int):
    module = small_block(name) if text is None else parse_text(text)
    DifferentiatePass().apply(make_context(), module)
    with collect_remarks() as remarks:
        CodaToGemmPass().apply(make_context(), module)
    func = function_of(module, f"{name}_backward")
    counts = Counter(
        op.name for op in func.body.block.ops if op.name not in VIEWS and not _is_filled(op)
    )
    assert counts.pop("gemm.fused") == gemms
    counts.pop("gemm.finalize", None)
    assert counts == beside
    assert bytes_of_a_row(func) == moved
    # Each exception but attention has a remark.
    missed = [
        r.operator for r in remarks if r.kind == "missed" and r.function == f"{name}_backward"
    ]
    assert set(beside) - set(ATTENTION) <= set(missed)


def test_gradients_of_heads_are_stored_once():
    """After attention's epilogues, which read the projections, and of keys also the values."""
    module = small_block("qwen3_block")
    DifferentiatePass().apply(make_context(), module)
    CodaToGemmPass().apply(make_context(), module)
    func = function_of(module, "qwen3_block_backward")
    shapes = SymbolicShapes(func)
    for op in kernels(func):
        if isinstance(op, AttentionSumOp):
            width = shapes.dims(op.rows_of)[-1]
            stored = [v for v in op.outputs if shapes.dims(v) == ("B", "T", width)]
            loaded = [v for v in op.ports if shapes.dims(v) == ("B", "T", width)]
            # dq, or dk and dv; the projection before its norm, and the values.
            assert len(stored) == len(set(loaded)) == len(op.SUMS)
            assert not {use.operation.name for v in stored for use in v.uses} & {"gemm.map"}


def test_statistics_of_heads_are_not_saved():
    module = small_example(EXAMPLES / "qwen3_block.coda")
    DifferentiatePass().apply(make_context(), module)
    func = function_of(module, "qwen3_block_forward")
    signature = signature_of(func)
    assert all(len(spec.dims) <= 3 for spec in signature.results if spec.name != "y_lse")
