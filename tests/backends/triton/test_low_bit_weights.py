"""Products with weights of 8 and 4 bits in groups: emitted kernels and the reference."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from support.compiled_kernels import compiled
from support.device import DEVICE, on_device
from support.kernel_harness import (
    check_against_reference,
    function_of,
    gemms_of,
    parse_module,
    random_arguments,
)
from torch import nn

import coda_ir
from coda_ir.dialects.gemm.tiling import ColumnCuts
from coda_ir.dialects.gemm.tma import tma_obstacle
from coda_ir.dialects.gemm.warp_specialized import staging
from coda_ir.float64 import relative_error
from coda_ir.frontends.torch.low_bit_layers import LowBitLinear, WeightScheme


class Weight(NamedTuple):
    """The layout of a weight."""

    type: str
    packing: str = ""
    zeros: str | None = None
    offset: int = 0
    kn: bool = False
    scales: str = "f32"

    def attribute(self, depth: int) -> str:
        offset = f", offset = {self.offset}" if self.offset else ""
        packing = f', "{self.packing}"' if self.packing else ""
        return f"quantized<{depth}{offset}{packing}>"

    def operands(self, name: str, n: int, k: int, depth: int) -> list[str]:
        """The weight, its scales and its zero points, with their types."""
        count, per_word = -(-k // depth), max(1, len(self.packing) - 1)
        words = [n // (per_word if "n" in self.packing else 1)]
        words.append(k // (per_word if "k" in self.packing else 1))
        found = [(name, words, self.type), (f"s{name}", [n, count], self.scales)]
        if self.zeros is not None:
            found.append((f"z{name}", [n // 8 if self.zeros == "i32" else n, count], self.zeros))
        extents = (shape[::-1] if self.kn else shape for _, shape, _ in found)
        return [
            f"%{name} : tensor<{rows}x{columns}x{type}>"
            for (name, _, type), (rows, columns) in zip(found, extents, strict=True)
        ]


INT4 = Weight("i32", "k01234567", "i32", kn=True)
WEIGHTS = {
    "gptq": Weight("i32", "k01234567", "i32", offset=1, kn=True, scales="f16"),
    "awq": Weight("i32", "n04152637", "i32", kn=True, scales="f16"),
    "compressed-tensors": Weight("i32", "k01234567", offset=8, scales="bf16"),
    "torchao": Weight("ui8", "k10", offset=8, scales="bf16"),
    "rows of words along N": Weight("i32", "n01234567", "ui8"),
    "int8": Weight("i8"),
    "int8 with zero points": Weight("ui8", zeros="ui8"),
    "int8 K x N": Weight("i8", zeros="i8", offset=-3, kn=True),
    "float8": Weight("f8E4M3FN"),
}


def portable(tile: str, split_k: int = 1) -> str:
    split = f", split_k = {split_k}" if split_k > 1 else ""
    return f'pointer, "{tile}", warps = 4, stages = 1, group_m = 2{split}'


def one_row(tile: str, split_k: int = 1) -> str:
    return portable(f"1x{tile}", split_k).replace("pointer", "one_row")


def product(
    how: str, weight: Weight, *, k: int = 272, n: int = 72, depth: int = 64, x: str = "bf16"
) -> str:
    """acc + bias, and the largest element of each row of a tile."""
    operands = weight.operands("w", n, k, depth)
    w, s, *z = operands
    zeros = f" zeros({z[0]})" if z else ""
    results, row = f"tensor<?x{n}x{x}>, tensor<?x?xf32>", f"tensor<{n}xf32>"
    return f"""
func.func @f(%x: tensor<?x{k}x{x}>, {", ".join(operands)}, %b: {row}) -> ({results}) {{
  %y, %top = gemm.fused %x : tensor<?x{k}x{x}> {weight.attribute(depth)} schedule<{how}>
      columns({w}){" kn" if weight.kn else ""} scales({s}){zeros} row(%b : {row})
      -> (tile : tensor<?x{n}x{x}>, partial_row<max> : tensor<?x?xf32>) {{
  ^epilogue(%acc : f32, %bias : f32):
    %0 = arith.addf %acc, %bias : f32
    gemm.yield %0, %0 : f32, f32
  }}
  func.return %y, %top : {results}
}}
"""


def gated(how: str, weight: Weight, pairing: str, *, k: int = 272, n: int = 48) -> str:
    """gate · up, of two weights of n columns or of one of 2n in pairs."""
    names = {"w": n, "v": n} if pairing == "two weights" else {"w": 2 * n}
    operands = [weight.operands(name, rows, k, 64) for name, rows in names.items()]
    w, s, z = (", ".join(values) for values in zip(*operands, strict=True))
    pair, y = "halves" if pairing == "two weights" else pairing, f"tensor<?x{n}xbf16>"
    everything = ", ".join(value for values in operands for value in values)
    return f"""
func.func @f(%x: tensor<?x{k}xbf16>, {everything}) -> {y} {{
  %y = gemm.fused %x : tensor<?x{k}xbf16> {weight.attribute(64)} schedule<{how}>
      columns({w}) {"kn " if weight.kn else ""}scales({s}) zeros({z}) pair<{pair}>
      -> (half : {y}) {{
  ^epilogue(%gate : f32, %up : f32):
    %0 = arith.mulf %gate, %up : f32
    gemm.yield %0 : f32
  }}
  func.return %y : {y}
}}
"""


@pytest.mark.any_device
@pytest.mark.parametrize("name", WEIGHTS)
class TestLayouts:
    @pytest.mark.slow
    @pytest.mark.parametrize("x", ["bf16", "f16", "f32"])
    def test_types(self, name: str, x: str, tmp_path: Path):
        text = product(portable("16x32x64"), WEIGHTS[name], x=x)
        check_against_reference(text, [37], tmp_path)

    @pytest.mark.slow
    def test_programs_share_the_depth(self, name: str, tmp_path: Path):
        text = product(portable("16x16x32", 3), WEIGHTS[name], k=400, depth=128)
        check_against_reference(text, [5], tmp_path)


@pytest.mark.slow
@pytest.mark.any_device
@pytest.mark.parametrize("name", [*WEIGHTS, "bf16"])
@pytest.mark.parametrize(
    ("tile", "depth", "split_k"), [("16x64", 64, 1), ("8x256", 64, 2), ("16x32", 128, 3)]
)
def test_one_row(name: str, tile: str, depth: int, split_k: int, tmp_path: Path):
    """Steps have several groups, one, or a part of one; each row is a tile."""
    how = one_row(tile, split_k)
    if name == "bf16":
        text = product(how, Weight("bf16")).replace(" quantized<64>", "")
        text = re.sub(r", %sw : [^,]+|scales\(.*?\) ", "", text)
    else:
        text = product(how, WEIGHTS[name], depth=depth)
    check_against_reference(text, [3], tmp_path)


@pytest.mark.any_device
@pytest.mark.parametrize(("packing", "x"), [("k04152637", "f16"), ("k01234567", "f32")])
def test_one_row_of_words(packing: str, x: str, tmp_path: Path):
    """Words in any order, and inputs in float32, which tensor cores do not multiply."""
    weight = Weight("i32", packing, "ui8", offset=1, kn=True)
    check_against_reference(product(one_row("32x64", 2), weight, x=x), [2], tmp_path)


@pytest.mark.slow
@pytest.mark.any_device
@pytest.mark.parametrize("name", ["gptq", "compressed-tensors", "torchao", "awq"])
@pytest.mark.parametrize("how", [portable("16x16x32"), one_row("32x128", 2)], ids=["tile", "row"])
def test_infinite_inputs(name: str, how: str, tmp_path: Path):
    """They give infinity with the sign of the element, and NaN where that is 0."""
    text = product(how, WEIGHTS[name], depth=128)
    generator = torch.Generator().manual_seed(0)
    x, *others = random_arguments(function_of(parse_module(text)), [3], generator)
    x[0, 5], x[1, 40] = float("inf"), float("-inf")
    check_against_reference(text, [3], tmp_path, arguments=[x, *others])


@pytest.mark.slow
@pytest.mark.any_device
@pytest.mark.parametrize("name", ["gptq", "awq"])
@pytest.mark.parametrize("pairing", ["two weights", "halves", "adjacent", "halves, 32"])
def test_one_row_of_pairs(name: str, pairing: str, tmp_path: Path):
    text = gated(one_row("64x64"), WEIGHTS[name], pairing)
    check_against_reference(text, [2], tmp_path)


@pytest.mark.slow
@pytest.mark.any_device
@pytest.mark.parametrize("name", ["gptq", "awq"])
@pytest.mark.parametrize("pairing", ["two weights", "halves", "adjacent", "halves, 32"])
def test_pairs(name: str, pairing: str, tmp_path: Path):
    text = gated(portable("16x64x32"), WEIGHTS[name], pairing)
    check_against_reference(text, [21], tmp_path)


@pytest.mark.slow
@pytest.mark.any_device
@pytest.mark.parametrize("name", WEIGHTS)
@pytest.mark.parametrize("how", [portable("16x16x32"), one_row("16x64")], ids=["tile", "row"])
def test_weights_side_by_side(name: str, how: str, tmp_path: Path):
    """Weights of two numbers of columns, each with its scales and its zero points."""
    k, weight, x, y = 128, WEIGHTS[name], "tensor<?x128xbf16>", "tensor<?x72xbf16>"
    operands = [weight.operands(name, n, k, 64) for name, n in (("w", 48), ("v", 24))]
    w, s, *z = (", ".join(values) for values in zip(*operands, strict=True))
    zeros = f" zeros({z[0]})" if z else ""
    text = f"""
func.func @f(%x: {x}, {", ".join(value for values in operands for value in values)}) -> {y} {{
  %y = gemm.fused %x : {x} {weight.attribute(64)} schedule<{how}>
      columns({w}){" kn" if weight.kn else ""} scales({s}){zeros} -> (tile : {y}) {{
  ^epilogue(%acc : f32):
    gemm.yield %acc : f32
  }}
  func.return %y : {y}
}}
"""
    check_against_reference(text, [3], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", WEIGHTS)
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "gfx942"])
def test_ahead_of_time(name: str, architecture: str) -> None:
    """Every GPU has the kernels, but sm_80 has no float8."""
    if (name, architecture) == ("float8", "sm_80"):
        pytest.skip("Triton does not load e4m3 on sm_80")
    for how in (portable("16x64x64"), one_row("32x128", 2)):
        compiled(product(how, WEIGHTS[name], k=512, n=128), architecture)


def test_refused_main_loops() -> None:
    (op,) = gemms_of(parse_module(product(portable("128x128x64"), INT4)))
    assert op.schedule is not None
    cuts = ColumnCuts(op)
    assert "those of a quantized one are computed" in str(tma_obstacle(cuts, op.schedule))
    hopper = 'warp_specialized, "128x128x64", warps = 8, stages = 3, group_m = 2'
    (op,) = gemms_of(parse_module(product(hopper, INT4)))
    assert op.schedule is not None
    assert "its weights are dequantized" in str(staging(ColumnCuts(op), op.schedule))


TEXT = """
fn block(
    x: bf16[B, T, 256],
    weight gate: i32[32, 128],
    weight gate_scales: bf16[2, 128],
    weight gate_zeros: i32[2, 16],
    weight up: i32[32, 128],
    weight up_scales: bf16[2, 128],
    weight up_zeros: i32[2, 16],
    weight down: i32[16, 256],
    weight down_scales: bf16[1, 256],
    weight norm: bf16[256],
) {
    h = rms_norm(x, norm)
    a = low_bit_linear(h, gate, gate_scales, gate_zeros, packing="k01234567", transposed=true)
    b = low_bit_linear(h, up, up_scales, up_zeros, packing="k01234567", transposed=true)
    c = silu(a) * b
    return x + low_bit_linear(c, down, down_scales, offset=8, packing="k01234567", transposed=true)
}
"""


@pytest.mark.any_device
def test_gated_network() -> None:
    """One GEMM for gate and up projection, whose epilogue multiplies them, and one after it."""
    function = coda_ir.compile(TEXT, device=DEVICE)
    generator = torch.Generator().manual_seed(3)
    x, norm = (torch.randn(shape, generator=generator).bfloat16() for shape in ((2, 9, 256), 256))
    layers = [torch.randn(n, k, generator=generator) / k**0.5 for n, k in ((128, 256),) * 2]
    layers.append(torch.randn(256, 128, generator=generator) / 128**0.5)
    schemes = [WeightScheme("int4", 128, has_zeros=zeros) for zeros in (True, True, False)]
    modules = [
        LowBitLinear.of(linear(weight), scheme)
        for weight, scheme in zip(layers, schemes, strict=True)
    ]
    operands = [p for module in modules for p in module.parameters()]
    y = on_device(function)(x, *operands, norm)
    wide = [module.dequantized().double() for module in modules]
    h = F.rms_norm(x.double(), (256,), norm.double(), 1e-6)
    a = F.silu(h @ wide[0].T) * (h @ wide[1].T)
    assert isinstance(y, torch.Tensor)
    assert relative_error(y, x.double() + a @ wide[2].T) <= 5e-3
    assert len([name for name in function.kernels if "quantized" in name]) == 2


def linear(weight: torch.Tensor) -> nn.Linear:
    """A layer of bfloat16 with a weight."""
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=False).bfloat16()
    layer.weight = nn.Parameter(weight.bfloat16())
    return layer
