"""Parts of models written as in no library of models: as exact as eager, and compiled."""

import copy
import re
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.torch_compile import compiled, gradients, joined
from torch import Tensor, nn

from coda_ir.api import Lowering, find_entry
from coda_ir.dialects.torch import CallOp
from coda_ir.float64 import relative_error
from coda_ir.frontends.torch import export

DTYPES = (torch.float32, torch.bfloat16)
ERROR = 1.25
"""Times eager's."""
FLOOR = torch.finfo(torch.float32).eps
"""One rounding: eager's error is 0 where the model computes in float32 even in float64."""


class Part(nn.Module):
    """`function` of the result of a linear map: B x T x 24, and weights."""

    def __init__(self, function: Callable[["Part", Tensor], Tensor]):
        super().__init__()
        self.function = function
        self.first, self.last = nn.Linear(32, 24), nn.Linear(24, 24)
        self.up, self.qkv, self.router = nn.Linear(24, 48), nn.Linear(24, 72), nn.Linear(24, 8)
        self.modulation, self.norm = nn.Linear(24, 72), nn.LayerNorm(24, elementwise_affine=False)
        self.row, self.slopes = nn.Parameter(torch.randn(24)), nn.Parameter(torch.rand(3, 1, 1))
        self.taps, self.channels = nn.Parameter(torch.randn(24, 1, 4)), nn.BatchNorm1d(24)
        with torch.no_grad():
            self.channels.get_buffer("running_mean").normal_()
            self.channels.get_buffer("running_var").uniform_(0.5, 2)
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self, self.first(x))

    def heads(self, y: Tensor) -> tuple[Tensor, ...]:
        return self.qkv(y).unflatten(-1, (3, 3, 8)).permute(2, 0, 3, 1, 4).unbind(0)

    def attended(self, y: Tensor, mask: Tensor) -> Tensor:
        q, k, v = self.heads(y)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.last(out.transpose(1, 2).flatten(2))

    def condition(self, y: Tensor) -> Tensor:
        return self.modulation(F.silu(y.amax(1)))


def chunked(m: Part, y: Tensor) -> Tensor:
    shift, scale, gate = m.condition(y).chunk(3, -1)
    moved = m.norm(y) * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)
    return y + gate.unsqueeze(1) * m.last(moved)


def multiplied_and_added(m: Part, y: Tensor) -> Tensor:
    shift, scale, gate = m.condition(y).view(-1, 3, 24).unbind(1)
    moved = torch.addcmul(shift[:, None], m.norm(y), 1 + scale[:, None])
    return torch.addcmul(y, gate[:, None], m.last(moved))


def factored(m: Part, y: Tensor) -> Tensor:
    p, n = m.condition(y).view(-1, 1, 3, 24), m.norm(y)
    return y + p[:, :, 2] * m.last(n + n * p[:, :, 1] + p[:, :, 0])


def neighbours(m: Part, y: Tensor) -> Tensor:
    a, b = m.up(y).unflatten(-1, (24, 2)).unbind(-1)
    return m.last(F.gelu(a, approximate="tanh") * b)


def clamped(m: Part, y: Tensor) -> Tensor:
    h = m.up(y)
    gate, up = h.narrow(-1, 0, 24).clamp(max=0.7), h.narrow(-1, 24, 24).clamp(-0.7, 0.7)
    return m.last(gate * torch.sigmoid(1.702 * gate) * (up + 1))


def alibi(m: Part, y: Tensor) -> Tensor:
    i = torch.arange(y.shape[1])
    bias = m.slopes * (i[None] - i[:, None]).clamp(max=0).to(y.dtype)
    return m.attended(y, bias.masked_fill(i[None] > i[:, None], float("-inf")))


def window(m: Part, y: Tensor) -> Tensor:
    length = y.shape[1]
    return m.attended(y, torch.ones(length, length, dtype=torch.bool).tril().triu(-2))


def routed(m: Part, y: Tensor) -> Tensor:
    # Scores so close that rounding decides would go to other experts.
    apart = torch.arange(8, device=y.device)
    scores, ids = (m.router(y).float() / 8 + apart).sort(-1, descending=True)
    weights = scores[..., :2].softmax(-1)
    chosen = F.one_hot(ids[..., :2], 8).to(weights.dtype) * weights[..., None]
    return chosen.sum(-2).to(y.dtype)


def convolved(m: Part, y: Tensor) -> Tensor:
    return F.silu(F.conv1d(F.pad(y.mT, (3, 0)), m.taps, groups=24).mT)


def shifted(m: Part, y: Tensor) -> Tensor:
    return m.last(y + (F.pad(y, (0, 0, 1, -1)) - y) * m.row)


def taps(m: Part, y: Tensor) -> Tensor:
    return sum((F.pad(y, (0, 0, j, 0))[:, : y.shape[1]] * m.row * j for j in (1, 2)), y)


def zeros_before(m: Part, y: Tensor) -> Tensor:
    return torch.cat([torch.zeros(y.shape[0], 1, 24, dtype=y.dtype), m.last(y)], 1)


def normalized(m: Part, y: Tensor) -> Tensor:
    return m.last(F.normalize(y, dim=-1) * 24**0.5 * (m.row + 1))


def averaged(m: Part, y: Tensor) -> Tensor:
    groups = y.view(*y.shape[:2], 4, 6)
    return m.last((groups - groups.mean(2, keepdim=True)).flatten(2))


def excited(m: Part, y: Tensor) -> Tensor:
    """A gate by the mean over both open sizes."""
    return y * torch.sigmoid(m.last(y.mean((0, 1), keepdim=True)))


def by_vector(m: Part, y: Tensor) -> Tensor:
    return m.last(y) * torch.tanh(y @ m.row).unsqueeze(-1)


def pooled(m: Part, y: Tensor) -> Tensor:
    """Positions, by a softmax over them."""
    return (torch.tanh(m.last(y)).softmax(1) * y).sum(1)


def shared_out(m: Part, y: Tensor) -> Tensor:
    """Groups of columns, by a softmax over the groups."""
    groups = m.last(y).unflatten(-1, (2, -1))
    return (groups.softmax(-2) * groups).flatten(-2)


def batch_norm(m: Part, y: Tensor) -> Tensor:
    return m.channels(m.last(y).mT).mT


def mixed(m: Part, y: Tensor) -> Tensor:
    """Values of heads, mixed with others: PyTorch decomposes this and copies what one row gives."""
    q, k, v = m.heads(y)
    out = F.scaled_dot_product_attention(q, k, v.lerp(k, m.slopes))
    return m.last(out.transpose(1, 2).flatten(2))


def replaced(m: Part, y: Tensor) -> Tensor:
    """Scores without those of a row with itself, which are replaced in memory."""
    rows = F.normalize(m.last(y).flatten(0, 1), dim=-1)
    return (rows @ rows.T).fill_diagonal_(-torch.inf).logsumexp(-1)


def placed(m: Part, y: Tensor) -> Tensor:
    """Features in some of the rows, in order, as of images in text."""
    is_image = torch.arange(y.shape[1]) % 3 == 1
    mask = is_image.expand(y.shape[:2]).unsqueeze(-1).expand_as(y)
    return y + torch.zeros_like(y).masked_scatter(mask, m.last(y).flatten(0, 1))


def by_variance(m: Part, y: Tensor) -> Tensor:
    apart = y - y.mean(-1, keepdim=True)
    norm = apart * torch.rsqrt(y.var(-1, keepdim=True, unbiased=False) + 1e-5)
    variance, mean = torch.var_mean(m.last(norm), -1, keepdim=True)
    spread = torch.var(y.view(*y.shape[:-1], 4, 6), (-1, -2))
    return m.row * norm * variance + mean * spread.unsqueeze(-1)


def rolled(m: Part, y: Tensor) -> Tensor:
    moved = torch.roll(m.last(y).unflatten(-1, (4, 6)), (1, -2), (-2, -1))
    return y + torch.roll(moved.flatten(-2), 24, -1)


CASES: dict[str, tuple[Callable[[Part, Tensor], Tensor], set[str]]] = {
    **{f.__name__: (f, {"aten.amax.default"}) for f in (chunked, multiplied_and_added, factored)},
    **{f.__name__: (f, set[str]()) for f in (neighbours, clamped, alibi, window, routed)},
    **{f.__name__: (f, set[str]()) for f in (convolved, shifted, taps, zeros_before)},
    **{f.__name__: (f, set[str]()) for f in (normalized, averaged, by_vector, shared_out, placed)},
    **{f.__name__: (f, set[str]()) for f in (by_variance, rolled)},
    "pooled": (pooled, {"aten.softmax.int"}),
    "excited": (excited, {"aten.mean.dim"}),
    "batch_norm": (batch_norm, set()),
    "hidden_columns": (lambda m, y: F.pad(m.last(y), (0, 8), value=-1e4).softmax(-1), set()),
    "reflected": (lambda m, y: F.pad(m.last(y), (2, 2), mode="reflect"), {"aten.pad.default"}),
}
"""The function and the calls of PyTorch that are left, by name."""


class Parts(nn.Module):
    """Several parts of the same input: a trace takes much the same time for one and for all."""

    def __init__(self, functions: Iterable[Callable[[Part, Tensor], Tensor]]):
        super().__init__()
        self.parts = nn.ModuleList(map(Part, functions))

    def forward(self, x: Tensor) -> list[Tensor]:
        return [part(x) for part in self.parts]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("half", [0, 1])
def test_as_exact_as_eager(half: int, dtype: torch.dtype) -> None:
    cases = dict(list(CASES.items())[half::2])
    model = Parts(function for function, _ in cases.values()).to(dtype)
    x = torch.randn(3, 7, 32, dtype=dtype)
    dynamic = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    exported = export(model, (x,), dynamic_shapes=(dynamic,))
    lowered = find_entry(Lowering(exported.module).module("gemm"))
    calls = [op for op in lowered.walk() if isinstance(op, CallOp) and op.view is None]
    found: dict[str, set[str]] = {name: set() for name in cases}
    for op in calls:
        place = re.search(r"parts\.(\d+)", str(op.location))
        assert place is not None
        found[list(cases)[int(place[1])]].add(op.callee.data)
    assert found == {name: left for name, (_, left) in cases.items()}
    with torch.no_grad():
        results = model(x), copy.deepcopy(model).double()(x.double())
        compiled = exported.compile(target="triton", device="cpu", errors="raise")
        for name, y, eager, exact in zip(cases, compiled(x), *results, strict=True):
            assert y.dtype == eager.dtype and y.shape == eager.shape, name
            bound = max(ERROR * relative_error(eager, exact), FLOOR)
            assert relative_error(y, exact) <= bound, name


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_dynamo")
def test_gradients(caplog: pytest.LogCaptureFixture) -> None:
    functions = (shifted, convolved, normalized, averaged, by_vector, pooled, shared_out, placed)
    model, x = Parts((*functions, by_variance, rolled, batch_norm, replaced)), torch.randn(3, 7, 32)
    exact = copy.deepcopy(model).double()
    fast = compiled(model, dynamic=True, target="reference")
    found = gradients(joined(fast), model, x)
    wanted = gradients(joined(exact), exact, x.double())
    assert "left to autograd" not in caplog.text
    for got, expected in zip(found, wanted, strict=True):
        assert (got is None) == (expected is None)
        if got is not None and expected is not None:
            assert relative_error(got, expected) < 1e-5


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize("rows", [1, 21, 30])
def test_stored_rows(rows: int) -> None:
    """Masks of rows, with as many rows to store or more, and masks of elements, and of columns."""
    model, x, source = nn.Linear(8, 8), torch.randn(3, 7, 8), torch.randn(rows, 8)
    of_rows = torch.zeros(3, 7, 1, dtype=torch.bool)
    of_rows.view(-1)[-min(rows, 21) :] = True
    for mask in (of_rows, of_rows.expand(3, 7, 8), torch.arange(8) < 1 if rows == 30 else of_rows):

        def store(x: Tensor, y: Tensor, mask: Tensor = mask) -> Tensor:
            return torch.sin(x).masked_scatter(mask, model(y))

        given = [[x.clone().requires_grad_(), source.clone().requires_grad_()] for _ in range(2)]
        results = [f(*each) for f, each in zip((compiled(store), store), given, strict=True)]
        torch.testing.assert_close(*results, rtol=1e-5, atol=1e-5)
        grads = [
            torch.autograd.grad(y.sin().sum(), each) for y, each in zip(results, given, strict=True)
        ]
        torch.testing.assert_close(*grads, rtol=1e-5, atol=1e-5)


def store_row(x: Tensor, mask: Tensor, row: Tensor) -> None:
    x[mask] = row


def store_number(x: Tensor, mask: Tensor, row: Tensor) -> None:
    x[mask, :] = 0.1


def store_in_view(x: Tensor, mask: Tensor, row: Tensor) -> None:
    x.transpose(0, 1)[..., ::2][mask.T] = row[::2]


def add_rows(x: Tensor, mask: Tensor, row: Tensor) -> None:
    """As Qwen3-VL adds features of images; TorchDynamo cuts the graph before the sum."""
    x[mask, :] = x[mask, :] + row * torch.arange(10, dtype=x.dtype)[:, None]


def scale_samples(x: Tensor, mask: Tensor, row: Tensor) -> None:
    """As GLM-Image drops some samples, or none."""
    x[mask[:, 0]] *= 0.5
    x[mask[:, 0] & ~mask[:, 0]] *= 0.5


def store_in_elements(x: Tensor, mask: Tensor, row: Tensor) -> None:
    x[x > 0.5] = row.sum()


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize("is_trained", [False, True])
@pytest.mark.parametrize(
    "store", [store_row, store_number, store_in_view, add_rows, scale_samples, store_in_elements]
)
def test_rows_of_a_mask_in_place(
    store: Callable[[Tensor, Tensor, Tensor], None],
    is_trained: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """AOTAutograd, to which changes of inputs with gradients are left, cannot trace `x[mask]`."""
    model, mask = nn.Linear(8, 8), torch.randperm(21).view(3, 7) < 10
    x, row = torch.randn(3, 7, 8), torch.randn(8)

    def run(model: nn.Module, x: Tensor, mask: Tensor, row: Tensor) -> Tensor:
        store(x, mask, row)
        return model(x)

    def results(function: Callable[..., Tensor], dtype: torch.dtype) -> list[Tensor]:
        layer = copy.deepcopy(model).to(dtype)
        leaves = [each.to(dtype, copy=True).requires_grad_() for each in (x, row)]
        with torch.set_grad_enabled(is_trained):
            changed = leaves[0] * 1
            y = function(layer, changed, mask, leaves[1])
        if not is_trained:
            return [y, changed]
        parameters = [*leaves, *layer.parameters()]
        loss = (y * y + y).sum()
        grads = torch.autograd.grad(loss, parameters, materialize_grads=True)
        return [y.detach(), changed.detach(), *grads]

    found, eager = (results(each, torch.float32) for each in (compiled(run), run))
    exact = results(run, torch.float64)
    for got, rounded, wanted in zip(found, eager, exact, strict=True):
        assert relative_error(got, wanted) <= ERROR * relative_error(rounded, wanted) + FLOOR
    assert "eager" not in caplog.text


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_dynamo")
def test_one_row_of_mixed_values(caplog: pytest.LogCaptureFixture) -> None:
    model, x = Part(mixed), torch.randn(1, 1, 32)
    found = gradients(compiled(model), model, x)
    assert "left to autograd" not in caplog.text
    for got, expected in zip(found, gradients(model, model, x), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("fresh_dynamo")
def test_identity_matrices_of_more_rows_than_8_bits_count(caplog: pytest.LogCaptureFixture) -> None:
    def signed(_: Part, y: Tensor) -> Tensor:
        return (y @ y.mT) * (2 * torch.eye(300) - 1) + y @ torch.eye(24, 300)

    model, x = Part(signed), torch.randn(300, 32)
    found = gradients(compiled(model, target="reference"), model, x)
    assert "left to autograd" not in caplog.text
    for got, expected in zip(found, gradients(model, model, x), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)


def test_tensors_without_dimensions() -> None:
    """Numbers are reduced along the dimension that they do not have, and biases of one number."""

    def reduced(m: Part, y: Tensor) -> Tensor:
        number = y.mean()
        numbers = [number.sum(-1), number.mean(0), number.amin(-1), number.logsumexp(0)]
        numbers += [F.normalize(number, dim=-1), number.max(0)[0], number.topk(1)[0]]
        biased = F.linear(y, m.last.weight, m.row[:1]) + F.linear(y, m.last.weight, m.row[0])
        return biased * torch.stack(numbers).prod()

    model, x = Part(reduced), torch.randn(3, 7, 32)
    with torch.no_grad():
        torch.testing.assert_close(compiled(model)(x), model(x), rtol=1e-5, atol=1e-6)


def test_the_gradient_of_the_length_of_a_row_of_zeros() -> None:
    """It is 0, where the derivative of a root is not finite."""
    model = Part(lambda _, y: torch.ops.aten.linalg_vector_norm(y, 2, [-1]))
    with torch.no_grad():
        model.first.weight.zero_()
        assert model.first.bias is not None
        model.first.bias.zero_()
    found = gradients(
        compiled(model, dynamic=True, target="reference"), model, torch.randn(3, 7, 32)
    )
    assert all(got is None or not got.any() for got in found)


def test_norms_over_dimensions_of_extent_one_drop_them():
    """Fake tensors of PyTorch 2.11 keep those that count from the last one."""

    def norms(x: Any) -> tuple[Tensor, ...]:
        return x.norm(dim=-2), x.norm(p=1, dim=(-1, -2)), x.norm(dim=-3, keepdim=True)

    x = torch.randn(2, 1, 1)
    for got, wanted in zip(compiled(norms)(x), norms(x), strict=True):
        assert got.shape == wanted.shape
        torch.testing.assert_close(got, wanted)
