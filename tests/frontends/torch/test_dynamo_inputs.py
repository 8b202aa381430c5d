"""Models and inputs that are trouble for a compiler: right results, graph breaks or messages."""

import logging
import re
from collections.abc import Callable
from typing import Any, cast

import pytest
import torch
import torch.nn.functional as F
from support.torch_compile import Block, compiled, counters, dynamo, graphs, reset, spectrum
from torch import nn

import coda_ir
from coda_ir.api import CompiledFunction
from coda_ir.defects import DefectWarning
from coda_ir.devices import default_device
from coda_ir.diagnostics import CodaError
from coda_ir.frontends.torch import graph_compiler
from coda_ir.frontends.torch.graph_compiler import GraphCompiler
from coda_ir.frontends.torch.graph_inputs import rounded_sizes

pytestmark = pytest.mark.usefixtures("fresh_dynamo", "no_gradients")


def linear() -> nn.Linear:
    return nn.Linear(8, 8)


def check(fast: Any, model: Callable[..., Any], *inputs: Any) -> None:
    torch.testing.assert_close(fast(*inputs), model(*inputs), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_control_flow_that_depends_on_data():
    layer = linear()

    def model(x: torch.Tensor) -> torch.Tensor:
        x = layer(x)
        if x.sum() > 0:
            x = layer(x) * 2
        return x[: int(x.abs().sum().item()) % 3 + 1]

    fast = compiled(model)
    for _ in range(3):
        check(fast, model, torch.randn(3, 8))
    assert counters["graph_break"]
    reset()
    with pytest.raises(dynamo.exc.Unsupported):
        compiled(model, fullgraph=True)(torch.randn(3, 8))


def test_sizes_that_depend_on_data():
    layer = linear()

    def model(x: torch.Tensor) -> torch.Tensor:
        return layer(x[x[:, 0] > 0])

    fast = compiled(model)
    for _ in range(3):
        check(fast, model, torch.randn(5, 8))


@pytest.mark.parametrize("rows", [1, 5])
def test_sizes_without_an_example(rows: int):
    """PyTorch was asked not to read the value of such a size."""
    model, x = linear(), torch.randn(3, 8)
    dynamo.decorators.mark_unbacked(x, 0)
    fast = compiled(model, fullgraph=True)
    check(fast, model, x)
    check(fast, model, torch.randn(rows, 8))
    assert graphs() == 1


def test_inputs_that_are_changed_in_place():
    layer = linear()

    def model(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x[:, 0] = 2.0
        x[1:].mul_(3)
        return layer(y), x.t()

    x = torch.randn(3, 8)
    for shared in (False, True):
        reset()
        got, wanted = x.clone(), x.clone()
        fast = compiled(model)
        a = fast(got, got if shared else x)
        b = model(wanted, wanted if shared else x)
        torch.testing.assert_close((a, got), (b, wanted))
        assert a[1].data_ptr() == got.data_ptr()


def test_positions_of_small_types():
    """The identity is made of positions in uint8."""
    first = linear()

    def model(x: torch.Tensor) -> torch.Tensor:
        return first(x).masked_fill(torch.eye(8, dtype=torch.bool)[: x.shape[0]], -1)

    check(compiled(model, target="triton"), model, torch.randn(3, 8))


def test_an_inverse_that_is_checked(caplog: pytest.LogCaptureFixture):
    """The check is an effect, which Inductor refuses in a part of a graph."""
    layer = linear()

    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.inverse(F.silu(layer(x)) + 5 * torch.eye(8))

    check(compiled(model, fallback="inductor"), model, torch.randn(8, 8))
    assert "a region of a graph runs in eager PyTorch: " in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [False, True])
def test_complex_numbers(dynamic: bool, caplog: pytest.LogCaptureFixture):
    """Operators on complex numbers are calls; the linear maps before and after are compiled."""
    first, second = linear(), linear()

    def model(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = F.silu(first(x))
        return second(spectrum(y)) + y, y

    fast = compiled(model, dynamic=dynamic)
    with caplog.at_level(logging.INFO, "coda_ir"):
        check(fast, model, torch.randn(3, 8))
    assert "a region of a graph runs in eager PyTorch: " in caplog.text
    assert "tensors of type torch.complex64 cannot be represented" in caplog.text
    fused = [r for r in caplog.messages if "remark[passed] fuse-pointwise" in r]
    assert any("coda.silu" in message for message in fused)
    assert any("coda.add" in message for message in fused)
    check(fast, model, torch.randn(5, 8))


def test_integer_products():
    layer = linear()

    def model(x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return layer(x), i @ i.T

    check(compiled(model), model, torch.randn(3, 8), torch.randint(0, 9, (3, 8)))


class TwoDevices(nn.Module):
    def __init__(self, *, moves: bool):
        super().__init__()
        self.first, self.second = linear(), nn.Linear(8, 8, device="meta")
        self.moves = moves

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        return self.second(x.to("meta") if self.moves else x)


@pytest.mark.slow
def test_two_devices(caplog: pytest.LogCaptureFixture):
    assert compiled(TwoDevices(moves=True))(torch.randn(3, 8)).device.type == "meta"
    assert "the graph has tensors on 2 devices: cpu, meta" in caplog.text
    with pytest.raises(RuntimeError, match="two devices"):
        compiled(TwoDevices(moves=False))(torch.randn(3, 8))


def test_nested_tensors(caplog: pytest.LogCaptureFixture):
    nested: Any = torch.nested
    parts = [torch.randn(rows, 16) for rows in (3, 5)]
    block, x = Block(), nested.nested_tensor(parts, layout=torch.jagged)
    torch.testing.assert_close(compiled(block)(x).values(), block(torch.cat(parts)))
    assert "reads nested tensors and runs in eager" in caplog.text


def test_lambda_that_cannot_be_traced():
    layer = linear()
    opaque: Any = torch.compiler.disable(lambda x: x * float(x.sum()))  # pyright: ignore

    def model(x: torch.Tensor) -> torch.Tensor:
        return layer(opaque(layer(x)))

    check(compiled(model), model, torch.randn(3, 8))
    assert graphs() == 2
    reset()
    with pytest.raises(dynamo.exc.Unsupported):
        compiled(model, fullgraph=True)(torch.randn(3, 8))


@pytest.mark.slow
def test_no_rows_and_strided_rows():
    layer = linear()

    def model(x: torch.Tensor) -> torch.Tensor:
        return F.silu(layer(x)) + x

    fast = compiled(model, dynamic=True, target="triton")
    for x in (
        torch.randn(5, 8),
        torch.randn(0, 8),
        torch.randn(8, 6).t(),
        torch.randn(1, 8).expand(3, 8),
        torch.randn(7, 20)[:, 3:11],
    ):
        check(fast, model, x)


def test_products_without_elements(caplog: pytest.LogCaptureFixture):
    """They are PyTorch's, and the rest of the graph is compiled."""
    layer, narrow = linear(), torch.randn(0, 8)

    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([layer(x[:0]), F.linear(x, narrow) @ narrow, F.silu(layer(x))])

    check(compiled(model, target="triton"), model, torch.randn(3, 8))
    assert " runs in " not in caplog.text


def test_rows_without_elements():
    """A table of rows that have no columns."""
    layer = linear()

    def model(x: torch.Tensor, narrow: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return layer(x), narrow * narrow.cos().mean(0)

    check(compiled(model, target="triton"), model, torch.randn(3, 8), torch.randn(2, 3, 0))


def test_heads_without_columns():
    layer = linear()

    def model(x: torch.Tensor, narrow: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        heads = narrow.view(2, 3, 2, 0).transpose(1, 2)
        return layer(x), F.scaled_dot_product_attention(heads, heads / 2, heads)

    check(compiled(model, target="reference"), model, torch.randn(3, 8), torch.randn(2, 3, 0))


def test_integers_that_are_the_largest_of_a_row():
    layer = linear()

    def model(x: torch.Tensor) -> torch.Tensor:
        y = layer(x)
        return torch.where((4 * x).long().max(0).values >= 3, y.sum(-1, keepdim=True), x)

    check(compiled(model, target="reference"), model, torch.randn(3, 8))


def test_negative_views():
    """The imaginary part of conjugated numbers is negated where it is read."""
    x = torch.randn(5, 1, dtype=torch.complex64).conj().imag
    assert x.is_neg() and x.stride(0) == 2
    weight = torch.randn(6, 1)

    def model(x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, weight)

    check(compiled(model, target="triton"), model, x)


def test_a_number_as_a_row():
    weight = torch.randn(1, 6)

    def model(x: torch.Tensor) -> torch.Tensor:
        return x.sum().reshape(1, 1) @ weight

    check(compiled(model), model, torch.randn(5, 8))


@pytest.mark.slow
def test_numbers_of_the_caller_and_of_modules():
    """The caller's are data, so that a change compiles nothing; those of modules are constants."""

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.linear, self.factor = nn.RMSNorm(8, eps=1e-3), linear(), 0.5

        def forward(self, x: torch.Tensor, number: float) -> torch.Tensor:
            return self.linear(self.norm(self.linear(x))) * self.factor * number

    model = Scaled()
    fast, x = compiled(model, dynamic=True), torch.randn(3, 8)
    for number in (0.5, 0.25, 3.0):
        check(fast, model, x, number)
    assert graphs() == 1
    model.factor = 2.0
    check(fast, model, x, 7.0)


def test_tracing_again_is_no_defect(caplog: pytest.LogCaptureFixture):
    """TorchDynamo traces a function again whose modules have a number, such as an epsilon."""
    model = nn.Sequential(nn.LayerNorm(8), linear())
    check(compiled(model, dynamic=True, errors="fallback"), model, torch.randn(3, 8))
    assert graphs() == 1
    assert "defect" not in caplog.text


def test_numbers_from_tensors():
    layer = linear()

    def model(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return layer(x) * layer(x[mask]).sum() + mask.sum().item()

    fast = compiled(model, fullgraph=True)
    check(fast, model, torch.randn(3, 8), torch.tensor([True, False, True]))


def test_integers_of_the_caller_of_any_sign(caplog: pytest.LogCaptureFixture):
    """A program has integers as sizes, so that PyTorch runs a graph where they are negative."""
    layer = linear()

    def model(x: torch.Tensor, number: int) -> torch.Tensor:
        return F.silu(layer(x)) + number

    fast, x = compiled(model), torch.randn(3, 8)
    for number in (3, 5, 0, -7, 4, -2):
        check(fast, model, x, number)
    assert "reads a number that differs between calls and is negative in this one" in caplog.text


@pytest.mark.slow
def test_conditions_on_sizes(caplog: pytest.LogCaptureFixture):
    """A graph returns whether the attention after a graph break is causal."""
    layer = linear()

    def model(x: torch.Tensor, start: int) -> torch.Tensor:
        h, keys = layer(x), torch.zeros(2, 8, 8)
        keys[:, start : start + x.shape[1]] = h
        keys = keys[:, : start + x.shape[1]]
        is_causal = x.shape[1] > 1 and start == 0
        return F.scaled_dot_product_attention(h, keys, keys, is_causal=is_causal)

    fast, start = compiled(model), 0
    for rows in (3, 1, 1, 2):
        check(fast, model, torch.randn(2, rows, 8), start)
        start += rows
    assert "cannot be computed" not in caplog.text


def test_symbolic_extents_that_follow_from_others(caplog: pytest.LogCaptureFixture):
    """A weight determines the width of a concatenation, and a root the sides of a square."""
    layer = linear()

    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        side = int(len(x) ** 0.5)
        return layer(torch.cat([x, y], -1)).view(side, side, 8).transpose(0, 1)

    fast = compiled(model, dynamic=True)
    for rows, columns in ((16, 3), (9, 5)):
        check(fast, model, torch.randn(rows, columns), torch.randn(rows, 8 - columns))
    assert "eager PyTorch" not in caplog.text


def test_sizes_are_passed_as_tensors_with_data(monkeypatch: pytest.MonkeyPatch):
    """Kernels are launched with the addresses of all arguments, also of those that tell a size."""
    layer, passed = linear(), list[torch.Tensor]()
    unchecked = CompiledFunction.unchecked

    def spy(self: CompiledFunction, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        passed.extend(tensors)
        return unchecked(self, *tensors)

    def model(x: torch.Tensor, factor: int) -> torch.Tensor:
        return layer(x) * factor

    monkeypatch.setattr(CompiledFunction, "unchecked", spy)
    fast = compiled(model, dynamic=True)
    for rows in (3, 5):
        check(fast, model, torch.randn(rows, 8), rows + 1)
    assert len(passed) >= 2 * 4
    assert all(isinstance(tensor.data_ptr(), int) for tensor in passed)


def test_constants_and_sizes_of_no_tensor():
    layer = linear()

    def model(x: torch.Tensor, count: int) -> torch.Tensor:
        ramp = torch.arange(count * 2).sum() + torch.tensor([1.0, 2.0]).repeat(4)
        return torch.cat([torch.tensor([]), layer(x).flatten()]).view(-1, 8) + ramp

    fast = compiled(model, dynamic=True)
    for count in (3, 4, 9):
        check(fast, model, torch.randn(3, 8), count)
    assert graphs() == 1


@pytest.mark.slow
def test_exported_programs():
    model, x = Block(), torch.randn(2, 5, 16)
    time = torch.export.Dim.DYNAMIC
    program: Any = torch.export.export(model, (x,), dynamic_shapes=({1: time},))
    fast = compiled(program.module())
    for rows in (5, 9):
        check(fast, model, torch.randn(2, rows, 16))


def test_inference_mode():
    model, x = Block(), torch.randn(4, 16)
    fast = compiled(model)
    with torch.inference_mode():
        check(fast, model, x)
    check(fast, model, x)


def test_a_defect_of_the_compiler(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def fail(self: GraphCompiler, graph: object) -> None:
        raise KeyError("defect")

    monkeypatch.setattr(GraphCompiler, "_compile", fail)
    layer, x = linear(), torch.randn(3, 8)
    with caplog.at_level(logging.ERROR):
        check(compiled(layer, errors="fallback"), layer, x)
    assert "because of a defect of coda_ir" in caplog.text
    reset()
    with pytest.raises(dynamo.exc.BackendCompilerFailed, match="defect"):
        compiled(layer)(x)


class Defective:
    """Calls of compiled programs that fail after they ran."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.calls, run = 0, CompiledFunction.unchecked

        def fail(function: Any, *tensors: torch.Tensor) -> Any:
            self.calls += 1
            run(function, *tensors)
            raise UnboundLocalError("a defect")

        monkeypatch.setattr(CompiledFunction, "unchecked", fail)


def test_a_call_that_fails_by_a_defect(monkeypatch: pytest.MonkeyPatch):
    defective = Defective(monkeypatch)
    model, x = Block(), torch.randn(3, 16)
    fast = compiled(model, errors="fallback")
    with pytest.warns(DefectWarning, match=r"the graph of torch_compile.py:\d+ failed") as caught:
        check(fast, model, x)
    check(fast, model, x)
    assert (defective.calls, len(caught)) == (1, 1)
    reset()
    with pytest.raises(UnboundLocalError, match="a defect"):
        compiled(model)(x)


def test_a_call_that_fails_by_a_defect_and_changes_its_inputs(monkeypatch: pytest.MonkeyPatch):
    layer = linear()

    def model(x: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
        cache.add_(layer(x))
        return cache * 2

    fast = compiled(model, errors="fallback")
    Defective(monkeypatch)
    x, cache = torch.randn(3, 8), torch.zeros(3, 8)
    raised = "the error is raised, as the call may have changed its inputs"
    with pytest.warns(DefectWarning, match=raised), pytest.raises(UnboundLocalError):
        fast(x, cache)
    cache.zero_()
    torch.testing.assert_close(fast(x, cache), 2 * layer(x))
    torch.testing.assert_close(cache, layer(x))


def test_inputs_that_overlap():
    """The first call is one of inputs side by side, with which the others share a graph."""
    layer = linear()

    def model(rows: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        y = layer(x)
        rows.mul_(2)
        return y + x

    fast = compiled(model)
    for first, last in ((4, 8), (1, 5), (0, 4)):
        memory = torch.randn(8, 8)
        wanted = memory.clone()
        found = fast(memory[:4], memory[first:last])
        torch.testing.assert_close(
            found, model(wanted[:4], wanted[first:last]), rtol=1e-4, atol=1e-5
        )
        torch.testing.assert_close(memory, wanted)


def test_inputs_that_overlap_in_other_ways_than_those_of_the_first_call():
    layer = linear()

    def model(rows: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        rows.add_(1)
        return layer(x)

    fast = compiled(model, dynamic=False)
    with torch.no_grad():
        for first, last in ((1, 5), (3, 7), (0, 4), (5, 9)):
            memory, apart = torch.randn(2, 9, 8)[:, : max(last, 5)].clone()
            wanted, x = memory.clone(), apart[:4]
            for inputs in ((memory[:4], memory[first:last]), (memory[:4], x)):
                copies = wanted[:4], x if inputs[1] is x else wanted[first:last]
                found = fast(*inputs)
                torch.testing.assert_close(found, model(*copies), rtol=1e-4, atol=1e-5)
                torch.testing.assert_close(memory, wanted)


@pytest.mark.slow
def test_views_of_a_changed_input_that_overlaps_another():
    layer = linear()

    def model(x: torch.Tensor, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        parts = rows.view(-1, 4, 2)
        parts.mul_(2)
        return parts, layer(x)

    fast = compiled(model, dynamic=True)
    with torch.no_grad():
        for length in (5, 7):
            memory = torch.randn(length, 8)
            other = memory.clone()
            found = fast(memory[:-1], memory[1:])
            wanted = model(other[:-1], other[1:])
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(memory, other)


def test_a_weight_that_overlaps_a_changed_input():
    layer = linear()

    def model(rows: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        first = rows[0] * 2
        rows.mul_(2)
        return layer(x + first)

    fast, x = compiled(model), torch.randn(3, 8)
    fast(torch.randn(8, 8), x)
    for _ in range(2):
        layer.weight.data = torch.randn(8, 8)
        rows = layer.weight.detach()
        found, before = fast(rows, x), rows.clone().div_(2)
        torch.testing.assert_close(found, layer(x + 2 * before[0]), rtol=1e-4, atol=1e-5)


def test_a_call_that_pytorch_refuses_as_well(monkeypatch: pytest.MonkeyPatch):
    Defective(monkeypatch)
    table, layer = torch.randn(5, 8), linear()

    def model(ids: torch.Tensor) -> torch.Tensor:
        return layer(F.embedding(ids, table))

    with pytest.raises(IndexError, match="index out of range"):
        compiled(model, errors="fallback", target="triton")(torch.tensor([1, 7]))


def test_a_negative_place_of_copied_rows():
    """PyTorch's decomposition would count it from the end."""
    layer = linear()

    def model(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        return layer(x).index_copy(0, at, x[:1])

    fast, x = compiled(model), torch.randn(3, 8)
    check(fast, model, x, torch.tensor([2]))
    with pytest.raises(CodaError, match="index -1 is out of bounds"):
        fast(x, torch.tensor([-1]))


def test_a_negative_place_of_filled_rows():
    """PyTorch counts it from the end, but its decomposition into copied rows refuses it."""
    layer = linear()

    def model(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        return layer(x).index_fill(0, at, 2.0)

    check(compiled(model), model, torch.randn(3, 8), torch.tensor([-1]))


@pytest.mark.slow
def test_functions_of_python_in_sizes():
    """A value of the program is called `max` where the host computes a maximum."""
    device = default_device()
    layer, sym_max = linear().to(device), cast(Any, torch).sym_max

    def model(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = layer(x)
        return h - h.max(dim=-1, keepdim=True).values, torch.arange(sym_max(0, x.shape[0] - 7))

    fast = compiled(model, dynamic=True, target="triton")
    for rows in (5, 9, 12):
        x = torch.randn(rows, 8, device=device)
        for got, wanted in zip(fast(x), model(x), strict=True):
            torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)


def test_schedules_are_those_for_the_sizes_of_the_captured_call(monkeypatch: pytest.MonkeyPatch):
    schedules: list[str | None] = []

    compile_program: Any = coda_ir.compile

    def record(program: Any, **options: Any) -> Any:
        schedules.append(options["schedule"])
        return compile_program(program, **options)

    monkeypatch.setattr(graph_compiler, "compile", record)
    for rows, dynamic in ((1009, True), (9, True), (1009, False)):
        layer = linear()
        check(compiled(layer, dynamic=dynamic), layer, torch.randn(rows, 8))
        reset()
    assert schedules[0] is not None and re.fullmatch('sizes="\\w+=1024"', schedules[0])
    assert schedules[1:] == [None, None]


@pytest.mark.parametrize(
    ("sizes", "rounded"),
    [
        ({}, {}),
        ({"T": 100}, {}),
        ({"T": 1034}, {"T": 1024}),
        ({"B": 3, "T": 2300}, {"B": 3, "T": 2304}),
    ],
)
def test_sizes_for_schedules_are_rounded(sizes: dict[str, int], rounded: dict[str, int]):
    assert rounded_sizes(sizes) == rounded
