"""Layers of `nn.TransformerEncoder`, which PyTorch runs as one operator in inference."""

import copy

import torch
from support.kernel_steps import kernel_steps
from torch import nn

from coda_ir.float64 import relative_error
from coda_ir.frontends.torch import export


def test_a_frozen_layer_is_exported_as_kernels():
    layer = nn.TransformerEncoderLayer(
        16, 2, 32, activation="gelu", norm_first=True, batch_first=True
    )
    model = layer.eval().requires_grad_(False)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    x = torch.randn(2, 5, 16)
    exported = export(model, (x,))
    assert torch.backends.mha.get_fastpath_enabled()
    found = exported.compile(device="cpu", target="triton")(x)
    assert relative_error(found, copy.deepcopy(model).double()(x.double())) < 1e-6
    assert list(kernel_steps(exported.module).values()) == [
        "layer_norm fused attention fused layer_norm fused fused"
    ]
