"""Training with a language-model head whose logits, and their gradient, are never stored."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import coda_ir
from coda_ir.diagnostics import CodaError
from coda_ir.float64 import relative_error
from coda_ir.passes.gradient.stream_logits import split_columns
from coda_ir.remarks import collect_remarks
from coda_ir.training.functions import TrainableFunction

# PyTorch has no complete types for what is used of it so.
untyped: Any = torch

D, V, SMALL, M = 24, 300, 23, 37

NORM = f"""
fn head(x: DTYPE[M, {D}], target: i64[M], weight norm: DTYPE[{D}],
        weight w: DTYPE[{V}, {D}]) -> f32[] {{
    h = rms_norm(x, norm, eps=1e-5)
    return cross_entropy(linear(h, w), target, reduction="mean", ignore_index=-100)
}}
"""

CAPPED = f"""
fn head(x: DTYPE[M, {D}], target: i64[M], weight w: DTYPE[{V}, {D}],
        weight b: DTYPE[{V}]) -> f32[] {{
    logits = softcap(linear(x, w, b) * 0.5, 3.0)
    return cross_entropy(logits, target, reduction="sum", ignore_index=7)
}}
"""

TIED = f"""
fn head(ids: i64[M], target: i64[M], weight w: DTYPE[{SMALL}, {D}]) -> f32[M] {{
    return cross_entropy(linear(embedding(ids, w), w), target, reduction="none", ignore_index=-100)
}}
"""

Tensors = Mapping[str, torch.Tensor]


def eager_norm(t: Tensors) -> torch.Tensor:
    h = F.rms_norm(t["x"], (D,), t["norm"], 1e-5)
    return F.cross_entropy(F.linear(h, t["w"]), t["target"])


def eager_capped(t: Tensors) -> torch.Tensor:
    logits = 3 * torch.tanh(F.linear(t["x"], t["w"], t["b"]) * 0.5 / 3)
    return F.cross_entropy(logits, t["target"], reduction="sum", ignore_index=7)


def eager_tied(t: Tensors) -> torch.Tensor:
    logits = F.linear(F.embedding(t["ids"], t["w"]), t["w"])
    return F.cross_entropy(logits, t["target"], reduction="none")


@dataclass(frozen=True)
class Head:
    """A program, the same in PyTorch, and the shapes of what has gradients."""

    program: str
    eager: Any
    leaves: Mapping[str, tuple[int, ...]]

    @property
    def columns(self) -> int:
        return self.leaves["w"][0]

    def inputs(self, dtype: torch.dtype, rows: int = M) -> dict[str, torch.Tensor]:
        generator = torch.Generator().manual_seed(rows)
        target = torch.randint(self.columns, (rows,), generator=generator)
        target[1::5] = -100 if "-100" in self.program else 7
        inputs = {
            name: (torch.randn(shape, generator=generator) / 4).to(dtype).requires_grad_()
            for name, shape in self._shapes(rows).items()
        }
        if "ids" in self.program:
            inputs["ids"] = torch.randint(self.columns, (rows,), generator=generator)
        return {**inputs, "target": target}

    def _shapes(self, rows: int) -> dict[str, tuple[int, ...]]:
        return {n: (rows, D) if n == "x" else shape for n, shape in self.leaves.items()}

    def compiled(
        self, dtype: torch.dtype, parts: int | None, target: Literal["triton", "reference"]
    ) -> TrainableFunction:
        text = self.program.replace("DTYPE", {torch.float32: "f32"}.get(dtype, "bf16"))
        return coda_ir.compile(text, training=True, target=target, stream_logits=parts)


HEADS = {
    "norm": Head(NORM, eager_norm, {"x": (M, D), "norm": (D,), "w": (V, D)}),
    "capped": Head(CAPPED, eager_capped, {"x": (M, D), "w": (V, D), "b": (V,)}),
    "tied": Head(TIED, eager_tied, {"w": (SMALL, D)}),
}


def gradients(loss: torch.Tensor, inputs: Tensors) -> list[torch.Tensor]:
    leaves = [tensor for tensor in inputs.values() if tensor.requires_grad]
    seed = torch.linspace(0.5, 1.5, loss.numel()).reshape(loss.shape).to(loss)
    return list(untyped.autograd.grad(loss, leaves, seed))


def converted(inputs: Tensors, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    return {
        name: tensor.detach().to(dtype).requires_grad_(tensor.requires_grad)
        if tensor.is_floating_point()
        else tensor
        for name, tensor in inputs.items()
    }


def assert_as_accurate_as_eager(
    head: Head, function: TrainableFunction, inputs: Tensors, floor: float = 0.0
) -> None:
    """Each gradient has at most 1.25 times the error of eager against float64, or `floor`."""
    exact_inputs = converted(inputs, torch.float64)
    exact = head.eager(exact_inputs)
    for actual, eager, wanted in zip(
        gradients(function(**inputs), inputs),
        gradients(head.eager(inputs), inputs),
        gradients(exact, exact_inputs),
        strict=True,
    ):
        allowed = max(1.25 * relative_error(eager, wanted), floor)
        assert relative_error(actual, wanted) <= allowed
    torch.testing.assert_close(function(**inputs).double(), exact, rtol=1e-2, atol=1e-2)


# The interpreter computes with NumPy, which warns of the logarithm of an empty sum.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])


@pytest.mark.slow
@dtypes
@pytest.mark.parametrize("name", ["norm", "capped"])
def test_emitted_programs_are_as_accurate_as_eager(name: str, dtype: torch.dtype):
    head = HEADS[name]
    assert_as_accurate_as_eager(head, head.compiled(dtype, 2, "triton"), head.inputs(dtype))


@pytest.mark.slow
@dtypes
@pytest.mark.parametrize("rows", [1, 128])
@pytest.mark.parametrize(
    ("name", "parts"), [("norm", 7), ("capped", 1), ("tied", SMALL), ("tied", 3)]
)
def test_parts_of_all_sizes(name: str, parts: int, rows: int, dtype: torch.dtype):
    """Parts of one column, a last part that is narrower, a single part, one row."""
    head = HEADS[name]
    function = head.compiled(dtype, parts, "reference")
    inputs = head.inputs(dtype, rows)
    inputs["target"][0] = head.columns - 1
    # Of a single row, where eager rounds is a matter of luck.
    assert_as_accurate_as_eager(head, function, inputs, torch.finfo(dtype).eps / 2)


class Allocations(TorchDispatchMode):
    """The numbers of elements of the tensors that are allocated."""

    sizes: list[int]

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in (torch.ops.aten.empty.memory_format, torch.ops.aten.empty_strided.default):
            self.sizes.append(result.numel())
        return result


@pytest.mark.slow
def test_nothing_as_large_as_the_logits_is_allocated():
    head, rows = HEADS["norm"], 100
    assert D < V / 3, "the weight is smaller than a part of the logits"
    inputs = head.inputs(torch.float32, rows)
    largest: dict[int | None, int] = {}
    for parts in (None, 3):
        function = head.compiled(torch.float32, parts, "triton")
        function(**inputs)
        allocations = Allocations()
        allocations.sizes = []
        with allocations:
            gradients(function(**inputs), inputs)
        largest[parts] = max(allocations.sizes)
    assert largest == {None: rows * V, 3: rows * V // 3}


def test_only_row_statistics_are_saved():
    function = HEADS["norm"].compiled(torch.bfloat16, 2, "reference")
    function.prepare()
    assert sorted(spec.name for spec in function.saved) == ["lse", "lse_rest", "rstd"]
    assert str(function.saved_bytes) == "12*M"


@pytest.mark.slow
def test_two_runs_give_the_same_bits():
    head = HEADS["norm"]
    function, inputs = head.compiled(torch.bfloat16, 2, "triton"), head.inputs(torch.bfloat16)
    first, second = (gradients(function(**inputs), inputs) for _ in range(2))
    assert all(map(torch.equal, first, second))


def test_a_frozen_head_has_no_gradient_of_its_weight():
    head = HEADS["norm"]
    function, inputs = head.compiled(torch.float32, 3, "reference"), head.inputs(torch.float32)
    inputs["w"] = inputs["w"].detach()
    assert_as_accurate_as_eager(head, function, inputs)
    assert not any("weight_gradient" in name for name in function.operators)


class Model(nn.Module):
    """Logits of two sequences that are flattened for the loss, as models of Hugging Face do."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.head = nn.RMSNorm(D), nn.Linear(D, V, bias=False)

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        logits = self.head(self.norm(x)).float()
        return F.cross_entropy(logits.view(-1, V), target.view(-1))


@pytest.mark.slow
def test_torch_compile():
    model = Model()
    options = {"target": "reference", "stream_logits": 3, "errors": "raise"}
    compiled = untyped.compile(model, backend="coda", options=options)
    target = torch.randint(V, (2, 5))
    target[1, 2] = -100
    inputs = torch.randn(2, 5, D), target
    with collect_remarks() as remarks:
        loss = compiled(*inputs)
    streamed = [r.message for r in remarks if r.pass_name == "stream-logits"]
    assert streamed == ["the 300 columns of the logits are recomputed in 3 parts of at most 100"]
    leaves, grad = list(model.parameters()), untyped.autograd.grad
    for actual, wanted in zip(grad(loss, leaves), grad(model(*inputs), leaves), strict=True):
        torch.testing.assert_close(actual, wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("columns", "chunks", "widths"),
    [
        (32000, 8, [4096] * 7 + [3328]),
        (256, 2, [128, 128]),
        (300, 2, [256, 44]),
        (300, 8, [38] * 7 + [34]),
        (10, 4, [3, 3, 3, 1]),
        (3, 8, [1, 1, 1]),
        (1, 1, [1]),
    ],
)
def test_widths_of_parts(columns: int, chunks: int, widths: list[int]):
    parts = split_columns(columns, chunks)
    assert [stop - start for start, stop in parts] == widths
    assert [start for start, _ in parts[1:]] == [stop for _, stop in parts[:-1]]
    assert parts[-1][1] == columns


def test_no_parts_are_refused():
    with pytest.raises(CodaError, match="stream_logits is 0"):
        HEADS["norm"].compiled(torch.float32, 0, "reference").prepare()


def test_programs_that_are_not_trained_have_no_parts():
    with pytest.raises(CodaError, match="pass training=True"):
        coda_ir.compile(NORM.replace("DTYPE", "f32"), stream_logits=2)  # pyright: ignore
