"""Selective scans: chunks of time, states in float32."""

from collections.abc import Sequence

import pytest
import torch
from support.block_references import scanned
from support.device import DEVICE
from support.emitted import assert_as_accurate, load_program, operator_program, run_operator
from support.programs import type_of

from coda_ir.api import parse
from coda_ir.backends.reference.scan import scanned_channels
from coda_ir.backends.triton.aot import CompiledKernel, MachineLevel, compile_kernels
from coda_ir.backends.triton.kernel import EmittedKernel
from coda_ir.backends.triton.scan_text import CHUNK
from coda_ir.backends.triton.selective_scan_grad_kernel import (
    block_states_kernel,
    chunk_adjoints_kernel,
    scan_gradients_kernel,
)
from coda_ir.backends.triton.selective_scan_kernel import (
    carry_kernel,
    chunk_states_kernel,
    scan_kernel,
)
from coda_ir.dialects.coda import SelectiveScanGradOp, SelectiveScanOp
from coda_ir.float64 import relative_error

pytestmark = pytest.mark.any_device

OPERATOR = "coda.selective_scan"
GRADIENTS = "coda.selective_scan_grad"

Operands = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def operands_of(
    batch: int, length: int, channels: int, states: int, dtype: torch.dtype = torch.float32
) -> Operands:
    """u, positive dt, negative a, b and c."""
    generator = torch.Generator().manual_seed(length)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    u, dt = normal(batch, length, channels), normal(batch, length, channels).abs() / 2
    a, (b, c) = -normal(channels, states).exp(), normal(2, batch, length, states)
    return u.to(dtype), dt.to(dtype), a, b.to(dtype), c.to(dtype)


def check(operands: Operands) -> torch.Tensor:
    actual = run_operator(OPERATOR, *operands)
    wide, exact = (
        scanned(*(x.to(type) for x in operands)) for type in (torch.float32, torch.float64)
    )
    assert_as_accurate(actual, wide.to(actual.dtype), exact)
    return actual


@pytest.mark.slow
@pytest.mark.parametrize("length", [1, 5, CHUNK, CHUNK + 1, 2 * CHUNK + 3])
def test_lengths(length: int) -> None:
    check(operands_of(1, length, 8, 4))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(("channels", "states"), [(33, 16), (70, 5), (1, 1)])
def test_sizes_that_are_no_blocks(channels: int, states: int, dtype: torch.dtype) -> None:
    check(operands_of(2, 6, channels, states, dtype))


@pytest.mark.slow
def test_samples_have_states_of_their_own() -> None:
    u, dt, a, b, c = operands_of(2, CHUNK + 9, 4, 2)
    together = check((u, dt, a, b, c))
    for sample in range(2):
        rows = slice(sample, sample + 1)
        alone = run_operator(OPERATOR, u[rows], dt[rows], a, b[rows], c[rows])
        assert torch.equal(alone[0], together[sample])


@pytest.mark.slow
def test_later_rows_change_no_bits() -> None:
    u, dt, a, b, c = operands_of(1, CHUNK + 40, 8, 4)
    whole = run_operator(OPERATOR, u, dt, a, b, c)
    for length in (CHUNK - 3, CHUNK + 2):
        shorter = (u[:, :length], dt[:, :length], a, b[:, :length], c[:, :length])
        assert torch.equal(run_operator(OPERATOR, *shorter), whole[:, :length])


@pytest.mark.parametrize("shape", [(2, 0), (0, 5)])
def test_nothing(shape: tuple[int, int]) -> None:
    assert run_operator(OPERATOR, *operands_of(*shape, 8, 4)).shape == (*shape, 8)


def with_states(length: int) -> tuple[tuple[torch.Tensor, ...], str]:
    """Operands of one sign, with states to begin with, and the type of states."""
    u, dt, a, b, c = operands_of(2, length, 8, 4)
    first = torch.rand(2, 8, 4, generator=torch.Generator().manual_seed(3))
    return (u.abs(), dt, a, b.abs(), c.abs(), first), type_of(first)


@pytest.mark.slow
@pytest.mark.parametrize("length", [0, 1, CHUNK, CHUNK + 9])
def test_states_before_and_after(length: int) -> None:
    operands, states = with_states(length)
    found = run_operator(OPERATOR, *operands, result=f"{type_of(operands[0])}, {states}")
    wide, exact = (
        scanned_channels([x.to(type) for x in operands]) for type in (torch.float32, torch.float64)
    )
    for actual, close, true in zip(found, wide, exact, strict=True):
        assert_as_accurate(actual, close, true)


@pytest.mark.slow
def test_parts_of_a_sequence() -> None:
    """The states after one part are those before the next one."""
    u, dt, a, b, c = operands_of(2, CHUNK + 30, 8, 4)
    whole = run_operator(OPERATOR, u, dt, a, b, c)
    states, found = torch.zeros(2, 8, 4), list[torch.Tensor]()
    for rows in (slice(0, CHUNK), slice(CHUNK, None)):
        given = (u[:, rows], dt[:, rows], a, b[:, rows], c[:, rows], states)
        y, states = run_operator(OPERATOR, *given, result=f"{type_of(given[0])}, {type_of(states)}")
        found.append(y)
    assert torch.equal(torch.cat(found, 1), whole)


@pytest.mark.slow
@pytest.mark.parametrize("length", [0, 1, CHUNK + 9])
def test_gradients_of_states(length: int) -> None:
    operands, _ = with_states(length)
    generator = torch.Generator().manual_seed(1)
    d_y, d_last = (torch.rand(x.shape, generator=generator) for x in (operands[0], operands[-1]))
    types = ", ".join(map(type_of, operands))
    actual = run_operator(GRADIENTS, d_y, *operands, d_last, result=types)

    def expected(dtype: torch.dtype) -> Sequence[torch.Tensor]:
        leaves = [x.to(dtype).requires_grad_() for x in operands]
        results = scanned_channels([leaf.clone() for leaf in leaves])
        wanted = [x.to(dtype) for x in (d_y, d_last)]
        return torch.autograd.grad(
            results, leaves, wanted, allow_unused=True, materialize_grads=True
        )

    wide, exact = expected(torch.float32), expected(torch.float64)
    for found, close, true in zip(actual, wide, exact, strict=True):
        # Sums over chunks and samples are in another order, and a GPU's exponentials are off by 2.
        ulps = 1 if DEVICE == "cpu" else 3
        allowed = max(relative_error(close, true), ulps * torch.finfo(torch.float32).eps)
        assert relative_error(found, true) <= 2 * allowed


@pytest.mark.slow
def test_sizes_that_are_not_known() -> None:
    text = """
        func.func @f(%u : tensor<?x?x?xbf16> {coda.dims = ["B", "T", "D"]},
                     %dt : tensor<?x?x?xf32> {coda.dims = ["B", "T", "D"]},
                     %a : tensor<?x3xf32> {coda.dims = ["D", 3]},
                     %p : tensor<?x?x32xbf16> {coda.dims = ["B", "T", 32]}) -> tensor<?x?x?xbf16> {
          %b = coda.slice %p {dim = 2 : i64, start = 8 : i64, stop = 11 : i64}
            : (tensor<?x?x32xbf16>) -> tensor<?x?x3xbf16>
          %c = coda.slice %p {dim = 2 : i64, start = 1 : i64, stop = 4 : i64}
            : (tensor<?x?x32xbf16>) -> tensor<?x?x3xbf16>
          %y = coda.selective_scan %u, %dt, %a, %b, %c
            : (tensor<?x?x?xbf16>, tensor<?x?x?xf32>, tensor<?x3xf32>, tensor<?x?x3xbf16>,
               tensor<?x?x3xbf16>) -> tensor<?x?x?xbf16>
          func.return %y : tensor<?x?x?xbf16>
        }"""
    u, dt, a, *_ = operands_of(2, CHUNK + 5, 40, 3, torch.bfloat16)
    p = torch.randn(2, CHUNK + 5, 32, generator=torch.Generator().manual_seed(1)).bfloat16()
    operands = (u, dt.float(), a, p[..., 8:11], p[..., 1:4])
    exact = scanned(*(x.double() for x in operands))
    actual = load_program(text)(u, dt.float(), a, p)
    assert_as_accurate(actual, scanned(*(x.float() for x in operands)).bfloat16(), exact)


def check_gradients(operands: Operands) -> list[torch.Tensor]:
    """Compare sums of what has one sign: others would cancel."""
    u, dt, a, b, c = operands
    operands = u.abs(), dt, a, b.abs(), c.abs()
    d_y = torch.rand(u.shape, generator=torch.Generator().manual_seed(1)).to(u.dtype)
    types = ", ".join(map(type_of, operands))
    actual = run_operator(GRADIENTS, d_y, *operands, result=types)

    def expected(dtype: torch.dtype) -> Sequence[torch.Tensor]:
        leaves = [x.to(dtype).requires_grad_() for x in operands]
        return torch.autograd.grad(scanned(*leaves), leaves, d_y.to(dtype))

    wide, exact = expected(torch.float32), expected(torch.float64)
    for found, close, true in zip(actual, wide, exact, strict=True):
        assert_as_accurate(found, close.to(found.dtype), true)
    return actual


@pytest.mark.slow
@pytest.mark.parametrize("length", [1, 6, CHUNK + 1, 2 * CHUNK + 3])
def test_gradients_of_lengths(length: int) -> None:
    check_gradients(operands_of(1, length, 8, 4))


@pytest.mark.slow
@pytest.mark.parametrize(("channels", "states"), [(33, 16), (70, 5)])
def test_gradients_of_sizes_that_are_no_blocks(channels: int, states: int) -> None:
    check_gradients(operands_of(2, 6, channels, states, torch.bfloat16))


@pytest.mark.parametrize("shape", [(2, 0), (0, 5)])
def test_gradients_of_nothing(shape: tuple[int, int]) -> None:
    operands = operands_of(*shape, 8, 4)
    types = ", ".join(map(type_of, operands))
    actual = run_operator(GRADIENTS, operands[0], *operands, result=types)
    assert [x.shape for x in actual] == [x.shape for x in operands]
    assert not actual[2].any()


def compiled_kernels(arch: str, level: MachineLevel) -> list[CompiledKernel]:
    return compile_kernels([*kernels(), *gradient_kernels()], arch, level)


def gradient_kernels() -> list[EmittedKernel]:
    """The kernels of the gradients of a scan of Mamba's width."""
    u, bc = (torch.empty(1, 4096, size, dtype=torch.bfloat16) for size in (5120, 16))
    operands = [u, u, torch.empty(5120, 16), bc, bc]
    text = operator_program(GRADIENTS, [u, *operands], ", ".join(map(type_of, operands)))
    (op,) = (op for op in parse(text).walk() if isinstance(op, SelectiveScanGradOp))
    return [
        block_states_kernel(op, "block_states", {}),
        chunk_adjoints_kernel(op, "chunk_adjoints", {}),
        carry_kernel(op, "carry_adjoints", {}, is_reversed=True),
        scan_gradients_kernel(op, "scan_gradients", {}),
    ]


def kernels() -> list[EmittedKernel]:
    """The kernels of a scan of Mamba's width."""
    u, bc = (torch.empty(1, 4096, size, dtype=torch.bfloat16) for size in (5120, 16))
    operands = [u, u, torch.empty(5120, 16), bc, bc]
    text = operator_program(OPERATOR, operands, "tensor<1x4096x5120xbf16>")
    (op,) = (op for op in parse(text).walk() if isinstance(op, SelectiveScanOp))
    return [
        chunk_states_kernel(op, "chunk_states", {}),
        carry_kernel(op, "carry_states", {}),
        scan_kernel(op, "selective_scan", {}),
    ]


def test_kernels_compile_for_hopper() -> None:
    compiled = compiled_kernels("sm_90", "ptx")
    scan = compiled[2]
    for kernel in compiled:
        assert kernel.resources.fits and not kernel.resources.spills, kernel.resources
    # Sums over the states stay within a thread, which loads rows of b and c 16 bytes at a time.
    assert "shfl.sync.bfly" not in scan.text
    assert "ld.global.v4" in scan.text
    assert scan.resources.registers <= 96, scan.resources


@pytest.mark.slow
def test_kernels_compile_for_cdna() -> None:
    for kernel in compiled_kernels("gfx942", "amdgcn"):
        assert kernel.resources.fits and not kernel.resources.spills, kernel.resources
