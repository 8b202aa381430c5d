"""Rows of tables that pointwise kernels load by their ids."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import coda_ir
from coda_ir.api import Lowering
from coda_ir.backends.triton import emit_program
from coda_ir.backends.triton.aot import compile_kernels
from coda_ir.float64 import relative_error

V, P, D = 50, 9, 48

HEAD = f"""
fn head(ids: i64[B, T], kinds: i32[T], weight words: bf16[{V}, {D}], weight places: bf16[{P}, {D}],
        weight types: bf16[2, {D}], weight g: bf16[{D}], weight w: bf16[32, {D}]) {{
    x = embedding(ids, words) + embedding(arange(T, start=1), places) + embedding(kinds, types)
    return x, linear(rms_norm(x, g), w)
}}
"""


def head(ids: Tensor, kinds: Tensor, words: Tensor, places: Tensor, types: Tensor, *rest: Tensor):
    g, w = rest
    x = F.embedding(ids, words) + F.embedding(torch.arange(1, ids.shape[1] + 1), places)
    x = x + F.embedding(kinds, types)
    return x, F.linear(F.rms_norm(x, (D,), g, 1e-6), w)


SUMS = f"""
fn sums(ids: i64[B, T], s: bf16[B, 1, {D}], weight words: bf16[{V}, {D}],
        weight places: bf16[{P}, {D}]) {{
    x = embedding(ids, words) * embedding(arange(T), places)
    return sum(x, dim=-1), sum(embedding(ids, places) * s, dim=-1)
}}
"""


def arguments(batch: int, length: int) -> list[Tensor]:
    tables = [torch.randn(rows, D).bfloat16() for rows in (V, P, 2)]
    norm, w = (1 + torch.randn(D) / 8).bfloat16(), (torch.randn(32, D) / 8).bfloat16()
    ids, kinds = torch.randint(V, (batch, length)), torch.randint(2, (length,), dtype=torch.int32)
    return [ids, kinds, *tables, norm, w]


@pytest.mark.parametrize(("batch", "length"), [(3, 7), (1, 1), (0, 5)])
def test_one_kernel_loads_the_rows_of_three_tables(batch: int, length: int):
    program = coda_ir.compile(HEAD, device="cpu")
    given = arguments(batch, length)
    found = program(*given)
    exact = head(*(x.double() if x.is_floating_point() else x for x in given))
    for result, eager, wanted in zip(found, head(*given), exact, strict=True):
        assert relative_error(result, wanted) <= 1.25 * relative_error(eager, wanted)
    assert "torch.nn.functional.embedding" not in program.source
    assert len(program.kernels) == 3


def test_the_rows_of_a_kernel_that_stores_none():
    """Tests that ids state how many rows there are, and not the table."""
    ids, s = torch.randint(P, (4, 8)), torch.randn(4, 1, D).bfloat16()
    words, places = (torch.randn(rows, D).bfloat16() for rows in (V, P))
    found = coda_ir.compile(SUMS, device="cpu")(ids, s, words, places)
    exact = (
        F.embedding(ids, words.double()) * places[:8].double(),
        F.embedding(ids, places.double()) * s.double(),
    )
    for result, products in zip(found, exact, strict=True):
        assert relative_error(result, products.sum(-1, keepdim=True)) < 4e-3


@pytest.mark.parametrize("wrong", [-1, V])
def test_an_id_that_is_no_row(wrong: int):
    given = arguments(2, 3)
    given[0][1, 0] = wrong
    with pytest.raises(IndexError, match=f"ids: row 3 has {wrong}, expected 0 to {V - 1}$"):
        coda_ir.compile(HEAD, device="cpu")(*given)


def test_more_positions_than_rows():
    with pytest.raises(IndexError, match=f"row {P - 1} has {P}, expected 0 to {P - 1}$"):
        coda_ir.compile(HEAD, device="cpu")(*arguments(1, P))


def test_gpus_check_ids():
    lowering = Lowering(coda_ir.parse(HEAD))
    program = emit_program(lowering.module("scheduled"), direct_launch=True)
    (kernel,) = (kernel for kernel in program.kernels if kernel.asserts)
    (compiled,) = compile_kernels([kernel], "sm_90", "ptx")
    assert "__assertfail" in str(compiled.text)
