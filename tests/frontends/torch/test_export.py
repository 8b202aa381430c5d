"""Export of PyTorch models: the same numbers, the model's own weights, and clear refusals."""

import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.torch_compile import spectrum
from torch import nn

import coda_ir
from coda_ir.api import Lowering, find_entry
from coda_ir.backends.reference import run_function
from coda_ir.defects import DefectWarning
from coda_ir.diagnostics import CodaError
from coda_ir.dialects.torch import CallOp
from coda_ir.float64 import relative_error
from coda_ir.frontends.torch import ExportedModel, export
from coda_ir.launching.executable import TritonExecutable
from coda_ir.options import Target
from coda_ir.remarks import source_position

DYNAMIC: Any = torch.export.Dim.DYNAMIC


class Block(nn.Module):
    """A norm, a gated network and a residual."""

    def __init__(self, width: int = 16, hidden: int = 24):
        super().__init__()
        self.norm = nn.RMSNorm(width, eps=1e-5)
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)
        self.register_buffer("scale", torch.tensor(0.5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(x)
        return x + self.scale * self.down(F.silu(self.gate(h)) * self.up(h))


def run(model: ExportedModel, *args: Any, precision: Any = "stated", **kwargs: Any) -> Any:
    tensors = model.arguments(*args, **kwargs)
    return model.result(run_function(find_entry(model.module), tensors, precision))


def operators(model: ExportedModel) -> Counter[str]:
    return Counter(
        op.callee.data if isinstance(op, CallOp) else op.name for op in model.module.walk()
    )


@pytest.mark.slow
def test_a_block_becomes_named_operators():
    model = Block()
    exported = export(model, (torch.randn(2, 3, 16),), dynamic_shapes=({0: DYNAMIC, 1: DYNAMIC},))
    found = operators(exported)
    assert not any(name.startswith("aten") for name in found)
    assert found["coda.linear"] == 3 and found["coda.rms_norm"] == found["coda.silu"] == 1
    for shape in ((2, 3, 16), (1, 1, 16), (5, 7, 16)):
        x = torch.randn(shape)
        torch.testing.assert_close(run(exported, x), model(x).detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_compiled_by_triton():
    model = Block()
    exported = export(model, (torch.randn(2, 3, 16),), dynamic_shapes=({0: DYNAMIC, 1: DYNAMIC},))
    compiled = coda_ir.compile(exported.module, device="cpu")
    x = torch.randn(3, 5, 16)
    with torch.no_grad():
        result = compiled(*exported.arguments(x))
    torch.testing.assert_close(result, model(x).detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_threads_that_export():
    model, x = Block(), torch.randn(2, 4, 16)
    with ThreadPoolExecutor(2) as threads:
        exported = [threads.submit(export, model, (x,)) for _ in range(2)]
    first, second = (str(each.result().module) for each in exported)
    assert first == second


@pytest.mark.slow
def test_models_that_were_left_in_training_mode():
    model, x = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)), torch.randn(2, 4)
    with pytest.warns(UserWarning, match=r"dropout.* draws random .*; call eval\(\)") as found:
        export(model, (x,))
    assert found[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        export(model.eval(), (x,))
        export(nn.Linear(4, 4), (x,))


def test_weights_are_the_models_own():
    model = Block()
    exported = export(model, (torch.randn(3, 16),))
    assert set(exported.weights) == {*dict(model.named_parameters()), "scale"}
    x = torch.randn(3, 16)
    with torch.no_grad():
        model.down.weight.mul_(2)
    torch.testing.assert_close(run(exported, x), model(x).detach(), rtol=1e-5, atol=1e-6)


def test_tied_weights_are_one_argument():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(11, 8)
            self.head = nn.Linear(8, 11, bias=False)
            self.head.weight = self.table.weight

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.head(self.table(ids))

    model, ids = Tied(), torch.randint(0, 11, (2, 5))
    exported = export(model, (ids,))
    assert len(exported.weights) == 1
    torch.testing.assert_close(run(exported, ids), model(ids).detach())


def test_structured_inputs_and_outputs():
    class Structured(nn.Module):
        def forward(self, x: dict[str, torch.Tensor], flag: bool, scale: float = 1.0) -> Any:
            y = x["a"] * scale
            return {"sum": y + x["b"], "pair": (y, None)} if flag else y

    example = {"a": torch.randn(4), "b": torch.randn(4)}
    exported = export(Structured(), (example, True), {"scale": 3.0})
    result = run(exported, example, True, scale=3.0)
    assert result["pair"][1] is None
    torch.testing.assert_close(result["sum"], example["a"] * 3 + example["b"])


def test_places_in_the_model():
    exported = export(Block(), (torch.randn(3, 16),))
    (norm,) = [op for op in exported.module.walk() if op.name == "coda.rms_norm"]
    position = source_position(norm.location)
    assert position is not None and position[0].endswith(".py")
    (gate,) = [op for op in exported.module.walk() if op.name == "coda.silu"]
    position = source_position(gate.location)
    assert position is not None and position[0] == __file__


class Operators(nn.Module):
    """Operators of PyTorch, with and without a counterpart."""

    def forward(self, x: Any, mask: torch.Tensor, ids: torch.Tensor) -> Any:
        parts = torch.split(x, [3, 5], -1)
        joined = torch.cat([parts[1], parts[0]], -1).transpose(-1, -2).contiguous()
        y = torch.where(mask, x, -torch.inf).softmax(-1).masked_fill(~mask, 0.0)
        z = (x**2).mean(-1, keepdim=True).rsqrt() + x.amax(-1)[..., None] - x.sum(-1, keepdim=True)
        u = x.flatten(1).unflatten(1, (-1, 2)).cumsum(1).mul(2).clamp(-1, 1).sort(-1)[1]
        v = F.gelu(x, approximate="tanh") / (1 + x.abs()) + 1 / x.exp() - x.to(torch.bfloat16)
        w = F.pad(x[:, 1:, ::2], (1, 0)) ** 0.5
        return joined, y, z, u, v, w, ids.sum(), x[ids % x.shape[0]], x.new_zeros(x.shape[0] + 1)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_operators(dtype: torch.dtype):

    def example(batch: int) -> tuple[torch.Tensor, ...]:
        x = torch.randn(batch, 4, 8, dtype=dtype)
        return x, torch.rand(batch, 4, 8) > 0.3, torch.randint(0, 9, (5,))

    shapes = ({0: DYNAMIC}, {0: DYNAMIC}, None)
    exported = export(Operators(), example(3), dynamic_shapes=shapes)
    inputs = x, *others = example(4)
    results = run(exported, *inputs), Operators()(*inputs), Operators()(x.double(), *others)
    for got, eager, exact in zip(*results, strict=True):
        assert got.dtype == eager.dtype
        if got.is_floating_point():
            rounding = torch.finfo(got.dtype).eps / 2
            assert relative_error(got, exact) <= 1.25 * relative_error(eager, exact) + rounding
        else:
            # Orders of elements that eager PyTorch has rounded.
            assert torch.equal(got, eager)


class Grouped(nn.Module):
    """Rows by the weight of their group, of which the second has none."""

    offsets: torch.Tensor

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 16, 8, dtype=torch.bfloat16))
        self.register_buffer("offsets", torch.tensor([2, 2, 5], dtype=torch.int32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.grouped_mm(x, self.weight, offs=self.offsets)


def test_grouped_mm_in_float64():
    model, x = Grouped(), torch.randn(5, 16, dtype=torch.bfloat16)
    exported = export(model, (x,))
    assert operators(exported)["coda.grouped_matmul"] == 1
    wide, weight = x.double(), model.weight.double()
    exact = torch.cat([wide[:2] @ weight[0], wide[2:] @ weight[2]])
    torch.testing.assert_close(run(exported, x, precision="float64"), exact)
    torch.testing.assert_close(run(exported, x), exact.bfloat16(), rtol=1e-2, atol=1e-2)


class FixedLength(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.shape[0] == 3 else x


def test_a_failed_export_leaves_no_marks():
    x = torch.randn(3, 4)
    with pytest.raises(CodaError, match="cannot be captured") as caught:
        export(FixedLength(), (x,), dynamic_shapes=({0: DYNAMIC},))
    assert "leave that dimension out of dynamic_shapes" in (caught.value.remedy or "")
    torch.testing.assert_close(run(export(FixedLength(), (x,)), x), x + 1)
    assert not vars(x)


def test_nested_tensors():
    nested: Any = torch.nested
    x = nested.nested_tensor([torch.randn(3, 4), torch.randn(5, 4)], layout=torch.jagged)
    with pytest.raises(CodaError, match="an argument is a nested tensor"):
        export(nn.Linear(4, 4), (x,))


class Branch(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if x.sum() > 0 else -x


class Loop(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        while x.sum() > 1:
            x = x / 2
        return x


class InPlace(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.add_(1)


class InPlaceView(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x[:2] = 0
        return x * 2


class Counting(nn.Module):
    count: torch.Tensor

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return x * self.count


class Rescaling(nn.Module):
    """Changes its weight at the first call."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.linear.weight.div_(2)
        return self.linear(x)


class Complex(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return spectrum(x)


class TwoDevices(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4, device="meta")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x))


class KeyCache:
    """Stands for the cache that language models of transformers return."""


class Calling(nn.Module):
    """Calls a function of Python."""

    def __init__(self, function: Callable[[torch.Tensor], Any]):
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


class DataDependentSize(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.new_zeros(x.nonzero().shape[0] + 1)


def test_sizes_that_depend_on_data():
    x = torch.tensor([1.0, 0.0, 2.0])
    assert run(export(DataDependentSize(), (x,)), x).shape == (3,)


class ItemSize(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        size = x.sum().to(torch.int64).item()
        torch._check_is_size(size)  # pyright: ignore
        return torch.zeros(size)  # pyright: ignore


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "message", "remedy"),
    [
        (Branch(), "Branch cannot be captured: .*py:[0-9]+: control flow", "torch.where"),
        (Loop(), "Loop cannot be captured: .*py:[0-9]+: control flow", "torch.where"),
        (InPlace(), "changes x in place", "return the new value"),
        (InPlaceView(), "changes x in place", "return the new value"),
        (Counting(), "changes count in place", "eval mode"),
        (Rescaling(), "test_export.py:[0-9]+: RuntimeError: a leaf Variable", "new value"),
        (Complex(), "py:[0-9]+.*: tensors of type torch.complex64 cannot be rep", "real numbers"),
        (TwoDevices(), "py:[0-9]+: .* at least two devices, cpu and meta", "to one device"),
        (ItemSize(), "py:[0-9]+.*: a size depends on the values of a tensor", "item"),
        (Calling(lambda x: torch.as_tensor(x.numpy())), "test_export.py.*numpy", "operators of"),
        (
            Calling(lambda x: x * float(x[0])),
            "test_export.py:[0-9]+: control flow or a Python",
            "",
        ),
        (Calling(lambda x: torch.tensor(x[0].item())), "a number that depends on data", "item"),
        (
            Calling(lambda _: {"a": 0}["b"]),
            "test_export.py:[0-9]+: KeyError",
            "operators of PyTorch",
        ),
        (Calling(lambda x: x[7]), "test_export.py:[0-9]+: IndexError: index 7", ""),
        (Calling(lambda _: object()), "not a known type", "return tensors, numbers, None"),
        (Calling(lambda _: KeyCache()), "it returns a cache", "pass use_cache=False"),
    ],
)
def test_refusals(model: nn.Module, message: str, remedy: str):
    with pytest.raises(CodaError, match=message) as caught:
        export(model, (torch.randn(4),))
    assert caught.value.remedy is not None and remedy in caught.value.remedy


def test_calls_that_do_not_fit_the_model():
    x = torch.randn(3, 4)
    for args, kwargs in (((), {}), ((x, x), {}), ((x,), {"scale": x})):
        with pytest.raises(
            CodaError, match="the forward of ReLU cannot be called in this way"
        ) as caught:
            export(nn.ReLU(), args, kwargs)
        assert caught.value.remedy is not None and "input: torch.Tensor" in caught.value.remedy


class Pairs(nn.Module):
    """The sums of pairs of rows, next to rows of their own."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.linear(x).unflatten(1, (-1, 2)).sum(2) + self.linear(y)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["reference", "triton"])
def test_dimensions_that_are_multiples(target: Target):
    model, pairs, rows = Pairs(), torch.export.Dim("P"), torch.export.Dim("R")
    shapes = ({0: 3 * rows, 1: 2 * pairs}, {0: 3 * rows})
    exported = export(model, (torch.randn(6, 8, 16), torch.randn(6, 1, 16)), dynamic_shapes=shapes)
    compiled = exported.compile(target=target, device="cpu", errors="raise")
    assert "x: float32[3*R, 2*P, 16]" in str(compiled.function.signature)
    for batch, n in ((6, 4), (3, 2)):
        x, y = torch.randn(batch, n, 16), torch.randn(batch, 1, 16)
        torch.testing.assert_close(compiled(x, y), model(x, y).detach(), rtol=1e-4, atol=1e-5)
    x, y = torch.randn(3, 4, 16), torch.randn(3, 1, 16)
    for given in ((x[:, :3], y), (x[:2], y[:2]), (x, y.repeat(2, 1, 1))):
        with pytest.raises(CodaError, match=r"expected 2\*P|expected 3\*R|3\*R is bound"):
            compiled(*given)


def test_dynamic_shapes_that_do_not_fit_the_arguments():
    for shapes, message in (
        (({5: torch.export.Dim("B")},), "names a dimension that an argument does not have"),
        (({0: torch.export.Dim("B")}, None), "structure of `inputs`"),
        ({"y": {0: torch.export.Dim("B")}}, "keys must be the arg names"),
    ):
        with pytest.raises(CodaError, match=message) as caught:
            export(nn.ReLU(), (torch.randn(3, 4),), dynamic_shapes=shapes)
        assert caught.value.remedy is not None and "argument" in caught.value.remedy


def test_an_unknown_option_is_no_defect():
    exported = export(nn.ReLU(), (torch.randn(3, 4),))
    unknown: dict[str, Any] = {"fold": True}
    with pytest.raises(CodaError, match="unknown option 'fold'"):
        exported.compile(**unknown)
    training: dict[str, Any] = {"training": True}
    with pytest.raises(CodaError, match="train with torch"):
        exported.compile(**training)


class IntegerGemms(nn.Module):
    weight: torch.Tensor

    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.randint(-5, 5, (4, 4)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x @ self.weight, self.weight)


def test_integer_gemms_run_through_pytorch():
    model, x = IntegerGemms(), torch.randint(-5, 5, (3, 4))
    exported = export(model, (x,))
    assert operators(exported)["aten.linear.default"] == 1
    assert torch.equal(run(exported, x), model(x))
    lowering = Lowering(exported.module)
    lowering.module("gemm")
    assert [(remark.kind, remark.message) for remark in lowering.remarks] == [
        ("missed", "a product of activations is a library call"),
        ("missed", "aten.linear.default runs in eager PyTorch"),
    ]


def test_weights_without_data_are_not_shared():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)).to("meta")
    exported = export(model, (torch.empty(2, 4, device="meta"),))
    assert list(exported.weights) == ["0.weight", "0.bias", "1.weight", "1.bias"]
    for device in ("meta", "cuda:999"):
        with pytest.raises(CodaError, match=r"have no data|does not exist"):
            exported.to(device)


@pytest.mark.slow
def test_an_exported_program():
    model, x = Block(), torch.randn(2, 5, 16)
    shapes = ({1: torch.export.Dim("T", min=2, max=64)},)
    program = torch.export.export(model, (x,), dynamic_shapes=shapes)
    exported = export(program)
    assert find_entry(exported.module).sym_name.data == "model"
    assert set(exported.weights) == set(model.state_dict())
    fast = exported.compile(target="reference", device="cpu")
    for rows in (5, 9):
        x = torch.randn(2, rows, 16)
        torch.testing.assert_close(fast(x), model(x).detach())
    with pytest.raises(CodaError, match=r"for sizes with \(s0 <= 64\), but in this call s0 is 65"):
        fast(torch.randn(2, 65, 16))
    with pytest.raises(CodaError, match="which has its arguments and dynamic shapes already"):
        export(program, (x,))
    program.example_inputs = None  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(CodaError, match="has no example arguments"):
        export(program)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["artifact", "prepare", "run"])
def test_a_defect_of_this_package(monkeypatch: pytest.MonkeyPatch, place: str):
    """While a program is emitted, imported, and run."""

    def fail(*_: object) -> Any:
        raise UnboundLocalError("a defect")

    monkeypatch.setattr(Lowering if place == "artifact" else TritonExecutable, place, fail)
    model, x = Block(), torch.randn(2, 5, 16)
    exported = export(model, (x,), dynamic_shapes=({1: torch.export.Dim("T", max=64)},))
    with torch.no_grad():
        with pytest.warns(
            DefectWarning, match=r"the exported model \w+ failed because of"
        ) as caught:
            compiled = exported.compile(device="cpu")
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
        x = torch.randn(2, 7, 16)
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
        with pytest.raises(CodaError, match="65"):
            compiled(torch.randn(2, 65, 16))
        with pytest.raises(UnboundLocalError, match="a defect"):
            exported.compile(device="cpu", errors="raise")(x)
    assert len(caught) == 1
