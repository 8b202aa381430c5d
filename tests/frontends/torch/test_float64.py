"""Models with float64 in them: PyTorch computes that part, kernels the rest."""

import copy
import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.torch_compile import compiled, gradients, joined
from torch import Tensor, nn

from coda_ir.api import compile
from coda_ir.diagnostics import CodaError
from coda_ir.float64 import computing_in_float64, relative_error
from coda_ir.frontends.torch import export

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

D = 32


def angles(positions: Tensor) -> Tensor:
    """The angles of a rotary embedding, as diffusion models compute them."""
    frequencies = 1.0 / 10000 ** (torch.arange(0, 16, 2, dtype=torch.float64) / 16)
    return torch.outer(positions.to(torch.float64), frequencies)


class Rotary(nn.Module):
    """Queries with rotary tables in float64; gives the tables as well."""

    def __init__(self):
        super().__init__()
        self.norm = nn.RMSNorm(D)
        self.query, self.out = nn.Linear(D, D), nn.Linear(D, D)

    def forward(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        table = angles(positions).repeat_interleave(2, dim=1)
        cos, sin = table.cos().float(), table.sin().float()
        q = self.query(self.norm(x)).unflatten(-1, (2, 16)).transpose(1, 2)
        real, imaginary = q.reshape(*q.shape[:-1], -1, 2).unbind(-1)
        rotated = torch.stack([-imaginary, real], dim=-1).flatten(3)
        q = (q.float() * cos + rotated.float() * sin).transpose(1, 2).flatten(2)
        return x + self.out(q), table


PARTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "elementwise": lambda x, w: (torch.exp(x) / 3 + 0.1 * w).tanh().abs().sqrt().log().neg(),
    "activations": lambda x, w: F.silu(x) + F.gelu(x) - F.relu(x) * torch.sigmoid(w),
    "bounds": lambda x, w: torch.maximum(x, w).clamp(-0.3, 0.7),
    "norms": lambda x, w: F.layer_norm(F.rms_norm(x, (D,), w, 1e-6), (D,), w, eps=1e-5),
    "decomposed norm": lambda x, w: w * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)),
    "norm of heads": lambda x, w: F.rms_norm(x.reshape(-1, 2, 16), (16,)).flatten(-2) * w,
    "rows": lambda x, w: x.softmax(-1) - x.amax(-1, keepdim=True) + x.sum(-1, keepdim=True) * w,
    "views": lambda x, w: torch.cat([x[..., D // 2 :], x.chunk(2, -1)[0]], -1) + w,
    "a number of data": lambda x, w: x * w.sum(),
}


class Parts(nn.Module):
    """For each part in float64, with a parameter, linear maps in float32 around it."""

    def __init__(self):
        super().__init__()
        self.first, self.last = (nn.ModuleList(nn.Linear(D, D) for _ in PARTS) for _ in range(2))
        self.weights = nn.ParameterList(torch.rand(D, dtype=torch.float64) + 0.5 for _ in PARTS)

    def forward(self, x: Tensor) -> list[Tensor]:
        layers = zip(PARTS.values(), self.first, self.weights, self.last, strict=True)
        return [
            last(function(first(x).to(torch.float64), weight).to(x.dtype))
            for function, first, weight, last in layers
        ]


class OnlyParts(nn.Module):
    """The parts in float64 on their own."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(D, D)

    def forward(self, x: Tensor, wide: Tensor, weight: Tensor) -> tuple[Tensor, list[Tensor]]:
        return self.linear(x), [function(wide, weight) for function in PARTS.values()]


@pytest.mark.slow
@pytest.mark.usefixtures("no_gradients")
@pytest.mark.parametrize("through", ["torch.compile", "export"])
def test_rotary_tables_in_float64(through: str):
    model, x, positions = Rotary(), torch.randn(2, 5, D), torch.arange(5)
    fast: Any
    if through == "export":
        fast = export(model, (x, positions)).compile(device="cpu")
        assert set(fast.kernels) == {"rms_norm", "gemm_bias_rope_then_gemm_bias_residual"}
    else:
        fast = compiled(model, target="triton")
    y, table = fast(x, positions)
    assert torch.equal(table, model(x, positions)[1])
    with computing_in_float64():
        exact, _ = copy.deepcopy(model).double()(x.double(), positions)
    eager, _ = model(x, positions)
    assert relative_error(y, exact) <= 1.25 * relative_error(eager, exact)


@pytest.mark.slow
@pytest.mark.usefixtures("no_gradients")
def test_parts_in_float64_are_pytorchs():
    model = OnlyParts()
    x, wide = torch.randn(3, D), torch.randn(3, D, dtype=torch.float64)
    weight = torch.rand(D, dtype=torch.float64) + 0.5
    fast = export(model, (x, wide, weight)).compile(device="cpu")
    y, parts = fast(x, wide, weight)
    for (name, function), part in zip(PARTS.items(), parts, strict=True):
        wanted = function(wide, weight)
        torch.testing.assert_close(part, wanted, rtol=1e-14, atol=1e-14, msg=name)
    torch.testing.assert_close(y, model.linear(x), rtol=1e-5, atol=1e-5)
    assert "gemm_bias" in fast.kernels


@pytest.mark.slow
@pytest.mark.parametrize("backward", ["derived", "autograd"])
def test_gradients_through_parts_in_float64(backward: str):
    model, x = Parts(), torch.randn(3, D, requires_grad=True)
    wide = copy.deepcopy(model).double()
    fast = compiled(model, target="triton", backward=backward)
    got, eager = (gradients(joined(function), model, x) for function in (fast, model))
    exact = gradients(joined(wide), wide, x.detach().double().requires_grad_())
    for mine, theirs, gradient in zip(got, eager, exact, strict=True):
        assert mine is not None and theirs is not None and mine.dtype == theirs.dtype
        torch.testing.assert_close(mine.double(), gradient, rtol=2e-5, atol=2e-6)


@pytest.mark.slow
@pytest.mark.usefixtures("no_gradients")
def test_remarks_name_the_operators_on_float64():
    model, x, positions = Rotary(), torch.randn(2, 5, D), torch.arange(5)
    remarks = export(model, (x, positions)).compile(device="cpu").remarks
    found = [remark for remark in remarks if "it computes in f64" in remark.message]
    assert any("aten.div.Tensor runs in eager PyTorch" in remark.message for remark in found)
    lines = {remark.position and remark.position[0] for remark in found}
    assert lines == {__file__}


def test_an_operator_on_float64_without_a_call_of_pytorch():
    text = """
        func.func @f(%x: tensor<4x8xf64>, %c: tensor<4x2xf64>) -> tensor<4x8xf64> {
          %y = coda.rope %x, %c, %c {head_dim = 4 : i64, layout = "half_split"}
            : (tensor<4x8xf64>, tensor<4x2xf64>, tensor<4x2xf64>) -> tensor<4x8xf64>
            loc("model.py":7:1)
          func.return %y : tensor<4x8xf64>
        }
    """
    with pytest.raises(CodaError, match=r"model\.py:7:1: coda\.rope: .*f64"):
        compile(text, device="cpu").prepare()


@pytest.mark.usefixtures("no_gradients")
def test_no_warning_where_float64_is_left_to_pytorch(caplog: pytest.LogCaptureFixture):
    model, x, positions = Rotary(), torch.randn(2, 5, D), torch.arange(5)
    with caplog.at_level(logging.INFO, "coda_ir.frontends"):
        compiled(model, target="triton", errors="fallback")(x, positions)
    assert not [record for record in caplog.records if "runs in eager" in record.message]
