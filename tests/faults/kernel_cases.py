"""Programs for the faults of kernels: small, of odd sizes, several tiles in every direction."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import torch
from support import gemm_programs as programs
from support.attention_sums import (
    KEYS,
    QUERIES,
    attention,
    attention_in_parts,
    backward_of_attention,
    mask_gradient,
)
from support.block_programs import gated_blocks, scaled_blocks
from support.eager_bits import OPERATORS, share_of_different_bits
from support.emitted import run_guarded
from support.goldens import EXAMPLES
from support.kernel_harness import assert_rounded
from support.one_query_programs import OneQuery
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from coda_ir.api import find_entry, parse
from coda_ir.backends.reference import run_function
from coda_ir.backends.triton import emit_module
from coda_ir.context import make_context
from coda_ir.dialects.gemm import FusedOp
from coda_ir.functions import returned_values
from coda_ir.pipeline import PassManager, parse_pipeline
from coda_ir.random_inputs import random_arguments
from coda_ir.registry import get_all_passes
from faults.fault import Check
from faults.hopper_cases import HOPPER_CASES, SimulatedAttention, SimulatedCase

TILES = "schedule{target=interpreter},plan-buffers"
FUSED = f"coda-to-gemm,{TILES}"


@dataclass(frozen=True)
class KernelCase:
    """A program, the passes that make it kernels, and the sizes of its symbols."""

    source: str | Path
    pipeline: str
    sizes: Mapping[str, int]
    constants: Mapping[str, int] | None = None
    sign: int = 0
    """1 or -1: the arguments but the first have that sign, and so have products with the first."""

    are_strided: bool = False
    """True where each argument in turn has other strides, too."""

    def module(self) -> ModuleOp:
        if isinstance(self.source, Path):
            text = self.source.read_text().replace("bf16", "f32")
            from coda_ir.frontends.coda_text import parse_text

            return parse_text(text, self.source.name, constants=dict(self.constants or {}))
        return parse(self.source)

    def check(self) -> None:
        """The emitted program agrees with the reference, and writes nowhere else.

        The expected results are those of the scheduled program in float64, and, where it has other
        tiles of partials, those of the program before.
        """
        module = self.module()
        before = find_entry(module.clone())
        if self.pipeline:
            pipeline = parse_pipeline(self.pipeline, get_all_passes())
            PassManager(pipeline).run(make_context(), module)
        func = find_entry(module)
        arguments = self._arguments(before)
        expected = [(func, run_function(func, arguments))]
        expected.append((before, run_function(before, arguments)))
        source = emit_module(module)
        for given in self._with_strides(arguments):
            actual = [result.double() for result in run_guarded(source, given)]
            for level, results in expected:
                for value, got, wanted in zip(returned_values(level), actual, results, strict=True):
                    if level is func or got.shape == wanted.shape:
                        assert_rounded(value, got, wanted)

    def _arguments(self, func: FuncOp) -> list[torch.Tensor]:
        drawn = random_arguments(func, self.sizes, seed=1)
        arguments = [_every_index(*each) for each in zip(drawn, func.args, strict=True)]
        if self.sign:
            arguments = [arguments[0].abs(), *(self.sign * each.abs() for each in arguments[1:])]
        return arguments

    def _with_strides(self, arguments: list[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
        """The arguments as they are, and where they `are_strided`, with each in turn in the way
        that `strided` gives it.
        """
        yield arguments
        for index in range(len(arguments)) if self.are_strided else ():
            yield [*arguments[:index], strided(arguments[index], index), *arguments[index + 1 :]]


def strided(tensor: torch.Tensor, way: int) -> torch.Tensor:
    """The elements of `tensor` in another order in memory, with gaps, or at an odd address."""
    if way % 3 == 0 and tensor.dim() > 1:
        return tensor.transpose(-1, -2).contiguous().transpose(-1, -2)
    if way % 3 == 1:
        return torch.stack([tensor, tensor + 1], -1)[..., 0]
    return torch.cat([tensor.flatten()[:1], tensor.flatten()])[1:].view(tensor.shape)


@dataclass(frozen=True)
class EagerCase:
    """One elementwise operator in bfloat16 and the mode `eager-exact`."""

    operator: str

    def check(self) -> None:
        """The kernels have the bits of eager PyTorch, but for ulps of float32."""
        torch.default_generator.manual_seed(0)
        different = share_of_different_bits(OPERATORS[self.operator], torch.bfloat16)
        assert different <= 0.01, f"{different:.1%} of the elements differ"


def _every_index(argument: torch.Tensor, parameter: SSAValue) -> torch.Tensor:
    """Targets of a `select`: every column in turn, after one that is none."""
    gemms = [use.operation for use in parameter.uses if isinstance(use.operation, FusedOp)]
    selects = any(parameter in gemm.ports for gemm in gemms)
    if argument.is_floating_point() or not selects:
        return argument
    return torch.arange(argument.numel()).reshape(argument.shape) - 1


def _schedule(bm: int, bn: int, bk: int, warps: int = 4, group_m: int = 2) -> str:
    return f'pointer, "{bm}x{bn}x{bk}", warps = {warps}, stages = 3, group_m = {group_m}'


ONE_ROW = 'one_row, "1x8x16", warps = 4, stages = 1, group_m = 2'
SMALL = _schedule(16, 32, 16)
FLOAT8 = _schedule(16, 32, 32)
PARTS = _schedule(32, 128, 16, warps=1)

SPLIT_CHAIN = f"""
func.func @f(%x: tensor<?x80xf32>, %u: tensor<40x80xf32>, %w: tensor<24x40xf32>)
    -> tensor<?x24xf32> {{
  %y = gemm.fused %x : tensor<?x80xf32> schedule<{SMALL}, split_k = 3>
      columns(%u : tensor<40x80xf32>) -> (tile : tensor<?x40xf32>) {{
  ^epilogue(%acc : f32):
    gemm.yield %acc : f32
  }}
  %z = gemm.fused %y : tensor<?x40xf32> schedule<{SMALL}, split_k = 2>
      columns(%w : tensor<24x40xf32>) -> (tile : tensor<?x24xf32>) {{
  ^epilogue(%acc : f32):
    gemm.yield %acc : f32
  }}
  func.return %z : tensor<?x24xf32>
}}
"""
"""Both kernels count with the same counters."""

PARTIAL_COLUMNS = f"""
func.func @f(%x: tensor<?x40xf32>, %w: tensor<72x40xf32>)
    -> (tensor<?x72xf32>, tensor<?x72xf32>, tensor<72xf32>) {{
  %p, %q = gemm.fused %x : tensor<?x40xf32>
      schedule<{SMALL}>
      columns(%w : tensor<72x40xf32>)
      -> (partial_col<add> : tensor<?x72xf32>, partial_col<max> : tensor<?x72xf32>) {{
  ^epilogue(%acc : f32):
    %two = arith.constant 2.0 : f32
    %s = arith.subf %acc, %two : f32
    gemm.yield %acc, %s : f32, f32
  }}
  %c = gemm.finalize col (add %p : tensor<?x72xf32>) -> (tensor<72xf32>) {{
  ^finalize(%t : f32):
    gemm.yield %t : f32
  }}
  func.return %p, %q, %c : tensor<?x72xf32>, tensor<?x72xf32>, tensor<72xf32>
}}
"""

NUMBERS_OF_ROWS = """
func.func @f(%x: tensor<?x600xf32>, %s: tensor<?x1xf32>) -> (tensor<?x600xf32>, tensor<?x1xf32>) {
  %y, %r = gemm.map tile(%x : tensor<?x600xf32>) col(%s : tensor<?x1xf32>)
      -> (tile : tensor<?x600xf32>, group<600> : tensor<?x1xf32>) {
  ^epilogue(%a : f32, %b : f32):
    %0 = arith.mulf %b, %b : f32
    %1 = arith.mulf %a, %0 : f32
    gemm.yield %1, %0 : f32, f32
  }
  func.return %y, %r : tensor<?x600xf32>, tensor<?x1xf32>
}
"""

JOINED_WEIGHTS = f"""
func.func @f(%x: tensor<?x24xf32>, %w: tensor<40x24xf32>, %v: tensor<70x24xf32>,
             %t: tensor<?xi64>) -> (tensor<?x110xf32>, tensor<?x?xf32>, tensor<?xf32>) {{
  %y, %p, %l = gemm.fused %x : tensor<?x24xf32>
      schedule<{SMALL}>
      columns(%w : tensor<40x24xf32>, %v : tensor<70x24xf32>) col(%t : tensor<?xi64>)
      -> (tile : tensor<?x110xf32>, partial_row<max> : tensor<?x?xf32>,
          select<0> : tensor<?xf32>) {{
  ^epilogue(%acc : f32, %target : i64):
    %two = arith.constant 2.0 : f32
    %s = arith.subf %acc, %two : f32
    gemm.yield %s, %s, %s : f32, f32, f32
  }}
  func.return %y, %p, %l : tensor<?x110xf32>, tensor<?x?xf32>, tensor<?xf32>
}}
"""

LOSS = """
func.func @f(%x: tensor<?x24xf32>, %w: tensor<70x24xf32>, %t: tensor<?xi64>) -> tensor<f32> {
  %z = coda.linear %x, %w : (tensor<?x24xf32>, tensor<70x24xf32>) -> tensor<?x70xf32>
  %l = coda.cross_entropy %z, %t {ignore_index = -100 : i64, reduction = "mean"}
    : (tensor<?x70xf32>, tensor<?xi64>) -> tensor<f32>
  func.return %l : tensor<f32>
}
"""

PACKED = """
func.func @f(%w: tensor<40x200xf32>, %v: tensor<200x40xf32>, %g: tensor<200xf32>)
    -> (tensor<40xf32>, tensor<40xf32>) {
  %u = gemm.pack_weight nk %w, %g : (tensor<40x200xf32>, tensor<200xf32>) -> tensor<40xf32>
  %t = gemm.pack_weight kn %v, %g : (tensor<200x40xf32>, tensor<200xf32>) -> tensor<40xf32>
  func.return %u, %t : tensor<40xf32>, tensor<40xf32>
}
"""

NORM_OF_MAXIMA = """
func.func @f(%x: tensor<?x24xf32>, %w: tensor<200x24xf32>, %v: tensor<40x200xf32>,
             %g: tensor<200xf32>, %b: tensor<200xf32>) -> (tensor<?x40xf32>, tensor<?x1xf32>) {
  %z = coda.linear %x, %w : (tensor<?x24xf32>, tensor<200x24xf32>) -> tensor<?x200xf32>
  %n = coda.neg %z : (tensor<?x200xf32>) -> tensor<?x200xf32>
  %e = coda.exp %n : (tensor<?x200xf32>) -> tensor<?x200xf32>
  %m = coda.neg %e : (tensor<?x200xf32>) -> tensor<?x200xf32>
  %top = coda.reduce %m {kind = "max"} : (tensor<?x200xf32>) -> tensor<?x1xf32>
  %h = coda.layer_norm %z, %g, %b {eps = 1.0e-5 : f64}
    : (tensor<?x200xf32>, tensor<200xf32>, tensor<200xf32>) -> tensor<?x200xf32>
  %y = coda.linear %h, %v : (tensor<?x200xf32>, tensor<40x200xf32>) -> tensor<?x40xf32>
  func.return %y, %top : tensor<?x40xf32>, tensor<?x1xf32>
}
"""

ROWS = """
func.func @f(%x: tensor<?x37xf32>, %g: tensor<37xf32>, %b: tensor<37xf32>, %t: tensor<?xi64>)
    -> (tensor<?x37xf32>, tensor<?x37xf32>, tensor<?x37xf32>, tensor<?x1xf32>, tensor<?x1xf32>,
        tensor<?x1xf32>, tensor<f32>, tensor<?x1xf32>, tensor<?x5xf32>, tensor<?x5xf32>) {
  %r = coda.rms_norm %x, %g {eps = 1.0e-2 : f64}
    : (tensor<?x37xf32>, tensor<37xf32>) -> tensor<?x37xf32>
  %l = coda.layer_norm %x, %g, %b {eps = 1.0e-2 : f64}
    : (tensor<?x37xf32>, tensor<37xf32>, tensor<37xf32>) -> tensor<?x37xf32>
  %s = coda.softmax %x : (tensor<?x37xf32>) -> tensor<?x37xf32>
  %max = coda.reduce %x {kind = "max"} : (tensor<?x37xf32>) -> tensor<?x1xf32>
  %mean = coda.reduce %x {kind = "mean"} : (tensor<?x37xf32>) -> tensor<?x1xf32>
  %lse = coda.reduce %x {kind = "lse"} : (tensor<?x37xf32>) -> tensor<?x1xf32>
  %ce, %held, %rest = coda.cross_entropy %x, %t {ignore_index = -100 : i64, reduction = "mean"}
    : (tensor<?x37xf32>, tensor<?xi64>) -> (tensor<f32>, tensor<?x1xf32>, tensor<?x1xf32>)
  %top, %ids = coda.topk %x {k = 5 : i64, dim = 1 : i64}
    : (tensor<?x37xf32>) -> (tensor<?x5xf32>, tensor<?x5xi64>)
  %at = coda.cast %ids : (tensor<?x5xi64>) -> tensor<?x5xf32>
  func.return %r, %l, %s, %max, %mean, %lse, %ce, %held, %top, %at : tensor<?x37xf32>,
    tensor<?x37xf32>, tensor<?x37xf32>, tensor<?x1xf32>, tensor<?x1xf32>, tensor<?x1xf32>,
    tensor<f32>, tensor<?x1xf32>, tensor<?x5xf32>, tensor<?x5xf32>
}
"""

WIDE_ROWS = """
func.func @f(%x: tensor<?x130xf32>) -> (tensor<?x5xf32>, tensor<?x5xf32>) {
  %top, %ids = coda.topk %x {k = 5 : i64, dim = 1 : i64}
    : (tensor<?x130xf32>) -> (tensor<?x5xf32>, tensor<?x5xi64>)
  %at = coda.cast %ids : (tensor<?x5xi64>) -> tensor<?x5xf32>
  func.return %top, %at : tensor<?x5xf32>, tensor<?x5xf32>
}
"""

ONLY_ROW = """
func.func @f(%x: tensor<1x37xf32>) -> (tensor<1x5xf32>, tensor<1x5xf32>) {
  %top, %ids = coda.topk %x {k = 5 : i64, dim = 1 : i64}
    : (tensor<1x37xf32>) -> (tensor<1x5xf32>, tensor<1x5xi64>)
  %at = coda.cast %ids : (tensor<1x5xi64>) -> tensor<1x5xf32>
  func.return %top, %at : tensor<1x5xf32>, tensor<1x5xf32>
}
"""

ROWS_IN_TURN = f"""
func.func @f(%x: tensor<1x40xf32>, %w: tensor<40x40xf32>) -> tensor<1x40xf32> {{
  %y = gemm.fused %x : tensor<1x40xf32>
      schedule<{ONE_ROW}>
      columns(%w : tensor<40x40xf32>) -> (tile : tensor<1x40xf32>) {{
  ^epilogue(%acc : f32):
    gemm.yield %acc : f32
  }} attributes {{coda.dependent}}
  %z = gemm.fused %y : tensor<1x40xf32>
      schedule<{ONE_ROW}>
      columns(%w : tensor<40x40xf32>) -> (tile : tensor<1x40xf32>) {{
  ^epilogue(%acc : f32):
    gemm.yield %acc : f32
  }} attributes {{coda.dependent, coda.ahead}}
  func.return %z : tensor<1x40xf32>
}}
"""

GROUPS = f"""
func.func @f(%x: tensor<?x24xf32>, %w: tensor<84x24xf32>)
    -> (tensor<?x84xf32>, tensor<?x7xf32>) {{
  %y, %s = gemm.fused %x : tensor<?x24xf32>
      schedule<{SMALL}>
      columns(%w : tensor<84x24xf32>)
      -> (tile : tensor<?x84xf32>, group<12> : tensor<?x7xf32>) {{
  ^epilogue(%acc : f32):
    %s = gemm.group_reduce max %acc over 12 : f32
    gemm.yield %acc, %s : f32, f32
  }}
  func.return %y, %s : tensor<?x84xf32>, tensor<?x7xf32>
}}
"""
"""Groups of 12 columns take 16 lanes, of which a tile has two groups; the last tile has one."""

PLACES = """
func.func @f(%x: tensor<?x24xf32>, %w: tensor<72x24xf32>, %v: tensor<36x24xf32>)
    -> tensor<?x9x12xf32> {
  %q = coda.linear %x, %w : (tensor<?x24xf32>, tensor<72x24xf32>) -> tensor<?x72xf32>
  %r = coda.linear %x, %v : (tensor<?x24xf32>, tensor<36x24xf32>) -> tensor<?x36xf32>
  %a = coda.reshape %q : (tensor<?x72xf32>) -> tensor<?x9x8xf32>
  %b = coda.reshape %r : (tensor<?x36xf32>) -> tensor<?x9x4xf32>
  %c = coda.concat %a, %b {dim = 2 : i64}
    : (tensor<?x9x8xf32>, tensor<?x9x4xf32>) -> tensor<?x9x12xf32>
  func.return %c : tensor<?x9x12xf32>
}
"""
"""Heads whose columns two GEMMs store, in runs of 8 and of 4."""

ROWS_OF_SAMPLES = """
func.func @f(%x: tensor<?x7x24xf32>, %y: tensor<?x2x24xf32>, %w: tensor<12x24xf32>)
    -> tensor<?x9x12xf32> {
  %a = coda.linear %x, %w : (tensor<?x7x24xf32>, tensor<12x24xf32>) -> tensor<?x7x12xf32>
  %b = coda.linear %y, %w : (tensor<?x2x24xf32>, tensor<12x24xf32>) -> tensor<?x2x12xf32>
  %c = coda.concat %b, %a {dim = 1 : i64}
    : (tensor<?x2x12xf32>, tensor<?x7x12xf32>) -> tensor<?x9x12xf32>
  func.return %c : tensor<?x9x12xf32>
}
"""

BYTES = """
func.func @f(%a: tensor<?x37xui8>, %b: tensor<?x37xi8>) -> (tensor<?x37xf32>, tensor<?x37xf32>) {
  %c = coda.constant {value = 100 : i64} : tensor<ui8>
  %s = coda.mul %a, %c : (tensor<?x37xui8>, tensor<ui8>) -> tensor<?x37xui8>
  %less = coda.compare %s, %c {relation = "lt"}
    : (tensor<?x37xui8>, tensor<ui8>) -> tensor<?x37xi1>
  %d = coda.constant {value = 127 : i64} : tensor<i8>
  %t = coda.sub %b, %d : (tensor<?x37xi8>, tensor<i8>) -> tensor<?x37xi8>
  %u = coda.sub %t, %d : (tensor<?x37xi8>, tensor<i8>) -> tensor<?x37xi8>
  %f = coda.cast %u : (tensor<?x37xi8>) -> tensor<?x37xf32>
  %g = coda.cast %less : (tensor<?x37xi1>) -> tensor<?x37xf32>
  func.return %g, %f : tensor<?x37xf32>, tensor<?x37xf32>
}
"""

POINTWISE = """
func.func @f(%x: tensor<?x?x37xf32> {coda.dims = ["B", "T", 37]},
             %p: tensor<?x37xf32> {coda.dims = ["T", 37]}, %g: tensor<37xf32>,
             %c: tensor<?x?x1xf32> {coda.dims = ["B", "T", 1]}) -> tensor<?x?x37xf32> {
  %a = coda.add %x, %p : (tensor<?x?x37xf32>, tensor<?x37xf32>) -> tensor<?x?x37xf32>
  %m = coda.mul %a, %g : (tensor<?x?x37xf32>, tensor<37xf32>) -> tensor<?x?x37xf32>
  %y = coda.sub %m, %c : (tensor<?x?x37xf32>, tensor<?x?x1xf32>) -> tensor<?x?x37xf32>
  func.return %y : tensor<?x?x37xf32>
}
"""

CHAIN = """
func.func @f(%x: tensor<?x24xf32>, %a: tensor<24x24xf32>, %b: tensor<24x24xf32>,
             %c: tensor<24x24xf32>, %d: tensor<24x24xf32>) -> tensor<?x24xf32> {
  %1 = coda.linear %x, %a : (tensor<?x24xf32>, tensor<24x24xf32>) -> tensor<?x24xf32>
  %2 = coda.linear %1, %b : (tensor<?x24xf32>, tensor<24x24xf32>) -> tensor<?x24xf32>
  %3 = coda.linear %2, %c : (tensor<?x24xf32>, tensor<24x24xf32>) -> tensor<?x24xf32>
  %s = coda.add %3, %1 : (tensor<?x24xf32>, tensor<?x24xf32>) -> tensor<?x24xf32>
  %4 = coda.linear %s, %d : (tensor<?x24xf32>, tensor<24x24xf32>) -> tensor<?x24xf32>
  func.return %4 : tensor<?x24xf32>
}
"""


VIEWS = """
func.func @f(%x: tensor<?x24xf32>, %u: tensor<32x24xf32>, %w: tensor<32x24xf32>,
             %v: tensor<32x32xf32>) -> (tensor<?x32xf32>, tensor<?x2x8xf32>, tensor<?x16xf32>) {
  %a = coda.linear %x, %u : (tensor<?x24xf32>, tensor<32x24xf32>) -> tensor<?x32xf32>
  %heads = coda.reshape %a : (tensor<?x32xf32>) -> tensor<?x4x8xf32>
  %part = coda.slice %heads {dim = 1 : i64, start = 1 : i64, stop = 3 : i64}
    : (tensor<?x4x8xf32>) -> tensor<?x2x8xf32>
  %flat = coda.reshape %part : (tensor<?x2x8xf32>) -> tensor<?x16xf32>
  %b = coda.linear %x, %w : (tensor<?x24xf32>, tensor<32x24xf32>) -> tensor<?x32xf32>
  %c = coda.linear %b, %v : (tensor<?x32xf32>, tensor<32x32xf32>) -> tensor<?x32xf32>
  %d = coda.linear %c, %v : (tensor<?x32xf32>, tensor<32x32xf32>) -> tensor<?x32xf32>
  %e = coda.exp %part : (tensor<?x2x8xf32>) -> tensor<?x2x8xf32>
  %n = coda.neg %flat : (tensor<?x16xf32>) -> tensor<?x16xf32>
  func.return %d, %e, %n : tensor<?x32xf32>, tensor<?x2x8xf32>, tensor<?x16xf32>
}
"""
"""A program whose last operator reads views of views of the first product."""


FACTORS = """
func.func @f(%x: tensor<?x48xf32>, %w: tensor<40x24xf32>) -> tensor<?x40xf32> {
  %a = coda.slice %x {dim = 1 : i64, start = 24 : i64, stop = 48 : i64}
    : (tensor<?x48xf32>) -> tensor<?x24xf32>
  %y = coda.linear %a, %w : (tensor<?x24xf32>, tensor<40x24xf32>) -> tensor<?x40xf32>
  func.return %y : tensor<?x40xf32>
}
"""
"""A range of columns that a product reads where they are."""


BROADCAST_RANGES = """
func.func @f(%x: tensor<?x?x?x32xf32> {coda.dims = ["B", "S", "T", 32]},
             %m: tensor<?x1x1x64xf32> {coda.dims = ["B", 1, 1, 64]},
             %p: tensor<?x1x?x64xf32> {coda.dims = ["B", 1, "T", 64]}) -> tensor<?x?x?x32xf32> {
  %a = coda.slice %m {dim = 3 : i64, start = 32 : i64, stop = 64 : i64}
    : (tensor<?x1x1x64xf32>) -> tensor<?x1x1x32xf32>
  %b = coda.slice %p {dim = 3 : i64, start = 0 : i64, stop = 32 : i64}
    : (tensor<?x1x?x64xf32>) -> tensor<?x1x?x32xf32>
  %y = coda.mul %x, %a : (tensor<?x?x?x32xf32>, tensor<?x1x1x32xf32>) -> tensor<?x?x?x32xf32>
  %z = coda.add %y, %b : (tensor<?x?x?x32xf32>, tensor<?x1x?x32xf32>) -> tensor<?x?x?x32xf32>
  func.return %z : tensor<?x?x?x32xf32>
}
"""
"""Ranges of columns that have other rows than the domain, which a kernel reads where they are:
those of samples, and those of two dimensions with another one between them."""


PERMUTED = """
func.func @f(%x: tensor<3x5x4x8xf32>) -> tensor<4x5x3x8xf32> {
  %t = coda.transpose %x {perm = [2 : i64, 1 : i64, 0 : i64, 3 : i64]}
    : (tensor<3x5x4x8xf32>) -> tensor<4x5x3x8xf32>
  %y = coda.silu %t : (tensor<4x5x3x8xf32>) -> tensor<4x5x3x8xf32>
  func.return %y : tensor<4x5x3x8xf32>
}
"""
"""Rows in another order, which a kernel reads where they are."""


NEIGHBOURS = """
func.func @f(%x: tensor<?x24xf32>, %w: tensor<64x24xf32>, %cos: tensor<?x16xf32>,
             %sin: tensor<?x16xf32>) -> tensor<?x64xf32> {
  %y = coda.linear %x, %w : (tensor<?x24xf32>, tensor<64x24xf32>) -> tensor<?x64xf32>
  %z = coda.rope %y, %cos, %sin {head_dim = 16 : i64, layout = "interleaved", per_column}
    : (tensor<?x64xf32>, tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x64xf32>
  func.return %z : tensor<?x64xf32>
}
"""
"""Tables with elements of their own for both columns of a pair, which a kernel loads together."""


PRODUCTS = """
func.func @f(%a: tensor<3x5x300xbf16>, %b: tensor<3x4x300xbf16>, %c: tensor<3x5x4xbf16>)
    -> (tensor<3x5x4xbf16>, tensor<3x5x300xbf16>) {
  %t = coda.transpose %b {perm = [0 : i64, 2 : i64, 1 : i64]}
    : (tensor<3x4x300xbf16>) -> tensor<3x300x4xbf16>
  %y = torch.call "aten.bmm.default"(%a, %t) {arguments = "{0}, {1}"}
    : (tensor<3x5x300xbf16>, tensor<3x300x4xbf16>) -> tensor<3x5x4xbf16>
  %z = torch.call "aten.bmm.default"(%c, %b) {arguments = "{0}, {1}"}
    : (tensor<3x5x4xbf16>, tensor<3x4x300xbf16>) -> tensor<3x5x300xbf16>
  func.return %y, %z : tensor<3x5x4xbf16>, tensor<3x5x300xbf16>
}
"""
"""Products of small matrices: of many terms, which tensor cores add up, and of few."""


COPIED = """
func.func @f(%x: tensor<3x5x4x8xf32>) -> tensor<3x8x4x5xf32> {
  %t = coda.transpose %x {perm = [0 : i64, 3 : i64, 2 : i64, 1 : i64]}
    : (tensor<3x5x4x8xf32>) -> tensor<3x8x4x5xf32>
  %y = coda.silu %t : (tensor<3x8x4x5xf32>) -> tensor<3x8x4x5xf32>
  func.return %y : tensor<3x8x4x5xf32>
}
"""
"""Columns in another place, which a kernel copies in tiles that it transposes."""


SAMPLES = """
func.func @f(%x: tensor<?x?x24xf32> {coda.dims = ["B", "T", 24]},
             %s: tensor<?x1x24xf32> {coda.dims = ["B", 1, 24]}, %w: tensor<40x24xf32>)
    -> (tensor<?x?x40xf32>, tensor<?x1x40xf32>) {
  %h = coda.layer_norm %x, %s, %s {eps = 1.0e-5 : f64}
    : (tensor<?x?x24xf32>, tensor<?x1x24xf32>, tensor<?x1x24xf32>) -> tensor<?x?x24xf32>
  %z = coda.linear %h, %w : (tensor<?x?x24xf32>, tensor<40x24xf32>) -> tensor<?x?x40xf32>
  %d = coda.sum_to %z : (tensor<?x?x40xf32>) -> tensor<?x1x40xf32>
  func.return %z, %d : tensor<?x?x40xf32>, tensor<?x1x40xf32>
}
"""
"""A norm with parameters of each sample, and sums over the rows of each."""


def _many_partials(axis: str, combiner: str) -> str:
    """A reduction of more partials than `gemm.finalize` reads at a time: of 1100 columns, or of
    rows, of which there are to be more than 512.
    """
    n, partials, total = 1100, "tensor<?x?xf32>", "tensor<?x1xf32>"
    if axis == "col":
        n, partials, total = 24, "tensor<?x24xf32>", "tensor<24xf32>"
    return f"""
func.func @f(%x: tensor<?x8xf32>, %w: tensor<{n}x8xf32>) -> {total} {{
  %p = gemm.fused %x : tensor<?x8xf32> schedule<{SMALL}> columns(%w : tensor<{n}x8xf32>)
      -> (partial_{axis}<{combiner}> : {partials}) {{
  ^epilogue(%acc : f32):
    gemm.yield %acc : f32
  }}
  %r = gemm.finalize {axis} ({combiner} %p : {partials}) -> ({total}) {{
  ^finalize(%t : f32):
    gemm.yield %t : f32
  }}
  func.return %r : {total}
}}
"""


def _signed_cases() -> dict[str, KernelCase]:
    """Reductions of numbers of one sign, which show an identity that is none."""
    rows = {"row": 19, "col": 530}
    return {
        f"many partials, {axis} {combiner}, {'negative' if sign < 0 else 'positive'}": KernelCase(
            _many_partials(axis, combiner), "", {"?": rows[axis]}, sign=sign
        )
        for axis, combiner in product(rows, ("add", "max", "lse"))
        for sign in (-1, 1)
    }


def _attention_cases() -> dict[str, KernelCase]:
    options = {
        "attention backward": "causal = true",
        "attention backward, window": "causal = false, window = 21 : i64",
        "attention backward, capped": "causal = true, softcap = 1.5 : f64",
        "attention backward, causal window": "causal = true, window = 17 : i64",
    }
    programs = {name: backward_of_attention(x) for name, x in options.items()}
    # Two tiles of keys, whose four heads of queries two programs share.
    programs["attention backward, split heads"] = backward_of_attention("causal = true", 30, 16)
    programs["attention backward, exact moment"] = backward_of_attention(
        "causal = true, softcap = 1.5 : f64", of_dq=", exact_moment"
    )
    padding = f"tensor<2x1x1x{KEYS}xi1>"
    programs["attention backward, padding"] = backward_of_attention("causal = false", mask=padding)
    programs["attention in parts"] = attention_in_parts(
        "causal = true, window = 3 : i64, softcap = 2.0 : f64"
    )
    programs["attention, capped"] = attention("causal = true, softcap = 1.5 : f64")
    programs["attention, window"] = attention("causal = false, window = 19 : i64")
    programs["attention, mask gradient"] = mask_gradient(
        "causal = true, softcap = 1.5 : f64", f"tensor<4x{QUERIES}x{KEYS}xf32>"
    )
    programs["attention, added"] = attention("causal = false", f"tensor<4x1x{KEYS}xf32>")
    return {name: KernelCase(text, TILES, {}) for name, text in programs.items()}


def _kernel_cases() -> dict[str, KernelCase | SimulatedCase | SimulatedAttention | EagerCase]:
    rows = {"?": 19}
    return {
        **HOPPER_CASES,
        "residual norm": KernelCase(programs.residual_norm("f32", 40, 72, SMALL), "", rows),
        "residual norm, kn": KernelCase(
            programs.residual_norm("f32", 40, 72, SMALL, "kn"), "", rows
        ),
        "residual norm, bf16": KernelCase(programs.residual_norm("bf16", 40, 72, SMALL), "", rows),
        "residual norm, parts": KernelCase(
            programs.residual_norm("f32", 24, 200, PARTS), "", {"?": 35}
        ),
        "residual norm, three parts": KernelCase(
            programs.residual_norm("f32", 40, 72, SMALL.replace("pointer", "three_parts")), "", rows
        ),
        "residual norm, many tiles": KernelCase(
            programs.residual_norm("f32", 24, 72, SMALL), "", {"?": 83}
        ),
        "two weights": KernelCase(programs.swiglu("f32", 40, 42, SMALL), "", rows),
        "halves": KernelCase(programs.swiglu("f32", 40, 42, SMALL, "halves, 12"), "", rows),
        "adjacent": KernelCase(programs.swiglu("f32", 40, 42, SMALL, "adjacent"), "", rows),
        "neighbours": KernelCase(NEIGHBOURS, FUSED, rows),
        "loss head": KernelCase(programs.lm_head("f32", 40, 70, SMALL), "", {"?": 83}),
        "head norm": KernelCase(
            programs.qkv_rope("f32", 24, 12, (5, 3), SMALL, norm=True), "", rows
        ),
        "split, chain": KernelCase(SPLIT_CHAIN, "", {"?": 35}),
        "split, two weights": KernelCase(
            programs.swiglu("f32", 40, 42, f"{SMALL}, split_k = 2"), "", rows
        ),
        "partial columns": KernelCase(PARTIAL_COLUMNS, "", {"?": 35}),
        "groups": KernelCase(GROUPS, "", {"?": 35}),
        "numbers of rows": KernelCase(NUMBERS_OF_ROWS, "", {"?": 7}),
        "moved rows": KernelCase(
            programs.moved_rows("f32", 40, 42, SMALL, rows="gather scatter", groups=3), "", rows
        ),
        "numbered rows": KernelCase(
            programs.numbered_rows("f32", 40, 21, ONE_ROW, summed=True), "", rows
        ),
        "rows in turn": KernelCase(ROWS_IN_TURN, "", {}),
        "summed rows": KernelCase(
            programs.summed_rows("f32", 21, 42, 3, SMALL, gather="weights"), "", rows
        ),
        "places": KernelCase(PLACES, FUSED, {"?": 35}),
        "rows of samples": KernelCase(ROWS_OF_SAMPLES, FUSED, {"?": 5}),
        "bytes": KernelCase(BYTES, FUSED, rows),
        "joined weights": KernelCase(JOINED_WEIGHTS, "", {"?": 115}),
        "loss": KernelCase(LOSS, FUSED, rows),
        "layer norm": KernelCase(NORM_OF_MAXIMA, FUSED, rows),
        "packed weights": KernelCase(PACKED, "", {}),
        "rows": KernelCase(ROWS, TILES, {"?": 67}),
        "wide rows": KernelCase(WIDE_ROWS, "", {"?": 7}),
        "an only row": KernelCase(ONLY_ROW, TILES, {}),
        "pointwise": KernelCase(POINTWISE, FUSED, {"B": 3, "T": 23}, are_strided=True),
        "chain": KernelCase(CHAIN, FUSED, rows, are_strided=True),
        "factors": KernelCase(FACTORS, FUSED, rows),
        "broadcast ranges": KernelCase(BROADCAST_RANGES, FUSED, {"B": 3, "S": 2, "T": 7}),
        "permuted rows": KernelCase(PERMUTED, FUSED, {}),
        "copied tiles": KernelCase(COPIED, FUSED, {}),
        "small products": KernelCase(PRODUCTS, FUSED, {}),
        "samples": KernelCase(SAMPLES, FUSED, {"B": 5, "T": 23}),
        "views of views": KernelCase(VIEWS, FUSED, rows),
        "combined partials": KernelCase(programs.scaled_rows("add", 5, SMALL), "", rows),
        "combined logarithms": KernelCase(programs.scaled_rows("lse", 5, PARTS), "", rows),
        "blocks": KernelCase(scaled_blocks(FLOAT8, k=144, n=140, depth=64, columns=32), "", rows),
        "blocks, two weights": KernelCase(gated_blocks(FLOAT8, "two weights", k=144), "", rows),
        "one query, shared keys": KernelCase(
            OneQuery(
                batch=2, heads=(4, 2), keys=551, mask="Bx4x1xSxi1", options="enable_gqa=True"
            ).text,
            TILES,
            {},
        ),
        "one query, added numbers": KernelCase(OneQuery(mask="1xSxf32").text, TILES, {}),
        **_signed_cases(),
        **{f"eager bits of {name}": EagerCase(name) for name in OPERATORS},
        **_attention_cases(),
        "llama layer": KernelCase(
            EXAMPLES / "llama_layer.coda",
            FUSED,
            {"B": 2, "T": 5},
            {"D": 32, "F": 48, "HEAD": 8, "HEADS": 4, "KV_HEADS": 2},
        ),
    }


KERNEL_CASES = _kernel_cases()


def kernel_checks() -> dict[str, Check]:
    return {name: case.check for name, case in KERNEL_CASES.items()}
