"""Modules written as .coda: readable, and the same module when they are read back."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support.daily import daily
from xdsl.dialects.builtin import ModuleOp

from coda_ir.api import find_entry, parse
from coda_ir.backends.reference import run_function
from coda_ir.frontends.coda_text import format_text, parse_text
from coda_ir.frontends.coda_text.writer import UnwritableError, write_module, write_text
from coda_ir.frontends.torch import ExportedModel, export

EXAMPLES = Path(__file__).parents[3] / "examples"
PLAIN = ["gemma_block", "gpt2_block", "llama_layer", "llama_mlp", "norms", "qwen3_block"]
"""Those without epilogues."""


def operators(module: ModuleOp) -> list[str]:
    return [op.name for op in module.walk()]


@pytest.mark.slow
@pytest.mark.parametrize("name", PLAIN)
def test_examples_read_back_as_they_are(name: str):
    module = parse(EXAMPLES / f"{name}.coda")
    text = write_text(module)
    assert text == format_text(text, "written.coda")
    again = parse_text(text, "written.coda")
    assert operators(again) == operators(module)
    assert write_text(again) == text


def test_variables_keep_their_names():
    written = write_text(parse(EXAMPLES / "llama_mlp.coda"))
    for line in ("h = rms_norm(x, norm, eps=1e-05)", "return x + linear(a, w_down)"):
        assert line in written


CALLS = """\
fn f(x: f32[M, 8], mask: bool[M, 8]) -> (f32[M, 8], i64[M, 8]) {
    kept = torch("aten.where.self({0}, {1}, {2})", mask, x, -x, dtype=f32, shape=[M, 8])
    noise = torch("aten.rand_like.default({0})", kept, dtype=f32, shape=[M, 8], random=true)
    order = torch("aten.sort.default({0})", noise, dtype=i64, shape=[M, 8], positions=[1])
    flat = torch("aten.flatten.using_ints({0})", kept, dtype=f32, shape=[8 * M], view=true)
    r1 = reshape(flat, [M, 8])
    return r1, order
}
"""


def test_calls_of_pytorch():
    module = parse_text(CALLS, "calls.coda")
    assert write_text(module) == CALLS
    x, mask = torch.randn(3, 8), torch.rand(3, 8) > 0.5
    kept, order = run_function(find_entry(module), [x, mask], "stated")
    torch.testing.assert_close(kept, torch.where(mask, x, -x))
    assert torch.equal(order[0].sort().values, torch.arange(8))


def test_constants_by_themselves():
    text = """\
fn f(x: f32[M, 8], mask: bool[M, 8]) -> (f32[M, 8], f32[], i64[]) {
    where1 = torch(
        "aten.where.self({0}, {1}, {2})",
        mask,
        x,
        cast(0.5, f32),
        dtype=f32,
        shape=[M, 8],
    )
    a1 = cast(2, f32) * 3
    return where1, a1, cast(7, i64)
}
"""
    module = parse_text(text, "constants.coda")
    assert write_text(module) == text
    x, mask = torch.randn(3, 8), torch.rand(3, 8) > 0.5
    where, product, seven = run_function(find_entry(module), [x, mask], "stated")
    torch.testing.assert_close(where, torch.where(mask, x, 0.5))
    assert (product.item(), seven.item(), seven.dtype) == (6, 7, torch.int64)


def test_attention_with_sinks_and_a_mask():
    text = """\
fn f(q: f32[T, 16], s: f32[2], m: bool[1, T]) -> f32[T, 16] {
    y = attention(q, q, q, head_dim=8, window=3, sinks=s)
    return attention(y, y, y, head_dim=8, causal=true, sinks=s, mask=m)
}
"""
    assert write_text(parse_text(text, "attention.coda")) == text


def test_sizes_that_are_calculated():
    text = """\
fn f(x: f32[M, 8]) -> f32[2 * M + 1, 8] {
    return torch("aten.new_zeros.default({0}, [2 * M + 1, 8])", x, dtype=f32, shape=[2 * M + 1, 8])
}
"""
    assert write_text(parse_text(text, "sizes.coda")) == text


def test_calls_in_functions_that_are_inlined():
    module = parse_text(
        """\
        fn f(x: f32[M, 8]) -> f32[M, 8] { return outer(reshape(x, [2 * M, 4]), x) }
        fn outer(y: f32[R, C], x: f32[N, D]) {
            return torch("aten.view.default({0}, [R // 2, C + D - 4])", y, dtype=f32, shape=[N, D])
        }
        """,
        "calls.coda",
    )
    (call,) = [op for op in module.walk() if op.name == "torch.call"]
    assert str(call.properties["arguments"]) == '"{0}, [2 * M // 2, 4 + 8 - 4]"'
    x = torch.randn(3, 8)
    (result,) = run_function(find_entry(module), [x], "stated")
    torch.testing.assert_close(result, x)


@pytest.mark.parametrize(
    ("operator", "message"),
    [
        (
            '%y, %z = torch.call "aten.topk.default"(%x) {arguments = "{0}, 8"} '
            ": (tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xi64>)",
            "aten.topk.default cannot be written as .coda: .* with 2 results",
        ),
        (
            '%y = torch.call "aten.relu.default"(%x) {arguments = "{0}"} '
            ": (tensor<?x8xf32>) -> tensor<?x8xf32>",
            "aten.relu.default .* sizes of the result are not known by name",
        ),
        (
            "%y, %lse = coda.attention %x, %x, %x {head_dim = 8 : i64, causal = true} : "
            "(tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32> "
            "lse tensor<1x1x?xf32>",
            "coda.attention cannot be written as .coda: the logsumexp of scores",
        ),
        (
            '%w = torch.call "aten._to_copy.default"(%x) {arguments = "{0}", coda.dims = ["M", 8]} '
            ": (tensor<?x8xf32>) -> tensor<?x8xi8>\n%y = coda.neg %x : (tensor<?x8xf32>) -> "
            "tensor<?x8xf32>",
            None,
        ),
    ],
)
def test_what_the_language_lacks(operator: str, message: str | None):
    module = parse(
        'func.func @f(%x: tensor<?x8xf32> {coda.name = "x", coda.dims = ["M", 8]}) '
        f"-> tensor<?x8xf32> {{\n{operator}\nfunc.return %y : tensor<?x8xf32>\n}}"
    )
    if message is None:
        assert "neg" not in write_text(module) and "to_copy" not in write_text(module)
        return
    with pytest.raises(UnwritableError, match=message) as caught:
        write_text(module)
    assert caught.value.remedy


def llama() -> tuple[Any, Any, Any]:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        **SIZES, intermediate_size=48, num_key_value_heads=2, use_cache=False, vocab_size=61
    )
    return LlamaForCausalLM(config), {"input_ids": torch.randint(0, 61, (2, 7))}, (0, 1)


def gpt2() -> tuple[Any, Any, Any]:
    from transformers import GPT2Config, GPT2LMHeadModel

    tokens: Any = {"bos_token_id": 0, "eos_token_id": 0, "use_cache": False}
    config = GPT2Config(vocab_size=61, n_embd=32, n_layer=1, n_head=4, **tokens)
    return GPT2LMHeadModel(config), {"input_ids": torch.randint(0, 61, (2, 7))}, (0, 1)


def vit() -> tuple[Any, Any, Any]:
    from transformers import ViTConfig, ViTForImageClassification

    image: Any = {"image_size": 16, "patch_size": 8, "num_labels": 5}
    config = ViTConfig(**SIZES, **image, intermediate_size=48)
    return ViTForImageClassification(config), {"pixel_values": torch.randn(2, 3, 16, 16)}, (0,)


SIZES: Any = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4}


def exported(build: Callable[[], tuple[Any, Any, Any]]) -> tuple[Any, ExportedModel]:
    torch.manual_seed(0)  # pyright: ignore
    model, inputs, axes = build()
    dynamic: Any = torch.export.Dim.DYNAMIC
    shapes = {name: dict.fromkeys(axes, dynamic) for name in inputs}
    return inputs, export(model.eval(), (), inputs, dynamic_shapes=shapes)


@pytest.mark.slow
@daily(lambda build: build is not gpt2)
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("build", [llama, gpt2, vit])
def test_models_of_transformers(build: Callable[[], tuple[Any, Any, Any]]):
    pytest.importorskip("transformers")
    inputs, whole = exported(build)
    written = write_module(whole.module)
    again = parse_text(written.text, "written.coda")
    # What is written has fewer operators: what nothing uses is left out.
    assert set(operators(again)) == set(operators(whole.module))
    functions = [find_entry(module) for module in (whole.module, again)]
    (names,) = written.parameters.values()
    assert "\n    # " in written.text
    assert set(whole.weights) < set(names) and len(set(names.values())) == len(names)
    tensors = whole.arguments(**inputs)
    for got, wanted in zip(*(run_function(f, tensors, "stated") for f in functions), strict=True):
        assert torch.equal(got, wanted)
