"""The workspace of a host program: one allocation, whose parts only kernels read and write."""

import pytest
import torch
from support.emitted import load_module
from xdsl.dialects import test as test_dialect
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

import coda_ir
from coda_ir.backends.triton import emit_module
from coda_ir.backends.triton.host.workspace import MAX_BYTES, Workspace
from coda_ir.lowering import Lowering

LAYERS = """fn f(x: f32[{rows}, 32], weight a: f32[64, 32], weight b: f32[32, 64]) {{
    y = linear(gelu(linear(x, a)), b) + x
    z = linear(gelu(linear(y, a)), b) + y
    return rms_norm(z, eps=1e-5), y
}}"""


def source_of(text: str, *, direct_launch: bool = True) -> str:
    module = Lowering(coda_ir.parse(text)).module("scheduled")
    return emit_module(module, direct_launch=direct_launch)


def allocations(source: str) -> int:
    return source.count("torch.empty_strided(")


def test_kernels_read_parts_of_one_allocation():
    source = source_of(LAYERS.format(rows=200))
    # Beside the workspace only the results, in their own memory.
    assert allocations(source) == 3
    x, a, b = torch.randn(200, 32), torch.randn(64, 32) / 6, torch.randn(32, 64) / 8
    exact = [tensor.double() for tensor in (x, a, b)]

    def layer(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(x @ a.T) @ b.T + x

    y = layer(*exact)
    z = torch.nn.functional.rms_norm(layer(y, *exact[1:]), (32,), eps=1e-5)
    results = load_module(source).run(x, a, b)
    for result, expected in zip(results, (z, y), strict=True):
        torch.testing.assert_close(result.double(), expected, rtol=1e-4, atol=1e-4)


def test_equal_launches_share_a_function():
    """Where the parts begin are numbers that the program passes."""
    source = source_of(LAYERS.format(rows=200))
    assert source.count("def launch_gemm_gelu") == 1
    assert source.count("launch_gemm_gelu(stream, ") == 2


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (LAYERS.format(rows="B"), "sizes are unknown"),
        (
            "fn f(x: f32[8, 16], w: f32[16, 16]) { return cumsum(relu(linear(x, w)), 1) }",
            "PyTorch reads what the kernel stores",
        ),
        (
            "fn f(x: f32[8, 16], w: f32[16, 16]) { return transpose(relu(linear(x, w))) }",
            "a view of it is returned",
        ),
    ],
)
def test_other_tensors_are_allocated(text: str, why: str):
    assert "workspace" not in source_of(text), why


def test_triton_launches_take_tensors():
    assert "workspace" not in source_of(LAYERS.format(rows=200), direct_launch=False)


class TestPlaces:
    def test_a_later_value_takes_the_place_of_a_dead_one(self):
        workspace, (a, b, c, d) = Workspace(), self.values()
        assert [workspace.take(a, 1000), workspace.take(b, 512)] == [0, 1024]
        workspace.free(a)
        assert [workspace.take(c, 513), workspace.take(d, 1)] == [0, 1536]
        assert workspace.size == 2048

    def test_the_size_is_limited(self):
        workspace, (a, b, c, _) = Workspace(), self.values()
        assert workspace.take(a, MAX_BYTES) == 0
        assert workspace.take(b, 1) is None
        workspace.free(b)
        workspace.free(a)
        assert workspace.take(c, 1) == 0 and workspace.size == MAX_BYTES

    def values(self) -> tuple[SSAValue, ...]:
        return test_dialect.TestOp(result_types=[f32] * 4).results
