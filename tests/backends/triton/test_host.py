"""Emitted host programs: allocation, buffer reuse, views, PyTorch calls, packed weights."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.emitted import load_module, load_program, run_operator

from coda_ir.api import parse
from coda_ir.backends.triton import TritonTarget, emit_module, emit_program
from coda_ir.context import make_context
from coda_ir.diagnostics import CodaError
from coda_ir.passes.layout.plan_buffers import PlanBuffersPass
from coda_ir.registry import get_all_targets

NAN = float("nan")

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

LLAMA_LIKE = (Path(__file__).parents[2] / "filecheck/backends/triton/llama_like.mlir").read_text()


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.default_generator.manual_seed(6)


def planned(text: str) -> str:
    """The source emitted after buffer planning."""
    module = parse(text, syntax="mlir")
    PlanBuffersPass().apply(make_context(), module)
    return emit_module(module)


def llama_like_inputs(batch: int, time: int) -> list[torch.Tensor]:
    def weight(n: int, k: int) -> torch.Tensor:
        return (torch.randn(n, k) / k**0.5).bfloat16()

    y, x0 = torch.randn(batch, time, 64).bfloat16(), torch.randn(batch, time, 48).bfloat16()
    norm = (1 + torch.randn(48) / 4).bfloat16()
    return [y, x0, weight(48, 64), norm, weight(96, 48), weight(96, 48), weight(48, 96)]


def llama_like(
    y: torch.Tensor,
    x0: torch.Tensor,
    wo: torch.Tensor,
    gamma: torch.Tensor,
    wg: torch.Tensor,
    wu: torch.Tensor,
    wd: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    x1 = F.linear(y, wo) + x0
    h = F.rms_norm(x1, (48,), gamma, 1e-6)
    x2 = F.linear(F.silu(F.linear(h, wg)) * F.linear(h, wu), wd) + x1
    return x2, F.rms_norm(x2, (48,), gamma, 1e-6)


def error(actual: torch.Tensor, exact: torch.Tensor) -> float:
    return ((actual.double() - exact).square().sum() / exact.square().sum()).sqrt().item()


class TestLlamaLike:
    @pytest.mark.slow
    @pytest.mark.parametrize(("batch", "time"), [(1, 1), (1, 3), (1, 127), (5, 7)])
    @pytest.mark.parametrize("source", [emit_module, planned], ids=["own", "planned"])
    def test_accuracy(self, source: Any, batch: int, time: int) -> None:
        text = source(LLAMA_LIKE if source is planned else parse(LLAMA_LIKE, syntax="mlir"))
        inputs = llama_like_inputs(batch, time)
        exact = llama_like(*[x.double() for x in inputs])
        eager = llama_like(*inputs)
        for got, wanted, rounded in zip(load_module(text).run(*inputs), exact, eager, strict=True):
            assert got.shape == wanted.shape
            assert error(got, wanted) <= 1.25 * error(rounded, wanted)

    def test_no_rows(self) -> None:
        inputs = llama_like_inputs(2, 3)
        inputs[0], inputs[1] = inputs[0][:, :0], inputs[1][:, :0]
        results = load_module(planned(LLAMA_LIKE)).run(*inputs)
        assert [tuple(x.shape) for x in results] == [(2, 0, 48), (2, 0, 48)]

    def test_no_columns(self) -> None:
        """No program runs, which would load and store where there is no element."""
        source = planned("""
            func.func @none(%x: tensor<0xf32>) -> tensor<0xf32> {
              %y = gemm.map tile(%x : tensor<0xf32>) -> (tile : tensor<0xf32>) {
                ^bb0(%e: f32):
                  gemm.yield %e : f32
                }
              func.return %y : tensor<0xf32>
            }
        """)
        assert " * 0,)]" in source
        assert load_module(source).run(torch.empty(0)).shape == (0,)

    def test_strided_and_unaligned_inputs(self) -> None:
        inputs = llama_like_inputs(3, 5)
        expected = load_module(planned(LLAMA_LIKE)).run(*inputs)
        strided = [
            torch.randn(3, 5, 65).bfloat16()[..., 1:].copy_(inputs[0]),
            torch.empty(5, 3, 48).bfloat16().transpose(0, 1).copy_(inputs[1]),
            inputs[2].t().contiguous().t(),
            torch.randn(49).bfloat16()[1:].copy_(inputs[3]),
            *inputs[4:],
        ]
        assert not strided[0].is_contiguous() and strided[3].data_ptr() % 16
        for got, wanted in zip(
            load_module(planned(LLAMA_LIKE)).run(*strided), expected, strict=True
        ):
            assert torch.equal(got, wanted)

    def test_results_are_fresh_in_every_call(self) -> None:
        run = load_module(planned(LLAMA_LIKE)).run
        inputs = llama_like_inputs(2, 3)
        first = run(*inputs)
        kept = [x.clone() for x in first]
        run(*llama_like_inputs(2, 3))
        assert all(torch.equal(a, b) for a, b in zip(first, kept, strict=True))

    def test_the_text_is_deterministic(self) -> None:
        assert planned(LLAMA_LIKE) == planned(LLAMA_LIKE)

    def test_kernels_are_listed_in_the_order_of_their_launch(self) -> None:
        program = emit_program(parse(LLAMA_LIKE, syntax="mlir"))
        names = load_module(program.source).KERNELS
        assert names == tuple(kernel.name for kernel in program.kernels)
        launches = [program.source.index(f"    {name}[") for name in names]
        assert launches == sorted(launches)

    @pytest.mark.slow
    def test_it_runs_without_coda_ir(self, tmp_path: Path) -> None:
        (tmp_path / "emitted.py").write_text(planned(LLAMA_LIKE))
        script = (
            "import sys, torch, emitted\n"
            "shapes = [(3, 64), (3, 48), (48, 64), (48,), (96, 48), (96, 48), (48, 96)]\n"
            "inputs = [torch.randn(s).bfloat16() for s in shapes]\n"
            "inputs[:2] = [x[None] for x in inputs[:2]]\n"
            "assert emitted.run(*inputs)[0].isfinite().all()\n"
            "assert not [m for m in sys.modules if m.startswith(('coda_ir', 'xdsl'))]\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", script],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr


REUSE = """
    func.func @f(%x : tensor<?x8xf32>) -> tensor<?x8xf32> {
      %a = coda.exp %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
      %b = coda.neg %a : (tensor<?x8xf32>) -> tensor<?x8xf32>
      %c = coda.relu %b : (tensor<?x8xf32>) -> tensor<?x8xf32>
      %d = coda.add %b, %c : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
      %e = coda.abs %d : (tensor<?x8xf32>) -> tensor<?x8xf32>
      func.return %e : tensor<?x8xf32>
    }"""


def test_dead_buffers_are_reused() -> None:
    source = planned(REUSE)
    assert "c = a  # reuses the storage of a" in source
    assert source.count("torch.empty(") == 4
    x = torch.randn(3, 8)
    b = -torch.exp(x)
    torch.testing.assert_close(load_module(source).run(x), (b + F.relu(b)).abs())


@pytest.mark.parametrize("buffers", ['["b0"]', '["b1"]'])
def test_a_plan_that_does_not_fit_is_refused(buffers: str) -> None:
    """A buffer that is still in use, and one of another size."""
    text = f"""
        func.func @f(%x : tensor<?x8xf32>) -> tensor<?x4xf32> {{
          %m = coda.glu %x {{activation = "relu", coda.buffers = ["b1"]}}
            : (tensor<?x8xf32>) -> tensor<?x4xf32>
          %a = coda.neg %m {{coda.buffers = ["b0"]}} : (tensor<?x4xf32>) -> tensor<?x4xf32>
          %s = coda.reduce %a {{kind = "sum", coda.buffers = {buffers}}}
            : (tensor<?x4xf32>) -> tensor<?x1xf32>
          %b = coda.mul %a, %s : (tensor<?x4xf32>, tensor<?x1xf32>) -> tensor<?x4xf32>
          func.return %b : tensor<?x4xf32>
        }}"""
    with pytest.raises(CodaError, match="run the pass 'plan-buffers' again"):
        emit_module(parse(text))


def test_an_unscheduled_gemm_is_refused() -> None:
    text = LLAMA_LIKE.replace(
        'schedule<pointer, "32x32x32", warps = 4, stages = 2, group_m = 8>', ""
    )
    with pytest.raises(CodaError, match="run the pass 'schedule'"):
        emit_module(parse(text, syntax="mlir"))


def test_an_argument_that_is_no_tensor_is_refused() -> None:
    text = "func.func @f(%n: f32, %x: tensor<8xf32>) { func.return }"
    with pytest.raises(CodaError, match="arg0 has type f32, expected a tensor"):
        emit_module(parse(text, syntax="mlir"))


def test_a_linear_map_that_is_not_lowered_is_refused() -> None:
    text = """
        func.func @f(%x : tensor<?x40xf32>, %w : tensor<24x40xf32>) -> tensor<?x24xf32> {
          %y = coda.linear %x, %w : (tensor<?x40xf32>, tensor<24x40xf32>) -> tensor<?x24xf32>
          func.return %y : tensor<?x24xf32>
        }"""
    with pytest.raises(CodaError, match=r"cannot run coda\.linear\n.*such as lower-to"):
        emit_module(parse(text))


class TestFinalize:
    def test_columns(self) -> None:
        text = """
            func.func @f(%p : tensor<?x130xf32>, %q : tensor<?x130xf32>, %s : tensor<f32>)
                -> (tensor<130xbf16>, tensor<130xf32>) {
              %a, %b = gemm.finalize col (add %p : tensor<?x130xf32>, max %q : tensor<?x130xf32>)
                  scalar(%s : tensor<f32>) -> (tensor<130xbf16>, tensor<130xf32>) {
              ^bb0(%sum : f32, %max : f32, %scale : f32):
                %0 = arith.mulf %sum, %scale : f32
                gemm.yield %0, %max : f32, f32
              }
              func.return %a, %b : tensor<130xbf16>, tensor<130xf32>
            }"""
        run = load_program(text)
        for tiles in (1, 3, 100):
            p, q, scale = torch.randn(tiles, 130), torch.randn(tiles, 130), torch.randn(())
            a, b = run(p, q, scale)
            torch.testing.assert_close(a, (p.sum(0) * scale).bfloat16(), rtol=1e-2, atol=1e-2)
            assert torch.equal(b, q.amax(0))
        a, b = run(p[:0], q[:0], scale)
        assert torch.equal(a, torch.zeros(130).bfloat16())
        assert torch.equal(b, torch.full((130,), -float("inf")))

    @pytest.mark.parametrize("tiles", [1, 5, 300])
    @pytest.mark.parametrize("extent", ["?", "tiles"])
    def test_rows(self, tiles: int, extent: str) -> None:
        partial = f"tensor<?x{tiles if extent == 'tiles' else '?'}xf32>"
        text = f"""
            func.func @f(%p : {partial}, %l : {partial}, %m : {partial}, %c : tensor<?xbf16>)
                -> (tensor<?x1xf32>, tensor<?xf32>, tensor<?xf32>) {{
              %a, %b, %d = gemm.finalize row (add %p : {partial}, lse %l : {partial},
                  max %m : {partial}) col(%c : tensor<?xbf16>)
                  -> (tensor<?x1xf32>, tensor<?xf32>, tensor<?xf32>) {{
              ^bb0(%sum : f32, %lse : f32, %max : f32, %col : f32):
                %0 = arith.mulf %sum, %col : f32
                gemm.yield %0, %lse, %max : f32, f32, f32
              }}
              func.return %a, %b, %d : tensor<?x1xf32>, tensor<?xf32>, tensor<?xf32>
            }}"""
        p, lse, maximum = torch.randn(3, 127, tiles).unbind()
        col = torch.randn(127).bfloat16()
        a, b, d = load_program(text)(p, lse, maximum, col)
        expected = p.double().sum(-1, keepdim=True) * col[:, None]
        torch.testing.assert_close(a, expected.float(), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(b, torch.logsumexp(lse, -1))
        assert torch.equal(d, maximum.amax(-1))

    def test_special_values(self) -> None:
        """-inf is the result of no element; NaN wins over inf."""
        inf = float("inf")
        p = torch.tensor([[-inf, -inf], [-inf, 1.0], [NAN, 1.0], [inf, 1.0], [88.0, 89.0]])
        text = """
            func.func @f(%l : tensor<?x2xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
              %a, %b = gemm.finalize row (lse %l : tensor<?x2xf32>, max %l : tensor<?x2xf32>)
                  -> (tensor<?xf32>, tensor<?xf32>) {
              ^bb0(%lse : f32, %max : f32):
                gemm.yield %lse, %max : f32, f32
              }
              func.return %a, %b : tensor<?xf32>, tensor<?xf32>
            }"""
        lse, maximum = load_program(text)(p)
        torch.testing.assert_close(lse, torch.logsumexp(p, -1), equal_nan=True)
        torch.testing.assert_close(maximum, p.amax(-1), equal_nan=True)


class TestViews:
    def test_shape_operators(self) -> None:
        text = """
            func.func @f(%x : tensor<?x?x12xf32> {coda.dims = ["B", "T", 12]})
                -> (tensor<?x?x6xf32>, tensor<12x?x?xf32>, tensor<?x24xf32>) {
              %s = coda.slice %x {dim = 2 : i64, start = 3 : i64, stop = 9 : i64}
                : (tensor<?x?x12xf32>) -> tensor<?x?x6xf32>
              %e = coda.exp %s : (tensor<?x?x6xf32>) -> tensor<?x?x6xf32>
              %t = coda.transpose %x {perm = [2, 1, 0]}
                : (tensor<?x?x12xf32>) -> tensor<12x?x?xf32>
              %n = coda.neg %t : (tensor<12x?x?xf32>) -> tensor<12x?x?xf32>
              %c = coda.concat %x, %x {dim = 2 : i64}
                : (tensor<?x?x12xf32>, tensor<?x?x12xf32>) -> tensor<?x?x24xf32>
              %r = coda.reshape %c : (tensor<?x?x24xf32>) -> tensor<?x24xf32>
              %q = coda.abs %r : (tensor<?x24xf32>) -> tensor<?x24xf32>
              func.return %e, %n, %q : tensor<?x?x6xf32>, tensor<12x?x?xf32>, tensor<?x24xf32>
            }"""
        text = text.replace("[2, 1, 0]", "[2 : i64, 1 : i64, 0 : i64]")
        x = torch.randn(3, 5, 12)
        for source in (emit_module(parse(text)), planned(text)):
            e, n, q = load_module(source).run(x)
            torch.testing.assert_close(e, x[..., 3:9].exp())
            torch.testing.assert_close(n, -x.permute(2, 1, 0))
            torch.testing.assert_close(q, torch.cat([x, x], -1).reshape(-1, 24).abs())

    def test_a_view_of_a_view_that_was_copied(self) -> None:
        """The copy of %s that the first kernel needs is not what %r is a view of."""
        text = """
            func.func @f(%x : tensor<?x12xf32>) -> (tensor<?x6xf32>, tensor<?x3x2xf32>) {
              %s = coda.slice %x {dim = 1 : i64, start = 0 : i64, stop = 6 : i64}
                : (tensor<?x12xf32>) -> tensor<?x6xf32>
              %e = coda.exp %s : (tensor<?x6xf32>) -> tensor<?x6xf32>
              %r = coda.reshape %s : (tensor<?x6xf32>) -> tensor<?x3x2xf32>
              %n = coda.neg %r : (tensor<?x3x2xf32>) -> tensor<?x3x2xf32>
              func.return %e, %n : tensor<?x6xf32>, tensor<?x3x2xf32>
            }"""
        x = torch.randn(5, 12)
        e, n = load_program(text)(x)
        torch.testing.assert_close(e, x[:, :6].exp())
        torch.testing.assert_close(n, -x[:, :6].reshape(-1, 3, 2))

    def test_a_view_keeps_its_buffer(self) -> None:
        """The buffer of %a must not be reused while its view %v is needed."""
        text = """
            func.func @f(%x : tensor<?x8xf32>) -> tensor<?x8xf32> {
              %a = coda.exp %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
              %v = coda.reshape %a : (tensor<?x8xf32>) -> tensor<?x8xf32>
              %b = coda.neg %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
              %c = coda.relu %b : (tensor<?x8xf32>) -> tensor<?x8xf32>
              %d = coda.add %v, %c : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
              func.return %d : tensor<?x8xf32>
            }"""
        x = torch.randn(3, 8)
        torch.testing.assert_close(load_module(planned(text)).run(x), x.exp() + F.relu(-x))

    def test_arguments_that_are_returned(self) -> None:
        text = """
            func.func @f(%x : tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<8x?xf32>) {
              %t = coda.transpose %x {perm = [1 : i64, 0 : i64]}
                : (tensor<?x8xf32>) -> tensor<8x?xf32>
              func.return %x, %t : tensor<?x8xf32>, tensor<8x?xf32>
            }"""
        x = torch.randn(3, 8)
        y, t = load_program(text)(x)
        assert torch.equal(y, x) and torch.equal(t, x.t())


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    head_dim: int,
    causal: bool,
    cap: float | None,
) -> torch.Tensor:
    """Attention in float64 from its definition; the last query sees all keys.

    A query that sees no key gives 0.
    """

    def heads(x: torch.Tensor) -> torch.Tensor:
        count = x.shape[-1] // head_dim
        return x.double().reshape(*x.shape[:-1], count, head_dim).transpose(-3, -2)

    repeats = q.shape[-1] // k.shape[-1]
    keys, values = (heads(x).repeat_interleave(repeats, -3) for x in (k, v))
    scores = heads(q) @ keys.transpose(-1, -2) * head_dim**-0.5
    if cap is not None:
        scores = cap * torch.tanh(scores / cap)
    if causal:
        t, s = scores.shape[-2:]
        visible = torch.ones(t, s).tril(s - t).bool()
        scores = scores.masked_fill(~visible, -float("inf"))
    weights = torch.softmax(scores, -1).nan_to_num(0.0)
    return (weights @ values).transpose(-3, -2).reshape(q.shape)


@pytest.mark.parametrize("cap", [None, 5.0])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("queries", "keys"), [(5, 5), (1, 7), (3, 7), (5, 3), (0, 0)])
@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (4, 2)])
@pytest.mark.parametrize("batched", [False, True])
def test_attention(
    cap: float | None,
    causal: bool,
    queries: int,
    keys: int,
    heads: int,
    kv_heads: int,
    batched: bool,
) -> None:
    leading = (2,) if batched else ()
    q = torch.randn(*leading, queries, heads * 8)
    k, v = torch.randn(2, *leading, keys, kv_heads * 8).unbind()
    properties = f"head_dim = 8 : i64, causal = {str(causal).lower()}"
    if cap is not None:
        properties += f", softcap = {cap} : f64"
    actual = run_operator(f"coda.attention {{{properties}}}", q, k, v)
    torch.testing.assert_close(actual, attention(q, k, v, 8, causal, cap).float())


def test_embedding() -> None:
    table, ids = torch.randn(10, 6).bfloat16(), torch.randint(10, (3, 4), dtype=torch.int32)
    actual = run_operator("coda.embedding", ids, table, result="tensor<3x4x6xbf16>")
    assert torch.equal(actual, table[ids])


def test_names_that_collide() -> None:
    """Arguments called like symbols, modules, Python keywords and functions of the module."""
    text = """
        func.func @f(%0 : tensor<?x8xf32> {coda.name = "M", coda.dims = ["M", 8]},
                     %1 : tensor<?x8xf32> {coda.name = "torch", coda.dims = ["M", 8]},
                     %2 : tensor<8xf32> {coda.name = "dense"},
                     %3 : tensor<8xf32> {coda.name = "def"},
                     %4 : tensor<8xf32> {coda.name = "run"},
                     %5 : tensor<8xf32> {coda.name = "softmax"},
                     %6 : tensor<8xf32> {coda.name = "device"}) -> tensor<?x8xf32> {
          %a = coda.add %0, %1 : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
          %b = coda.add %a, %2 : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
          %c = coda.add %b, %3 : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
          %d = coda.add %c, %4 : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
          %e = coda.add %d, %5 : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
          %g = coda.add %e, %6 : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
          %s = coda.softmax %g : (tensor<?x8xf32>) -> tensor<?x8xf32>
          func.return %s : tensor<?x8xf32>
        }"""
    inputs = [torch.randn(3, 8), torch.randn(3, 8), *torch.randn(5, 8)]
    expected = torch.softmax(torch.stack([inputs[0], inputs[1]]).sum(0) + sum(inputs[2:]), -1)
    torch.testing.assert_close(load_program(text)(*inputs), expected)


def test_unused_arguments_and_results() -> None:
    text = """
        func.func @f(%x : tensor<?x8xf32>, %unused : tensor<4xf32>) -> tensor<?x8xf32> {
          %dead = coda.exp %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
          %y = coda.neg %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
          func.return %y : tensor<?x8xf32>
        }"""
    source = emit_module(parse(text))
    assert "tl.exp" not in source
    x = torch.randn(2, 8)
    assert torch.equal(load_module(source).run(x, torch.randn(4)), -x)


def test_an_operator_without_a_kernel_is_refused() -> None:
    text = """
        func.func @f(%x : tensor<2xf32>) -> tensor<2xf32> {
          %y = arith.addf %x, %x : tensor<2xf32>
          func.return %y : tensor<2xf32>
        }"""
    with pytest.raises(CodaError, match=r"cannot run arith\.addf"):
        emit_module(parse(text))


def test_entry_names_the_function() -> None:
    text = """
        func.func @f(%x : tensor<?x8xf32>) -> tensor<?x8xf32> {
          func.return %x : tensor<?x8xf32>
        }
        func.func @g(%x : tensor<?x8xf32>) -> tensor<?x8xf32> {
          %y = coda.neg %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
          func.return %y : tensor<?x8xf32>
        }"""
    module = parse(text)
    with pytest.raises(CodaError, match="2 functions"):
        emit_module(module)
    x = torch.randn(2, 8)
    assert torch.equal(load_module(emit_module(module, "g")).run(x), -x)


def test_the_target_is_registered(capsys: pytest.CaptureFixture[str]) -> None:
    assert get_all_targets()["triton"]() is TritonTarget
    module = parse(LLAMA_LIKE, syntax="mlir")
    TritonTarget().emit(make_context(), module, sys.stdout)
    assert capsys.readouterr().out == emit_module(module)


def test_the_signature_is_in_the_docstring() -> None:
    source = emit_module(parse(REUSE))
    assert "run(x: f32[d0, 8]) -> f32[d0, 8]" in source
