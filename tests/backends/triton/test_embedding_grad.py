"""The gradient of an embedding: rows added up by id in a fixed order, in float32."""

import pytest
import torch
from support.emitted import assert_as_accurate, load_program, operator_program, run_operator

from coda_ir.api import parse
from coda_ir.backends.triton import emit_module
from coda_ir.backends.triton.aot import compile_kernels
from coda_ir.backends.triton.embedding_grad_kernel import embedding_grad_kernel
from coda_ir.dialects.coda import EmbeddingGradOp
from coda_ir.numbered_elements import FEW_IDS

TYPES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}
OPERATOR = "coda.embedding_grad"


@pytest.fixture(params=["read", "sorted"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The way to find the rows of more than FEW_IDS ids of a table of any size."""
    if request.param == "sorted":
        for name in ("FEW_ELEMENTS", "FEW_SUMS"):
            monkeypatch.setattr(f"coda_ir.numbered_elements.{name}", 0)
    return request.param


def ids_of(rows: int, *shape: int) -> torch.Tensor:
    """Half of them are 3, so that one id takes several turns; some do not occur."""
    generator = torch.Generator().manual_seed(rows)
    ids = torch.randint(1, rows - 1, shape, generator=generator)
    return torch.where(torch.rand(shape, generator=generator) < 0.5, 3, ids)


def exact_gradient(ids: torch.Tensor, dy: torch.Tensor, rows: int) -> torch.Tensor:
    total = torch.zeros(rows, dy.shape[-1], dtype=torch.float64)
    return total.index_add_(0, ids.reshape(-1).long(), dy.double().reshape(-1, dy.shape[-1]))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", TYPES, ids=TYPES.get)
@pytest.mark.parametrize(("rows", "columns"), [(9, 1), (70, 24), (70, 1030)])
def test_sums(rows: int, columns: int, dtype: torch.dtype, way: str) -> None:
    ids = ids_of(rows, 2, 150)
    dy = torch.randn(2, 150, columns, generator=torch.Generator().manual_seed(1)).to(dtype)
    result = f"tensor<{rows}x{columns}x{TYPES[dtype]}>"
    actual = run_operator(OPERATOR, ids.int(), dy, result=result)
    eager = torch.zeros(rows, columns).index_add_(0, ids.flatten(), dy.float().flatten(0, 1))
    assert_as_accurate(actual, eager.to(dtype), exact_gradient(ids, dy, rows))
    assert not actual[[0, -1]].any()


@pytest.mark.parametrize("count", [20, FEW_IDS + 1])
def test_padding(count: int, way: str) -> None:
    ids, dy = ids_of(9, count), torch.randn(count, 24)
    operator = f"{OPERATOR} {{padding_idx = 3}}"
    actual = run_operator(operator, ids, dy, result="tensor<9x24xf32>")
    exact = exact_gradient(ids, dy, 9)
    exact[3] = 0
    torch.testing.assert_close(actual.double(), exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("repeats", [1, 10])
def test_ids_beyond_the_table_store_nothing(repeats: int, way: str) -> None:
    ids = torch.tensor([-2, 1, 9, -1, 1, 8, 100]).repeat(repeats)
    dy = torch.randn(len(ids), 24)
    actual = run_operator(OPERATOR, ids, dy, result="tensor<9x24xf32>")
    inside = (ids >= 0) & (ids < 9)
    exact = exact_gradient(ids[inside], dy[inside], 9)
    torch.testing.assert_close(actual.double(), exact, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", TYPES, ids=TYPES.get)
@pytest.mark.parametrize("columns", [1, 1030])
def test_few_ids(columns: int, dtype: torch.dtype) -> None:
    """One kernel computes the gradient, in float32."""
    ids = ids_of(9, 2, FEW_IDS // 2)
    dy = torch.randn(*ids.shape, columns, generator=torch.Generator().manual_seed(1)).to(dtype)
    result = f"tensor<9x{columns}x{TYPES[dtype]}>"
    actual = run_operator(OPERATOR, ids, dy, result=result)
    eager = torch.zeros(9, columns).index_add_(0, ids.flatten(), dy.float().flatten(0, 1))
    assert_as_accurate(actual, eager.to(dtype), exact_gradient(ids, dy, 9))
    assert not actual[[0, -1]].any()


def test_programs_share_the_ids_of_a_row_of_a_short_table() -> None:
    ids = ids_of(5, 1200)
    dy = torch.randn(1200, 130, generator=torch.Generator().manual_seed(1)).bfloat16()
    text = operator_program(OPERATOR, [ids, dy], "tensor<5x130xbf16>")
    assert "SPLIT_K: tl.constexpr = 2" in emit_module(parse(text))
    run, exact = load_program(text), exact_gradient(ids, dy, 5)
    for _ in range(2):  # the counters are zero again
        assert_as_accurate(run(ids, dy), exact.bfloat16(), exact)


def test_an_unknown_number_of_ids_of_a_short_table() -> None:
    """Most of the programs that share a row have no ids in a small batch, or all have none."""
    text = """
        func.func @f(%ids : tensor<?xi32>, %dy : tensor<?x3xf32>) -> tensor<5x3xf32> {
          %d = coda.embedding_grad %ids, %dy : (tensor<?xi32>, tensor<?x3xf32>) -> tensor<5x3xf32>
          func.return %d : tensor<5x3xf32>
        }"""
    run = load_program(text)
    for count in (40, 0):
        ids, dy = ids_of(5, count).int(), torch.randn(count, 3)
        torch.testing.assert_close(run(ids, dy), exact_gradient(ids, dy, 5).float())


@pytest.mark.parametrize("rows", [5, 9000])
def test_no_rows(rows: int) -> None:
    none = torch.empty(0, dtype=torch.int64)
    actual = run_operator(OPERATOR, none, torch.empty(0, 4), result=f"tensor<{rows}x4xf32>")
    assert torch.equal(actual, torch.zeros(rows, 4))


def test_sizes_that_are_not_known() -> None:
    text = """
        func.func @f(%ids : tensor<?xi64> {coda.dims = ["M"]},
                     %dy : tensor<?x?xbf16> {coda.dims = ["M", "D"]},
                     %table : tensor<?x?xbf16> {coda.dims = ["V", "D"]}) -> tensor<?x?xbf16> {
          %d = coda.embedding_grad %ids, %dy, %table
            : (tensor<?xi64>, tensor<?x?xbf16>, tensor<?x?xbf16>) -> tensor<?x?xbf16>
          func.return %d : tensor<?x?xbf16>
        }"""
    ids, dy = ids_of(7, 40), torch.randn(40, 1100).bfloat16()
    exact = exact_gradient(ids, dy, 7)
    actual = load_program(text)(ids, dy, torch.empty(7, 1100).bfloat16())
    assert_as_accurate(actual, exact.bfloat16(), exact)


def test_ids_of_several_tables_are_sorted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coda_ir.numbered_elements.FEW_ELEMENTS", 0)
    text = """
        func.func @f(%ids : tensor<?xi64>, %a : tensor<?x32xf32>, %b : tensor<?x48xf32>)
            -> (tensor<90x32xf32>, tensor<90x48xf32>) {
          %d = coda.embedding_grad %ids, %a : (tensor<?xi64>, tensor<?x32xf32>) -> tensor<90x32xf32>
          %e = coda.embedding_grad %ids, %b : (tensor<?xi64>, tensor<?x48xf32>) -> tensor<90x48xf32>
          func.return %d, %e : tensor<90x32xf32>, tensor<90x48xf32>
        }"""
    ids, tables = ids_of(90, 40), [torch.randn(40, 32), torch.randn(40, 48)]
    run = load_program(text)
    for actual, dy in zip(run(ids, *tables), tables, strict=True):
        torch.testing.assert_close(actual, exact_gradient(ids, dy, 90).float())
    assert emit_module(parse(text)).count(" = sorted_ids(") == 1


def test_rows_of_an_id_keep_their_order() -> None:
    """A sort that is not stable would add them in another order each time."""
    ids = ids_of(5, 4, 200)
    text = operator_program(OPERATOR, [ids, torch.randn(4, 200, 2)], "tensor<900000x2xf32>")
    found, order = load_program(text).__globals__["sorted_ids"](ids)
    assert torch.equal(found, ids.flatten()[order])
    for number in range(5):
        places = order[found == number]
        assert torch.equal(places, (ids.flatten() == number).nonzero().flatten())


def test_kernel_compiles() -> None:
    dy, ids = torch.empty(1, 4096, dtype=torch.bfloat16), torch.zeros(1, dtype=torch.int64)
    module = parse(operator_program(OPERATOR, [ids, dy], "tensor<256x4096xbf16>"))
    (op,) = (op for op in module.walk() if isinstance(op, EmbeddingGradOp))
    (kernel,) = compile_kernels([embedding_grad_kernel(op, "embedding_grad")], "sm_90", "ptx")
    assert kernel.resources.fits and not kernel.resources.spills, kernel.resources
    assert "ld.global.v4" in kernel.text, "loads are narrow"
