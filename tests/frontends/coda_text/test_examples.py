"""The examples in any size: what they emit, and that they are documented programs."""

from pathlib import Path

import pytest
from support.kernel_steps import EXAMPLE_STEPS, explained_steps
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from coda_ir.frontends.coda_text import parse_text
from coda_ir.sources import read_source

EXAMPLES = Path(__file__).parents[3] / "examples"

SMALL: dict[str, dict[str, int]] = {
    "custom_epilogue": {"K": 24, "N": 40},
    "gemma_block": {"D": 48, "F": 80, "HEAD": 8, "HEADS": 4, "KV_HEADS": 2},
    "gpt2_block": {"D": 48, "HEAD": 8},
    "dit_block": {"D": 48, "HEAD": 8},
    "linear_bias_gelu": {"K": 24, "N": 40},
    "llama_layer": {"D": 48, "F": 80, "HEAD": 8, "KV_HEADS": 2},
    "llama_mlp": {"D": 48, "F": 80},
    "lm_head_cross_entropy": {"D": 48, "V": 100},
    "norms": {},
    "qwen3_block": {"D": 48, "F": 80, "HEAD": 8, "HEADS": 4, "KV_HEADS": 2},
}
FUNCTIONS = {
    "custom_epilogue": ["quantizable_linear", "gated_linear"],
    "norms": ["offset_rms_norm"],
}


def parsed(name: str, constants: dict[str, int] | None = None) -> ModuleOp:
    path = EXAMPLES / f"{name}.coda"
    return parse_text(read_source(str(path)), str(path), constants)


def functions(name: str, constants: dict[str, int]) -> list[FuncOp]:
    module = parsed(name, constants)
    module.verify()
    return [op for op in module.body.block.ops if isinstance(op, FuncOp)]


def test_every_example_is_listed():
    assert {path.stem for path in EXAMPLES.glob("*.coda")} == set(SMALL)


@pytest.mark.parametrize("name", SMALL)
def test_real_and_small_sizes(name: str):
    real, small = functions(name, {}), functions(name, SMALL[name])
    names = [func.sym_name.data for func in small]
    assert names == FUNCTIONS.get(name, [name])
    for large_func, small_func in zip(real, small, strict=True):
        large_ops = [op.name for op in large_func.walk()]
        assert large_ops == [op.name for op in small_func.walk()]


@pytest.mark.parametrize("name", SMALL)
def test_begins_with_a_description(name: str):
    assert (EXAMPLES / f"{name}.coda").read_text().startswith("# ")


def test_what_runs_outside_of_the_gemms():
    steps = [explained_steps(parsed(name)) for name in SMALL]
    assert {name: text for found in steps for name, text in found.items()} == EXAMPLE_STEPS


def test_the_llama_layer_has_no_attention():
    (func,) = functions("llama_layer", {})
    assert "coda.attention" not in {op.name for op in func.walk()}
