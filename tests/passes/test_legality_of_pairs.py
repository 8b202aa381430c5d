"""Legality of QK norms, losses and pairing: each legal case and each refusal, IR unchanged."""

import pytest
from support.legality import (
    EXP_KERNEL,
    PAIR,
    PARAMETERS,
    TILE,
    Function,
    binary,
    gemm,
    linear,
    refused,
    unary,
)

from coda_ir.dialects import coda
from coda_ir.dialects.gemm import FusedOp, MapOp, PairingAttr
from coda_ir.passes.support.editing import Site
from coda_ir.passes.support.function_pass import Refusal
from coda_ir.passes.support.legality import (
    NO_PRODUCER,
    check_cross_entropy,
    check_pairing,
    check_qk_norm,
    find_site,
    pair_of_siblings,
)


def head_norm(weight: str | None = None, group: int = 4) -> str:
    operands, types = ("%z", TILE) if weight is None else (f"%z, %{weight}", f"{TILE}, {VECTOR}")
    properties = f"{{eps = 1.0e-6 : f64, group = {group}}}"
    return f"%n = coda.rms_norm {operands} {properties} : ({types}) -> {TILE}"


VECTOR = "tensor<4xf32>"


def ask_qk_norm(function: Function) -> Site | Refusal:
    norm = function.op("n")
    assert isinstance(norm, coda.RMSNormOp)
    return function.ask(lambda: check_qk_norm(norm, norm.x, function.order))


def test_qk_norm():
    for kernel in (gemm("%z"), EXP_KERNEL.replace("%m", "%z")):
        function = Function(f"{PARAMETERS}, %g: {VECTOR}", kernel, head_norm("g"))
        assert isinstance(ask_qk_norm(function), Site)


@pytest.mark.parametrize(
    ("line", "condition"),
    [
        pytest.param(
            unary("z", "exp", "x"),
            "a GEMM or pointwise code in the same function computes the norm's input",
            id="no kernel",
        ),
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
            "the columns of the logits are not paired",
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
            gemm("%z", code="%n = gemm.column : i32"),
            HALVES,
            "no element of the tile is selected by column",
            id="counts columns",
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
