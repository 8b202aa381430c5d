"""`torch.compile(model, backend="coda")` in training: the gradients and updates of PyTorch."""

import copy
import logging
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.torch_compile import Block, compiled, gradients, graphs
from torch import nn

from coda_ir.defects import DefectWarning
from coda_ir.frontends.torch import export
from coda_ir.frontends.torch.graph_runner import GraphRunner
from coda_ir.training.functions import TrainableFunction
from coda_ir.training.gradient_pair import DoubleBackwardError

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

checkpoint: Any = import_module("torch.utils.checkpoint").checkpoint
grad: Any = torch.autograd.grad
broadcast_tensors: Any = import_module("torch").broadcast_tensors


@pytest.fixture
def derived(monkeypatch: pytest.MonkeyPatch) -> list[TrainableFunction]:
    """The functions of which the backward was derived here."""
    found: list[TrainableFunction] = []
    make: Callable[..., None] = GraphRunner.__init__

    def recorded(self: GraphRunner, graph: Any, imported: Any, compiled: Any, *more: Any) -> None:
        if isinstance(compiled, TrainableFunction):
            found.append(compiled)
        make(self, graph, imported, compiled, *more)

    monkeypatch.setattr(GraphRunner, "__init__", recorded)
    return found


def check(fast: Any, model: nn.Module, *inputs: torch.Tensor, tolerance: float = 1e-5) -> None:
    got, wanted = (gradients(function, model, *inputs) for function in (fast, model))
    for a, b in zip(got, wanted, strict=True):
        assert (a is None) == (b is None)
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def test_frozen_parameters_and_inputs_that_want_gradients():
    model = Block()
    model.gate.weight.requires_grad_(False)
    model.norm.weight.requires_grad_(False)
    check(compiled(model), model, torch.randn(3, 16, requires_grad=True))
    assert model.gate.weight.grad is None


class Replaced(nn.Module):
    """A linear map whose first row is a number afterwards."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        y[torch.tensor([0])] = 0.3
        return y


@pytest.mark.slow
@pytest.mark.parametrize("target", ["reference", "triton"])
def test_a_number_that_replaces_rows(target: str):
    model = Replaced()
    check(compiled(model, target=target), model, torch.randn(3, 8))


class Mean(nn.Module):
    """That of the rows, after a norm and a linear map."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x).mean(0)


def test_means_of_no_rows():
    model = Mean()
    for function in (compiled(model), model):
        model.zero_grad()
        result = function(torch.zeros(0, 16))
        assert result.isnan().all()
        result.sum().backward()
        for parameter in model.parameters():
            assert parameter.grad is not None and not parameter.grad.any()


class PartsOfAWeight(nn.Module):
    """A linear map, and parts of a weight that no element of the result reads."""

    def __init__(self, part: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]):
        super().__init__()
        self.linear, self.weight, self.part = nn.Linear(16, 8), nn.Parameter(torch.randn(8)), part

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        return y + self.part(self.weight, y[0])


UNREAD: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "no elements": lambda w, y: w[:0].sum(),
    "the other part of a concatenation": lambda w, y: torch.cat([y, w])[:8],
    "the other chunk": lambda w, y: torch.cat([w, y]).chunk(2)[1],
    "detached": lambda w, y: torch.cat([y, w.detach()])[:8],
}


@pytest.mark.slow
@pytest.mark.parametrize("part", UNREAD)
def test_gradients_of_what_is_not_read(part: str):
    """They are zeros, or None, where they are PyTorch's: an optimizer tells them apart."""
    model = PartsOfAWeight(UNREAD[part])
    check(compiled(model), model, torch.randn(3, 16))


class ProductsOfRows(nn.Module):
    """Similarities of the rows of a batch, and of its columns, as in contrastive losses."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(16, 8, bias=False), nn.Linear(16, 8, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b = self.first(x), self.second(x)
        return (a @ b.T).log_softmax(-1).diagonal().sum() + (a.T @ b).square().sum()


@pytest.mark.slow
def test_products_of_symbolic_columns(derived: list[TrainableFunction]):
    model = ProductsOfRows()
    check(compiled(model, dynamic=True), model, torch.randn(5, 16))
    assert derived


class ContrastiveLoss(nn.Module):
    """That of CLIP."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.66))

    def forward(self, image: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        a, b = F.normalize(image, dim=-1), F.normalize(text, dim=-1)
        logits, labels = self.scale.exp() * a @ b.T, torch.arange(len(a))
        return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2


@pytest.mark.slow
def test_contrastive_loss(derived: list[TrainableFunction]):
    model = ContrastiveLoss()
    exact = copy.deepcopy(model).double()
    inputs = [torch.randn(12, 16, requires_grad=True) for _ in range(2)]
    wide = [x.detach().double().requires_grad_() for x in inputs]
    got = gradients(compiled(model, target="triton"), model, *inputs)
    for a, b in zip(got, gradients(exact, exact, *wide), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5, check_dtype=False)
    assert derived


@pytest.mark.slow
@pytest.mark.parametrize("target", ["reference", "triton"])
def test_extents_that_are_no_symbols(target: str):
    """Quotients, sums and differences of sizes, two of them in arguments of the backward."""
    first, second = nn.Linear(8, 8), nn.Linear(8, 8)

    def model(x: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y, other = first(x), second(z)
        pooled = y.view(z.shape[0], x.shape[0] // z.shape[0], 2, 4).mean(2)
        return pooled, torch.cat([y, other]), y[:-1] - y[1:]

    fast = compiled(model, target=target, dynamic=True)
    for rows in (6, 9):
        x, z = torch.randn(rows, 8).requires_grad_(), torch.randn(3, 8).requires_grad_()
        got, wanted = fast(x, z), model(x, z)
        torch.testing.assert_close(got, wanted)
        found, expected = (
            torch.autograd.grad([each.square().sum() for each in y], [x, z]) for y in (got, wanted)
        )
        torch.testing.assert_close(found, expected)


@pytest.mark.slow
def test_complex_results():
    """A region of complex numbers is not cut again and again, and a gradient may be a conjugate."""
    layer = nn.Linear(8, 8)

    def model(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        z = torch.view_as_complex(F.silu(layer(x)).view(-1, 4, 2))
        return (z * z.conj()).real, z

    x = torch.randn(3, 8)
    results: list[list[torch.Tensor]] = []
    for function in (compiled(model), model):
        y, z = function(x)
        gradients = torch.autograd.grad(y.sum() + z.abs().sum(), list(layer.parameters()))
        results.append([y, z, *gradients])
    torch.testing.assert_close(*results)


def test_tied_weights():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(10, 16)
            self.head = nn.Linear(16, 10, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.head(F.silu(self.embed(ids)))

    model = Tied()
    check(compiled(model), model, torch.randint(0, 10, (2, 5)))


def test_autocast():
    model = Block()
    fast = compiled(model)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        check(fast, model, torch.randn(4, 16), tolerance=3e-2)


def test_optimizer_steps_are_followed():
    model, twin = Block(), Block()
    twin.load_state_dict(model.state_dict())
    fast, x = compiled(model), torch.randn(4, 16)
    for function, owner in ((fast, model), (twin, twin)):
        optimizer: Any = torch.optim.AdamW(owner.parameters(), lr=1e-2)
        for _ in range(3):
            gradients(function, owner, x)
            optimizer.step()
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    assert list(fast.state_dict()) == [f"_orig_mod.{name}" for name in model.state_dict()]


def test_dropout_draws_what_eager_draws():
    model = nn.Sequential(nn.Linear(16, 32), nn.Dropout(0.5), nn.Linear(32, 16))
    fast, x = compiled(model), torch.randn(4, 16)
    results: list[torch.Tensor] = []
    for function in (fast, model):
        torch.default_generator.manual_seed(1)
        results.append(function(x))
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_loss(reduction: str):
    class Loss(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(16, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            target = torch.tensor([3, -100, 9, 0])
            return F.cross_entropy(self.head(x), target, reduction=reduction)

    model = Loss()
    check(compiled(model), model, torch.randn(4, 16, requires_grad=True))


@pytest.mark.slow
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_loss_of_any_number_of_rows(reduction: str, derived: list[TrainableFunction]):
    class Focal(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(16, 10)

        def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            loss = F.cross_entropy(self.head(x), target, reduction=reduction)
            return (1 - (-loss).exp()) ** 2 * loss

    model = Focal()
    fast, rows = compiled(model, dynamic=True), {0: torch.export.Dim.DYNAMIC}
    call = torch.randn(4, 16), torch.tensor([3, -100, 9, 0])
    ahead = export(model, call, dynamic_shapes=(rows, rows)).compile(target="reference")
    for target in (call[1], torch.tensor([1, 2, 7])):
        x = torch.randn(len(target), 16, requires_grad=True)
        got, wanted = (gradients(partial(f, target=target), model, x) for f in (fast, model))
        torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(ahead(x.detach(), target), model(x, target).detach())
    assert len(derived) == 1


def test_norms_of_one_column_require_gradients():
    weight = torch.randn(8, 4)

    def model(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return F.layer_norm(x, (1,)), F.linear(x.mT, weight)

    x = torch.randn(4, 1, requires_grad=True)
    norm, y = compiled(model)(x)
    assert norm.requires_grad
    assert y.requires_grad
    assert torch.equal(torch.autograd.grad(norm.sum(), x)[0], torch.zeros(4, 1))


def test_gradients_that_are_enabled_inside():
    """The graph is called without gradients, but computes some: none of what it read before."""
    model = Block()

    def inside(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        before = model(x)
        with torch.enable_grad():
            after = model(x)
            with torch.no_grad():
                same, _ = broadcast_tensors(after.float(), after)  # which are `after`
            return before.exp(), before * same

    gradients: list[torch.Tensor | None] = []
    for function in (compiled(inside), inside):
        model.zero_grad()
        with torch.no_grad():
            constant, result = function(torch.ones(3, 16))
        assert not constant.requires_grad
        torch.autograd.backward(result, torch.ones(3, 16))
        gradients.append(model.up.weight.grad)
    torch.testing.assert_close(*gradients)


@pytest.mark.slow
@pytest.mark.parametrize("backward", ["derived", "autograd"])
def test_the_backward_is_derived(backward: str, derived: list[TrainableFunction]):
    model = Block()
    fast = compiled(model, backward=backward, fullgraph=True)
    check(fast, model, torch.randn(2, 3, 16, requires_grad=True))
    assert len(derived) == (backward == "derived")


@pytest.mark.slow
def test_one_graph_for_all_lengths(derived: list[TrainableFunction]):
    model = Block()
    fast = compiled(model, dynamic=True)
    for rows in (2, 5, 13):
        check(fast, model, torch.randn(4, rows, 16))
    assert graphs() == len(derived) == 1


class Unusual(nn.Module):
    """A linear map with something in it that only PyTorch's autograd knows."""

    def __init__(self, kind: str):
        super().__init__()
        self.linear, self.kind = nn.Linear(16, 16), kind

    def forward(self, x: torch.Tensor) -> Any:
        if self.kind == "changed weight":
            with torch.no_grad():
                self.linear.bias.add_(0)
        h = self.linear(x)
        match self.kind:
            case "changed":
                h.detach().mul_(2)
            case "data":
                h = h * h.data
            case "both returned":
                return h, h.detach()
            case "own backward":
                h = apply_reversed(h)
            case "view of an input":
                return torch.cat([h, x.view(-1, 16)]), x.view(-1)
            case _:
                pass
        return h


class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        return -gradients[0]


apply_reversed: Any = getattr(Reversed, "apply")  # noqa: B009


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("changed", "stops gradients of memory that is changed in place"),
        ("data", "stops gradients"),
        ("both returned", "returns both a tensor and its detached value"),
        ("own backward", "calls a function with its own backward"),
        ("view of an input", "returns a view of an input"),
        ("changed weight", "stops gradients of memory that is changed in place"),
    ],
)
def test_what_is_left_to_autograd(
    kind: str, reason: str, derived: list[TrainableFunction], caplog: pytest.LogCaptureFixture
):
    model = Unusual(kind)
    fast = compiled(model)

    def first(function: Any) -> Callable[[torch.Tensor], torch.Tensor]:
        def call(x: torch.Tensor) -> torch.Tensor:
            results: Any = function(x)
            return results if isinstance(results, torch.Tensor) else results[0]

        return call

    with caplog.at_level(logging.INFO, "coda_ir.frontends.torch.dynamo"):
        got, wanted = (
            gradients(first(f), model, torch.ones(3, 16, requires_grad=True)) for f in (fast, model)
        )
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)
    assert not derived
    assert reason in caplog.text


@pytest.mark.slow
def test_masks_that_vmap_builds(derived: list[TrainableFunction]):
    """As in T5Gemma 2, whose embeddings of some ids are replaced besides."""

    def sees(row: torch.Tensor, column: torch.Tensor) -> torch.Tensor:
        return (row >= column) & (row - column < 3)

    def run(x: torch.Tensor) -> torch.Tensor:
        rows = torch.arange(len(x))
        mask = torch.vmap(torch.vmap(sees, (None, 0)), (0, None))(rows, rows)
        h = linear(x)
        h[rows == 2] = linear.bias
        return linear(F.scaled_dot_product_attention(h[None], h[None], h[None], mask)[0])

    linear, x = nn.Linear(16, 16), torch.randn(5, 16)
    torch.testing.assert_close(gradients(compiled(run), linear, x), gradients(run, linear, x))
    assert len(derived) == 1


@pytest.mark.parametrize("mode", ["sum", "max"])
def test_bags_of_computed_rows(mode: str, derived: list[TrainableFunction]):
    def run(x: torch.Tensor) -> torch.Tensor:
        return F.embedding_bag(torch.tensor([[0, 2], [1, 0]]), linear(x), mode=mode)

    linear, x = nn.Linear(16, 16), torch.randn(3, 16)
    torch.testing.assert_close(gradients(compiled(run), linear, x), gradients(run, linear, x))
    assert len(derived) == 1


@pytest.mark.parametrize("name", ["gumbel_softmax", "gaussian_nll_loss"])
def test_functions_of_pytorch_that_stop_gradients(name: str):
    """TorchDynamo's graph has one call of the whole function."""

    def run(x: torch.Tensor) -> torch.Tensor:
        torch.default_generator.manual_seed(1)
        h = linear(x)
        if name == "gumbel_softmax":
            return F.gumbel_softmax(h, hard=True)
        return F.gaussian_nll_loss(h, x, torch.sigmoid(h), eps=0.5)

    linear, x = nn.Linear(16, 16), torch.randn(3, 16)
    torch.testing.assert_close(gradients(compiled(run), linear, x), gradients(run, linear, x))


def test_a_part_without_gradients_of_what_has_none(derived: list[TrainableFunction]):
    class Rotated(Block):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                angles = torch.arange(16.0, device=x.device).cos()
            return super().forward(x * angles)

    model = Rotated()
    check(compiled(model), model, torch.randn(3, 16, requires_grad=True))
    assert len(derived) == 1


class Deep(nn.Module):
    def __init__(self, *, checkpointed: bool):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block(), Block()])
        self.checkpointed = checkpointed

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        return x


@pytest.mark.slow
def test_activation_checkpointing(derived: list[TrainableFunction]):
    """The inputs of the parts are saved, and statistics of their rows."""
    plain, saving = Deep(checkpointed=False), Deep(checkpointed=True)
    x = torch.randn(4, 16, requires_grad=True)
    for model in (plain, saving):
        check(compiled(model, fullgraph=True), model, x)
    everything, boundaries = (int(function.saved_bytes) for function in derived)
    assert boundaries == 2 * 4 * 16 * 4 + 3 * 4 * 4 < everything / 4


def test_random_numbers_of_checkpointed_parts(derived: list[TrainableFunction]):
    class Dropping(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(16, 16)

        def dropped(self, x: torch.Tensor) -> torch.Tensor:
            return F.dropout(self.linear(x), 0.5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return checkpoint(self.dropped, x, use_reentrant=False)

    model = Dropping()
    results: list[list[torch.Tensor | None]] = []
    for function in (compiled(model), model):
        torch.default_generator.manual_seed(1)
        results.append(gradients(function, model, torch.ones(4, 16, requires_grad=True)))
    torch.testing.assert_close(*results)
    assert len(derived) == 1


@pytest.mark.parametrize("backward", ["derived", "autograd"])
def test_statistics_of_checkpointed_parts(backward: str):
    """They change before the backward runs the part again, once in all, as in `aot_eager`."""
    part = nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16))

    def run(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(part, x, use_reentrant=False)

    x, before = torch.randn(4, 16), copy.deepcopy(part.state_dict())
    found = [*gradients(compiled(run, backward=backward), part, x), *part.buffers()]
    found = copy.deepcopy(found)
    part.load_state_dict(before)
    torch.testing.assert_close(found, [*gradients(part, part, x), *part.buffers()])


@pytest.mark.slow
def test_random_numbers_that_only_pytorch_differentiates(derived: list[TrainableFunction]):
    """Attention that drops scores: the state of the generator goes from forward to backward."""

    class Attending(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(16, 16)

        def dropped(self, x: torch.Tensor) -> torch.Tensor:
            h = self.linear(x)
            return h + F.scaled_dot_product_attention(h, h, h, dropout_p=0.5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return checkpoint(self.dropped, x, use_reentrant=False)

    model, x = Attending(), torch.ones(1, 1, 4, 16, requires_grad=True)
    results: list[list[torch.Tensor | None]] = []
    for function in (compiled(model, backward="autograd"), model):
        torch.default_generator.manual_seed(1)
        results.append(gradients(function, model, x))
    torch.testing.assert_close(*results)
    assert not derived


@pytest.mark.parametrize("options", [{"padding_idx": 2}, {"scale_grad_by_freq": True}])
def test_embeddings_with_gradients_of_their_own(options: dict[str, Any]):
    model = nn.Sequential(nn.Embedding(5, 16, **options), nn.Linear(16, 8))
    check(compiled(model), model, torch.tensor([[2, 3, 2], [0, 3, 3]]))


class SparselyTrained(nn.Module):
    """A table whose gradient is sparse, by one reading function or the sum of two."""

    def __init__(self, *reads: Any):
        super().__init__()
        self.table, self.head = nn.Parameter(torch.randn(5, 16)), nn.Linear(16, 8)
        self.reads = reads

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        h = torch.stack([read(ids, self.table, sparse=True) for read in self.reads])
        return self.head(h.sum(0))


@pytest.mark.slow
@pytest.mark.parametrize("reads", [(F.embedding,), (F.embedding, F.embedding), (F.embedding_bag,)])
def test_sparse_gradients_of_embeddings(reads: tuple[Any, ...]):
    model = SparselyTrained(*reads)
    ids = torch.tensor([[2, 3, 2], [0, 3, 3]])
    tables: list[torch.Tensor | None] = [
        gradients(function, model, ids)[0] for function in (compiled(model, target="triton"), model)
    ]
    assert all(table is not None and table.is_sparse for table in tables)
    torch.testing.assert_close(*tables)


@pytest.mark.slow
def test_memory_budget(derived: list[TrainableFunction]):
    model, x = Block(), torch.randn(8, 16, requires_grad=True)
    check(compiled(model, memory_budget=600), model, x)
    check(compiled(model), model, x)
    limited, free = (int(function.saved_bytes) for function in derived)
    assert limited <= 600 < free


@pytest.mark.slow
def test_outputs_without_gradients(derived: list[TrainableFunction]):
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(16, 8), nn.Linear(16, 4)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return self.a(x), self.b(x)

    model = Two()
    fast, x = compiled(model), torch.ones(3, 16)
    fast(x)[0].sum().backward()
    assert model.b.weight.grad is None
    torch.testing.assert_close(model.a.weight.grad, 3 * torch.ones(8, 16))
    assert len(derived) == 1


@pytest.mark.slow
def test_a_gradient_inside_of_what_is_compiled():
    """TorchDynamo ends its graph there, and would trace the backward program."""
    model = Block()

    def descend(x: torch.Tensor) -> torch.Tensor:
        return x - grad(model(x).sum(), x)[0]

    x = torch.randn(3, 16, requires_grad=True)
    torch.testing.assert_close(compiled(descend, target="triton")(x), descend(x))


def test_second_derivatives_are_an_error():
    model = Block()
    x = torch.randn(3, 16, requires_grad=True)
    (d_x,) = grad(compiled(model)(x).sum(), x, create_graph=True)
    with pytest.raises(DoubleBackwardError, match="or use the PyTorch model for second"):
        d_x.sum().backward()


def test_a_call_that_fails_by_a_defect(monkeypatch: pytest.MonkeyPatch):
    """PyTorch derives the gradients of the graph that it runs instead."""

    def fail(*_: object) -> None:
        raise UnboundLocalError("a defect")

    monkeypatch.setattr(TrainableFunction, "unchecked", fail)
    model = Block()
    fast = compiled(model, errors="fallback")
    with pytest.warns(DefectWarning, match=r"the graph of torch_compile.py:\d+ failed"):
        check(fast, model, torch.randn(3, 16, requires_grad=True))
    check(fast, model, torch.randn(3, 16, requires_grad=True))


TWICE: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "matmul": lambda x, _: x @ x,
    "bmm": lambda x, _: torch.bmm(x, x),
    "baddbmm": lambda x, _: torch.baddbmm(x, x, x, alpha=2),
    "group_norm": lambda x, w: F.group_norm(x, 2, w, w),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TWICE)
def test_an_operator_of_one_tensor_twice(name: str):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.weight = nn.Linear(6, 6), nn.Parameter(torch.randn(6))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return TWICE[name](self.layer(x), self.weight)

    model, x = Model(), torch.randn(2, 6, 6, requires_grad=True)
    check(compiled(model), model, x)
    with torch.no_grad():
        torch.testing.assert_close(compiled(model)(x), model(x), rtol=1e-4, atol=1e-5)


def test_a_checkpointed_group_norm_of_transposed_rows_left_to_autograd():
    """Its operator takes contiguous tensors only."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.norm = nn.Linear(4, 6), nn.GroupNorm(2, 6)

        def normed(self, x: torch.Tensor) -> torch.Tensor:
            return self.norm(self.layer(x).transpose(1, 2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return checkpoint(self.normed, x, use_reentrant=False)

    model = Model()
    fast = compiled(model, backward="autograd")
    check(fast, model, torch.randn(2, 3, 4, requires_grad=True))


def test_a_view_of_a_detached_value_needs_no_gradient():
    layer = nn.Linear(16, 16)

    def model(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        h = layer(x)
        return h, h.detach()[0], h[1:]

    whole, first, rest = compiled(model)(torch.ones(3, 16))
    assert whole.requires_grad and rest.requires_grad and not first.requires_grad
    torch.testing.assert_close(first, whole[0].detach())


def test_second_derivatives_of_saved_values_are_refused():
    weight = torch.randn(8, 8)
    x = torch.randn(3, 8, requires_grad=True)

    def model(x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, weight).tanh().sum()

    (d_x,) = grad(compiled(model)(x), x, create_graph=True)
    assert d_x.requires_grad
    with pytest.raises(DoubleBackwardError):
        d_x.sum().backward()
