"""State space models of heads: products within chunks, states in float32."""

from collections.abc import Sequence

import pytest
import torch
from support.device import DEVICE
from support.emitted import operator_program, run_operator
from support.machine_code import ambiguous_places
from support.programs import type_of

from coda_ir.api import parse
from coda_ir.backends.reference.scan import scanned_states
from coda_ir.backends.triton.aot import MachineLevel, compile_kernels
from coda_ir.backends.triton.kernel import EmittedKernel
from coda_ir.backends.triton.ssd_grad_kernel import (
    b_gradients_kernel,
    c_gradients_kernel,
    chunk_adjoints_kernel,
    held_kernel,
    times_kernel,
    x_gradients_kernel,
)
from coda_ir.backends.triton.ssd_kernel import (
    block_sums_kernel,
    carry_kernel,
    chunk_states_kernel,
    ssd_kernel,
    step_kernel,
)
from coda_ir.backends.triton.ssd_text import CHUNK, GRADIENT_CHUNK, ROWS
from coda_ir.dialects.coda import SSDGradOp, SSDOp
from coda_ir.float64 import relative_error

pytestmark = pytest.mark.any_device

Operands = tuple[torch.Tensor, ...]

ROUNDINGS = 8
"""Times the error of rounding once: weights and states are rounded as operands of products, too,
and sums of dt · a within a block are differences, which some draws of rates feel."""

GRADIENT_ROUNDINGS = 16
"""The same for gradients: those of decays are differences of sums over a chunk."""


def operands_of(
    batch: int,
    length: int,
    heads: int = 2,
    columns: int = 8,
    states: int = 4,
    groups: int = 1,
    dtype: torch.dtype = torch.float32,
) -> Operands:
    """x, positive dt, negative a, b and c."""
    generator = torch.Generator().manual_seed(length)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    x, dt = normal(batch, length, heads * columns), normal(batch, length, heads).abs() / 2
    a, (b, c) = -normal(heads).exp(), normal(2, batch, length, groups * states)
    return x.to(dtype), dt.to(dtype), a, b.to(dtype), c.to(dtype)


def check(operands: Operands, states: int = 4, result: torch.dtype | None = None) -> torch.Tensor:
    x = operands[0]
    result = result or x.dtype
    name = f"coda.ssd {{states = {states} : i64}}"
    actual = run_operator(name, *operands, result=type_of(x.to(result)))
    wide, exact = (
        scanned_states([each.to(type) for each in operands], states)[0]
        for type in (torch.float32, torch.float64)
    )
    assert_accurate(actual, wide, exact, x.dtype)
    return actual


def assert_accurate(
    actual: torch.Tensor,
    wide: torch.Tensor,
    exact: torch.Tensor,
    dtype: torch.dtype,
    roundings: int = ROUNDINGS,
) -> None:
    """Compare with float32, row after row, whose result has the type of operands of products.

    A GPU's instruction for exponentials has twice the error.
    """
    roundings *= 1 if DEVICE == "cpu" else 2
    assert relative_error(actual, exact) <= roundings * relative_error(wide.to(dtype), exact)


@pytest.mark.slow
@pytest.mark.parametrize("length", [1, ROWS + 1, CHUNK, CHUNK + ROWS + 3])
def test_lengths(length: int) -> None:
    check(operands_of(1, length))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(
    ("heads", "columns", "states", "groups"), [(3, 33, 16, 1), (4, 5, 20, 2), (1, 1, 1, 1)]
)
def test_sizes_that_are_no_tiles(
    heads: int, columns: int, states: int, groups: int, dtype: torch.dtype
) -> None:
    check(operands_of(2, CHUNK + 6, heads, columns, states, groups, dtype), states)


@pytest.mark.slow
def test_samples_have_separate_states() -> None:
    operands = operands_of(3, CHUNK + 9)
    together = check(operands)
    for sample in range(3):
        x, dt, a, b, c = operands
        rows = slice(sample, sample + 1)
        alone = (x[rows], dt[rows], a, b[rows], c[rows])
        assert torch.equal(run_operator("coda.ssd {states = 4 : i64}", *alone)[0], together[sample])


def test_later_rows_change_no_bits() -> None:
    x, dt, a, b, c = operands_of(1, CHUNK + 70)
    whole = run_operator("coda.ssd {states = 4 : i64}", x, dt, a, b, c)
    for length in (CHUNK - 3, CHUNK + 66):
        shorter = (x[:, :length], dt[:, :length], a, b[:, :length], c[:, :length])
        assert torch.equal(run_operator("coda.ssd {states = 4 : i64}", *shorter), whole[:, :length])


@pytest.mark.parametrize("shape", [(2, 0), (0, 5)])
def test_nothing(shape: tuple[int, int]) -> None:
    operands = operands_of(*shape)
    assert run_operator("coda.ssd {states = 4 : i64}", *operands).shape == (*shape, 16)


def test_result_that_is_wider_than_the_operands() -> None:
    operands = operands_of(1, 9, dtype=torch.bfloat16)
    assert check(operands, result=torch.float32).dtype == torch.float32


def with_states(length: int) -> tuple[Operands, str]:
    """Operands of one sign, with states to begin with, and the type of states."""
    x, dt, a, b, c = operands_of(2, length)
    first = torch.rand(2, 2, 8, 4, generator=torch.Generator().manual_seed(3))
    return (x.abs(), dt, a, b.abs(), c.abs(), first), type_of(first)


@pytest.mark.slow
@pytest.mark.parametrize("length", [0, 1, CHUNK, CHUNK + 9])
def test_states_before_and_after(length: int) -> None:
    operands, states = with_states(length)
    result = f"{type_of(operands[0])}, {states}"
    y, last = run_operator("coda.ssd {states = 4 : i64}", *operands, result=result)
    wide, exact = (
        scanned_states([each.to(type) for each in operands], 4)
        for type in (torch.float32, torch.float64)
    )
    for found, close, true in zip((y, last), wide, exact, strict=True):
        assert_accurate(found, close, true, torch.float32, 2 * ROUNDINGS)


@pytest.mark.slow
def test_parts_of_a_sequence() -> None:
    """The states after one part are those before the next one."""
    x, dt, a, b, c = operands_of(2, CHUNK + 30)
    name, cut = "coda.ssd {states = 4 : i64}", CHUNK
    whole = run_operator(name, x, dt, a, b, c)
    parts = [slice(0, cut), slice(cut, None)]
    states, found = torch.zeros(2, 2, 8, 4), list[torch.Tensor]()
    for rows in parts:
        given = (x[:, rows], dt[:, rows], a, b[:, rows], c[:, rows], states)
        y, states = run_operator(name, *given, result=f"{type_of(given[0])}, {type_of(states)}")
        found.append(y)
    assert torch.equal(torch.cat(found, 1), whole)


@pytest.mark.slow
@pytest.mark.parametrize("length", [0, 1, GRADIENT_CHUNK + 9])
def test_gradients_of_states(length: int) -> None:
    operands, _ = with_states(length)
    x, first = operands[0], operands[-1]
    generator = torch.Generator().manual_seed(1)
    adjoints = [torch.rand(each.shape, generator=generator) for each in (x, first)]
    name, types = "coda.ssd_grad {states = 4 : i64}", ", ".join(map(type_of, operands))
    actual = run_operator(name, adjoints[0], *operands, adjoints[1], result=types)

    def expected(dtype: torch.dtype) -> Sequence[torch.Tensor]:
        leaves = [each.to(dtype).requires_grad_() for each in operands]
        results = scanned_states([leaf.clone() for leaf in leaves], 4)
        wanted = [each.to(dtype) for each in adjoints]
        return torch.autograd.grad(
            results, leaves, wanted, allow_unused=True, materialize_grads=True
        )

    wide, exact = expected(torch.float32), expected(torch.float64)
    for found, close, true in zip(actual, wide, exact, strict=True):
        assert_accurate(found, close, true, torch.float32, 2 * GRADIENT_ROUNDINGS)


def model_of(operands: Operands, states: int) -> SSDOp:
    name = f"coda.ssd {{states = {states} : i64}}"
    module = parse(operator_program(name, operands, type_of(operands[0])))
    (op,) = (op for op in module.walk() if isinstance(op, SSDOp))
    return op


def kernels(heads: int, columns: int, states: int, groups: int) -> list[EmittedKernel]:
    op, only = (
        model_of(operands_of(1, length, heads, columns, states, groups, torch.bfloat16), states)
        for length in (4, 1)
    )
    return [
        step_kernel(only, "ssd_step", {}),
        block_sums_kernel(op, "block_sums", {}),
        chunk_states_kernel(op, "head_states", {}),
        carry_kernel(op, "carry_head_states", {}),
        ssd_kernel(op, "ssd", {}),
    ]


def check_gradients(
    operands: Operands, states: int = 4, d_type: torch.dtype | None = None, scale: float = 1
) -> Sequence[torch.Tensor]:
    """Compare sums of what has one sign: others would cancel. The gradient is below `scale`."""
    x, dt, a, b, c = operands
    operands = x.abs(), dt, a, b.abs(), c.abs()
    d_y = torch.rand(x.shape, generator=torch.Generator().manual_seed(1)) * scale
    d_y = d_y.to(d_type or x.dtype)
    name = f"coda.ssd_grad {{states = {states} : i64}}"
    types = ", ".join(map(type_of, operands))
    actual = run_operator(name, d_y, *operands, result=types)

    def expected(dtype: torch.dtype) -> Sequence[torch.Tensor]:
        leaves = [each.to(dtype).requires_grad_() for each in operands]
        return torch.autograd.grad(scanned_states(leaves, states)[0], leaves, d_y.to(dtype))

    wide, exact = expected(torch.float32), expected(torch.float64)
    for found, close, true in zip(actual, wide, exact, strict=True):
        assert_accurate(found, close, true, x.dtype, GRADIENT_ROUNDINGS)
    return actual


@pytest.mark.slow
@pytest.mark.parametrize("length", [1, ROWS + 1, 2 * GRADIENT_CHUNK + 3])
def test_gradients_of_lengths(length: int) -> None:
    check_gradients(operands_of(1, length))


@pytest.mark.slow
@pytest.mark.parametrize(("heads", "columns", "states", "groups"), [(3, 33, 16, 1), (18, 5, 3, 2)])
def test_gradients_of_sizes_that_are_no_tiles(
    heads: int, columns: int, states: int, groups: int
) -> None:
    operands = operands_of(1, ROWS + 6, heads, columns, states, groups, torch.bfloat16)
    check_gradients(operands, states)


def test_gradients_of_a_wide_result() -> None:
    check_gradients(operands_of(1, 9, dtype=torch.bfloat16), d_type=torch.float32)


def test_gradients_that_float16_cannot_hold() -> None:
    x, dt, a, b, c = operands_of(1, 9)
    operands = [each.half() for each in (x / 2**9, dt, a, b / 2**9, c / 2**9)]
    check_gradients(tuple(operands), d_type=torch.float32, scale=1e6)


@pytest.mark.parametrize("shape", [(2, 0), (0, 5)])
def test_gradients_of_nothing(shape: tuple[int, int]) -> None:
    operands = operands_of(*shape)
    types = ", ".join(map(type_of, operands))
    name = "coda.ssd_grad {states = 4 : i64}"
    actual = run_operator(name, operands[0], *operands, result=types)
    assert [x.shape for x in actual] == [x.shape for x in operands]
    assert not actual[2].any()


def gradient_kernels(heads: int, columns: int, states: int, groups: int) -> list[EmittedKernel]:
    operands = [x.bfloat16() for x in operands_of(1, 4, heads, columns, states, groups)]
    types = ", ".join(map(type_of, operands))
    name = f"coda.ssd_grad {{states = {states} : i64}}"
    text = operator_program(name, [operands[0], *operands], types)
    (op,) = (op for op in parse(text).walk() if isinstance(op, SSDGradOp))
    return [
        chunk_adjoints_kernel(op, "head_adjoints", {}),
        held_kernel(op, "held", {}),
        x_gradients_kernel(op, "x_gradients", {}),
        b_gradients_kernel(op, "b_gradients", {}),
        c_gradients_kernel(op, "c_gradients", {}),
        times_kernel(op, "time_gradients", {}),
    ]


SIZES = 8, 64, 128, 1
"""Heads of 64 columns with 128 states, as Mamba 2 has them."""


def assert_few_spills(kernels: list[EmittedKernel], arch: str, level: MachineLevel) -> None:
    """There are none but where the states of a head stay in registers beside operands of
    products.
    """
    for kernel in compile_kernels(kernels, arch, level):
        most = 300 if kernel.name == "ssd" and arch in ("sm_80", "gfx942") else 0
        assert kernel.resources.fits and kernel.resources.spills <= most, kernel.resources


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_kernels_compile_ahead_of_time(arch: str) -> None:
    assert_few_spills([*kernels(*SIZES), *gradient_kernels(*SIZES)], arch, "ptx")


@pytest.mark.slow
def test_kernels_compile_for_cdna() -> None:
    assert_few_spills(kernels(*SIZES), "gfx942", "amdgcn")


@pytest.mark.slow
def test_places_of_tiles_of_narrow_heads() -> None:
    sizes = 8, 32, 64, 1
    for kernel in compile_kernels([*kernels(*sizes), *gradient_kernels(*sizes)], "sm_90", "ptx"):
        assert not ambiguous_places(kernel.text), kernel.name
