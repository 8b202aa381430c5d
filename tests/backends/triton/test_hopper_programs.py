"""Programs for Hopper compile ahead of time, forward and derived backward: the standard library,
the examples, random programs, and each elementwise operator in an epilogue.
"""

from pathlib import Path

import pytest
from generator.choices import SeededChoices
from generator.coda_programs import draw_text
from support.block_texts import FIRST, program, widened
from support.daily import daily
from support.examples import EXAMPLES
from support.function_numbers import some_numbers
from support.kernel_harness import assert_right, random_arguments, run_kernel
from support.models import MODELS
from support.standard_blocks import BLOCKS
from torch import Generator

from coda_ir.api import Lowering, parse
from coda_ir.backends.triton import emit_program
from coda_ir.backends.triton.aot import compile_kernels
from coda_ir.context import make_context
from coda_ir.dialects import coda
from coda_ir.frontends.coda_text.elementwise import BINARY, COMPARISONS, UNARY
from coda_ir.functions import find_entry
from coda_ir.options import CompileOptions
from coda_ir.passes.gradient.derive_gradient import NoDerivativeError
from coda_ir.passes.pipelines.differentiate import DifferentiatePass

HOPPER = "target=sm_90 mainloop=warp_specialized"
SMALL_TILES = f"{HOPPER} tile=128x64x64 warps=8 gemms=fused"

WIDTHS = (256, 512, 256, 1024)
"""Widths of random programs: these have warp-specialized kernels."""

SEEDS, PROGRAMS = 6, 4
"""Random programs, in groups."""


def _call(name: str) -> str:
    """A call of an elementwise operator on h and b, which gives floats."""
    if name in COMPARISONS or (name in UNARY and issubclass(UNARY[name], coda.Predicate)):
        return f"where({name}(h{', b' * (name in COMPARISONS)}), h, b)"
    if name in UNARY:
        argument = "abs(h) + 0.5" if UNARY[name].OF_POSITIVE else "h"
        return f"{name}({', '.join([argument, *map(str, some_numbers(UNARY[name]))])})"
    if BINARY[name].ELEMENTS == coda.Elements.BOOLEANS:
        return f"where({name}(h > b, h < 1), h, b)"
    return f"{name}(h, b)" if name.isidentifier() else f"h {name} b"


CALLS = {
    **{name: _call(name) for name in (*UNARY, *BINARY, *COMPARISONS) if name != "detach"},
    "gelu": "gelu(h)",
    "gelu_tanh": "gelu_tanh(h)",
    "clamp": "clamp(h, -0.5, 1)",
    "cube": "pow(h, 3)",
    "logical_not": "where(logical_not(h > b), h, b)",
    "neg": "-h",
    "cast": "cast(cast(h, i32), bf16)",
}
"""A call of each elementwise operator."""


def every_function() -> str:
    """An epilogue with each elementwise operator, in a variable that is named after it."""
    calls = {
        name if name.isidentifier() else f"v{i}": c for i, (name, c) in enumerate(CALLS.items())
    }
    lines = [f"    {name} = {call}\n" for name, call in calls.items()]
    return f"""
epilogue every(h, b: row) -> (y: tile) {{
{"".join(lines)}    y = {" + ".join(calls)}
}}

fn f(x: bf16[M, 64], weight w: bf16[64, 64], b: bf16[64]) {{
    return every(linear(x, w), b)
}}
"""


def of_function(name: str) -> str:
    """Two GEMMs with an elementwise operator between them."""
    variable = name if name.isidentifier() else "v"
    return f"""
fn f(x: bf16[M, 256], weight w: bf16[256, 256], b: bf16[256], weight w2: bf16[256, 256]) {{
    h = linear(x, w)
    {variable} = {CALLS[name]}
    return linear({variable}, w2)
}}
"""


def assert_compiles(text: str | Path, function: str = "f", options: str = HOPPER) -> list[str]:
    """The kernels of a function, and of its forward and backward if it has derivatives, compile
    and fit. Returns the languages of the kernels.
    """
    module = parse(text)
    names = [function]
    try:
        DifferentiatePass(function).apply(make_context(), module)
        names = [f"{function}_forward", f"{function}_backward"]
    except NoDerivativeError:
        pass
    scheduled = Lowering(module, CompileOptions(options)).module("scheduled")
    languages: list[str] = []
    for name in names:
        kernels = emit_program(scheduled, name).kernels
        languages += [kernel.language for kernel in kernels]
        for compiled in compile_kernels(kernels, "sm_90"):
            assert compiled.resources.fits, compiled.resources
    return languages


def test_every_elementwise_operator_in_the_simulator(tmp_path: Path) -> None:
    module = Lowering(parse(every_function()), CompileOptions(SMALL_TILES)).module("scheduled")
    func = find_entry(module)
    arguments = random_arguments(func, [3], Generator().manual_seed(1))
    kernel, outputs = run_kernel(func, arguments, tmp_path)
    assert kernel.language == "gluon" and "tanh = gluon_tanh(" in kernel.source
    assert_right(func, arguments, outputs)


@pytest.mark.slow
@daily(lambda name: name in ("tanh", "atan2", "logical_xor"))
@pytest.mark.parametrize("name", CALLS)
def test_elementwise_operators_compile(name: str) -> None:
    assert "gluon" in assert_compiles(of_function(name), options=SMALL_TILES)


@pytest.mark.slow
@daily(lambda name: name in FIRST.values())
@pytest.mark.parametrize("name", BLOCKS)
def test_standard_blocks_compile(name: str) -> None:
    assert_compiles(program(name, widened(BLOCKS[name])))


@pytest.mark.slow
@daily(lambda name: name == "llama_mlp")
@pytest.mark.parametrize("name", MODELS)
def test_examples_compile(name: str) -> None:
    file, _, function = name.partition(".")
    assert_compiles(EXAMPLES / f"{file}.coda", function or file)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_programs_compile(seed: int) -> None:
    for number in range(PROGRAMS):
        text, _ = draw_text(SeededChoices(seed * PROGRAMS + number), WIDTHS)
        assert_compiles(text)
