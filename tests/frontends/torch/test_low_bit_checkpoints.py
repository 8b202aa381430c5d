"""Layers of GPTQ and AWQ checkpoints: the layouts as their libraries unpack them."""

from typing import Any

import pytest
import torch
from support.device import DEVICE
from support.torch_compile import compiled
from torch import nn

import coda_ir
from coda_ir.dialects import coda
from coda_ir.float64 import relative_error
from coda_ir.frontends.torch.low_bit_layers import LowBitLinear
from coda_ir.frontends.torch.quantize import NotQuantizedWarning

pytestmark = pytest.mark.usefixtures("no_gradients")
K, N, GROUP = 256, 64, 64


def words(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randint(-(2**31), 2**31, shape, generator=generator).int()


class Checkpoint(nn.Module):
    """A layer with the buffers of a checkpoint."""

    def __init__(self, rows: int, columns: int):
        super().__init__()
        self.qweight = nn.Buffer(words(rows, columns))
        self.qzeros = nn.Buffer(words(K // GROUP, N // 8))
        self.scales = nn.Buffer((torch.rand(K // GROUP, N) / 64).half())
        self.bias = nn.Buffer(torch.randn(N).half())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.double() @ self.weight() + self.bias.double()

    def weight(self) -> torch.Tensor:
        """K x N in float64."""
        raise NotImplementedError


class GPTQ(Checkpoint):
    """Eight neighbours along K, and zero points less one."""

    def __init__(self):
        super().__init__(K // 8, N)
        self.g_idx = nn.Buffer(torch.arange(K, dtype=torch.int32) // GROUP)

    def weight(self) -> torch.Tensor:
        shifts = torch.arange(0, 32, 4)
        zeros = (self.qzeros.unsqueeze(2).expand(-1, -1, 8) >> shifts) & 15
        zeros = (zeros + 1).reshape(self.scales.shape)
        weight = (self.qweight.unsqueeze(1).expand(-1, 8, -1) >> shifts[:, None]) & 15
        groups = self.g_idx.long()
        return self.scales.double()[groups] * (weight.reshape(K, N) - zeros[groups]).double()


class AWQ(Checkpoint):
    """Eight neighbours along N, the even ones first."""

    def __init__(self):
        super().__init__(K, N // 8)

    def weight(self) -> torch.Tensor:
        weight, zeros = (self.unpacked(each) for each in (self.qweight, self.qzeros))
        wide = [each.repeat_interleave(GROUP, 0) for each in (zeros, self.scales.double())]
        return (weight - wide[0]).double() * wide[1]

    @staticmethod
    def unpacked(packed: torch.Tensor) -> torch.Tensor:
        found = (packed[:, :, None] >> torch.arange(0, 32, 4)) & 15
        return found[:, :, [0, 4, 1, 5, 2, 6, 3, 7]].reshape(packed.shape[0], -1)


KINDS = pytest.mark.parametrize("kind", [GPTQ, AWQ])
Kind = type[GPTQ] | type[AWQ]


@pytest.mark.any_device
@KINDS
@pytest.mark.parametrize("rows", [1, 5])
def test_exported(kind: Kind, rows: int) -> None:
    """Beside the exact layer, the error is that of rounding the result."""
    layer, x = kind(), torch.randn(rows, K).half()
    expected = layer(x)
    model: Any = coda_ir.read_low_bit_layers(nn.Sequential(layer))
    assert model[0].qweight.data_ptr() == layer.qweight.data_ptr()
    exported = coda_ir.export(model, (x,))
    assert [op for op in exported.module.walk() if isinstance(op, coda.LowBitLinearOp)]
    y = exported.to(DEVICE).compile()(x.to(DEVICE))
    assert relative_error(y.cpu(), expected) <= 4e-4
    assert relative_error(model(x), expected) <= 4e-4


@KINDS
@pytest.mark.usefixtures("fresh_dynamo")
def test_compiled(kind: Kind) -> None:
    layer, x = kind(), torch.randn(3, K).half()
    model = coda_ir.read_low_bit_layers(nn.Sequential(layer))
    assert relative_error(compiled(model)(x), layer(x)) <= 4e-4


def test_second_version() -> None:
    model: Any = coda_ir.read_low_bit_layers(nn.Sequential(GPTQ()), gptq_offset=0)
    assert isinstance(model[0], LowBitLinear) and model[0].offset == 0
    assert (model[0].in_features, model[0].out_features) == (K, N)


def test_other_orders_stay() -> None:
    """Rows that were sorted by importance have groups that are not neighbours."""
    layer = GPTQ()
    layer.g_idx = nn.Buffer(layer.g_idx.flip(0))
    narrow = GPTQ()
    narrow.scales = nn.Buffer(narrow.scales[:3])
    with pytest.warns(NotQuantizedWarning, match="left unchanged: 0, 1"):
        model = coda_ir.read_low_bit_layers(nn.Sequential(layer, narrow, nn.Linear(8, 8)))
    assert [type(each) for each in model] == [GPTQ, GPTQ, nn.Linear]
