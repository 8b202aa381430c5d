"""Legality of norms and of pointwise fusion: each legal case and each refusal, IR unchanged."""

import pytest
from support.legality import (
    EXP_KERNEL,
    PARAMETERS,
    TILE,
    Function,
    binary,
    gemm,
    linear,
    refused,
    rms_norm,
    unary,
)
from support.programs import parse_mlir
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from coda_ir.passes.support.editing import Site
from coda_ir.passes.support.function_pass import Refusal
from coda_ir.passes.support.legality import (
    NO_PRODUCER,
    check_norm_input,
    find_site,
    is_tilewise,
    name_of,
    static_columns,
)
from coda_ir.passes.support.matching import Norm
from coda_ir.passes.support.norm_deferral import NormDeferral, check_norm_consumers
from coda_ir.passes.support.order import BlockOrder


def test_name_of():
    function = Function(PARAMETERS, unary("z", "exp", "x"))
    assert name_of(function["z"]) == "%z"
    z = function["z"]
    z.name_hint = None
    assert name_of(z) == "a result of coda.exp"
    assert isinstance(z.owner, Operation)
    z.owner.location = FileLineColLoc(StringAttr("f.coda"), IntAttr(2), IntAttr(3))
    assert name_of(z) == "a result of coda.exp at f.coda:2:3"
    function.block.args[0].name_hint = None
    assert name_of(function.block.args[0]) == "an argument"


@pytest.mark.parametrize(
    ("line", "tilewise"),
    [
        (linear("z", "x"), True),
        (unary("z", "exp", "x"), True),
        (gemm("%z"), True),
        (EXP_KERNEL.replace("%m", "%z"), True),
        (unary("z", "softmax", "x"), False),
        (rms_norm("z", "x"), False),
        (gemm("%z", types="partial_row<add> : tensor<?x?xf32>"), False),
    ],
)
def test_is_tilewise(line: str, tilewise: bool):
    function = Function(PARAMETERS, line)
    assert function.ask(lambda: is_tilewise(function["z"])) == tilewise


def test_argument_is_not_tilewise():
    function = Function(PARAMETERS)
    assert not is_tilewise(function["x"])


# Norms


def norm_consumers(function: Function) -> NormDeferral | Refusal:
    norm = function.op("n")
    assert isinstance(norm, Norm)
    return function.ask(lambda: check_norm_consumers(norm, function.order))


def test_norm_input():
    function = Function(PARAMETERS, linear("z", "x"), rms_norm("n", "z"))
    assert function.ask(lambda: check_norm_input(function["z"])) is None


def test_norm_of_an_argument():
    function = Function(PARAMETERS, rms_norm("n", "x"))
    refusal = refused(function.ask(lambda: check_norm_input(function["x"])))
    assert refusal.condition == (
        "a GEMM or pointwise code in the same function computes the norm's input"
    )
    assert refusal.found.endswith("%x is an argument of the function")
    assert refusal.suggestion == "compute the norm's input in the same function"


def test_norm_of_an_operator_without_tiles():
    function = Function(PARAMETERS, unary("s", "softmax", "x"), rms_norm("n", "s"))
    refusal = refused(function.ask(lambda: check_norm_input(function["s"])))
    assert refusal.found.endswith("%s comes from coda.softmax, which no GEMM computes")
    assert refusal.suggestion is None


NOT_DEFERRED = "the norm is not deferred: {}, so the norm must be stored"


def test_norm_consumers_in_order():
    function = Function(
        PARAMETERS, rms_norm("n", "x"), linear("a", "n"), linear("b", "n", "v"), linear("c", "x")
    )
    verdict = norm_consumers(function)
    assert isinstance(verdict, NormDeferral)
    assert verdict.consumers == (function.op("a"), function.op("b"))


def test_norm_without_consumers():
    function = Function(PARAMETERS, rms_norm("n", "x"))
    assert norm_consumers(function) == NormDeferral(())


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (unary("a", "silu", "n"), "coda.silu uses it"),
        (
            f"%a = coda.matmul %n, %n : ({TILE}, {TILE}) -> {TILE}",
            "coda.matmul uses it",
        ),
    ],
)
def test_norm_with_another_consumer(line: str, found: str):
    function = Function(PARAMETERS, rms_norm("n", "x"), linear("b", "n"), line)
    verdict = norm_consumers(function)
    assert refused(verdict).found == NOT_DEFERRED.format(found)


def test_norm_in_float16():
    norm = "%n = coda.rms_norm %x, %g {eps = 1.0e-6 : f64} : (tensor<?x8xf16>, tensor<8xf16>) -> "
    function = Function(
        "%x: tensor<?x8xf16>, %g: tensor<8xf16>, %w: tensor<8x8xf16>",
        norm + "tensor<?x8xf16>",
        linear("a", "n").replace("f32", "f16"),
    )
    verdict = norm_consumers(function)
    assert refused(verdict).condition == "the element type has the range of float32"


def test_norm_without_weight_in_float16():
    """Its input is there already, in the range of float16."""
    function = Function(
        "%x: tensor<?x8xf16>, %w: tensor<8x8xf16>",
        *(line.replace("f32", "f16") for line in (rms_norm("n", "x"), linear("a", "n"))),
    )
    verdict = norm_consumers(function)
    assert isinstance(verdict, NormDeferral)
    assert verdict.consumers == (function.op("a"),)


def test_norm_that_is_returned():
    module = parse_mlir(
        f"func.func @f(%x: {TILE}) -> {TILE} {{\n{rms_norm('n', 'x')}\nfunc.return %n : {TILE}\n}}"
    )
    (function,) = module.ops
    assert isinstance(function, FuncOp)
    norm = function.body.block.first_op
    assert isinstance(norm, Norm)
    verdict = check_norm_consumers(norm, BlockOrder(function.body.block))
    assert refused(verdict).found == NOT_DEFERRED.format("it is returned")


def test_static_columns():
    function = Function("%x: tensor<?x8xf32>, %s: tensor<8x?xf32>")
    assert static_columns(function["x"]) == 8
    refusal = refused(static_columns(function["s"]))
    assert refusal.condition == "the number of columns is static"
    assert "%s has a symbolic number of columns" in refusal.found


# Sites of pointwise operators


def test_site_of_a_gemm():
    function = Function(PARAMETERS, gemm("%z"), binary("a", "add", "y", "z"))
    site = function.ask(lambda: find_site(function.op("a"), function.order))
    assert site == Site(function.op("z"), 0, 0, False)  # pyright: ignore[reportArgumentType]


def test_site_is_the_latest():
    function = Function(
        PARAMETERS, gemm("%z"), EXP_KERNEL, gemm("%t", x="y"), binary("a", "add", "z", "t")
    )
    site = function.ask(lambda: find_site(function.op("a"), function.order))
    assert isinstance(site, Site) and site.op is function.op("t")


def test_site_before_a_dependent_one():
    """The tile of the later GEMM is not complete in time for the earlier one, but vice versa."""
    function = Function(
        PARAMETERS, gemm("%z"), gemm("%t", x="z", weights="%v : tensor<8x8xf32>"),
        binary("a", "add", "z", "t"),
    )  # fmt: skip
    site = function.ask(lambda: find_site(function.op("a"), function.order))
    assert isinstance(site, Site) and site.op is function.op("t")


def test_site_of_a_half_result():
    half = "tensor<?x4xf32>"
    function = Function(
        PARAMETERS,
        gemm("%z, %h", mode="pair<halves>", arguments="%a: f32, %b: f32",
             types=f"tile : {TILE}, half : {half}", yields="%a, %b, %a : f32, f32, f32"),
        f"%s = coda.silu %h : ({half}) -> {half}",
    )  # fmt: skip
    site = function.ask(lambda: find_site(function.op("s"), function.order))
    assert isinstance(site, Site) and (site.result, site.is_half) == (1, True)


def test_no_producer():
    function = Function(PARAMETERS, binary("a", "add", "x", "y"))
    assert function.ask(lambda: find_site(function.op("a"), function.order)) is NO_PRODUCER


def test_operand_depends_on_the_same_kernel():
    function = Function(
        PARAMETERS, gemm("%z"), unary("s", "softmax", "z"), binary("a", "add", "z", "s")
    )
    refusal = refused(function.ask(lambda: find_site(function.op("a"), function.order)))
    assert refusal.condition == "no other operand depends on that kernel"


def test_result_larger_than_the_tile():
    function = Function(
        "%x: tensor<1x8xf32>, %w: tensor<8x8xf32>, %y: tensor<?x8xf32>",
        gemm("%z", types="tile : tensor<1x8xf32>").replace(TILE, "tensor<1x8xf32>"),
        f"%a = coda.add %z, %y : (tensor<1x8xf32>, {TILE}) -> {TILE}",
    )
    refusal = refused(function.ask(lambda: find_site(function.op("a"), function.order)))
    assert refusal.condition == "the consumer has the shape of the producer's tile"
    assert "?x8" in refusal.found


# Norms of heads
