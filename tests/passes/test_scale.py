"""coda-to-gemm on whole models: what it makes of the examples, and how its work grows."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.programs import parse_mlir
from xdsl.dialects.builtin import ArrayAttr, FusedLoc, LocationAttr, ModuleOp, TensorType, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation
from xdsl.transforms.dead_code_elimination import DeadCodeElimination
from xdsl.utils.hints import isa

from coda_ir.api import parse
from coda_ir.context import make_context
from coda_ir.dialects import coda
from coda_ir.dialects.gemm import FusedOp
from coda_ir.passes.block.cancel_transposes import MAX_OPERATORS, CancelTransposesPass
from coda_ir.passes.layout import schedule
from coda_ir.passes.pipelines.coda_to_gemm import CodaToGemmPass
from coda_ir.passes.raising.raise_attention import RaiseAttentionPass
from coda_ir.passes.support.order import BlockOrder
from coda_ir.remarks import Remark, collect_remarks, format_location

EXAMPLES = Path(__file__).parents[2] / "examples"


def lowered(module: ModuleOp) -> tuple[Counter[str], list[Remark]]:
    """Return how often each operator stands in the functions of `module` after coda-to-gemm, and
    what was refused.
    """
    with collect_remarks() as remarks:
        CodaToGemmPass().apply(make_context(), module)
    module.verify()
    bodies = [function.regions[0].block.ops for function in module.ops]
    counts = Counter(op.name for ops in bodies for op in ops)
    del counts["func.return"]
    return counts, [remark for remark in remarks if remark.kind == "missed"]


def test_llama_layer():
    counts, missed = lowered(parse(EXAMPLES / "llama_layer.coda"))
    assert counts == {"gemm.fused": 4, "gemm.finalize": 2}
    assert missed == []


@pytest.mark.parametrize("name", ["gpt2_block", "qwen3_block", "gemma_block"])
def test_block_leaves_attention_and_what_has_a_remark(name: str):
    counts, missed = lowered(parse(EXAMPLES / f"{name}.coda"))
    left = {op: n for op, n in counts.items() if op.startswith("coda.")}
    reported = Counter(remark.operator for remark in missed)
    shape_operators = {"coda.slice", "coda.reshape"}
    # PyTorch has no kernel for attention with a cap.
    attention = "gemm.attention" if name == "gemma_block" else "coda.attention"
    assert counts[attention] == 1
    left.pop("coda.attention", None)
    assert all(reported[op] >= n for op, n in left.items() if op not in shape_operators), left


LAYER = """
  %o{i} = coda.linear %y{i}, %wo : (tensor<?x16xbf16>, tensor<16x16xbf16>) -> tensor<?x16xbf16>
  %u{i} = coda.add %x{i}, %o{i} : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %h{i} = coda.rms_norm %u{i}, %g {eps = 1.0e-6 : f64} : (tensor<?x16xbf16>, tensor<16xbf16>) -> tensor<?x16xbf16>
  %gate{i} = coda.linear %h{i}, %wg : (tensor<?x16xbf16>, tensor<32x16xbf16>) -> tensor<?x32xbf16>
  %s{i} = coda.silu %gate{i} : (tensor<?x32xbf16>) -> tensor<?x32xbf16>
  %up{i} = coda.linear %h{i}, %wu : (tensor<?x16xbf16>, tensor<32x16xbf16>) -> tensor<?x32xbf16>
  %a{i} = coda.mul %s{i}, %up{i} : (tensor<?x32xbf16>, tensor<?x32xbf16>) -> tensor<?x32xbf16>
  %d{i} = coda.linear %a{i}, %wd : (tensor<?x32xbf16>, tensor<16x32xbf16>) -> tensor<?x16xbf16>
  %x{next} = coda.add %u{i}, %d{i} : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %n{i} = coda.rms_norm %x{next}, %g {eps = 1.0e-6 : f64} : (tensor<?x16xbf16>, tensor<16xbf16>) -> tensor<?x16xbf16>
  %q0{i} = coda.linear %n{i}, %wo : (tensor<?x16xbf16>, tensor<16x16xbf16>) -> tensor<?x16xbf16>
  %q{i} = coda.rope %q0{i}, %cos, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x16xbf16>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x16xbf16>
  %k0{i} = coda.linear %n{i}, %wk : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x8xbf16>
  %k{i} = coda.rope %k0{i}, %cos, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x8xbf16>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x8xbf16>
  %v{i} = coda.linear %n{i}, %wk : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x8xbf16>
  %y{next} = coda.attention %q{i}, %k{i}, %v{i} {head_dim = 8 : i64, causal = true} : (tensor<?x16xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x16xbf16>
"""  # noqa: E501


def llama(layers: int) -> ModuleOp:
    """A Llama model of `layers` layers that share their weights."""
    body = "".join(
        LAYER.replace("{i}", str(i)).replace("{next}", str(i + 1)) for i in range(layers)
    )
    return parse_mlir(f"""
        func.func @llama(
            %x0: tensor<?x16xbf16>, %y0: tensor<?x16xbf16>, %wo: tensor<16x16xbf16>,
            %g: tensor<16xbf16>, %wg: tensor<32x16xbf16>, %wu: tensor<32x16xbf16>,
            %wd: tensor<16x32xbf16>, %wk: tensor<8x16xbf16>,
            %cos: tensor<?x4xf32>, %sin: tensor<?x4xf32>) -> tensor<?x16xbf16> {{
          {body}
          func.return %y{layers} : tensor<?x16xbf16>
        }}""")


@pytest.mark.slow
def test_32_layers():
    counts, missed = lowered(llama(32))
    assert counts == {"gemm.fused": 4 * 32, "gemm.finalize": 2 * 32, "coda.attention": 32}
    assert {remark.operator for remark in missed} == {"coda.attention"}


@pytest.mark.slow
def test_work_grows_linearly(monkeypatch: pytest.MonkeyPatch):
    """Four times the layers look up the order of operators four times as often, or so."""
    lookups = 0
    position = BlockOrder.position

    def counted(self: BlockOrder, op: Operation) -> float:
        nonlocal lookups
        lookups += 1
        return position(self, op)

    monkeypatch.setattr(BlockOrder, "position", counted)

    def work(layers: int) -> int:
        nonlocal lookups
        lookups = 0
        lowered(llama(layers))
        return lookups

    small, large = work(4), work(16)
    assert 0 < large <= 6 * small


def test_equal_gemms_of_layers_are_ranked_once(monkeypatch: pytest.MonkeyPatch):
    ranked: list[FusedOp] = []
    rank = schedule.rank

    def counted(op: FusedOp, *arguments: Any):
        ranked.append(op)
        return rank(op, *arguments)

    monkeypatch.setattr(schedule, "rank", counted)

    def count(layers: int) -> int:
        ranked.clear()
        module = llama(layers)
        lowered(module)
        schedule.SchedulePass("sm_90", "tma").apply(make_context(), module)
        return len(ranked)

    assert 4 <= count(3) == count(9) < 12


def row_powers(count: int) -> ModuleOp:
    """A tile scaled by a row vector that is squared `count` times."""
    squares = "".join(
        f"%g{i + 1} = coda.mul %g{i}, %g{i} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>\n"
        for i in range(count)
    )
    return parse_mlir(f"""
        func.func @f(%x: tensor<?x8xf32>, %w: tensor<8x8xf32>, %g0: tensor<8xf32>)
            -> tensor<?x8xf32> {{
          %z = coda.linear %x, %w : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
          {squares}
          %y = coda.mul %z, %g{count} : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
          func.return %y : tensor<?x8xf32>
        }}""")


@pytest.mark.slow
def test_shared_operands_are_computed_once():
    """A chain of squares is one multiplication per link, not two to the power of its length; its
    length may exceed Python's recursion limit."""
    module = row_powers(1200)
    counts, _ = lowered(module)
    assert counts == {"gemm.fused": 1}
    assert sum(op.name == "arith.mulf" for op in module.walk()) == 1201


@pytest.mark.slow
def test_kernel_of_hundreds_of_operators_has_a_location():
    """Locations of fused operators do not nest deeper with each of them."""
    chain = "\n".join(f"    z{i + 1} = relu(z{i})" for i in range(300))
    module = parse(
        f"fn f(x: f32[M, 8], w: f32[8, 8]) -> f32[M, 8] {{\n    z0 = x @ w\n{chain}\n"
        "    return z300\n}"
    )
    lowered(module)
    (fused,) = [op for op in module.walk() if op.name == "gemm.fused"]
    assert format_location(fused.location) == "<text>:2:12"
    assert isinstance(fused.location, FusedLoc)
    assert isa(fused.location.locations, ArrayAttr[LocationAttr])
    assert len(fused.location.locations) == 301


def test_heads_that_are_read_twice_in_each_of_many_steps():
    """Each is looked at once: 2^64 paths lead to the argument."""
    type = "tensor<2x4x5x8xf32>"
    steps = "".join(
        f"%x{i + 1} = coda.mul %x{i}, %x{i} : ({type}, {type}) -> {type}\n" for i in range(64)
    )
    call = 'torch.call "aten.scaled_dot_product_attention.default"(%x64, %x64, %x64)'
    options = '{arguments = "{0}, {1}, {2}", random}'
    module = parse_mlir(
        f"func.func @f(%x0: {type}) -> {type} {{ {steps}"
        f"%y = {call} {options} : ({type}, {type}, {type}) -> {type}\nfunc.return %y : {type} }}"
    )
    with collect_remarks() as remarks:
        RaiseAttentionPass().apply(make_context(), module)
    assert [remark.kind for remark in remarks] == ["missed"]


def test_long_code_keeps_its_transposes():
    for length, count in ((MAX_OPERATORS, 0), (MAX_OPERATORS + 1, 2)):
        func = FuncOp("f", ([TensorType(f32, [2, 3, 8])], [TensorType(f32, [2, 3, 8])]))
        ops: list[Operation] = [coda.TransposeOp(func.args[0], (1, 0, 2))]
        for _ in range(length):
            ops.append(coda.ReluOp(ops[-1].results[0]))
        ops.append(coda.TransposeOp(ops[-1].results[0], (1, 0, 2)))
        func.body.block.add_ops([*ops, ReturnOp(ops[-1])])
        module = ModuleOp([func])
        for each in (CancelTransposesPass(), DeadCodeElimination()):
            each.apply(make_context(), module)
        assert sum(isinstance(op, coda.TransposeOp) for op in module.walk()) == count
