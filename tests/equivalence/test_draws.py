"""The inputs of a comparison: sizes, and what makes a draw too large."""

from support.goldens import EXAMPLES, small_example
from support.programs import parse_mlir
from xdsl.dialects.func import FuncOp

from coda_ir.api import find_entry
from coda_ir.equivalence import DRAWS, Draw
from coda_ir.equivalence.draws import affordable, choose_sizes, draw_arguments, elements
from coda_ir.random_inputs import random_arguments

FUNCTION = """
func.func @f(%x : tensor<?x?x8xbf16> {coda.dims = ["B", "T", 8]},
             %t : tensor<?x?xi64> {coda.dims = ["B", "T"]},
             %w : tensor<11x8xbf16> {coda.weight}) -> tensor<f32> {
  %l = coda.linear %x, %w : (tensor<?x?x8xbf16>, tensor<11x8xbf16>) -> tensor<?x?x11xbf16>
  %c = coda.cross_entropy %l, %t {ignore_index = -100 : i64, reduction = "mean"}
    : (tensor<?x?x11xbf16>, tensor<?x?xi64>) -> tensor<f32>
  func.return %c : tensor<f32>
}"""


def function() -> FuncOp:
    return find_entry(parse_mlir(FUNCTION))


def sizes_of(kind: str) -> list[dict[str, int]]:
    return [choose_sizes(function(), draw, {}) for draw in DRAWS if draw.sizes == kind]


def test_every_kind_of_size_is_drawn():
    assert sizes_of("one") == [{"B": 1, "T": 1}]
    assert all(size % 2 for sizes in sizes_of("odd") for size in sizes.values())
    assert all(sizes["B"] * sizes["T"] > 128 for sizes in sizes_of("tall"))
    first, second = sizes_of("small")
    assert first != second


def test_given_sizes_stay():
    for draw in DRAWS:
        assert choose_sizes(function(), draw, {"T": 17})["T"] == 17


def test_structured_inputs():
    (draw,) = [draw for draw in DRAWS if draw.values == "structured"]
    x, target, weight = draw_arguments(function(), draw, {"B": 3, "T": 5})
    assert x.dtype == weight.dtype
    assert not x[..., 1].any()
    assert not x[-1, -1].any()
    assert (x < 0).any()
    assert {int(index) for index in target.flatten()} - set(range(11)) == {-100}


def test_large_functions_are_drawn_once():
    small = find_entry(small_example(EXAMPLES / "llama_mlp.coda"))
    assert list(affordable(small, DRAWS, {})) == list(DRAWS)
    text = FUNCTION.replace("11x8", "4194304x8").replace("x11x", "x4194304x")
    (only,) = affordable(find_entry(parse_mlir(text)), DRAWS, {})
    assert only == DRAWS[0]


def test_elements():
    assert elements(function(), {"B": 2, "T": 3}) == 2 * 3 * 8 + 2 * 3 + 88


def test_a_draw_says_what_it_is():
    assert str(Draw("odd", "positive", 7)) == "odd sizes, positive values, seed 7"


def test_what_one_use_ignores_has_a_meaning_in_the_others():
    text = FUNCTION.replace(
        "  func.return %c : tensor<f32>",
        """  %d = coda.cross_entropy %l, %t {ignore_index = 3 : i64, reduction = "mean"}
    : (tensor<?x?x11xbf16>, tensor<?x?xi64>) -> tensor<f32>
  func.return %d : tensor<f32>""",
    )
    func = find_entry(parse_mlir(text))
    for seed in range(8):
        _, targets, _ = random_arguments(func, {"B": 3, "T": 9}, seed=seed)
        assert int(targets.min()) >= 0 and int(targets.max()) < 11
