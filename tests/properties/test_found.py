"""Findings of random programs: each program that failed once, reduced."""

import pytest
from generator.case import Case
from generator.choices import SeededChoices
from generator.emitted import check_emitted
from generator.gradients import check_gradients
from generator.lowering import check_every_pass, check_idempotent, lower_to_gemm, schedule
from generator.program import Program
from generator.rounding import Rounding, check_stated
from support.programs import parse_mlir

SCALAR_CODE = """
func.func @f(%x: tensor<8xbf16>) -> tensor<8xbf16> {
  %c = coda.constant {value = 0.5 : f64} : tensor<bf16>
  %a = coda.abs %c : (tensor<bf16>) -> tensor<bf16>
  %s = coda.softmax %x : (tensor<8xbf16>) -> tensor<8xbf16>
  %y = coda.mul %s, %a : (tensor<8xbf16>, tensor<bf16>) -> tensor<8xbf16>
  %n = coda.rms_norm %y {eps = 1.0e-6 : f64} : (tensor<8xbf16>) -> tensor<8xbf16>
  func.return %n, %a : tensor<8xbf16>, tensor<bf16>
}
""".replace("-> tensor<8xbf16> {", "-> (tensor<8xbf16>, tensor<bf16>) {", 1)
"""The shape rule of a map over one element raised."""

SCALED_HEADS = """
func.func @f(%x: tensor<5x8xf32>, %w: tensor<16x8xf32>, %cos: tensor<5x2xf32>,
             %sin: tensor<5x2xf32>) -> tensor<5x16xf32> {
  %z = coda.linear %x, %w : (tensor<5x8xf32>, tensor<16x8xf32>) -> tensor<5x16xf32>
  %n = coda.rms_norm %z {eps = 1.0e-6 : f64, group = 4 : i64}
    : (tensor<5x16xf32>) -> tensor<5x16xf32>
  %c = coda.constant {value = 3.0 : f64} : tensor<f32>
  %s = coda.mul %n, %c : (tensor<5x16xf32>, tensor<f32>) -> tensor<5x16xf32>
  %y = coda.rope %s, %cos, %sin {head_dim = 4 : i64, layout = "half_split"}
    : (tensor<5x16xf32>, tensor<5x2xf32>, tensor<5x2xf32>) -> tensor<5x16xf32>
  func.return %y : tensor<5x16xf32>
}
"""
"""Code between the norm of heads and the rotation kept the rotation out of the GEMM."""

NORM_OF_ROTATED = """
func.func @f(%x: tensor<5x8xf32>, %w: tensor<4x8xf32>, %cos: tensor<5x2xf32>,
             %sin: tensor<5x2xf32>, %gamma: tensor<4xf32>, %v: tensor<8x4xf32>) -> tensor<5x8xf32> {
  %z = coda.linear %x, %w : (tensor<5x8xf32>, tensor<4x8xf32>) -> tensor<5x4xf32>
  %y = coda.rope %z, %cos, %sin {head_dim = 4 : i64, layout = "half_split"}
    : (tensor<5x4xf32>, tensor<5x2xf32>, tensor<5x2xf32>) -> tensor<5x4xf32>
  %n = coda.rms_norm %y, %gamma {eps = 1.0e-6 : f64}
    : (tensor<5x4xf32>, tensor<4xf32>) -> tensor<5x4xf32>
  %o = coda.linear %n, %v : (tensor<5x4xf32>, tensor<8x4xf32>) -> tensor<5x8xf32>
  func.return %o : tensor<5x8xf32>
}
"""
"""A norm of what is rotated on chip was taken for one of a tensor in memory."""

NORM_OF_NANS = """
func.func @f(%x: tensor<5x8xf32>, %w: tensor<4x8xf32>) -> tensor<5x4xf32> {
  %a = coda.abs %x : (tensor<5x8xf32>) -> tensor<5x8xf32>
  %m = coda.neg %a : (tensor<5x8xf32>) -> tensor<5x8xf32>
  %r = coda.sqrt %m : (tensor<5x8xf32>) -> tensor<5x8xf32>
  %n = coda.layer_norm %r {eps = 1.0e-5 : f64} : (tensor<5x8xf32>) -> tensor<5x8xf32>
  %y = coda.linear %n, %w : (tensor<5x8xf32>, tensor<4x8xf32>) -> tensor<5x4xf32>
  func.return %y : tensor<5x4xf32>
}
"""
"""The measure of rounding errors, a part of the checks, raised where no row of a norm is finite."""
NORM_OF_ONE_COLUMN = """
func.func @f(%x: tensor<5x1xbf16>, %w: tensor<1x1xbf16>, %v: tensor<8x1xbf16>,
             %u: tensor<8x8xbf16>) -> tensor<5x8xbf16> {
  %z = coda.matmul %x, %w : (tensor<5x1xbf16>, tensor<1x1xbf16>) -> tensor<5x1xbf16>
  %n = coda.layer_norm %z {eps = 1.0e-2 : f64} : (tensor<5x1xbf16>) -> tensor<5x1xbf16>
  %y = coda.linear %n, %v : (tensor<5x1xbf16>, tensor<8x1xbf16>) -> tensor<5x8xbf16>
  %s = coda.rms_norm %y {eps = 1.0e-6 : f64} : (tensor<5x8xbf16>) -> tensor<5x8xbf16>
  %o = coda.linear %s, %u : (tensor<5x8xbf16>, tensor<8x8xbf16>) -> tensor<5x8xbf16>
  func.return %o : tensor<5x8xbf16>
}
"""
"""The norm is 0: the checks compared rounding errors with nothing."""
TABLE_OF_ONE_ROW = """
func.func @f(%x: tensor<?x8xbf16> {coda.dims = ["M", 8]}, %w: tensor<16x8xbf16>,
             %v: tensor<16x8xbf16>, %t: tensor<1x16xbf16>) -> tensor<?x16xbf16> {
  %a = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %b = coda.linear %x, %v : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %c = coda.mul %b, %t : (tensor<?x16xbf16>, tensor<1x16xbf16>) -> tensor<?x16xbf16>
  %y = coda.mul %a, %c : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %y : tensor<?x16xbf16>
}
"""
"""Kernels read the one row of the table as if it had M, past its end."""

NORM_OF_HEADS_AND_A_VIEW = """
func.func @f(%x: tensor<?x8xbf16> {coda.name = "x", coda.dims = ["M", 8]},
             %g: tensor<4xbf16> {coda.name = "g"}) -> tensor<?x8xbf16> {
  %h = coda.reshape %x : (tensor<?x8xbf16>) -> tensor<?x2x4xbf16>
  %n = coda.rms_norm %h, %g {eps = 1.0e-6 : f64}
    : (tensor<?x2x4xbf16>, tensor<4xbf16>) -> tensor<?x2x4xbf16>
  %y = coda.reshape %n : (tensor<?x2x4xbf16>) -> tensor<?x8xbf16>
  func.return %y : tensor<?x8xbf16>
}
"""
"""Fusing code on heads erased the view of the heads that the forward had as well."""
NORM_OF_A_ROW = """
func.func @f(%x: tensor<5x8xbf16> {coda.name = "x"}, %g: tensor<8xbf16> {coda.name = "g"},
             %b: tensor<8xbf16> {coda.name = "b"}) -> tensor<5x8xbf16> {
  %y = coda.layer_norm %x, %g, %b {eps = 1.0e-6 : f64}
    : (tensor<5x8xbf16>, tensor<8xbf16>, tensor<8xbf16>) -> tensor<5x8xbf16>
  func.return %y : tensor<5x8xbf16>
}
"""
"""Two pieces of code on whole rows shared operators, and both were rewritten."""

RESHAPED_AND_TRANSPOSED = """
func.func @f(%x: tensor<?x?x8xbf16>) -> tensor<4x?x?x2xbf16> {
  %r = coda.reshape %x : (tensor<?x?x8xbf16>) -> tensor<?x?x4x2xbf16>
  %t = coda.transpose %r {perm = [2 : i64, 0 : i64, 1 : i64, 3 : i64]}
    : (tensor<?x?x4x2xbf16>) -> tensor<4x?x?x2xbf16>
  func.return %t : tensor<4x?x?x2xbf16>
}
"""
"""The gradient has other strides than the argument, and was viewed where it had to be reshaped. The
derivation left an operator outside of the function that used the gradient, too.
"""

INFINITE_SCALE = """
func.func @f(%x: tensor<?x8xf32> {coda.dims = ["M", 8]}, %w: tensor<16x8xf32>,
             %a: tensor<2x8xf32>, %b: tensor<16x2xf32>) -> tensor<?x16xf32> {
  %s = coda.constant {value = 0xfff0000000000000 : f64} : tensor<f32>
  %z = coda.linear %x, %w : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  %t = coda.linear %x, %a : (tensor<?x8xf32>, tensor<2x8xf32>) -> tensor<?x2xf32>
  %u = coda.linear %t, %b : (tensor<?x2xf32>, tensor<16x2xf32>) -> tensor<?x16xf32>
  %su = coda.mul %u, %s : (tensor<?x16xf32>, tensor<f32>) -> tensor<?x16xf32>
  %y = coda.add %z, %su : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  func.return %y : tensor<?x16xf32>
}
"""
"""Moved to the terms of the product, the scale made infinities of both signs, and NaN of them."""

BOUND_OF_NAN = """
func.func @f(%x: tensor<5x8xbf16>, %w: tensor<4x8xbf16>) -> tensor<5x4xbf16> {
  %c = coda.constant {value = 0x7ff8000000000000 : f64} : tensor<bf16>
  %z = coda.linear %x, %w : (tensor<5x8xbf16>, tensor<4x8xbf16>) -> tensor<5x4xbf16>
  %y = coda.minimum %z, %c : (tensor<5x4xbf16>, tensor<bf16>) -> tensor<5x4xbf16>
  func.return %y : tensor<5x4xbf16>
}
"""
"""Every result is NaN, of the reference backend (a clamp) as of an epilogue (a minimum)."""

NORM_BEFORE_A_PRODUCT_OF_ACTIVATIONS = """
func.func @f(%x: tensor<8xf32>, %g: tensor<8xf32>, %b: tensor<8xf32>, %u: tensor<4xf32>,
             %w: tensor<4x8xf32>) -> (tensor<8xf32>, tensor<4x8xf32>) {
  %h = coda.layer_norm %x, %g, %b {eps = 1.0e-6 : f64}
    : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %y = coda.matmul %u, %w : (tensor<4xf32>, tensor<4x8xf32>) -> tensor<8xf32>
  %p = coda.weight_gradient %u, %h : (tensor<4xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  func.return %y, %p : tensor<8xf32>, tensor<4x8xf32>
}
"""
"""A row sum took in the gradient of the other factor, which was added up later."""

NORM_OF_NARROW_HEADS = """
func.func @f(%x: tensor<?x?x?x4xbf16>, %w: tensor<8x4xbf16> {coda.weight}) -> tensor<?x?x?x8xbf16> {
  %y = coda.linear %x, %w : (tensor<?x?x?x4xbf16>, tensor<8x4xbf16>) -> tensor<?x?x?x8xbf16>
  %z = coda.rms_norm %y {eps = 0.1, group = 4}
    : (tensor<?x?x?x8xbf16>) -> tensor<?x?x?x8xbf16>
  func.return %z : tensor<?x?x?x8xbf16>
}
"""
"""A float32 gradient took the shape of a narrower tensor, whose extents have no names, and with it
its type.
"""

DIFFERENTIATED = {
    "norm before a product of activations": NORM_BEFORE_A_PRODUCT_OF_ACTIVATIONS,
    "reshaped and transposed": RESHAPED_AND_TRANSPOSED,
    "norm of heads and a view": NORM_OF_HEADS_AND_A_VIEW,
    "norm of a row": NORM_OF_A_ROW,
    "norm of narrow heads": NORM_OF_NARROW_HEADS,
}

LOSS_OF_ONE_ROW = """
func.func @f(%x: tensor<8xf16>, %w: tensor<130x8xf16>, %target: tensor<i32>) -> tensor<f32> {
  %y = coda.linear %x, %w : (tensor<8xf16>, tensor<130x8xf16>) -> tensor<130xf32>
  %loss = coda.cross_entropy %y, %target {ignore_index = -100, reduction = "sum"}
    : (tensor<130xf32>, tensor<i32>) -> tensor<f32>
  func.return %loss : tensor<f32>
}
"""
"""Emission asked for the number of columns of results without dimensions."""

TRANSPOSED_GROUPS = """
func.func @f(%x: tensor<?x8xf32> {coda.dims = ["M", 8 : i64]}, %ends: tensor<4xi32>,
             %y: tensor<?x20xf32> {coda.dims = ["M", 20 : i64]}, %s: tensor<4x8x1xf32>)
    -> tensor<20x4x8xf32> {
  %w = gemm.fused transposed %x : tensor<?x8xf32> groups(%ends : tensor<4xi32>)
    columns(%y : tensor<?x20xf32>) kn group(%s : tensor<4x8x1xf32>)
      -> (tile_t : tensor<20x4x8xf32>) {
    ^bb0(%acc: f32, %scale: f32):
      %0 = arith.mulf %acc, %scale : f32
      gemm.yield %0 : f32
    }
  func.return %w : tensor<20x4x8xf32>
}
"""
"""A transposed tile of the gradients of experts' weights, and elements of groups of columns beside
them, had the rows of one expert."""

PROGRAMS = {
    "bound of NaN": BOUND_OF_NAN,
    "infinite scale": INFINITE_SCALE,
    "scalar code": SCALAR_CODE,
    "scaled heads": SCALED_HEADS,
    "norm of rotated": NORM_OF_ROTATED,
    "norm of NaNs": NORM_OF_NANS,
    "norm of one column": NORM_OF_ONE_COLUMN,
    "table of one row": TABLE_OF_ONE_ROW,
    "loss of one row": LOSS_OF_ONE_ROW,
    "transposed groups": TRANSPOSED_GROUPS,
}


@pytest.mark.slow
@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_found(text: str):
    case = Case(Program(parse_mlir(text), {"M": 300}))
    check_every_pass(case)
    lowered = lower_to_gemm(case)
    check_idempotent(case, lowered)
    rounding = Rounding(case)
    check_stated(rounding, lowered, "GEMM level")
    check_emitted(case, rounding, schedule(case, lowered, "interpreter"))
    assert not case.notes, "refused by the backend, or a second run finds more to do"


@pytest.mark.slow
@pytest.mark.parametrize("text", DIFFERENTIATED.values(), ids=DIFFERENTIATED)
@pytest.mark.parametrize("seed", range(2))
def test_found_in_gradients(text: str, seed: int):
    check_gradients(Case(Program(parse_mlir(text), {"M": 300})), SeededChoices(seed))
