"""Deterministic programs on a GPU: the same bits for every schedule, batch and run."""

import pytest
import torch

import coda_ir

pytestmark = pytest.mark.gpu

PROGRAM = """
fn block(x: bf16[M, 512], r: bf16[M, 640], weight w: bf16[640, 512], weight g: bf16[640],
         weight u: bf16[512, 640], weight v: bf16[512, 640]) -> (bf16[M, 512], bf16[M, 640]) {
    y = r + linear(x, w)
    h = rms_norm(y, g, eps=1e-5)
    return silu(linear(h, u)) * linear(h, v), rms_norm(y, group=128, eps=1e-5)
}
"""
SCHEDULES = (
    "target=sm_90 mainloop=pointer tile=128x256x64 warps=8",
    "target=sm_90 mainloop=pointer tile=128x128x64 warps=8",
    "target=sm_90 mainloop=pointer tile=64x128x64 warps=4",
    "target=sm_90 mainloop=pointer tile=128x128x64 warps=4 stages=2",
    "target=sm_90 mainloop=pointer tile=16x256x64 warps=4",
    "target=sm_90 mainloop=tma",
    "target=portable",
)


def tensors(rows: int, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).to("cuda", dtype)

    weights = {"w": normal(640, 512), "g": normal(640), "u": normal(512, 640)}
    weights["v"] = normal(512, 640)
    rows_of = {"x": normal(1000, 512)[:rows], "r": normal(1000, 640)[:rows]}
    return {name: value.contiguous() for name, value in (rows_of | weights).items()}


def run(schedule: str, rows: int, numerics: str | None = "deterministic") -> list[torch.Tensor]:
    block = coda_ir.compile(PROGRAM, device="cuda", schedule=schedule, numerics=numerics)
    return list(block(**tensors(rows, torch.bfloat16)))


@pytest.fixture(scope="module")
def expected() -> list[torch.Tensor]:
    return run(SCHEDULES[0], 1000)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_schedule_does_not_matter(schedule: str, expected: list[torch.Tensor]):
    for got, wanted in zip(run(schedule, 1000), expected, strict=True):
        assert torch.equal(got, wanted), f"{(got != wanted).float().mean():.2%} differ"


@pytest.mark.parametrize("rows", [1, 7, 128, 999])
def test_batch_does_not_matter(rows: int, expected: list[torch.Tensor]):
    for got, wanted in zip(run(SCHEDULES[0], rows), expected, strict=True):
        assert torch.equal(got, wanted[:rows])


@pytest.mark.parametrize("numerics", [None, "eager-exact", "deterministic"])
def test_runs_agree(numerics: str | None):
    schedule = "target=sm_90 mainloop=tma"
    for first, second in zip(*(run(schedule, 300, numerics) for _ in range(2)), strict=True):
        assert torch.equal(first, second)
