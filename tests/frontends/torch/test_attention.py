"""Kernels of attention that PyTorch has chosen, results that nobody uses, and shared operands."""

import copy
from collections.abc import Callable
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from support.kernel_steps import kernel_steps
from support.torch_compile import compiled, gradients
from torch import nn
from xdsl.utils.exceptions import VerifyException

import coda_ir
from coda_ir.api import find_entry
from coda_ir.backends.reference import run_function
from coda_ir.dialects.torch import CallOp
from coda_ir.float64 import relative_error
from coda_ir.frontends.torch import ExportedModel, export


class Chosen(nn.Module):
    """Self-attention by the kernel that PyTorch chooses on a CPU; gives some of its results."""

    def __init__(self, *results: int, scale: float | None = None):
        super().__init__()
        self.qkv = nn.Linear(16, 48, bias=False)
        self.results, self.scale = results, scale

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        heads = [part.unflatten(-1, (2, 8)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1)]
        kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        found = kernel(*heads, 0.0, self.scale is None, scale=self.scale)
        rows = [found[0].transpose(1, 2).flatten(2), found[1]]
        return tuple(rows[result] for result in self.results)


def calls(model: ExportedModel) -> list[CallOp]:
    return [op for op in model.module.walk() if isinstance(op, CallOp)]


@pytest.mark.slow
@pytest.mark.parametrize("results", [(0,), (1,), (0, 1)])
def test_results_that_are_used(results: tuple[int, ...]):
    model, x = Chosen(*results), torch.randn(2, 5, 16)
    with torch.no_grad():
        expected = model(x)
    exported = export(model, (x,))
    named = {op.name for op in exported.module.walk()}
    if results == (0,):
        assert "coda.attention" in named and not calls(exported)
    else:
        assert "coda.attention" not in named
        assert [call.picks for call in calls(exported)] == [(1,) if len(results) == 1 else None]
    tensors = exported.arguments(x)
    for actual in (
        run_function(find_entry(exported.module), tensors, "stated"),
        coda_ir.compile(exported.module, target="triton", device="cpu").unchecked(*tensors),
    ):
        torch.testing.assert_close(tuple(actual), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("scale", [0.0, -0.5])
def test_unusual_scales(scale: float):
    model, x = Chosen(0, scale=scale), torch.randn(2, 5, 16)
    (found,) = export(model, (x,)).compile(device="cpu")(x)
    torch.testing.assert_close(found, model(x)[0].detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("positions", [[0], [1, 0], [-1, 1], [1, 1]])
def test_positions_are_verified(positions: list[int]):
    exported = export(Chosen(0, 1), (torch.randn(2, 5, 16),))
    (call,) = calls(exported)
    types = [result.type for result in call.outputs]
    wrong = CallOp(call.callee.data, call.inputs, call.arguments.data, types, positions=positions)
    with pytest.raises(VerifyException, match="expected 2 increasing numbers"):
        wrong.verify()


class Shared(nn.Module):
    """Attention of which a tensor is several operands: keys and values, and maybe queries."""

    def __init__(self, *, queries: bool, columns: bool, scaled: str):
        super().__init__()
        self.q = None if queries else nn.Linear(16, 16)
        self.kv, self.columns, self.scaled = nn.Linear(16, 16), columns, scaled

    def heads(self, x: torch.Tensor) -> torch.Tensor:
        """Heads that are columns of a tensor, or that lie one after another."""
        if self.columns:
            return x.reshape(*x.shape[:2], 2, 8).transpose(1, 2)
        return x.reshape(x.shape[0], 2, x.shape[1], 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kv = self.heads(self.kv(x))
        q = kv if self.q is None else self.heads(self.q(x))
        factor = torch.arange(1, 6)[None, None, :, None].to(q.dtype).log1p()
        if self.scaled == "heads":
            q = q * factor
        elif self.scaled == "rows":
            q = (q.transpose(1, 2) * factor.transpose(1, 2)).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, kv, kv, is_causal=True)
        return y.transpose(1, 2).reshape(x.shape) if self.columns else y.reshape(x.shape)


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize(
    ("queries", "columns", "scaled"),
    [*product([False, True], [False, True], [""]), (False, True, "heads"), (True, True, "rows")],
)
def test_operands_that_are_one_tensor(queries: bool, columns: bool, scaled: str):
    """The gradients of the operands add up."""
    model = Shared(queries=queries, columns=columns, scaled=scaled)
    x = torch.randn(2, 5, 16)
    named = {op.name for op in export(model, (x,)).module.walk()}
    assert ("coda.attention" in named) == columns
    fast, exact = compiled(model), copy.deepcopy(model).double()
    with torch.no_grad():
        assert relative_error(fast(x), exact(x.double())) < 1e-6
    found, right = gradients(fast, model, x), gradients(exact, exact, x.double())
    for ours, wanted in zip(found, right, strict=True):
        assert ours is not None and wanted is not None
        assert relative_error(ours, wanted) < 1e-5


class Repeated(nn.Module):
    """Attention of heads each of which was repeated, those of queries as well."""

    def __init__(self):
        super().__init__()
        self.maps = nn.ModuleList(nn.Linear(16, 8, bias=False) for _ in range(3))
        self.narrow: torch.dtype | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        single = [to(x).view(2, 5, 1, 8).transpose(1, 2)[:, :, None] for to in self.maps]
        q, k, v = (heads.expand(2, 1, 4, 5, 8).reshape(2, 4, 5, 8) for heads in single)
        q, k, v = (heads.to(self.narrow or x.dtype) for heads in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(2, 5, 32)


@pytest.mark.slow
@pytest.mark.parametrize("narrow", [None, torch.bfloat16])
def test_heads_of_queries_that_are_repeated(narrow: torch.dtype | None):
    """They are not those that keys share, and the result has all of them."""
    model, x = Repeated(), torch.randn(2, 5, 16)
    model.narrow = narrow
    with torch.no_grad():
        found = export(model, (x,)).compile(device="cpu")(x)
        model.narrow = None
        exact = copy.deepcopy(model).double()(x.double())
        assert relative_error(found, exact) < (1e-6 if narrow is None else 2e-2)


HEADS_AFTER_ROWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "expand": lambda k: k[:, :, :, None].expand(2, 5, 2, 4, 8).reshape(2, 5, 8, 8),
    "repeat": lambda k: k.unsqueeze(3).repeat(1, 1, 1, 4, 1).flatten(2, 3),
    "repeat_interleave": lambda k: k.repeat_interleave(4, 2),
    "of one": lambda k: k[:, :, :1].expand(-1, -1, 8, -1),
}
"""The ways to repeat heads (B x T x heads x D) before they are transposed."""


class Shares(nn.Module):
    """Attention with keys that queries share, called or written out."""

    def __init__(self, way: str, *, is_called: bool):
        super().__init__()
        self.q, self.kv = nn.Linear(16, 64), nn.ModuleList(nn.Linear(16, 16) for _ in range(2))
        self.repeated, self.is_called = HEADS_AFTER_ROWS[way], is_called

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q = self.q(x).view(2, 5, 8, 8).transpose(1, 2)
        k, v = (self.repeated(to(x).view(2, 5, 2, 8)).transpose(1, 2) for to in self.kv)
        if self.is_called:
            y = F.scaled_dot_product_attention(q, k, v)
        else:
            y = torch.softmax(q @ k.mT / 8**0.5, -1) @ v
        return y.transpose(1, 2).flatten(2)


@pytest.mark.slow
@pytest.mark.parametrize("is_called", [True, False])
@pytest.mark.parametrize("way", HEADS_AFTER_ROWS)
def test_keys_that_are_repeated_after_rows_are_shared(way: str, is_called: bool):
    model, x = Shares(way, is_called=is_called), torch.randn(2, 5, 16)
    exported = export(model, (x,))
    assert not calls(exported)
    with torch.no_grad():
        expected = model.double()(x.double())
    (actual,) = run_function(find_entry(exported.module), exported.arguments(x), "stated")
    assert relative_error(actual, expected) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("masked", [(), (2, 1, 1, 1, 4)])
def test_attention_in_windows(masked: tuple[int, ...]):
    """Queries with an axis of windows beside that of heads; PyTorch has no kernel for five axes."""
    maps, x = nn.Linear(16, 48, bias=False), torch.randn(2, 8, 16)
    mask = torch.randn(masked) if masked else None

    def model(x: torch.Tensor) -> torch.Tensor:
        q, k, v = maps(x).view(2, 4, 2, 3, 2, 8).permute(3, 0, 4, 2, 1, 5).to(x.dtype)
        hidden = None if mask is None else mask.to(x.dtype)
        return F.scaled_dot_product_attention(q, k, v, hidden).transpose(1, 3).reshape(2, 8, 16)

    fast = compiled(model)
    with torch.no_grad():
        fast(x)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            found = fast(x)
        assert "attention_math" not in str(profile.key_averages())
        maps.double()
        assert relative_error(found, model(x.double())) < 1e-6


class Latent(nn.Module):
    """Multi-head latent attention as transformers writes it, without rotary embedding: keys are an
    empty tensor that is assigned to, one part of them is the same for all heads.
    """

    def __init__(self):
        super().__init__()
        sizes = {"q": (32, 48), "down": (32, 24), "up": (16, 64)}
        self.q, self.down, self.up = (nn.Linear(*size, bias=False) for size in sizes.values())
        self.norm = nn.RMSNorm(16, eps=1e-6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, rows, _ = x.shape
        q = self.q(x).view(batch, rows, 2, 24).transpose(1, 2)
        latent, shared = self.down(x).split([16, 8], -1)
        up = self.up(self.norm(latent).view(batch, 1, rows, 16))
        k, v = up.view(batch, rows, 2, 32).transpose(1, 2).split([16, 16], -1)
        keys = k.new_empty(batch, 2, rows, 24)
        keys[..., :16] = k
        keys[..., 16:] = shared.view(batch, 1, rows, 8).expand(-1, 2, -1, -1)
        y = F.scaled_dot_product_attention(q, keys, v, is_causal=True)
        return y.transpose(1, 2).flatten(2)


@pytest.mark.slow
def test_latent_attention():
    """The norm moves past its GEMM, and what is assigned is a concatenation."""
    model, x = Latent(), torch.randn(2, 5, 32)
    exported = export(model, (x,))
    (steps,) = kernel_steps(exported.module.clone()).values()
    assert steps == "fused fused concat aten.scaled_dot_product_attention.default"
    with torch.no_grad():
        expected = copy.deepcopy(model).double()(x.double())
    run = coda_ir.compile(exported.module, target="triton", device="cpu").unchecked
    assert relative_error(run(*exported.arguments(x))[0], expected) < 1e-6


class Crossed(nn.Module):
    """PyTorch's module, which computes scores to return them, with masks of pairs and of keys."""

    def __init__(self, *, is_masked: bool):
        super().__init__()
        self.attention, self.is_masked = nn.MultiheadAttention(16, 2), is_masked

    def forward(self, x: torch.Tensor, z: torch.Tensor, pairs: torch.Tensor, keys: torch.Tensor):
        masks = {"attn_mask": pairs, "key_padding_mask": keys} if self.is_masked else {}
        return self.attention(x, z, z * 2, **masks)[0]


@pytest.mark.slow
@pytest.mark.parametrize("is_masked", [False, True])
def test_heads_that_are_merged_with_the_batch(is_masked: bool):
    model, x, z = Crossed(is_masked=is_masked), torch.randn(5, 3, 16), torch.randn(7, 3, 16)
    pairs, keys = torch.ones(5, 7, dtype=torch.bool).triu(4), torch.zeros(3, 7, dtype=torch.bool)
    keys[1, 5:] = True
    exported = export(model, (x, z, pairs, keys))
    assert sum(op.name == "coda.attention" for op in exported.module.walk()) == 1
    with torch.no_grad():
        expected = model.double()(x.double(), z.double(), pairs, keys)
    arguments = exported.arguments(x, z, pairs, keys)
    (actual,) = run_function(find_entry(exported.module), arguments, "stated")
    assert relative_error(actual, expected) < 1e-6


class Grouped(nn.Module):
    """Queries that share keys, by `einsum`, with a bias; groups of 2 or all 4 heads."""

    def __init__(self, *bias: int, groups: int = 2):
        super().__init__()
        self.groups, self.widths = groups, [32, groups * 8, groups * 8]
        self.qkv = nn.Linear(32, sum(self.widths))
        self.bias = nn.Parameter(torch.randn(bias))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).split(self.widths, -1)
        q = q.unflatten(-1, (self.groups, 4 // self.groups, 8))
        k, v = (part.unflatten(-1, (self.groups, 8)) for part in (k, v))
        scores = torch.einsum("bqkgd,bskd->bkgqs", q, k) + self.bias
        return torch.einsum("bkgqs,bskd->bqkgd", scores.softmax(-1), v).flatten(2)


class RowsOfHeads(Grouped):
    """The bias is added where all heads are rows of one matrix."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).split(self.widths, -1)
        rows = q.unflatten(-1, (4, 8)).transpose(1, 2).flatten(1, 2)
        weights = (rows @ k.mT + self.bias).unflatten(1, (4, -1)).softmax(-1)
        return (weights.flatten(1, 2) @ v).unflatten(1, (4, -1)).transpose(1, 2).flatten(2)


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        Grouped(1),
        Grouped(2, 2, 1, 1),
        Grouped(1, 10, 10),
        Grouped(2, 1, 1, 1, 10),
        Grouped(2, 2, 2, 10, 1),
        Grouped(4, 1, 1, groups=1),
    ],
)
def test_queries_that_share_keys_are_rows(model: Grouped):
    assert_raised(model, torch.randn(2, 10, 32), is_raised=True)


@pytest.mark.parametrize("model", [Grouped(2, 1, 10, 10), RowsOfHeads(40, 10, groups=1)])
def test_biases_of_groups_that_are_no_biases_of_heads(model: Grouped):
    assert_raised(model, torch.randn(2, 10, 32), is_raised=False)


def assert_raised(model: nn.Module, x: torch.Tensor, *, is_raised: bool) -> None:
    exported = export(model, (x,))
    assert any(op.name == "coda.attention" for op in exported.module.walk()) == is_raised
    with torch.no_grad():
        expected = copy.deepcopy(model).double()(x.double())
    (actual,) = run_function(find_entry(exported.module), exported.arguments(x), "stated")
    assert relative_error(actual, expected) < 1e-6


class Moved(nn.Module):
    """Self-attention of heads that are normalized and scaled after they are moved (nGPT)."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(16, 48, bias=False)
        self.scale = nn.Parameter(torch.randn(2, 1, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = [part.unflatten(-1, (2, 8)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1)]
        q, k = (h / h.norm(dim=-1, keepdim=True) * self.scale for h in heads[:2])
        y = F.scaled_dot_product_attention(q, k, heads[2], is_causal=True)
        return y.transpose(1, 2).flatten(2)


def test_heads_that_are_computed_with_stay_columns():
    model, x = Moved(), torch.randn(2, 5, 16)
    exported = export(model, (x,))
    named = {op.name for op in exported.module.walk()}
    assert "coda.attention" in named and "coda.transpose" not in named
    with torch.no_grad():
        expected = model.double()(x.double())
    (actual,) = run_function(find_entry(exported.module), exported.arguments(x), "stated")
    assert relative_error(actual, expected) < 1e-6


class Joined(nn.Module):
    """Cross-attention of heads that are sliced off and joined along the batch, with a residual."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(16, 16) for _ in range(3))

    def forward(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        q, k, v = (torch.cat(part.chunk(2, 2), 0) for part in (self.q(x), self.k(z), self.v(z)))
        y = q + torch.softmax(q.bmm(k.transpose(1, 2)) / 4, 2).bmm(v)
        return torch.cat(y.chunk(2, 0), 2)


def test_heads_joined_along_the_batch():
    model, arguments = Joined(), (torch.randn(3, 5, 16), torch.randn(3, 7, 16))
    exported = export(model, arguments)
    _, _, *named, _ = (op.name.removeprefix("coda.") for op in exported.module.walk())
    assert named == ["linear", "linear", "linear", "attention", "add"]
    with torch.no_grad():
        expected = model.double()(*(x.double() for x in arguments))
    (actual,) = run_function(find_entry(exported.module), exported.arguments(*arguments), "stated")
    assert relative_error(actual, expected) < 1e-6


class Own(nn.Module):
    """PyTorch's own self-attention, which orders rows (T x B)."""

    def __init__(self, *, batch_first: bool):
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 2, batch_first=batch_first)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.attention(x, x, x, need_weights=False)[0]


@pytest.mark.parametrize("batch_first", [True, False])
def test_own_attention_reads_heads_in_place(batch_first: bool):
    model, x = Own(batch_first=batch_first), torch.randn(2, 5, 16)
    exported = export(model, (x,))
    _, _, *named, _ = (op.name.removeprefix("coda.") for op in exported.module.walk())
    transposed = [] if batch_first else ["transpose"]
    heads = ["slice", *transposed] * 3
    assert named == ["linear", *heads, "attention", *transposed, "linear"]
    with torch.no_grad():
        expected = copy.deepcopy(model).double()(x.double())
    (actual,) = run_function(find_entry(exported.module), exported.arguments(x), "stated")
    assert relative_error(actual, expected) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("target", ["reference", "triton"])
@pytest.mark.parametrize("shared", ["heads of q", "batch of q", "batch of k and v", "heads of v"])
def test_operands_that_broadcast(shared: str, target: str):
    layer = nn.Linear(16, 16)

    def model(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(layer(q), k, v)

    outer = {name: [3, 2] for name in "qkv"}
    for name in "qkv":
        if name in shared:
            outer[name][0 if "batch" in shared else 1] = 1
    inputs = [torch.randn(*outer[name], 5, 16, requires_grad=True) for name in "qkv"]
    fast = compiled(model, target=target)
    torch.testing.assert_close(fast(*inputs), model(*inputs), rtol=1e-4, atol=1e-5)
    found = torch.autograd.grad(fast(*inputs).square().sum(), inputs)
    expected = torch.autograd.grad(model(*inputs).square().sum(), inputs)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)
