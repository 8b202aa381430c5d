"""Results that take the place of an operand: `accumulate` ports in emitted modules."""

import pytest
import torch
from support.emitted import load_module
from xdsl.passes import ModulePass

from coda_ir.api import parse
from coda_ir.backends.reference import run_module
from coda_ir.backends.triton import emit_module
from coda_ir.context import make_context
from coda_ir.diagnostics import CodaError
from coda_ir.passes.layout.plan_buffers import PlanBuffersPass
from coda_ir.passes.layout.schedule import SchedulePass
from coda_ir.passes.pipelines.coda_to_gemm import CodaToGemmPass

GRAD = "tensor<16x8xf32>"
SUM = """{
  ^epilogue(%acc: f32, %o: f32):
    %n = arith.addf %o, %acc : f32
    gemm.yield %n : f32
  }"""


def gradient(name: str, old: str) -> str:
    return f"""
  %{name} = gemm.fused transposed %dy : tensor<?x16xf32>
    columns(%x : tensor<?x8xf32>) kn tile(%{old} : {GRAD})
    -> (accumulate<0> : {GRAD}) {SUM}"""


def program(body: str, results: int, attributes: str = "") -> str:
    types = ", ".join([GRAD] * results)
    return f"""
func.func @f(%dy: tensor<?x16xf32> {{coda.dims = ["M", 16]}}, %x: tensor<?x8xf32>,
             %old: {GRAD} {{{attributes}}}) -> ({types}) {{{body}
}}"""


def run(
    text: str, *arguments: torch.Tensor, passes: ModulePass | None = None
) -> tuple[torch.Tensor, ...]:
    """The results of the emitted module, which agree with the reference."""
    module = parse(text)
    expected = run_module(module, [argument.clone() for argument in arguments])
    if passes is not None:
        passes.apply(make_context(), module)
    SchedulePass(target="interpreter").apply(make_context(), module)
    PlanBuffersPass().apply(make_context(), module)
    result: torch.Tensor | tuple[torch.Tensor, ...] = load_module(emit_module(module)).run(
        *arguments
    )
    results = (result,) if isinstance(result, torch.Tensor) else result
    for actual, wanted in zip(results, expected, strict=True):
        torch.testing.assert_close(actual.double(), wanted, rtol=1e-5, atol=1e-5)
    return results


@pytest.fixture
def arguments() -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    shapes = ((21, 16), (21, 8), (16, 8))
    return tuple(torch.randn(shape, generator=generator) for shape in shapes)


def test_a_donated_argument_holds_the_result(arguments: tuple[torch.Tensor, ...]):
    text = program(f"{gradient('dw', 'old')}\n  func.return %dw : {GRAD}", 1, "coda.donated")
    (result,) = run(text, *arguments)
    assert result.data_ptr() == arguments[2].data_ptr()


def test_an_argument_that_the_caller_keeps_is_copied(arguments: tuple[torch.Tensor, ...]):
    before = arguments[2].clone()
    text = program(f"{gradient('dw', 'old')}\n  func.return %dw : {GRAD}", 1)
    run(text, *arguments)
    assert torch.equal(arguments[2], before)


def test_a_chain_of_sums_needs_one_buffer(arguments: tuple[torch.Tensor, ...]):
    body = f"""{gradient("a", "old")}{gradient("b", "a")}
  %c = gemm.map tile(%b : {GRAD})
    -> (accumulate<0> : {GRAD}) {{
  ^epilogue(%o: f32):
    %n = arith.negf %o : f32
    gemm.yield %n : f32
  }}
  func.return %c : {GRAD}"""
    (result,) = run(program(body, 1, "coda.donated"), *arguments)
    assert result.data_ptr() == arguments[2].data_ptr()


def test_other_views_of_an_operand_keep_its_values(arguments: tuple[torch.Tensor, ...]):
    body = f"""
  %y = gemm.map tile(%old : {GRAD})
    -> (tile : {GRAD}) {{
  ^epilogue(%o: f32):
    %n = arith.negf %o : f32
    gemm.yield %n : f32
  }}
  %v = coda.reshape %y : ({GRAD}) -> {GRAD}{gradient("dw", "v")}
  %z = coda.exp %y : ({GRAD}) -> {GRAD}
  func.return %dw, %z : {GRAD}, {GRAD}"""
    run(program(body, 2), *arguments)


def test_gradients_are_accumulated_in_the_tensors_that_the_caller_gives_up():
    """From the block level: gradients of two weights that share x, and a copy that is kept."""
    wide, narrow = "tensor<?x16xbf16>", "tensor<?x8xbf16>"
    text = f"""
func.func @f(%dy: {wide} {{coda.dims = ["M", 16]}}, %dz: {wide} {{coda.dims = ["M", 16]}},
             %x: {narrow} {{coda.dims = ["M", 8]}}, %a: {GRAD} {{coda.donated}},
             %b: {GRAD} {{coda.donated}}, %c: {GRAD}) -> ({GRAD}, {GRAD}, {GRAD}) {{
  %dw = coda.weight_gradient %dy, %x : ({wide}, {narrow}) -> {GRAD}
  %dv = coda.weight_gradient %dz, %x : ({wide}, {narrow}) -> {GRAD}
  %sum_w = coda.add %a, %dw : ({GRAD}, {GRAD}) -> {GRAD}
  %sum_v = coda.add %b, %dv : ({GRAD}, {GRAD}) -> {GRAD}
  %sum = coda.add %c, %dv : ({GRAD}, {GRAD}) -> {GRAD}
  func.return %sum_w, %sum_v, %sum : {GRAD}, {GRAD}, {GRAD}
}}"""
    generator = torch.Generator().manual_seed(1)
    dy, dz, x = (torch.randn(33, n, generator=generator).bfloat16() for n in (16, 16, 8))
    a, b, c = (torch.randn(16, 8, generator=generator) for _ in range(3))
    results = run(text, dy, dz, x, a, b, c, passes=CodaToGemmPass())
    assert results[0].data_ptr() == a.data_ptr()
    assert results[1].data_ptr() == b.data_ptr()
    assert results[2].data_ptr() != c.data_ptr()


JOINED = """
func.func @f(%dy: tensor<?x48xf32> {coda.dims = ["M", 48]}, %x: tensor<?x8xf32>)
    -> (tensor<48x8xf32>, tensor<48x8xf32>) {
  PARTS
  %joined = coda.concat %first, %second {dim = 0 : i64}
      : (tensor<32x8xf32>, tensor<16x8xf32>) -> tensor<48x8xf32>
  %twice = coda.add %joined, %joined : (tensor<48x8xf32>, tensor<48x8xf32>) -> tensor<48x8xf32>
  func.return RESULTS : tensor<48x8xf32>, tensor<48x8xf32>
}"""


def part(name: str, start: int, stop: int) -> str:
    """Rows of the gradient of a weight."""
    width = stop - start
    bounds = f"{{dim = 1 : i64, start = {start} : i64, stop = {stop} : i64}}"
    return f"""
  %d_{name} = coda.slice %dy {bounds} : (tensor<?x48xf32>) -> tensor<?x{width}xf32>
  %{name} = gemm.fused transposed %d_{name} : tensor<?x{width}xf32>
    columns(%x : tensor<?x8xf32>) kn -> (tile : tensor<{width}x8xf32>) {{
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }}"""


@pytest.mark.slow
@pytest.mark.parametrize("results", ["%joined, %twice", "%twice, %twice"])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_parts_are_stored_side_by_side(order: tuple[int, int], results: str) -> None:
    """Whichever is computed first, and whether the whole is a result or not."""
    parts = [part("first", 0, 32), part("second", 32, 48)]
    text = JOINED.replace("PARTS", parts[order[0]] + parts[order[1]]).replace("RESULTS", results)
    generator = torch.Generator().manual_seed(1)
    dy, x = torch.randn(7, 48, generator=generator), torch.randn(7, 8, generator=generator)
    _, twice = run(text, dy, x)
    torch.testing.assert_close(twice, 2 * dy.T @ x)
    module = parse(text)
    SchedulePass(target="interpreter").apply(make_context(), module)
    PlanBuffersPass().apply(make_context(), module)
    source = emit_module(module)
    assert "torch.cat" not in source and "joined[32:48]" in source


def test_a_donated_number_is_counted_in_place():
    """Its memory holds the new value, after a kernel that reads the old one."""
    text = """
func.func @f(%x: tensor<?x8xf32> {coda.dims = ["M", 8]}, %seen: tensor<f32> {coda.donated})
    -> (tensor<?x8xf32>, tensor<f32>) {
  %y = gemm.map tile(%x : tensor<?x8xf32>) scalar(%seen : tensor<f32>)
    -> (tile : tensor<?x8xf32>) {
  ^bb0(%p: f32, %q: f32):
    %s = arith.addf %p, %q : f32
    gemm.yield %s : f32
  }
  %next = gemm.map scalar(%seen : tensor<f32>) -> (accumulate<0> : tensor<f32>) {
  ^bb0(%q: f32):
    %n = arith.addf %q, %q : f32
    gemm.yield %n : f32
  }
  func.return %y, %next : tensor<?x8xf32>, tensor<f32>
}"""
    x, seen = torch.ones(3, 8), torch.tensor(7.0)
    _, following = run(text, x, seen)
    assert following.data_ptr() == seen.data_ptr() and seen.item() == 14


CHANGED = 'torch.call "aten.add.Tensor"(%t, %u) {arguments = "{0}, {1}", in_place}'
TABLE = "tensor<4x8xf32>"


@pytest.mark.parametrize(
    ("donated", "before", "read", "message"),
    [
        ("", "", "%y", "changes its operand in place, an argument that is not coda.donated"),
        ("{coda.donated}", "", "%t", "in place, and gemm.map reads it afterwards"),
        (
            "{coda.donated}",
            f"%s = coda.shift %t {{by = 1 : i64}} : ({TABLE}) -> {TABLE}",
            "%s",
            "in place, and gemm.map reads it afterwards",
        ),
        (
            "{coda.donated}",
            f"%e = coda.embedding %i, %t : (tensor<4xi64>, {TABLE}) -> {TABLE}",
            "%e",
            "in place, and gemm.map reads it afterwards",
        ),
    ],
)
def test_a_call_in_place_before_a_read_is_refused(
    donated: str, before: str, read: str, message: str
):
    module = parse(f"""
func.func @f(%t: {TABLE} {donated}, %u: {TABLE}, %i: tensor<4xi64>) -> ({TABLE}, {TABLE}) {{
  {before}
  %y = {CHANGED} : ({TABLE}, {TABLE}) -> {TABLE}
  %z = coda.silu {read} : ({TABLE}) -> {TABLE}
  func.return %y, %z : {TABLE}, {TABLE}
}}""")
    CodaToGemmPass().apply(make_context(), module)
    with pytest.raises(CodaError, match=message):
        emit_module(module)


@pytest.mark.parametrize(
    ("before", "other"),
    [
        ("", "%t"),
        (f"%s = coda.shift %t {{by = 1 : i64}} : ({TABLE}) -> {TABLE}", "%s"),
        (f"%s = coda.reshape %t : ({TABLE}) -> {TABLE}", "%s"),
    ],
)
def test_a_call_in_place_that_reads_what_it_changes_is_refused(before: str, other: str):
    module = parse(f"""
func.func @f(%t: {TABLE} {{coda.donated}}, %ids: tensor<4xi64>) -> {TABLE} {{
  {before}
  %y = torch.call "aten.index_copy.default"(%t, %ids, {other}) {{
    arguments = "{{0}}, 0, {{1}}, {{2}}", in_place
  }} : ({TABLE}, tensor<4xi64>, {TABLE}) -> {TABLE}
  func.return %y : {TABLE}
}}""")
    with pytest.raises(CodaError, match="also reads it as another operand, of which"):
        emit_module(module)
