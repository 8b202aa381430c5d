"""Reductions and scans of the interpreter with functions of their own, in the order of elements."""

from importlib import import_module
from typing import Any

import pytest
import torch
from support.device import DEVICE
from support.interpreter import REPLACED_NAMES
from support.programs import import_text
from support.replaced_names import are_present

pytestmark = pytest.mark.any_device

TEXT = """
import triton
import triton.language as tl


@triton.jit
def then(scale, shift, other_scale, other_shift):
    return scale * other_scale, shift * other_scale + other_shift


@triton.jit
def scanned(a_ptr, b_ptr, c_ptr, d_ptr, AXIS: tl.constexpr, REVERSE: tl.constexpr):
    place = tl.arange(0, 8)[:, None] * 4 + tl.arange(0, 4)[None, :]
    pair = tl.load(a_ptr + place), tl.load(b_ptr + place)
    scale, shift = tl.associative_scan(pair, AXIS, then, reverse=REVERSE)
    tl.store(c_ptr + place, scale)
    tl.store(d_ptr + place, shift)


@triton.jit
def reduced(a_ptr, b_ptr, c_ptr, d_ptr, AXIS: tl.constexpr):
    place = tl.arange(0, 8)[:, None] * 4 + tl.arange(0, 4)[None, :]
    pair = tl.load(a_ptr + place), tl.load(b_ptr + place)
    scale, shift = tl.reduce(pair, AXIS, then, keep_dims=True)
    kept = tl.reduce(pair, AXIS, then)
    tl.store(c_ptr + place, scale + tl.zeros([8, 4], tl.float32))
    tl.store(d_ptr + place, shift + tl.expand_dims(kept[1], AXIS))


@triton.jit
def combined(x_ptr, y_ptr):
    place = tl.arange(0, 8)[:, None] * 4 + tl.arange(0, 4)[None, :]
    x = tl.load(x_ptr + place)
    tl.store(y_ptr + tl.arange(0, 4), tl.xor_sum(x, 0))
    tl.store(y_ptr + 4, tl.xor_sum(tl.reshape(x, [32]), 0))
"""


def steps(
    scale: torch.Tensor, shift: torch.Tensor, axis: int, *, reverse: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compose affine functions one after another; return those at each place along an axis."""
    pairs = list(zip(scale.unbind(axis), shift.unbind(axis), strict=True))
    found = list[tuple[torch.Tensor, torch.Tensor]]()
    for a, b in reversed(pairs) if reverse else pairs:
        c, d = found[-1] if found else (torch.ones_like(a), torch.zeros_like(b))
        found.append((c * a, d * a + b))
    if reverse:
        found.reverse()
    scales, shifts = zip(*found, strict=True)
    return torch.stack(scales, axis), torch.stack(shifts, axis)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return import_text(TEXT, tmp_path_factory.mktemp("reductions"))


@pytest.mark.parametrize(("axis", "reverse"), [(0, False), (1, False), (0, True), (1, True)])
def test_scans(kernels: Any, axis: int, reverse: bool):
    a, b = (torch.randn(8, 4, device=DEVICE) for _ in range(2))
    c, d = torch.empty_like(a), torch.empty_like(a)
    kernels.scanned[(1,)](a, b, c, d, AXIS=axis, REVERSE=reverse)
    for got, wanted in zip((c, d), steps(a, b, axis, reverse=reverse), strict=True):
        torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("axis", [0, 1])
def test_reductions(kernels: Any, axis: int):
    a, b = (torch.randn(8, 4, device=DEVICE) for _ in range(2))
    c, d = torch.empty_like(a), torch.empty_like(a)
    kernels.reduced[(1,)](a, b, c, d, AXIS=axis)
    scale, shift = (x.narrow(axis, -1, 1).expand(8, 4) for x in steps(a, b, axis))
    torch.testing.assert_close(c, scale)
    torch.testing.assert_close(d, 2 * shift)


def test_integers(kernels: Any):
    x = torch.randint(-(2**31), 2**31 - 1, (8, 4), dtype=torch.int32, device=DEVICE)
    y = torch.zeros(5, dtype=torch.int32, device=DEVICE)
    kernels.combined[(1,)](x, y)
    wanted = torch.zeros_like(y)
    for row in x.unbind():
        wanted[:4] ^= row
    for value in x.flatten().unbind():
        wanted[4] ^= value
    assert torch.equal(y, wanted)


def test_nothing_is_replaced_without_a_name(monkeypatch: pytest.MonkeyPatch):
    interpreter: Any = import_module("triton.runtime.interpreter")
    monkeypatch.delattr(interpreter.ScanOps, "generic_scan")
    assert not are_present(REPLACED_NAMES)
