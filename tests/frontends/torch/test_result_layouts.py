"""Results of torch.compile and of exported models lie in memory as those of eager PyTorch."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from support.torch_compile import compiled
from torch import Tensor, nn

import coda_ir
from coda_ir.calls.tree import laid_out, order_of
from coda_ir.diagnostics import CodaError

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

OUTPUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "as computed": lambda y: y,
    "transposed": lambda y: y.permute(1, 0, 2),
    "contiguous": lambda y: y.permute(1, 0, 2).contiguous(),
    "heads": lambda y: y.reshape(*y.shape[:2], 2, 8).permute(0, 2, 1, 3),
    "heads, contiguous": lambda y: y.reshape(*y.shape[:2], 2, 8).permute(0, 2, 1, 3).contiguous(),
    "columns": lambda y: y[..., :4],
    "columns, contiguous": lambda y: y[..., :4].contiguous(),
    "new order": lambda y: torch.relu(y.permute(2, 0, 1)),
    "bounded": lambda y: F.hardsigmoid(F.hardtanh(y.permute(1, 0, 2))),
    "one row": lambda y: y[:, :1].permute(1, 0, 2),
    "one number": lambda y: y.sum(),
    "repeated": lambda y: y[:, :1].expand(-1, 3, -1),
}


def strides(tensor: Tensor) -> list[int]:
    """Those of the dimensions that have more than one element."""
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return [stride for size, stride in pairs if size != 1]


class Model(nn.Module):
    def __init__(self, output: Callable[[Tensor], Tensor]):
        super().__init__()
        self.linear, self.output = nn.Linear(16, 16), output

    def forward(self, x: Tensor) -> Tensor:
        return self.output(self.linear(x))


class All(nn.Module):
    """All outputs, each of its own linear map."""

    def __init__(self):
        super().__init__()
        self.models = nn.ModuleList(map(Model, OUTPUTS.values()))

    def forward(self, x: Tensor) -> list[Tensor]:
        return [model(x) for model in self.models]


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("is_trained", [False, True])
def test_strides(is_trained: bool, dynamic: bool):
    model = All()
    fast = compiled(model, dynamic=dynamic)
    with torch.set_grad_enabled(is_trained):
        for rows in (5, 7) if dynamic else (5,):
            x = torch.randn(2, rows, 16)
            for name, y, expected in zip(OUTPUTS, fast(x), model(x), strict=True):
                torch.testing.assert_close(y, expected)
                assert strides(y) == strides(expected), name


@pytest.mark.slow
@pytest.mark.parametrize("padding", [False, True])
@pytest.mark.parametrize("mask", [False, True])
def test_attention_of_pytorch_whose_result_is_viewed(padding: bool, mask: bool):
    model, x = nn.MultiheadAttention(16, 2, batch_first=True).eval(), torch.randn(2, 5, 16)
    hidden = torch.tensor([[False] * 5, [False] * 3 + [True] * 2]) if padding else None
    future = torch.ones(5, 5, dtype=torch.bool).triu(1) if mask else None

    def attention(x: Tensor) -> Tensor:
        y, _ = model(x, x, x, hidden, need_weights=False, attn_mask=future)
        return y

    with torch.no_grad():
        y, expected = compiled(attention)(x), attention(x)
    torch.testing.assert_close(y.view(-1), expected.view(-1))


def test_layouts():
    x = torch.randn(2, 3, 4)
    assert laid_out(x, order_of(x)) is x
    moved = x.permute(2, 0, 1)
    assert laid_out(moved, order_of(moved)) is moved
    copied = laid_out(moved.contiguous(), order_of(moved))
    assert copied.stride() == moved.stride() and torch.equal(copied, moved)
    assert order_of(x[..., :2]) is None
    one = torch.tensor(1.0)
    assert laid_out(one, order_of(one)) is one


def test_strides_of_exported_models(tmp_path: Path):
    model, x = All().eval(), torch.randn(2, 5, 16)
    coda_ir.save(coda_ir.export(model, (x,)), tmp_path / "model.mlir")
    compiled = coda_ir.load(tmp_path / "model.mlir").compile(target="reference")
    with torch.no_grad():
        for name, y, expected in zip(OUTPUTS, compiled(x), model(x), strict=True):
            torch.testing.assert_close(y, expected)
            assert strides(y) == strides(expected), name


@pytest.mark.parametrize(
    ("order", "message"),
    [("[1,2,0,3]", "has 3 dimensions"), ("[1,2,1]", "is not a permutation of 3")],
)
def test_a_saved_order_that_is_wrong(order: str, message: str, tmp_path: Path):
    file = tmp_path / "model.mlir"
    coda_ir.save(coda_ir.export(Model(OUTPUTS["new order"]).eval(), (torch.randn(2, 5, 16),)), file)
    text = file.read_text()
    assert "[1,2,0]" in text
    file.write_text(text.replace("[1,2,0]", order))
    with pytest.raises(CodaError, match=message):
        coda_ir.load(file)
