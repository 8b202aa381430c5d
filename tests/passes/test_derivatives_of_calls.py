"""Derivatives of calls of PyTorch: those of autograd, without running the call again."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
import torch
from support.gradients import assert_gradients, joint_of
from support.programs import parse_mlir
from xdsl.dialects.builtin import ModuleOp

import coda_ir
from coda_ir.argument_template import ArgumentTemplate
from coda_ir.backends.reference import run_function
from coda_ir.dialects.torch import CallOp, VjpOp
from coda_ir.passes.gradient.derivatives.calls import CALL_RULES

OPEN = 5
"""The extent that the types of a second program leave open."""


class Case(NamedTuple):
    """A call, with tensors of integers, booleans or floats."""

    callee: str
    arguments: str
    tensors: Sequence[torch.Tensor]
    positions: Sequence[int] | None = None


def floats(*shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64)


def numbers(*shape: int, below: int) -> torch.Tensor:
    return torch.randint(below, shape)


torch.default_generator.manual_seed(0)
MASK = floats(5, 4) > 0
X = floats(5, 4)
ROW = torch.tensor([[0, 2, 2], [1, 0, 3], [3, 3, 3], [0, 1, 2], [2, 1, 0]])
CASES: dict[str, Case] = {
    "expand": Case("expand.default", "{0}, [3, -1, 4]", [floats(5, 1)]),
    "slice": Case("slice.Tensor", "{0}, 0, 1, 5, 2", [X]),
    "slice to the end": Case("slice.Tensor", "{0}, 1, -3", [X]),
    "select": Case("select.int", "{0}, 1, -2", [X]),
    "where": Case("where.self", "{0}, {1}, {2}", [MASK, X, floats(4)]),
    "where of numbers": Case("where.ScalarSelf", "{0}, 1.0, {1}", [MASK[:, :1], X]),
    "where or a number": Case("where.ScalarOther", "{0}, {1}, 1.0", [MASK, X]),
    "index": Case("index.Tensor", "{0}, [None, {1}]", [X, numbers(6, below=4)]),
    "index of rows": Case("index.Tensor", "{0}, [{1}]", [X, numbers(2, 3, below=5)]),
    "index_select": Case("index_select.default", "{0}, 1, {1}", [X, numbers(7, below=4)]),
    "gather": Case("gather.default", "{0}, 0, {1}", [X, ROW]),
    "gather of few columns": Case("gather.default", "{0}, -1, {1}", [X, ROW]),
    "gather of one": Case(
        "gather.default", "{0}, 1, {1}", [floats(5, 20), numbers(5, 1, below=20)]
    ),
    "scatter of a number": Case("scatter.value", "{0}, 1, {1}, 0.5", [X, ROW]),
    "scatter": Case("scatter.src", "{0}, 1, {1}, {2}", [X, ROW[3:, :], floats(2, 3)]),
    "scatter_add": Case("scatter_add.default", "{0}, 1, {1}, {2}", [X, ROW, floats(5, 3)]),
    "topk": Case("topk.default", "{0}, 2, 0", [X], [0]),
    "sort": Case("sort.default", "{0}, 1, True", [X]),
    "stable sort": Case("sort.stable", "{0}, stable=True, dim=0, descending=False", [X]),
    "max": Case("max.dim", "{0}, 1", [X], [0]),
    "min": Case("min.dim", "{0}, -1, True", [X], [0, 1]),
    "cumsum": Case("cumsum.default", "{0}, 1", [X]),
    "matmul": Case("matmul.default", "{0}, {1}", [floats(2, 1, 5, 4), floats(3, 4, 6)]),
    "matmul by a matrix": Case("matmul.default", "{0}, {1}", [floats(2, 5, 4), floats(4, 3)]),
    "matmul of a matrix": Case("matmul.default", "{0}, {1}", [floats(2, 4), floats(3, 4, 6)]),
    "bmm": Case("bmm.default", "{0}, {1}", [floats(5, 2, 4), floats(5, 4, 3)]),
    "baddbmm": Case(
        "baddbmm.default",
        "{0}, {1}, {2}, beta=0.5, alpha=2",
        [floats(3), floats(5, 2, 4), floats(5, 4, 3)],
    ),
}


NAMES = {
    torch.float64: "f32",
    torch.float32: "f32",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.bool: "i1",
}
"""Floats are computed in float64 whatever their type is."""


def type_of(tensor: torch.Tensor, *, is_open: bool) -> str:
    extents = ["?" if is_open and extent == OPEN else str(extent) for extent in tensor.shape]
    return f"tensor<{'x'.join((*extents, NAMES[tensor.dtype]))}>"


def module_of(case: Case, *, is_open: bool) -> ModuleOp:
    """A function of nothing but the call, whose results have the types that PyTorch's have."""
    name, overload = case.callee.split(".")
    operator: Any = getattr(getattr(torch.ops.aten, name), overload)
    arguments, named = ArgumentTemplate.parse(case.arguments).evaluate(case.tensors, {}, {})
    given = operator(*arguments, **named)
    results = [given] if isinstance(given, torch.Tensor) else list(given)
    picked = results if case.positions is None else [results[at] for at in case.positions]
    before = [type_of(tensor, is_open=is_open) for tensor in case.tensors]
    after = ", ".join(type_of(tensor, is_open=is_open) for tensor in picked)
    operands = ", ".join(f"%a{index}" for index in range(len(before)))
    parameters = ", ".join(f"%a{index}: {type}" for index, type in enumerate(before))
    positions = f", positions = {list(case.positions)}" if case.positions is not None else ""
    returned = [f"%r#{index}" for index in range(len(picked))] if len(picked) > 1 else ["%r"]
    many = f":{len(picked)}" if len(picked) > 1 else ""
    return parse_mlir(
        f"""
        func.func @f({parameters}) -> ({after}) {{
          %r{many} = torch.call "aten.{case.callee}"({operands})
              {{arguments = "{case.arguments}"{positions}}} : ({", ".join(before)}) -> ({after})
          func.return {", ".join(returned)} : {after}
        }}
        """
    )


@pytest.mark.slow
@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str, is_open: bool):
    case = CASES[name]
    module = module_of(case, is_open=is_open)
    joint = assert_gradients(module, {"?": OPEN}, arguments=case.tensors)
    assert joint.argument_gradients
    assert not any(isinstance(op, VjpOp) for op in joint.block.ops)


@pytest.mark.parametrize("rows", ["M", "N"])
def test_fewer_rows_than_those_gathered_from_are_added_where_they_were(rows: str):
    module = parse_mlir(
        f"""
        func.func @f(%x: tensor<?x4xf32> {{coda.dims = ["M", 4]}},
                     %i: tensor<?x3xi64> {{coda.dims = ["{rows}", 3]}}) -> (tensor<?x3xf32>) {{
          %r = torch.call "aten.gather.default"(%x, %i) {{arguments = "{{0}}, 1, {{1}}"}}
              : (tensor<?x4xf32>, tensor<?x3xi64>) -> (tensor<?x3xf32>)
          func.return %r : tensor<?x3xf32>
        }}
        """
    )
    calls = [op.callee.data for op in joint_of(module).block.ops if isinstance(op, CallOp)]
    assert ("aten.scatter_add.default" in calls) == (rows == "N")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gather of few columns", "gather of one"])
def test_gradients_are_summed_without_sorting(name: str):
    """Fixed bits of sums at places that tensors name need sorted indices in PyTorch."""
    case = CASES[name]
    module, (x, index) = module_of(case, is_open=False), case.tensors
    block = joint_of(module.clone()).block
    assert not any(isinstance(op, CallOp) and "scatter" in op.callee.data for op in block.ops)
    x, dy = x.float().requires_grad_(), floats(*index.shape).float()
    coda_ir.compile(module, training=True, device="cpu")(x, index).backward(dy)
    wanted = torch.zeros_like(x, dtype=torch.float64).scatter_add(1, index, dy.double())
    torch.testing.assert_close(x.grad, wanted.float())


@pytest.mark.parametrize("rows", [3, 9])
def test_gradients_of_gathered_rows_are_those_of_a_table(rows: int):
    """Masked autoencoders repeat the number of each row for all columns."""
    module = parse_mlir(
        f"""
        func.func @f(%x: tensor<2x5x32xf32>, %i: tensor<2x{rows}xi64>) -> tensor<2x{rows}x32xf32> {{
          %n = coda.reshape %i : (tensor<2x{rows}xi64>) -> tensor<2x{rows}x1xi64>
          %e = torch.call "aten.expand.default"(%n) {{arguments = "{{0}}, [2, {rows}, 32]", view}}
              : (tensor<2x{rows}x1xi64>) -> (tensor<2x{rows}x32xi64>)
          %r = coda.gather %x, %e {{dim = 1 : i64}}
              : (tensor<2x5x32xf32>, tensor<2x{rows}x32xi64>) -> tensor<2x{rows}x32xf32>
          func.return %r : tensor<2x{rows}x32xf32>
        }}
        """
    )
    x, index, dy = (
        torch.randn(2, 5, 32).requires_grad_(),
        numbers(2, rows, below=5),
        torch.randn(2, rows, 32),
    )
    calls = [op for op in joint_of(module.clone()).block.ops if isinstance(op, CallOp)]
    assert not any("scatter" in op.callee.data for op in calls)
    coda_ir.compile(module, training=True, device="cpu")(x, index).backward(dy)
    places = index[..., None].expand(-1, -1, 32)
    wanted = torch.zeros_like(x, dtype=torch.float64).scatter_add(1, places, dy.double())
    torch.testing.assert_close(x.grad, wanted.float())


def test_every_rule_is_tested():
    tested = {f"aten.{case.callee}" for case in CASES.values()}
    assert set(CALL_RULES) - tested == {"aten._grouped_mm.default"}


def test_grouped_products():
    """PyTorch has none in float64."""
    a, b = torch.randn(8, 4), torch.randn(2, 4, 16)
    offsets = torch.tensor([3, 8], dtype=torch.int32)
    case = Case("_grouped_mm.default", "{0}, {1}, {2}", [a, b, offsets])
    joint = joint_of(module_of(case, is_open=False))
    dy = torch.randn(8, 16)
    _, *gradients = run_function(joint.func, [a, b, offsets, dy], "stated")
    leaves = [a.requires_grad_(), b.requires_grad_()]
    wanted = torch.autograd.grad(torch.ops.aten._grouped_mm.default(a, b, offsets), leaves, dy)
    torch.testing.assert_close(gradients, list(wanted), rtol=1e-6, atol=1e-6)
    assert not any(isinstance(op, VjpOp) for op in joint.block.ops)
