"""Calls of PyTorch inside a compiled program, between kernels."""

import pytest
import torch
from support.programs import parse_mlir

import coda_ir
from coda_ir.api import find_entry
from coda_ir.backends.reference import run_function
from coda_ir.diagnostics import CodaError
from coda_ir.frontends.coda_text import parse_text

PROGRAM = """
func.func @f(%x: tensor<?x8xf32> {coda.name = "x", coda.dims = ["M", 8 : i64]},
             %w: tensor<8x8xf32> {coda.name = "w", coda.dims = [8 : i64, 8 : i64]})
    -> (tensor<?x8xf32>, tensor<?x4xf32>) {
  %a = coda.linear %x, %w : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
  %sum = torch.call "aten.cumsum.default"(%a) {arguments = "{0}, 0"} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %steps = torch.call "aten.arange.default"() {arguments = "M, dtype=torch.float32, device=device", coda.dims = ["M"]} : () -> tensor<?xf32>
  %column = coda.reshape %steps : (tensor<?xf32>) -> tensor<?x1xf32>
  %y = coda.mul %sum, %column : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  %left, %right = torch.call "aten.split.Tensor"(%y) {arguments = "{0}, 4, 1", view} : (tensor<?x8xf32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
  %z = coda.silu %right : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %last = coda.linear %a, %w : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
  func.return %last, %z : tensor<?x8xf32>, tensor<?x4xf32>
}
"""  # noqa: E501


def expected(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    a = x @ w.T
    y = a.cumsum(0) * torch.arange(len(x))[:, None]
    return a @ w.T, torch.nn.functional.silu(y[:, 4:])


@pytest.mark.parametrize("rows", [1, 5])
def test_program(rows: int):
    x, w = torch.randn(rows, 8, dtype=torch.float64), torch.randn(8, 8, dtype=torch.float64)
    wanted = expected(x, w)
    module = parse_mlir(PROGRAM)
    (func,) = module.ops
    for exact, result in zip(wanted, run_function(func, [x, w]), strict=True):  # pyright: ignore
        torch.testing.assert_close(result, exact, rtol=1e-12, atol=1e-12)
    compiled = coda_ir.compile(module, device="cpu")
    assert "torch.ops.aten.cumsum.default(" in compiled.source
    for exact, result in zip(wanted, compiled(x.float(), w.float()), strict=True):
        torch.testing.assert_close(result.double(), exact, rtol=1e-4, atol=1e-4)


RUNNING_SUMS = """
func.func @f(%x: tensor<2x5x3x8xf32> {coda.name = "x"}, %w: tensor<8x8xf32> {coda.name = "w"})
    -> tensor<2x5x3x8xf32> {
  %s = coda.cumsum %x {dim = DIM : i64} : (tensor<2x5x3x8xf32>) -> tensor<2x5x3x8xf32>
  %y = coda.linear %s, %w : (tensor<2x5x3x8xf32>, tensor<8x8xf32>) -> tensor<2x5x3x8xf32>
  func.return %y : tensor<2x5x3x8xf32>
}
"""


@pytest.mark.parametrize(("dim", "transposed"), [(1, ".transpose(1, -1)"), (3, "")])
def test_running_sums_are_scans_of_rows(dim: int, transposed: str):
    """PyTorch adds up the elements of a column one after the other."""
    compiled = coda_ir.compile(parse_mlir(RUNNING_SUMS.replace("DIM", str(dim))), device="cpu")
    x, w = torch.randn(2, 5, 3, 8), torch.randn(8, 8)
    exact = x.double().cumsum(dim) @ w.double().T
    torch.testing.assert_close(compiled(x, w).double(), exact, rtol=1e-4, atol=1e-4)
    assert transposed in compiled.source
    assert (".transpose(" in compiled.source) == bool(transposed)


def test_running_sums_of_many_columns_are_not_copied():
    text = RUNNING_SUMS.replace("DIM", "1").replace("2x5x3x8", "500x5x3x8")
    compiled = coda_ir.compile(parse_mlir(text), device="cpu")
    assert ".transpose(" not in compiled.source


def test_a_dimension_that_nothing_tells():
    text = PROGRAM.replace('"M, dtype', '"N, dtype').replace('coda.dims = ["M"]', "a")
    with pytest.raises(CodaError, match="the arguments do not determine the extent N"):
        coda_ir.compile(parse_mlir(text), device="cpu")


def test_an_operator_that_pytorch_does_not_have():
    module = parse_mlir(PROGRAM.replace("aten.cumsum.default", "aten.cum_sum.default"))
    (func,) = module.ops
    with pytest.raises(CodaError, match=r"PyTorch has no operator aten\.cum_sum\.default"):
        run_function(func, [torch.randn(2, 8), torch.randn(8, 8)])  # pyright: ignore


STATED = """
func.func @f(%x: tensor<?x8xf32> {coda.name = "x", coda.dims = ["M", 8 : i64]})
    -> tensor<?x4xf32> {
  %a = torch.call "CALL"(%x) {arguments = "ARGUMENTS", coda.dims = ["M", 4 : i64]} : (tensor<?x8xf32>) -> tensor<?x4xf32>
  %y = coda.silu %a : (tensor<?x4xf32>) -> tensor<?x4xf32>
  func.return %y : tensor<?x4xf32>
}
"""  # noqa: E501


@pytest.mark.parametrize(
    ("callee", "arguments", "actual", "stated"),
    [
        ("aten.narrow.default", "{0}, 1, 0, 4", None, None),
        ("aten.narrow.default", "{0}, 1, 0, 2", "torch.float.. .3, 2.", "torch.float.. .3, 4."),
        ("aten.narrow.default", "{0}, 0, 0, 2", "torch.float.. .2, 8.", "torch.float.. .3, 4."),
        ("aten.sum.dim_IntList", "{0}, [1]", "torch.float.. .3.", "torch.float.. .3, 4."),
        ("aten.argsort.default", "{0}", "torch.int64 .3, 8.", "torch.float.. .3, 4."),
        ("aten.unbind.int", "{0}, 1", "8 results|list|tuple", ""),
    ],
)
def test_the_type_that_is_stated(callee: str, arguments: str, actual: str | None, stated: str):
    module = parse_mlir(STATED.replace("CALL", callee).replace("ARGUMENTS", arguments))
    (func,) = module.ops
    compiled, x = coda_ir.compile(module, device="cpu"), torch.randn(3, 8)
    if actual is None:
        torch.testing.assert_close(compiled(x), torch.nn.functional.silu(x[:, :4]))
        return
    with pytest.raises(ValueError, match=rf"{callee} gives ({actual}).*states.*{stated}"):
        compiled(x)
    for precision in ("float64", "stated"):
        with pytest.raises(CodaError, match=rf"{callee} .*gives ({actual}).*states.*{stated}"):
            run_function(func, [x], precision)  # pyright: ignore


def test_bytes_without_a_sign():
    module = parse_mlir("""
func.func @f(%x: tensor<?x8xf32> {coda.name = "x", coda.dims = ["M", 8 : i64]}) -> tensor<?x8xf32> {
  %b = torch.call "aten._to_copy.default"(%x) {arguments = "{0}, dtype=torch.uint8", coda.dims = ["M", 8 : i64]} : (tensor<?x8xf32>) -> tensor<?x8xui8>
  %y = torch.call "aten._to_copy.default"(%b) {arguments = "{0}, dtype=torch.float32", coda.dims = ["M", 8 : i64]} : (tensor<?x8xui8>) -> tensor<?x8xf32>
  func.return %y : tensor<?x8xf32>
}
""")  # noqa: E501
    x = torch.arange(240.0, 256.0).reshape(2, 8)
    assert torch.equal(coda_ir.compile(module, device="cpu")(x), x)
    assert torch.equal(run_function(find_entry(module), [x], "stated")[0], x)


def test_numbers_have_the_types_that_are_stated():
    module = parse_text(
        """\
fn f(x: f32[M, 8], m: bool[M, 1]) -> f32[M, 8] {
    z = torch(
        "aten.where.self({0}, {1}, {2})", m, cast(1, f32), cast(0.5, f32), dtype=f32, shape=[M, 1]
    )
    return x * z
}
""",
        "numbers.coda",
    )
    x, m = torch.randn(3, 8), torch.tensor([[True], [False], [True]])
    wanted = x * torch.where(m, 1.0, 0.5)
    torch.testing.assert_close(coda_ir.compile(module, device="cpu")(x, m), wanted)
    torch.testing.assert_close(run_function(find_entry(module), [x, m], "stated")[0], wanted)


SUMS = """\
fn f(x: f32[M, 8], y: f32[N, 8]) -> f32[2 * M + N + 1, 8] {
    z = torch(
        "aten.new_ones.default({0}, [2 * M + N + 1, 8])", x, dtype=f32, shape=[2 * M + N + 1, 8]
    )
    return silu(z)
}
"""


def test_sizes_that_are_sums():
    module = parse_text(SUMS, "sums.coda")
    tensors = torch.randn(3, 8), torch.randn(4, 8)
    wanted = torch.nn.functional.silu(torch.ones(11, 8))
    torch.testing.assert_close(coda_ir.compile(module, device="cpu")(*tensors), wanted)
    (result,) = run_function(find_entry(module), tensors, "stated")
    torch.testing.assert_close(result, wanted)
    wrong = parse_text(SUMS.replace("[2 * M + N + 1, 8])", "[2 * M + N, 8])"), "sums.coda")
    message = r"sums.coda:2:9.*new_ones.*states torch.float32 .11, 8.\n  help: pass larger tensors"
    with pytest.raises(ValueError, match=message):
        coda_ir.compile(wrong, device="cpu")(*tensors)
    with pytest.raises(CodaError, match=r"sums.coda:2:9 gives .*10, 8.*states torch.float64 .11"):
        run_function(find_entry(wrong), tensors)
