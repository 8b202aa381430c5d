"""Legality: each question with what is legal and every refusal; the IR stays as it is."""

from collections.abc import Callable
from typing import TypeVar

import pytest
from support.programs import parse_mlir
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.gemm import FusedOp, MapOp, PairingAttr
from coda_ir.passes.legality import (
    NO_PRODUCER,
    NormDeferral,
    check_cross_entropy,
    check_norm_consumers,
    check_norm_input,
    check_pairing,
    check_qk_norm,
    find_site,
    is_tilewise,
    name_of,
    pair_of_siblings,
    static_columns,
)
from coda_ir.passes.support.editing import Site
from coda_ir.passes.support.function_pass import Refusal
from coda_ir.passes.support.order import BlockOrder

Answer = TypeVar("Answer")


class Function:
    """The body of a function of one block, its values by name, and a check that it stays as is."""

    def __init__(self, parameters: str, *lines: str):
        body = "\n".join(lines)
        self.module = parse_mlir(f"func.func @f({parameters}) {{\n{body}\nfunc.return\n}}")
        (function,) = self.module.ops
        assert isinstance(function, FuncOp)
        self.block = function.body.block
        self.order = BlockOrder(self.block)

    def __getitem__(self, name: str) -> SSAValue:
        values = [*self.block.args, *(value for op in self.block.ops for value in op.results)]
        return next(value for value in values if value.name_hint == name)

    def op(self, name: str) -> Operation:
        owner = self[name].owner
        assert isinstance(owner, Operation)
        return owner

    def ask(self, question: Callable[[], Answer]) -> Answer:
        """The answer to a question that must not change anything."""
        before = str(self.module)
        answer = question()
        assert str(self.module) == before
        return answer


def refused(answer: object) -> Refusal:
    assert isinstance(answer, Refusal), answer
    return answer


TILE = "tensor<?x8xf32>"
PARAMETERS = f"%x: {TILE}, %y: {TILE}, %w: tensor<8x8xf32>, %v: tensor<8x8xf32>"


def gemm(
    result: str,
    *,
    x: str = "x",
    weights: str = "%w : tensor<8x8xf32>",
    mode: str = "",
    ports: str = "",
    types: str = f"tile : {TILE}",
    arguments: str = "%a: f32",
    code: str = "",
    yields: str = "%a : f32",
) -> str:
    """A GEMM of 8 columns, of which every part can be replaced."""
    return f"""
        {result} = gemm.fused %{x} : {TILE} columns({weights}) {mode} {ports} -> ({types}) {{
        ^bb0({arguments}):
          {code}
          gemm.yield {yields}
        }}"""


PAIR = {"arguments": "%a: f32, %b: f32", "yields": "%a, %b : f32, f32"}

EXP_KERNEL = f"""
    %m = gemm.map tile(%x : {TILE}) -> (tile : {TILE}) {{
    ^bb0(%a: f32):
      %e = math.exp %a : f32
      gemm.yield %e : f32
    }}"""


def unary(result: str, operator: str, operand: str) -> str:
    return f"%{result} = coda.{operator} %{operand} : ({TILE}) -> {TILE}"


def binary(result: str, operator: str, a: str, b: str) -> str:
    return f"%{result} = coda.{operator} %{a}, %{b} : ({TILE}, {TILE}) -> {TILE}"


def rms_norm(result: str, x: str) -> str:
    return f"%{result} = coda.rms_norm %{x} {{eps = 1.0e-6 : f64}} : ({TILE}) -> {TILE}"


def linear(result: str, x: str, weight: str = "w") -> str:
    return f"%{result} = coda.linear %{x}, %{weight} : ({TILE}, tensor<8x8xf32>) -> {TILE}"


# Names and tiles


def test_name_of():
    function = Function(PARAMETERS, unary("z", "exp", "x"))
    assert name_of(function["z"]) == "%z"
    function["z"].name_hint = None
    assert name_of(function.block.first_op.results[0]) == "a result of coda.exp"  # pyright: ignore
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


def test_norm_input():
    function = Function(PARAMETERS, linear("z", "x"), rms_norm("n", "z"))
    assert function.ask(lambda: check_norm_input(function.op("n"), function["z"])) is None


def test_norm_of_an_argument():
    function = Function(PARAMETERS, rms_norm("n", "x"))
    refusal = refused(function.ask(lambda: check_norm_input(function.op("n"), function["x"])))
    assert refusal.condition == (
        "the input of the norm is computed by a GEMM (or pointwise) in the same function"
    )
    assert refusal.found.endswith("%x is an argument of the function")
    assert refusal.suggestion == "put the producer of the input and the norm into one function"


def test_norm_of_an_operator_without_tiles():
    function = Function(PARAMETERS, unary("s", "softmax", "x"), rms_norm("n", "s"))
    refusal = refused(function.ask(lambda: check_norm_input(function.op("n"), function["s"])))
    assert refusal.found.endswith("%s comes from coda.softmax")


def test_norm_consumers_in_order():
    function = Function(
        PARAMETERS, rms_norm("n", "x"), linear("a", "n"), linear("b", "n", "v"), linear("c", "x")
    )
    verdict = function.ask(lambda: check_norm_consumers(function.op("n"), function.order))
    assert isinstance(verdict, NormDeferral)
    assert verdict.consumers == (function.op("a"), function.op("b"))


def test_norm_without_consumers():
    function = Function(PARAMETERS, rms_norm("n", "x"))
    assert check_norm_consumers(function.op("n"), function.order) == NormDeferral(())


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
    verdict = function.ask(lambda: check_norm_consumers(function.op("n"), function.order))
    assert refused(verdict).found == f"the norm is not deferred: {found}"


def test_norm_in_float16():
    function = Function(
        "%x: tensor<?x8xf16>, %w: tensor<8x8xf16>",
        *(line.replace("f32", "f16") for line in (rms_norm("n", "x"), linear("a", "n"))),
    )
    verdict = function.ask(lambda: check_norm_consumers(function.op("n"), function.order))
    assert refused(verdict).condition == "the element type has the range of float32"


def test_norm_that_is_returned():
    module = parse_mlir(
        f"func.func @f(%x: {TILE}) -> {TILE} {{\n{rms_norm('n', 'x')}\nfunc.return %n : {TILE}\n}}"
    )
    (function,) = module.ops
    assert isinstance(function, FuncOp)
    norm = function.body.block.first_op
    assert norm is not None
    verdict = check_norm_consumers(norm, BlockOrder(function.body.block))
    assert refused(verdict).found == "the norm is not deferred: it is returned"


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
    assert refusal.condition == "no other operand depends on the same kernel"


def test_result_larger_than_the_tile():
    function = Function(
        "%x: tensor<1x8xf32>, %w: tensor<8x8xf32>, %y: tensor<?x8xf32>",
        gemm("%z", types="tile : tensor<1x8xf32>").replace(TILE, "tensor<1x8xf32>"),
        f"%a = coda.add %z, %y : (tensor<1x8xf32>, {TILE}) -> {TILE}",
    )
    refusal = refused(function.ask(lambda: find_site(function.op("a"), function.order)))
    assert refusal.condition == "the consumer has the shape of the producer's tile"
    assert "?x8" in refusal.found


def test_broadcast_in_the_middle():
    tile = "tensor<?x4x8xf32>"
    function = Function(
        f"%x: {tile}, %w: tensor<8x8xf32>, %m: tensor<?x1x8xf32>",
        gemm("%z").replace(TILE, tile),
        f"%a = coda.add %z, %m : ({tile}, tensor<?x1x8xf32>) -> {tile}",
    )
    refusal = refused(function.ask(lambda: find_site(function.op("a"), function.order)))
    assert refusal.condition == "every operand broadcasts along whole rows or columns"
    assert refusal.found.startswith("%m of shape ?x1x8")


# Norms of heads


def head_norm(weight: str | None = None, group: int = 4) -> str:
    operands, types = ("%z", TILE) if weight is None else (f"%z, %{weight}", f"{TILE}, {VECTOR}")
    properties = f"{{eps = 1.0e-6 : f64, group = {group}}}"
    return f"%n = coda.rms_norm {operands} {properties} : ({types}) -> {TILE}"


VECTOR = "tensor<4xf32>"


def ask_qk_norm(function: Function) -> Site | Refusal:
    norm = function.op("n")
    assert isinstance(norm, coda.RMSNormOp)
    return function.ask(lambda: check_qk_norm(norm, function.order))


def test_qk_norm():
    function = Function(f"{PARAMETERS}, %g: {VECTOR}", gemm("%z"), head_norm("g"))
    assert isinstance(ask_qk_norm(function), Site)


@pytest.mark.parametrize(
    ("line", "condition"),
    [
        pytest.param(unary("z", "exp", "x"), "the operand is the tile of a GEMM", id="no kernel"),
        pytest.param(EXP_KERNEL.replace("%m", "%z"), "the operand is the tile of a GEMM", id="map"),
        pytest.param(
            gemm("%z", mode="pair<halves, 4>", **PAIR),
            "the norm comes before the rotation",
            id="paired",
        ),
        pytest.param(
            gemm("%z", weights="%p : tensor<4x8xf32>, %q : tensor<4x8xf32>"),
            "the columns come from one weight",
            id="two weights",
        ),
    ],
)
def test_no_qk_norm(line: str, condition: str):
    parameters = PARAMETERS + ", %p: tensor<4x8xf32>, %q: tensor<4x8xf32>"
    assert refused(ask_qk_norm(Function(parameters, line, head_norm()))).condition == condition


def test_no_qk_norm_of_a_large_group():
    wide = "tensor<?x512xf32>"
    function = Function(
        f"%x: {TILE}, %w: tensor<512x8xf32>",
        gemm("%z", weights="%w : tensor<512x8xf32>", types=f"tile : {wide}"),
        head_norm(group=512).replace(TILE, wide),
    )
    refusal = refused(ask_qk_norm(function))
    assert refusal.condition == "a group has at most 256 columns"
    assert refusal.found.startswith("a group of 512 columns")


def test_no_qk_norm_with_a_weight_from_the_projection():
    function = Function(
        "%x: tensor<1x8xf32>, %w: tensor<8x8xf32>",
        gemm("%z").replace(TILE, "tensor<1x8xf32>"),
        "%r = coda.reshape %z : (tensor<1x8xf32>) -> tensor<8xf32>",
        f"%g = coda.slice %r {{dim = 0, start = 0, stop = 4}} : (tensor<8xf32>) -> {VECTOR}",
        head_norm("g").replace(TILE, "tensor<1x8xf32>"),
    )
    refusal = refused(ask_qk_norm(function))
    assert refusal.condition == "the weight does not depend on the projection"


# Losses

LOSS = f"""%l = coda.cross_entropy %z, %t {{ignore_index = -100, reduction = "sum"}}
           : ({TILE}, tensor<?xi64>) -> tensor<f32>"""


def ask_cross_entropy(function: Function) -> Site | Refusal:
    loss = function.op("l")
    assert isinstance(loss, coda.CrossEntropyOp)
    return function.ask(lambda: check_cross_entropy(loss, function.order))


def test_cross_entropy():
    function = Function(f"{PARAMETERS}, %t: tensor<?xi64>", gemm("%z"), LOSS)
    assert isinstance(ask_cross_entropy(function), Site)


@pytest.mark.parametrize(
    ("line", "condition"),
    [
        pytest.param(unary("z", "exp", "x"), "the logits are the tile of a GEMM", id="no kernel"),
        pytest.param(EXP_KERNEL.replace("%m", "%z"), "the logits are the tile of a GEMM", id="map"),
        pytest.param(
            gemm("%z", mode="pair<halves>", **PAIR),
            "the logits are computed in plain columns",
            id="paired",
        ),
    ],
)
def test_no_cross_entropy(line: str, condition: str):
    function = Function(f"{PARAMETERS}, %t: tensor<?xi64>", line, LOSS)
    assert refused(ask_cross_entropy(function)).condition == condition


def test_no_cross_entropy_with_a_target_from_the_logits():
    column = "tensor<?x1xf32>"
    function = Function(
        PARAMETERS,
        gemm("%z"),
        f"%s = coda.slice %z {{dim = 1, start = 0, stop = 1}} : ({TILE}) -> {column}",
        f"%r = coda.reshape %s : ({column}) -> tensor<?xf32>",
        "%t = coda.cast %r : (tensor<?xf32>) -> tensor<?xi64>",
        LOSS,
    )
    refusal = refused(ask_cross_entropy(function))
    assert refusal.condition == "the target does not depend on the logits"
    assert refusal.found == "%t is computed from the logits"


# Siblings


def test_siblings_in_the_order_of_the_block():
    function = Function(
        PARAMETERS, gemm("%g"), gemm("%u", weights="%v : tensor<8x8xf32>"),
        binary("c", "mul", "u", "g"),
    )  # fmt: skip
    siblings = function.ask(lambda: pair_of_siblings(function.op("c"), function.order))
    assert siblings == (function.op("g"), function.op("u"))


V = "%v : tensor<8x8xf32>"
REDUCES = {"code": "%s = gemm.group_reduce add %a over 4 : f32", "yields": "%s : f32"}


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([gemm("%g"), gemm("%u", x="y")], id="another input"),
        pytest.param([gemm("%g"), gemm("%u", mode="kn")], id="another layout"),
        pytest.param(
            [gemm("%g"), gemm("%u", weights=V, mode="pair<adjacent>", **PAIR)], id="paired already"
        ),
        pytest.param([gemm("%g"), unary("u", "exp", "x")], id="no GEMM"),
        pytest.param([gemm("%g"), unary("u", "exp", "g")], id="one GEMM"),
        pytest.param([gemm("%g"), gemm("%u", weights=V, **REDUCES)], id="reduced groups"),
        pytest.param(
            [
                gemm("%g"),
                gemm(
                    "%u",
                    ports=f"tile(%g : {TILE})",
                    arguments="%a: f32, %r: f32",
                    yields="%r : f32",
                ),
            ],
            id="dependent",
        ),
        pytest.param(
            [
                gemm("%g"),
                gemm("%u", weights="%p : tensor<4x8xf32>, %q : tensor<4x8xf32>"),
            ],
            id="two weights",
        ),
    ],
)
def test_no_siblings(lines: list[str]):
    parameters = PARAMETERS + ", %p: tensor<4x8xf32>, %q: tensor<4x8xf32>"
    function = Function(parameters, *lines, binary("c", "mul", "g", "u"))
    assert function.ask(lambda: pair_of_siblings(function.op("c"), function.order)) is None


def test_siblings_with_several_column_ranges():
    two = f"""
        %g, %h = gemm.fused %x : {TILE}
          columns(%w : tensor<8x8xf32>) -> (tile : {TILE}) {{
          ^bb0(%e: f32):
            gemm.yield %e : f32
          }}
          columns(%v : tensor<8x8xf32>) -> (tile : {TILE}) {{
          ^bb0(%e: f32):
            gemm.yield %e : f32
          }}"""
    function = Function(PARAMETERS, two, gemm("%u"), binary("c", "mul", "g", "u"))
    assert function.ask(lambda: pair_of_siblings(function.op("c"), function.order)) is None


# Pairing

HALVES = PairingAttr.halves()
HEADS = PairingAttr.halves(4)
ADJACENT = PairingAttr.adjacent_columns()


def reduces(group: int) -> dict[str, str]:
    return {"code": f"%s = gemm.group_reduce add %a over {group} : f32", "yields": "%s : f32"}


@pytest.mark.parametrize(
    ("line", "pairing"),
    [
        pytest.param(gemm("%z"), HALVES, id="plain columns"),
        pytest.param(gemm("%z", mode="pair<halves, 4>", **PAIR), HEADS, id="the same pairs"),
        pytest.param(gemm("%z", **reduces(4)), HEADS, id="groups are heads"),
        pytest.param(gemm("%z", **reduces(8)), HEADS, id="groups hold heads"),
        pytest.param(gemm("%z", **reduces(2)), ADJACENT, id="groups of neighbours"),
        pytest.param(gemm("%z", **reduces(8)), HALVES, id="one group"),
    ],
)
def test_pairing(line: str, pairing: PairingAttr):
    function = Function(PARAMETERS, line)
    site = function.ask(lambda: check_pairing(function["z"], pairing))
    assert isinstance(site, Site) and isinstance(site.op, FusedOp)


@pytest.mark.parametrize(
    ("line", "pairing", "condition"),
    [
        pytest.param(
            unary("z", "exp", "x"), HALVES, "the operand is the tile of a GEMM", id="no kernel"
        ),
        pytest.param(
            EXP_KERNEL.replace("%m", "%z"), HALVES, "the operand is the tile of a GEMM", id="map"
        ),
        pytest.param(
            gemm("%z", mode="pair<adjacent>", **PAIR),
            HALVES,
            "the GEMM pairs its columns in one way only",
            id="other pairs",
        ),
        pytest.param(
            gemm("%z", mode="pair<halves>", types="half : tensor<?x4xf32>", **PAIR).replace(
                "%a, %b : f32, f32", "%a : f32"
            ),
            HALVES,
            "the GEMM pairs its columns in one way only",
            id="one value per pair",
        ),
        pytest.param(
            gemm(
                "%z, %s",
                ports="col(%t : tensor<?xi64>)",
                types=f"tile : {TILE}, select<0> : tensor<?xf32>",
                arguments="%a: f32, %i: i64",
                yields="%a, %a : f32, f32",
            ),
            HALVES,
            "no element of the tile is selected by column",
            id="select",
        ),
        pytest.param(
            gemm("%z", weights="%p : tensor<4x8xf32>, %q : tensor<4x8xf32>"),
            HALVES,
            "the columns come from one weight",
            id="two weights",
        ),
        pytest.param(
            gemm("%z", **reduces(2)),
            HEADS,
            "both columns of a pair are normalized together",
            id="groups in a head",
        ),
        pytest.param(
            gemm("%z", **reduces(4)),
            HALVES,
            "both columns of a pair are normalized together",
            id="groups in a half",
        ),
        pytest.param(
            gemm("%z", **reduces(1)),
            ADJACENT,
            "both columns of a pair are normalized together",
            id="odd groups",
        ),
    ],
)
def test_no_pairing(line: str, pairing: PairingAttr, condition: str):
    parameters = PARAMETERS + ", %p: tensor<4x8xf32>, %q: tensor<4x8xf32>, %t: tensor<?xi64>"
    function = Function(parameters, line)
    assert refused(function.ask(lambda: check_pairing(function["z"], pairing))).condition == (
        condition
    )


def test_no_pairing_of_an_argument():
    function = Function(PARAMETERS)
    assert refused(check_pairing(function["x"], HALVES)).found == (
        "%x is not computed by a GEMM of the same function"
    )


def test_groups_of_symbolic_columns_are_not_halved():
    columns = "tensor<?x?xf32>"
    function = Function(
        f"%x: {TILE}, %w: tensor<?x8xf32>",
        gemm("%z", weights="%w : tensor<?x8xf32>", types=f"tile : {columns}", **reduces(4)),
    )
    refusal = refused(function.ask(lambda: check_pairing(function["z"], HALVES)))
    assert refusal.condition == "both columns of a pair are normalized together"


def test_site_of_a_map():
    function = Function(PARAMETERS, EXP_KERNEL, binary("a", "add", "m", "y"))
    site = function.ask(lambda: find_site(function.op("a"), function.order))
    assert isinstance(site, Site) and isinstance(site.op, MapOp)


def test_linear_maps_are_no_sites_yet():
    function = Function(PARAMETERS, linear("z", "x"), binary("a", "add", "z", "y"))
    assert isinstance(function.op("z"), coda.LinearOp)
    assert find_site(function.op("a"), function.order) is NO_PRODUCER
