"""Names in emitted modules: those of the user's program meet none that the module has."""

from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import count, cycle

import pytest
import torch
from support.daily import is_nightly
from support.emitted import load_module
from support.goldens import EXAMPLES, small_example
from support.inputs import random_inputs
from support.renaming import assert_defined_once, normal_form, rename_values, words_of
from xdsl.dialects.builtin import ModuleOp

from coda_ir.api import find_entry, parse
from coda_ir.backends.triton import emit_module
from coda_ir.backends.triton.host.text import wrapped
from coda_ir.backends.triton.names import LocalNames, NameAllocator, final_names, finished, plain
from coda_ir.context import make_context
from coda_ir.frontends.coda_text import parse_text
from coda_ir.pipeline import PassManager, parse_pipeline
from coda_ir.registry import get_all_passes

COPY_AND_PACK = """
func.func @f(%x: tensor<?x8xbf16>, %w: tensor<24x8xf32>, %g: tensor<8xf32>)
    -> (tensor<?x8xf32>, tensor<24xf32>) {
  %y = gemm.map tile(%x : tensor<?x8xbf16>) -> (tile : tensor<?x8xf32>) {
  ^epilogue(%a : f32):
    gemm.yield %a : f32
  }
  %v = gemm.pack_weight nk %w, %g : (tensor<24x8xf32>, tensor<8xf32>) -> tensor<24xf32>
  func.return %y, %v : tensor<?x8xf32>, tensor<24xf32>
}
"""
"""A kernel that only copies was named `map`, which the cache of packed weights calls."""

CALLS = """
fn f(
    ids: i64[B, T],
    table: f32[24, 8],
    cos: f32[B, 8],
    sin: f32[B, 8],
    weight w: f32[16, 8],
    weight w_out: f32[8, 16],
) -> (f32[B, T, 8], f32[B], f32[T]) {
    x = embedding(ids, table)
    h = layer_norm(x, eps=1e-5)
    a = gelu(linear(h, w))
    steps = torch("aten.arange.default(max(0, B), dtype=torch.float32, device=device)", dtype=f32, shape=[B])
    rows = torch("aten.arange.default(min(T, T), dtype=torch.float32, device=device)", dtype=f32, shape=[T])
    return softmax(x + linear(a, w_out)), steps, exp(rows)
}
"""  # noqa: E501

SCHEDULED = "coda-to-gemm,schedule,plan-buffers"
FOLDED = "coda-to-gemm{fold-weights=true},schedule,plan-buffers"
TMA = "coda-to-gemm,schedule{target=sm_90 mainloop=tma},plan-buffers"
SPLIT = "coda-to-gemm,schedule{split-k=2},plan-buffers"
HOPPER = "coda-to-gemm,schedule{target=sm_90},plan-buffers"
TRAINED = "differentiate,coda-to-gemm,schedule,plan-buffers"


def text(source: str, syntax: str) -> Callable[[], ModuleOp]:
    return lambda: parse_text(source) if syntax == "coda" else parse(source, syntax="mlir")


def example(name: str) -> Callable[[], ModuleOp]:
    return partial(small_example, EXAMPLES / f"{name}.coda")


PROGRAMS: dict[str, tuple[Callable[[], ModuleOp], str, str | None]] = {
    "map": (text(COPY_AND_PACK, "mlir"), "", None),
    "calls": (text(CALLS, "coda"), SCHEDULED, None),
    "gemm": (example("linear_bias_gelu"), SPLIT, None),
    "epilogue": (example("custom_epilogue"), SCHEDULED, "quantizable_linear"),
    "layer": (example("llama_layer"), FOLDED, None),
    "attention": (example("gemma_block"), TMA, None),
    "loss": (example("lm_head_cross_entropy"), SCHEDULED, None),
    "forward": (example("llama_mlp"), TRAINED, "llama_mlp_forward"),
    "backward": (example("llama_layer"), TRAINED, "llama_layer_backward"),
    "loss_backward": (example("lm_head_cross_entropy"), TRAINED, "lm_head_cross_entropy_backward"),
}
LARGE: dict[str, tuple[Callable[[], ModuleOp], str, str | None]] = {
    "hopper": (partial(parse, EXAMPLES / "llama_layer.coda"), HOPPER, None),
}
"""For a GPU alone: no interpreter runs them."""


@cache
def lowered(name: str) -> ModuleOp:
    read, pipeline, _ = (PROGRAMS | LARGE)[name]
    module = read()
    PassManager(parse_pipeline(pipeline, get_all_passes())).run(make_context(), module)
    return module


def emitted(name: str, names: Iterator[str] | None = None, *, direct: bool = False) -> str:
    """The module of a program, whose values have other names where there are some."""
    module, entry = lowered(name).clone(), (PROGRAMS | LARGE)[name][2]
    if names is not None:
        rename_values(module, names)
    return emit_module(module, entry, direct_launch=direct)


def neutral_names() -> Iterator[str]:
    return (f"q{number}q" for number in count())


@pytest.mark.slow
@pytest.mark.parametrize("name", [*PROGRAMS, *LARGE])
def test_no_name_of_a_program_changes_what_it_does(name: str, monkeypatch: pytest.MonkeyPatch):
    """Values, arguments and sizes are called everything that occurs in the module."""
    # The length of names decides where expressions are split, and branches have names in common.
    monkeypatch.setattr("coda_ir.backends.triton.epilogue.LONGEST_EXPRESSION", 10**6)
    monkeypatch.setattr(LocalNames, "branch", _same)
    sources = emitted(name), emitted(name, direct=True)
    words = list(dict.fromkeys(word for source in sources for word in words_of(source)))
    wanted = {d: normal_form(emitted(name, neutral_names(), direct=d)) for d in (False, True)}
    starts = list(enumerate(range(0, len(words), names_taken(name))))
    # Programs have most words in common; a third of those of each takes all words in turns.
    for number, start in starts[:: 1 if is_nightly() else 3]:
        is_direct = number % 2 == 1
        source = emitted(name, cycle([*words[start:], *words[:start]]), direct=is_direct)
        assert_defined_once(source)
        assert plain(source) == source
        assert normal_form(source) == wanted[is_direct], words[start : start + names_taken(name)]


def _same(names: LocalNames) -> LocalNames:
    return names


@cache
def names_taken(name: str) -> int:
    """Return how many names a program takes."""
    numbers = count()
    rename_values(lowered(name).clone(), (f"q{number}q" for number in numbers))
    return next(numbers)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_renamed_programs_compute_the_same(name: str):
    func = find_entry(lowered(name), PROGRAMS[name][2])
    inputs = random_inputs(func, {"M": 5, "B": 2, "T": 5})
    source = emitted(name)
    results = load_module(source).run(*(x.clone() for x in inputs))
    again = load_module(emitted(name, cycle(words_of(source)))).run(*(x.clone() for x in inputs))
    for first, second in zip(as_tuple(results), as_tuple(again), strict=True):
        torch.testing.assert_close(second, first, rtol=0, atol=0, equal_nan=True)


def as_tuple(results: torch.Tensor | tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return (results,) if isinstance(results, torch.Tensor) else results


def test_kernels_do_not_hide_what_the_host_calls():
    emitted = load_module(emit_module(parse(COPY_AND_PACK, syntax="mlir")))
    x, w, g = torch.randn(5, 8).bfloat16(), torch.randn(24, 8), torch.randn(8)
    y, v = emitted.run(x, w, g)
    torch.testing.assert_close(y, x.float())
    torch.testing.assert_close(v, w @ g)


def test_final_names_are_those_that_are_free():
    names = LocalNames()
    rows, other, row = names.fresh("rows"), names.fresh("rows_1"), names.fresh("row")
    text = f"def f({rows}, {other}):\n    rows, {row} = {rows}.row, max({other}, 'rows')\n"
    assert final_names(text) == {rows: "rows_2", other: "rows_1", row: "row"}
    assert finished(text) == (
        "def f(rows_2, rows_1):\n    rows, row = rows_2.row, max(rows_1, 'rows')\n"
    )


@pytest.mark.parametrize("used", ["return max(x)", "max = 1", "f(lambda max: 2)", "del max"])
def test_what_a_text_uses_or_binds_is_not_free(used: str):
    value = LocalNames().fresh("max")
    source = finished(f"def g(x):\n    {value} = 3\n    {used}\n")
    assert "    max_1 = 3\n" in source


def test_provisional_names_are_as_long_as_their_wishes():
    names = LocalNames()
    for wish in ("x", "h_1", "Rows", "lambda_", "K"):
        name = names.fresh(wish)
        assert (name.isidentifier(), len(name), plain(name)) == (True, len(wish), wish)
        assert names.fresh(f"dense_{name}") == LocalNames().fresh(f"dense_{wish}")


def test_branches_share_names_with_each_other_alone():
    names = LocalNames()
    first, second = names.branch(), names.branch()
    assert plain(first.fresh("bias_ptr")) == plain(second.fresh("bias_ptr")) == "bias_ptr"
    assert plain(names.fresh("bias_ptr")) == "bias_ptr_1"
    assert plain(first.branch().fresh("bias_ptr")) == "bias_ptr_2"


def test_names_of_a_module_are_given_once():
    names = NameAllocator(["gemm"])
    assert [names.fresh("gemm"), names.copy().fresh("gemm"), names.fresh("map")] == [
        *("gemm_1", "gemm_2", "map"),
    ]


LONG = "an_argument_whose_name_is_rather_long_for_one"


def test_long_names_are_laid_out():
    source = f"fn f({LONG}: f32[M, 16], weight w: f32[16, 16]) {{ return linear({LONG}, w) }}"
    module = parse_text(source)
    PassManager(parse_pipeline(SCHEDULED, get_all_passes())).run(make_context(), module)
    x, w = torch.randn(5, 16), torch.randn(16, 16)
    y = load_module(emit_module(module)).run(x, w)
    torch.testing.assert_close(y, x @ w.T, rtol=1e-4, atol=1e-4)


def test_long_lines_are_broken_in_the_call_that_they_end_in():
    assert wrapped(["x = f(a).view(b, [c, d], 'e, (f', k=(1,))"], 20) == [
        *("x = f(a).view(", "    b,", "    [c, d],", "    'e, (f',", "    k=(1,),", ")"),
    ]
    assert wrapped(["  if are_dense(a, b):"], 20) == [
        *("  if are_dense(", "      a,", "      b,", "  ):"),
    ]
    lines = ["if x.is_cuda and x.index != device():", "y = x.t().t()", "del a, b"]
    assert wrapped(lines, 5) == lines
