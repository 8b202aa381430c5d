"""The gated delta rule: triangular systems within chunks, states in float32 across them."""

from collections.abc import Sequence

import pytest
import torch
from support.device import DEVICE
from support.emitted import load_program, operator_program, run_operator
from support.machine_code import ambiguous_places
from support.programs import type_of

from coda_ir.api import parse
from coda_ir.backends.reference.scan import delta_rule
from coda_ir.backends.triton import delta_rule_kernel
from coda_ir.backends.triton.aot import MachineLevel, compile_kernels
from coda_ir.backends.triton.delta_rule_kernel import (
    CHUNK,
    carry_adjoints_kernel,
    carry_states_kernel,
    gradients_kernel,
    read_kernel,
    solve_kernel,
    step_kernel,
)
from coda_ir.backends.triton.kernel import EmittedKernel
from coda_ir.dialects.coda import DeltaRuleGradOp, DeltaRuleOp
from coda_ir.float64 import relative_error

pytestmark = pytest.mark.any_device

Operands = tuple[torch.Tensor, ...]

ROUNDINGS = 8
"""Times the error of rounding once: what rows write, weights and states are rounded as operands of
products, too."""


def operands_of(
    batch: int,
    length: int,
    heads: int = 2,
    columns: int = 8,
    head_dim: int = 4,
    key_heads: int = 1,
    dtype: torch.dtype = torch.float32,
    alike: float = 0.0,
) -> Operands:
    """q, keys of length 1, v, steps between 0 and 1, decays, and states to begin with."""
    generator = torch.Generator().manual_seed(length)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    q, k = normal(2, batch, length, key_heads, head_dim)
    k = torch.nn.functional.normalize(k + alike, dim=-1)
    v, (beta, decay) = normal(batch, length, heads * columns), normal(2, batch, length, heads)
    states = normal(batch, heads, head_dim, columns)
    narrow = (x.flatten(2).to(dtype) for x in (q, k, v[:, :, None]))
    return *narrow, beta.sigmoid(), -decay.exp() / 16, states


def program(operands: Operands, head_dim: int) -> tuple[str, str]:
    """The operator with states before and after, and the types of its results."""
    types = f"{type_of(operands[2])}, {type_of(operands[5])}"
    return f"coda.delta_rule {{head_dim = {head_dim} : i64}}", types


def assert_accurate(
    actual: Sequence[torch.Tensor], exact: Sequence[torch.Tensor], dtype: torch.dtype
) -> None:
    limit = torch.finfo(dtype).eps * (ROUNDINGS if DEVICE == "cpu" else 2 * ROUNDINGS)
    for found, true in zip(actual, exact, strict=True):
        assert relative_error(found, true) <= limit


def check(operands: Operands, head_dim: int = 4) -> Sequence[torch.Tensor]:
    name, types = program(operands, head_dim)
    actual = run_operator(name, *operands, result=types)
    exact = delta_rule([each.double() for each in operands], head_dim)
    assert_accurate(actual, exact, operands[2].dtype)
    return actual


@pytest.mark.parametrize("length", [1, 5, CHUNK, CHUNK + 3])
def test_lengths(length: int) -> None:
    check(operands_of(2, length))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize(
    ("heads", "columns", "head_dim", "key_heads"), [(3, 33, 16, 1), (4, 5, 20, 2), (1, 1, 1, 1)]
)
def test_sizes_that_are_no_tiles(
    heads: int, columns: int, head_dim: int, key_heads: int, dtype: torch.dtype
) -> None:
    check(operands_of(2, CHUNK + 6, heads, columns, head_dim, key_heads, dtype), head_dim)


def test_keys_that_are_alike() -> None:
    """Powers of the triangular matrix are large, and cancel in its inverse."""
    q, k, v, beta, decay, states = operands_of(1, CHUNK, alike=9.0)
    check((q, k, v, 2 * beta, torch.zeros_like(decay), states))


@pytest.mark.parametrize("length", [1, CHUNK + 2])
def test_ranges_of_columns(length: int) -> None:
    """q, k and v are read where a projection stored them."""
    text = """
        func.func @f(%p: tensor<?x?x32xf32> {coda.dims = ["B", "T", 32]},
                     %beta: tensor<?x?x2xf32> {coda.dims = ["B", "T", 2]}) -> tensor<?x?x16xf32> {
          %q = coda.slice %p {dim = 2 : i64, start = 4 : i64, stop = 8 : i64}
            : (tensor<?x?x32xf32>) -> tensor<?x?x4xf32>
          %k = coda.slice %p {dim = 2 : i64, start = 8 : i64, stop = 12 : i64}
            : (tensor<?x?x32xf32>) -> tensor<?x?x4xf32>
          %v = coda.slice %p {dim = 2 : i64, start = 16 : i64, stop = 32 : i64}
            : (tensor<?x?x32xf32>) -> tensor<?x?x16xf32>
          %decay = coda.neg %beta : (tensor<?x?x2xf32>) -> tensor<?x?x2xf32>
          %y = coda.delta_rule %q, %k, %v, %beta, %decay {head_dim = 4 : i64}
            : (tensor<?x?x4xf32>, tensor<?x?x4xf32>, tensor<?x?x16xf32>, tensor<?x?x2xf32>,
               tensor<?x?x2xf32>) -> tensor<?x?x16xf32>
          func.return %y : tensor<?x?x16xf32>
        }"""
    q, k, v, beta, _, _ = operands_of(2, length)
    p = torch.cat([q, q, k, k, v], -1)
    exact, _ = delta_rule([x.double() for x in (q, k, v, beta, -beta)], 4)
    assert_accurate([load_program(text)(p, beta)], [exact], torch.float32)


def test_no_states_before_and_after() -> None:
    operands = operands_of(1, CHUNK + 1)[:5]
    name, _ = program((*operands, operands[0]), 4)
    y = run_operator(name, *operands, result=type_of(operands[2]))
    assert_accurate([y], delta_rule([x.double() for x in operands], 4)[:1], torch.float32)


def test_later_rows_and_other_samples_change_no_bits() -> None:
    operands = operands_of(2, CHUNK + 5)
    name, types = program(operands, 4)
    whole, _ = run_operator(name, *operands, result=types)
    length = CHUNK + 2
    shorter = (*(x[1:, :length].contiguous() for x in operands[:5]), operands[5][1:].contiguous())
    types = program(shorter, 4)[1]
    assert torch.equal(run_operator(name, *shorter, result=types)[0], whole[1:, :length])


@pytest.mark.parametrize("shape", [(2, 0), (0, 5)])
def test_nothing(shape: tuple[int, int]) -> None:
    operands = operands_of(*shape)
    name, types = program(operands, 4)
    y, last = run_operator(name, *operands, result=types)
    assert y.shape == operands[2].shape and torch.equal(last, operands[5])
    assert [x.shape for x in gradients_of(operands, 4)[0]] == [x.shape for x in operands]


def gradients_of(operands: Operands, head_dim: int) -> tuple[Sequence[torch.Tensor], Operands]:
    """The gradients, and the adjoints of the results that they are of."""
    generator = torch.Generator().manual_seed(1)
    adjoints = tuple(
        torch.randn(x.shape, generator=generator).to(x.dtype) for x in (operands[2], operands[5])
    )
    name = f"coda.delta_rule_grad {{head_dim = {head_dim} : i64}}"
    types = ", ".join(map(type_of, operands))
    given = (adjoints[0], *operands, adjoints[1])
    return run_operator(name, *given, result=types), adjoints


def check_gradients(operands: Operands, head_dim: int = 4) -> None:
    actual, adjoints = gradients_of(operands, head_dim)
    leaves = [each.double().requires_grad_() for each in operands]
    results = delta_rule(leaves, head_dim)
    exact = torch.autograd.grad(results, leaves, [each.double() for each in adjoints])
    assert_accurate(actual, exact, operands[2].dtype)


@pytest.mark.slow
@pytest.mark.parametrize("length", [1, CHUNK, 2 * CHUNK + 3])
def test_gradients_of_lengths(length: int) -> None:
    check_gradients(operands_of(2, length))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize(
    ("heads", "columns", "head_dim", "key_heads"), [(3, 33, 16, 1), (4, 5, 20, 2)]
)
def test_gradients_of_sizes_that_are_no_tiles(
    heads: int, columns: int, head_dim: int, key_heads: int, dtype: torch.dtype
) -> None:
    operands = operands_of(1, CHUNK + 6, heads, columns, head_dim, key_heads, dtype)
    check_gradients(operands, head_dim)


def kernels(length: int, columns: int, head_dim: int) -> list[EmittedKernel]:
    operands = operands_of(1, length, 32, columns, head_dim, 16, torch.bfloat16)
    name, types = program(operands, head_dim)
    module = parse(operator_program(name, operands, types))
    (op,) = (op for op in module.walk() if isinstance(op, DeltaRuleOp))
    if op.is_step:
        return [step_kernel(op, "step", {})]
    given = (operands[2], *operands, operands[5])
    types = ", ".join(map(type_of, operands))
    module = parse(operator_program(name.replace("rule", "rule_grad"), given, types))
    (grad,) = (op for op in module.walk() if isinstance(op, DeltaRuleGradOp))
    return [
        solve_kernel(op, "solve", {}),
        carry_states_kernel(op, "carry", {}),
        read_kernel(op, "read", {}),
        carry_adjoints_kernel(grad, "carry_adjoints", {}),
        gradients_kernel(grad, "gradients", {}),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_90", "gfx942"])
def test_kernels_compile_ahead_of_time(arch: str) -> None:
    """Those of a layer of Qwen3-Next."""
    level: MachineLevel = "ptx" if arch == "sm_90" else "amdgcn"
    for kernel in compile_kernels([*kernels(1, 128, 128), *kernels(2, 128, 128)], arch, level):
        assert kernel.resources.fits
        assert kernel.resources.spills <= 400 or kernel.name != "gradients"
        assert not ambiguous_places(kernel.text)


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "head_dim"), [(32, 64), (5, 20), (64, 64)])
def test_places_of_tiles_of_narrow_heads(columns: int, head_dim: int) -> None:
    for kernel in compile_kernels(kernels(2, columns, head_dim), "sm_90", "ptx"):
        assert not ambiguous_places(kernel.text), kernel.name


@pytest.mark.slow
def test_four_warps_would_read_two_tiles_from_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta_rule_kernel, "NARROW", 0)
    (read,) = (kernel for kernel in kernels(2, 32, 64) if kernel.name == "read")
    (compiled,) = compile_kernels([read], "sm_90", "ptx")
    assert ambiguous_places(compiled.text)
