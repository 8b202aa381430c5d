"""The benchmark of kernels, small and on the CPU."""

import json
from pathlib import Path

import kernels
import pytest
import torch
from kernels import Gemm, gemms_of, label

import coda_ir
from coda_ir.float64 import relative_error

SMALL = ["--sizes", "32", "--batch", "1", "--time", "8", "--head-dim", "8"]


@pytest.mark.slow
def test_every_gemm_is_timed(tmp_path: Path):
    path = tmp_path / "kernels.json"
    kernels.main([*SMALL, "--parts", "forward", "backward", "--json", str(path)])
    written = json.loads(path.read_text())["microseconds"]
    forward, backward = (written[f"{part}, D = 32"] for part in ("forward", "backward"))
    assert list(forward) == ["wo", "w_gate, w_up", "w_down", "wq, wk, wv"]
    assert sorted(name[:2] for name in backward) == ["dW"] * 4 + ["dX"] * 4
    for times in (*forward.values(), *backward.values()):
        assert set(times) == {"cublas", "bare", "fused"} and min(times.values()) > 0


PROGRAMS = {
    "fn f(x: bf16[M, 16], weight w: bf16[24, 16], weight v: bf16[24, 16], r: bf16[M, 24]) {\n"
    "    return silu(linear(x, w)) * linear(x, v) + r\n}": "w, v",
    "func.func @f("
    '%x: tensor<?x16xbf16> {coda.name = "x", coda.dims = ["M", 16]}, '
    '%y: tensor<?x8xbf16> {coda.name = "y", coda.dims = ["M", 8]}'
    ") -> tensor<8x16xf32> {\n"
    "  %d_w = coda.weight_gradient %y, %x : (tensor<?x8xbf16>, tensor<?x16xbf16>)"
    " -> tensor<8x16xf32>\n  func.return %d_w : tensor<8x16xf32>\n}": "dW w",
}


@pytest.mark.parametrize("program, expected", PROGRAMS.items())
def test_bare_gemms_multiply_what_the_library_multiplies(program: str, expected: str):
    (op,) = gemms_of(coda_ir.compile(program, device="cpu", target="reference"))
    assert label(op) == expected
    gemm = Gemm.of(op, {"M": 40}, torch.device("cpu"))
    assert len(gemm.bare_operands) == len(gemm.packed) > 1  # copies, which exceed the cache
    for operands, packed in list(zip(gemm.bare_operands, gemm.packed, strict=True))[:2]:
        found, wanted = gemm.bare(*operands), gemm.library(*packed)
        assert isinstance(found, torch.Tensor) and isinstance(wanted, torch.Tensor)
        assert relative_error(found, wanted) < 1e-2
