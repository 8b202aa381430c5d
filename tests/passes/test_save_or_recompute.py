"""Values that are saved for the backward; forward and backward compute what the joint does."""

import random
from itertools import combinations
from math import prod

import pytest
from support.goldens import GOLDENS, SEPARATOR
from support.joints import assert_split_computes_joint, function_of
from support.programs import parse_mlir

from coda_ir.api import parse
from coda_ir.context import make_context
from coda_ir.diagnostics import CodaError
from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.passes.gradient.min_cut import VertexCut
from coda_ir.passes.gradient.save_or_recompute import SaveOrRecomputePass
from coda_ir.passes.pipelines.differentiate import DifferentiatePass
from coda_ir.remarks import collect_remarks
from coda_ir.signatures import signature_of

INPUTS = (GOLDENS / "passes/save_or_recompute.mlir").read_text().split(SEPARATOR)
MLP = INPUTS[0]
SIZES = {"B": 2, "T": 3, "M": 5}


def name_of(text: str) -> str:
    return text.split("@", 1)[1].split("_joint", 1)[0]


def saved(text: str, pass_: SaveOrRecomputePass) -> set[str]:
    """The names of what the pass saves; what it splits has to compute the same."""
    module, joint, name = parse_mlir(text), parse_mlir(text), name_of(text)
    pass_.apply(make_context(), module)
    module.verify()
    assert_split_computes_joint(joint, module, name, SIZES)
    results = signature_of(function_of(module, f"{name}_forward")).results
    return {spec.name for spec in results} - {"y"}


@pytest.mark.parametrize("text", INPUTS, ids=name_of)
def test_split_computes_the_joint(text: str):
    saved(text, SaveOrRecomputePass())


def test_named_values():
    assert saved(MLP, SaveOrRecomputePass()) == {"z", "rstd"}
    assert saved(MLP, SaveOrRecomputePass(save=("h", "s"))) == {"z", "h", "s"}
    # The GEMM runs again, on the norm that its statistics give.
    assert saved(MLP, SaveOrRecomputePass(recompute=("z",))) == {"rstd"}


def test_budget():
    # 2 x 3 rows: 16 columns of bf16 and a float32 are 216 bytes.
    generous = SaveOrRecomputePass(memory_budget=216, extents="B=2,T=3")
    assert saved(MLP, generous) == {"z", "rstd"}
    tight = SaveOrRecomputePass(memory_budget=215, extents="B=2, T=3")
    assert saved(MLP, tight) == {"rstd"}


def test_residual_sums_are_computed_again_for_a_budget_only():
    stream = INPUTS[-1]
    assert saved(stream, SaveOrRecomputePass()) == {"r1", "r2", "r3"}
    tight = SaveOrRecomputePass(memory_budget=5 * 48, extents="M=5")
    assert saved(stream, tight) == {"g1", "g2", "g3"}
    assert saved(stream, SaveOrRecomputePass(recompute=("r1", "r2", "r3"))) == {"g1", "g2", "g3"}


def test_computed_weights_are_computed_again_for_a_budget_only():
    """128 bytes each of %u and of %n, the converted weight, which products read."""
    computed = INPUTS[-2]
    assert saved(computed, SaveOrRecomputePass()) == {"u", "n"}
    assert saved(computed, SaveOrRecomputePass(memory_budget=255)) == set()


def test_budget_that_cannot_be_met():
    with collect_remarks() as remarks:
        saved(MLP, SaveOrRecomputePass(memory_budget=1, extents="B=2,T=3"))
    (missed,) = (remark for remark in remarks if remark.kind == "missed")
    assert "24 of the budget of 1" in missed.message


@pytest.mark.parametrize(
    ("pass_", "message"),
    [
        (SaveOrRecomputePass(memory_budget=-5), "memory-budget is -5"),
        (SaveOrRecomputePass(save=("q",)), "save names 'q', which mlp does not compute"),
        (SaveOrRecomputePass(recompute=("x",)), "recompute names 'x', which mlp does not"),
        (SaveOrRecomputePass(save=("z",), recompute=("z",)), "'z' is in both save and recompute"),
        (SaveOrRecomputePass(extents="B:2"), "save-or-recompute: extents has 'B:2'"),
    ],
)
def test_mistakes(pass_: SaveOrRecomputePass, message: str):
    with pytest.raises(CodaError, match=message):
        pass_.apply(make_context(), parse_mlir(MLP))


def test_a_joint_without_numbers():
    with pytest.raises(CodaError, match="expected the numbers of arguments and results"):
        SaveOrRecomputePass().apply(
            make_context(), parse_mlir(MLP.replace("results = 1 : i64", 'results = "y"'))
        )


def test_operators_of_both_directions():
    joint = """
    func.func @f_joint(%x: tensor<?x8xf32>, %d: tensor<?x8xf32>)
        -> (tensor<?x8xf32>, tensor<?x8xf32>)
        attributes {coda.joint = {arguments = 1 : i64, results = 1 : i64}} {
      %y, %dx = gemm.map tile(%x : tensor<?x8xf32>) tile(%d : tensor<?x8xf32>)
        -> (tile : tensor<?x8xf32>, tile : tensor<?x8xf32>) {
        ^bb0(%a: f32, %b: f32):
          gemm.yield %a, %b : f32, f32
      }
      func.return %y, %dx : tensor<?x8xf32>, tensor<?x8xf32>
    }
    """
    with pytest.raises(CodaError, match=r"gemm\.map computes results of the forward and of"):
        SaveOrRecomputePass().apply(make_context(), parse_mlir(joint))


# The cut


def cheapest(costs: list[int], arcs: list[tuple[int, int]], ends: tuple[int, int]) -> int:
    """The cost of the cheapest set of vertices on all ways between two, by trying every set."""

    def reaches(without: set[int]) -> bool:
        pending, seen = [ends[0]], {ends[0]}
        while pending:
            vertex = pending.pop()
            if vertex in without:
                continue
            if vertex == ends[1]:
                return True
            for tail, head in arcs:
                if tail == vertex and head not in seen:
                    seen.add(head)
                    pending.append(head)
        return False

    vertices = range(len(costs))
    sets = (set(s) for count in range(len(costs) + 1) for s in combinations(vertices, count))
    return min(sum(costs[v] for v in s) for s in sets if not reaches(s))


@pytest.mark.parametrize("seed", range(20))
def test_cut_is_the_cheapest(seed: int):
    draw = random.Random(seed)
    costs = [draw.randint(0, 5) for _ in range(8)]
    arcs = [(i, j) for i in range(8) for j in range(i + 1, 8) if draw.random() < 0.4]
    graph = VertexCut[int]()
    for vertex, cost in enumerate(costs):
        graph.add(vertex, cost)
    graph.from_source(0)
    graph.to_sink(7)
    for tail, head in arcs:
        graph.connect(tail, head)
    found = graph.cut()
    assert sum(costs[vertex] for vertex in found) == cheapest(costs, arcs, (0, 7))


def test_cut_next_to_the_sink():
    graph = VertexCut[str]()
    for vertex in "abc":
        graph.add(vertex, 3)
    graph.connect("a", "b")
    graph.connect("b", "c")
    graph.from_source("a")
    graph.to_sink("c")
    assert graph.cut() == {"c"}


@pytest.mark.parametrize("recipe", ["all_rowwise", "all_blocks"])
def test_forward_finds_the_scales_of_what_it_reads(recipe: str):
    """The backward reduces only the gradient of the result, along rows and along columns."""
    module = parse(
        f"""
        fn layer(x: bf16[256, 384], weight w: bf16[512, 384]) -> bf16[256, 512] {{
            return quantized_linear(x, w, recipe="{recipe}")
        }}
        """
    )
    DifferentiatePass().apply(make_context(), module)
    reduced = function_of(module, "layer_backward").walk()
    elements = [prod(shape_of(op.x)) for op in reduced if isinstance(op, coda.ReduceOp)]
    assert elements == [256 * 512] * 2


@pytest.mark.parametrize("recipe", ["rowwise", "blocks"])
def test_quantized_product_is_recomputed_by_name(recipe: str):
    """Neither the product nor its result in float32, before it is scaled and rounded, is saved."""
    module = parse(
        f"""
        fn layer(x: bf16[128, 256], weight w: bf16[384, 256]) -> bf16[128, 384] {{
            y = quantized_linear(x, w, recipe="{recipe}")
            return silu(y)
        }}
        """
    )
    DifferentiatePass(recompute=("y",)).apply(make_context(), module)
    arguments = function_of(module, "layer_backward").body.block.args
    whole = [each for each in arguments if shape_of(each) == (128, 384)]
    assert [each.name_hint for each in whole] == ["d_result0"]
