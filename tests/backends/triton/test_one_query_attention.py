"""Attention of one query for each head: a kernel of its own, compared with float64."""

from itertools import product
from typing import Any

import pytest
import torch
from support.one_query_programs import OneQuery, attend, one_query_inputs
from support.programs import parse_mlir

import coda_ir
from coda_ir.api import CompiledFunction
from coda_ir.backends.triton import emit_program
from coda_ir.backends.triton.aot import compile_kernels
from coda_ir.float64 import relative_error
from coda_ir.lowering import Lowering
from coda_ir.options import CompileOptions

KERNEL = "def attend_one_query"
ALLOWED = {"f32": 1e-6, "f16": 1e-3, "bf16": 5e-3}

PROGRAMS = {
    "no mask": OneQuery(options="0.0, False"),
    "shared heads": OneQuery("bf16", heads=(12, 3), columns=24, options="enable_gqa=True"),
    "one head of keys": OneQuery("f16", heads=(16, 1), columns=128, options="enable_gqa=True"),
    "wide heads": OneQuery("bf16", heads=(2, 2), columns=256, keys=130, options="scale=0.5"),
    "truth values": OneQuery("bf16", keys=70, mask="Bx1x1xSxi1"),
    "truth values of heads": OneQuery(heads=(4, 2), mask="Bx4x1xSxi1", options="enable_gqa=True"),
    "floats": OneQuery("bf16", mask="1x4x1xSxf32"),
    "floats of two dimensions": OneQuery(mask="1xSxf32"),
    "one truth value": OneQuery(mask="Bx1x1x1xi1"),
    "one float": OneQuery(mask="Bx1x1x1xf32"),
    "shared keys": OneQuery(batch=1, heads=(2, 2), keys=700),
    "shared keys of heads": OneQuery(
        "bf16", batch=2, heads=(8, 2), keys=555, mask="Bx1x1xSxi1", options="enable_gqa=True"
    ),
    "symbols": OneQuery("bf16", batch=None, keys=None, mask="Bx1x1xSxi1"),
    "one key": OneQuery(keys=1),
    "narrow values": OneQuery(
        "bf16", heads=(8, 2), keys=555, columns=24, values=16, options="enable_gqa=True"
    ),
    "wide values": OneQuery(columns=8, values=40),
}

SHARED = ("narrow values", "wide heads", "shared keys", "shared keys of heads", "symbols")
"""Cases in which several programs share the keys of a head."""

PYTORCH = {
    "two queries": OneQuery(queries=2),
    "a causal mask": OneQuery(options="0.0, True"),
    "heads that may not be shared": OneQuery(heads=(4, 2)),
    "dropout": OneQuery(options="0.5, False"),
    "wider heads": OneQuery(columns=257),
    "more queries than a tile": OneQuery(heads=(17, 1), options="enable_gqa=True"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_agrees_with_float64(name: str):
    program = PROGRAMS[name]
    compiled = coda_ir.compile(parse_mlir(program.text), device="cpu")
    assert KERNEL in compiled.source and "scaled_dot_product" not in compiled.source
    assert ("SPLITS" in compiled.source) == (name in SHARED)
    sizes = product((1, 3), (1, 200)) if program.batch is None else [(program.batch, 1)]
    for batch, keys in sizes:
        tensors = one_query_inputs(program, batch, keys)
        wanted = attend(tensors, 0.5 if "scale" in program.options else None)
        result: Any = compiled(*tensors)
        assert relative_error(result, wanted) < ALLOWED[program.element]
        assert torch.equal(compiled(*tensors), result)  # type: ignore[arg-type]


def test_a_query_that_sees_no_key_gives_zeros():
    program = PROGRAMS["shared keys of heads"]
    q, k, v, mask = one_query_inputs(program)
    mask[1] = False
    result: Any = coda_ir.compile(parse_mlir(program.text), device="cpu")(q, k, v, mask)
    assert not result[1].any() and result[0].all()


def test_a_score_that_is_no_number_is_seen():
    program = PROGRAMS["shared keys"]
    q, k, v = one_query_inputs(program)
    k[0, 1, 600] = float("nan")
    result: Any = coda_ir.compile(parse_mlir(program.text), device="cpu")(q, k, v)
    assert result[0, 1].isnan().all() and not result[0, 0].isnan().any()


def test_keys_that_are_no_rows_of_memory():
    program = PROGRAMS["no mask"]
    q, k, v = one_query_inputs(program)
    k = k.transpose(2, 3).contiguous().transpose(2, 3)
    result: Any = coda_ir.compile(parse_mlir(program.text), device="cpu")(q, k, v)
    assert relative_error(result, attend([q, k, v])) < ALLOWED["f32"]


@pytest.mark.parametrize("name", PYTORCH)
def test_what_pytorch_does(name: str):
    source = coda_ir.compile(parse_mlir(PYTORCH[name].text), device="cpu").source
    assert KERNEL not in source and "scaled_dot_product_attention.default(" in source


@pytest.mark.parametrize("numerics", ["eager-exact", "deterministic"])
def test_promises_about_bits_are_kept_by_pytorch(numerics: str):
    module = parse_mlir(PROGRAMS["no mask"].text)
    assert KERNEL not in coda_ir.compile(module, device="cpu", numerics=numerics).source


def test_other_symbols_may_be_other_numbers():
    text = PROGRAMS["symbols"].text.replace('"S"', '"R"', 1)
    assert KERNEL not in coda_ir.compile(parse_mlir(text), device="cpu").source


def test_remark():
    remarks = coda_ir.compile(parse_mlir(PROGRAMS["no mask"].text), device="cpu").remarks
    (remark,) = (remark for remark in remarks if remark.pass_name == "report-unfused")
    assert "one query per head runs as a separate kernel" in str(remark)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_80", "sm_90", "gfx942"])
def test_compiles_ahead_of_time(target: str):
    for columns, keys in ((64, 512), (128, 4096), (256, None)):
        program = OneQuery("bf16", 1, (32, 8), keys, columns, "Bx1x1xSxi1", "enable_gqa=True")
        lowering = Lowering(parse_mlir(program.text), CompileOptions(f"target={target}"))
        (kernel,) = compile_kernels(emit_program(lowering.module("scheduled"), "f").kernels, target)
        assert kernel.resources.fits and not kernel.resources.spills


COLUMNS = """
fn f(q: TYPE[B, QUERIES, 96], k: TYPE[B, KEYS, SHARED], v: TYPE[B, KEYS, SHARED], sinks: f32[6],
     seen: bool[B, 1, 1, KEYS]) {
    return attention(q, k, v, head_dim=16OPTIONS)
}
"""


def of_columns(
    options: str = "", *, queries: str = "1", keys: str = "S", shared: int = 32
) -> CompiledFunction:
    words = {"TYPE": "f32", "QUERIES": queries, "KEYS": keys, "SHARED": str(shared)}
    text = COLUMNS.replace("OPTIONS", options and f", {options}")
    for word, value in words.items():
        text = text.replace(word, value)
    return coda_ir.compile(text, device="cpu")


@pytest.mark.slow
@pytest.mark.parametrize("options", ["", "mask=seen", "causal=true, mask=seen, scale=0.5"])
@pytest.mark.parametrize("shared", [16, 48, 96])
@pytest.mark.parametrize("keys", ["S", "70", "900"])
def test_heads_in_columns(options: str, shared: int, keys: str):
    compiled = of_columns(options, keys=keys, shared=shared)
    assert KERNEL in compiled.source and "= attention(" not in compiled.source
    for batch in (1, 3):
        count = 210 if keys == "S" else int(keys)
        tensors = [torch.randn(batch, 1, 96), *torch.randn(2, batch, count, shared)]
        tensors += [torch.randn(6), torch.rand(batch, 1, 1, count) < 0.5]
        result: Any = compiled(*tensors)
        wanted: Any = compiled.reference(tensors)
        assert relative_error(result, wanted) < ALLOWED["f32"]


def test_values_of_other_columns():
    """Keys and values as a cache of a multi-head latent attention has them."""
    text = COLUMNS.replace("SHARED]", "32]", 1).replace("SHARED]", "24]", 1)
    text = text.replace("OPTIONS", ", value_dim=12").replace("TYPE", "f32")
    compiled = coda_ir.compile(text.replace("QUERIES", "1").replace("KEYS", "S"), device="cpu")
    assert KERNEL in compiled.source
    tensors = [torch.randn(2, 1, 96), torch.randn(2, 99, 32), torch.randn(2, 99, 24)]
    tensors += [torch.randn(6), torch.rand(2, 1, 1, 99) < 0.5]
    result: Any = compiled(*tensors)
    assert result.shape == (2, 1, 72)
    assert relative_error(result, compiled.reference(tensors)) < ALLOWED["f32"]


@pytest.mark.parametrize(
    "options", ["window=7", "softcap=20.0", "sinks=sinks", "causal=true, mask=seen, window=5"]
)
def test_what_pytorch_does_of_columns(options: str):
    source = of_columns(options).source
    assert KERNEL not in source and "= attention(" in source


def test_two_queries_of_columns():
    assert KERNEL not in of_columns(queries="2").source
    assert KERNEL not in of_columns(queries="T").source
