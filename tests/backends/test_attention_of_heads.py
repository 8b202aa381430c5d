"""Attention of heads that are no columns: its derivative computes no softmax again."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from support.emitted import load_program

from coda_ir.api import parse
from coda_ir.backends.reference import run_function
from coda_ir.context import make_context
from coda_ir.dialects.torch import FUSED_ATTENTION_GRAD, CallOp, VjpOp
from coda_ir.float64 import relative_error
from coda_ir.passes.gradient.derivatives import expose_saved
from coda_ir.passes.gradient.derive_gradient import DeriveGradientPass

# Its types are not complete.
attention: Any = torch.nn.functional.scaled_dot_product_attention


@dataclass(frozen=True)
class Case:
    """Sizes and arguments of attention; `mask` is its type, of B x 1 x queries x keys."""

    queries: int = 5
    keys: int = 5
    heads: int = 4
    shared: int = 1
    columns: int = 8
    of_values: int = 8
    mask: str | None = None
    causal: bool = False
    scale: float | None = None

    def text(self, type: str) -> str:
        shapes = {name: "x".join(map(str, shape)) for name, shape in self.shapes().items()}
        types = {name: f"tensor<{shape}x{type}>" for name, shape in shapes.items()}
        if self.mask is not None:
            types["mask"] = f"tensor<{shapes['mask']}x{'i1' if self.mask == 'bool' else type}>"
        listed = ", ".join(types.values())
        parameters = ", ".join(f'%{n}: {t} {{coda.name = "{n}"}}' for n, t in types.items())
        arguments = ", ".join(f"{{{number}}}" for number in range(len(types)))
        arguments += f", is_causal={self.causal}, enable_gqa={self.shared > 1}"
        arguments += "" if self.scale is None else f", scale={self.scale}"
        y = f"tensor<2x{self.heads}x{self.queries}x{self.of_values}x{type}>"
        return f"""
        func.func @f({parameters}) -> {y} {{
          %y = torch.call "aten.scaled_dot_product_attention.default"({", ".join(f"%{n}" for n in types)})
            {{arguments = "{arguments}"}} : ({listed}) -> {y}
          func.return %y : {y}
        }}"""  # noqa: E501

    def shapes(self) -> dict[str, tuple[int, ...]]:
        heads = self.heads // self.shared
        shapes = {
            "q": (2, self.heads, self.queries, self.columns),
            "k": (2, heads, self.keys, self.columns),
            "v": (2, heads, self.keys, self.of_values),
        }
        return shapes if self.mask is None else {**shapes, "mask": (2, 1, self.queries, self.keys)}

    def inputs(self, dtype: torch.dtype) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(0)
        drawn = [torch.randn(s, generator=generator).to(dtype) for s in self.shapes().values()]
        if self.mask == "bool":
            drawn[3] = drawn[3] > -1
            drawn[3][..., 0] = True
        return drawn

    def gradients(self, inputs: list[torch.Tensor], seed: torch.Tensor) -> list[torch.Tensor]:
        leaves = [x.detach().requires_grad_(x.is_floating_point()) for x in inputs]
        y = attention(*leaves, is_causal=self.causal, enable_gqa=self.shared > 1, scale=self.scale)
        floats = [x for x in leaves if x.is_floating_point()]
        return [y.detach(), *torch.autograd.grad(y, floats, seed)]


CASES = {
    "plain": Case(),
    "causal": Case(causal=True, scale=0.3),
    "causal with more keys": Case(queries=3, keys=7, causal=True),
    "shared heads": Case(shared=2, keys=6),
    "other columns of values": Case(of_values=12, causal=True),
    "mask": Case(mask="bool", keys=9),
    "added mask": Case(mask="added", shared=4),
}
cases = pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))


def joint_of(case: Case, type: str) -> Any:
    module = parse(case.text(type))
    DeriveGradientPass().apply(make_context(), module)
    _, joint = module.ops
    return joint


@cases
def test_gradients_are_those_of_autograd(case: Case) -> None:
    inputs = [x.double() if x.is_floating_point() else x for x in case.inputs(torch.float32)]
    joint = joint_of(case, "f64")
    called = [op for op in joint.walk() if isinstance(op, CallOp)]
    assert [op.callee.data == FUSED_ATTENTION_GRAD for op in called] == [False, True]
    assert not any(isinstance(op, VjpOp) for op in joint.walk())
    seed = torch.randn(2, case.heads, case.queries, case.of_values, dtype=torch.float64)
    expected = case.gradients(inputs, seed)
    for found, wanted in zip(run_function(joint, [*inputs, seed]), expected, strict=True):
        assert relative_error(found, wanted) <= 1e-12


@cases
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
def test_emitted_programs_are_as_exact_as_eager(case: Case, dtype: torch.dtype) -> None:
    joint = joint_of(case, "f32" if dtype == torch.float32 else "bf16")
    joint.sym_visibility = None
    run, inputs = load_program(str(joint)), case.inputs(dtype)
    wide = [x.double() if x.is_floating_point() else x for x in inputs]
    # Of few elements, errors that are alike on average differ by chance.
    seeds = torch.randn(16, 2, case.heads, case.queries, case.of_values).to(dtype)
    exact = _stacked([case.gradients(wide, seed.double()) for seed in seeds])
    eager = _stacked([case.gradients(inputs, seed) for seed in seeds])
    emitted = _stacked([run(*inputs, seed) for seed in seeds])
    least = 4 * torch.finfo(torch.float32).eps
    for found, other, wanted in zip(emitted, eager, exact, strict=True):
        assert relative_error(found, wanted) <= max(1.25 * relative_error(other, wanted), least)


def _stacked(runs: Sequence[Sequence[torch.Tensor]]) -> list[torch.Tensor]:
    """Each result of all runs together."""
    return [torch.stack(results) for results in zip(*runs, strict=True)]


def test_dropout_is_left_to_pytorch() -> None:
    """It draws random numbers."""
    module = parse(CASES["plain"].text("f32").replace("is_causal=False", "dropout_p=0.5"))
    (call,) = (op for op in module.walk() if isinstance(op, CallOp))
    block = call.parent_block()
    assert block is not None
    expose_saved(block)
    assert call in [*block.ops]
