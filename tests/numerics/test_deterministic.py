"""The mode `deterministic`: bits depend neither on the schedule, nor on the other rows."""

from functools import lru_cache

import pytest
import torch

import coda_ir
from coda_ir.api import CompiledFunction
from coda_ir.diagnostics import CodaError

PROGRAM = """
fn block(x: T[M, 88], r: T[M, 200], target: i64[M], weight w: T[200, 88], weight g: T[200],
         weight u: T[96, 200], weight v: T[96, 200]) -> (T[M, 96], T[M, 200], f32[M], T[M, 1]) {
    y = r + linear(x, w)
    h = rms_norm(y, g, eps=1e-5)
    a = silu(linear(h, u)) * linear(h, v)
    q = rms_norm(linear(x, w), group=40, eps=1e-5)
    loss = cross_entropy(linear(h, u), target, reduction="none")
    return a, q, loss, sum(y * 0.5)
}
"""
NAMES = {torch.float32: "f32", torch.bfloat16: "bf16"}
DEPTH = {torch.float32: 16, torch.bfloat16: 64}
TILES = ("16x64", "32x128", "128x256")


def tensors(dtype: torch.dtype) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).to(dtype)

    rows = {"x": normal(40, 88), "r": normal(40, 200)}
    rows["target"] = torch.randint(96, (40,), generator=generator)
    weights = {"w": normal(200, 88), "g": normal(200), "u": normal(96, 200), "v": normal(96, 200)}
    return rows | weights


@lru_cache
def block(dtype: torch.dtype, tile: str, numerics: str = "deterministic") -> CompiledFunction:
    text = PROGRAM.replace("T[", f"{NAMES[dtype]}[")
    schedule = f"target=interpreter tile={tile}x{DEPTH[dtype]}"
    return coda_ir.compile(text, device="cpu", schedule=schedule, numerics=numerics)


def rows_of(inputs: dict[str, torch.Tensor], rows: list[int]) -> dict[str, torch.Tensor]:
    chosen = {name: inputs[name][rows] for name in ("x", "r", "target")}
    return inputs | chosen


types = pytest.mark.parametrize("dtype", NAMES, ids=NAMES.get)


@pytest.mark.slow
@types
@pytest.mark.parametrize("tile", TILES[1:])
def test_schedule_does_not_matter(dtype: torch.dtype, tile: str):
    inputs = tensors(dtype)
    expected = block(dtype, TILES[0])(**inputs)
    for got, wanted in zip(block(dtype, tile)(**inputs), expected, strict=True):
        assert torch.equal(got, wanted)


@pytest.mark.slow
@types
@pytest.mark.parametrize("rows", [[0], [39], [3, 1, 2], list(range(39, 2, -1))])
def test_other_rows_do_not_matter(dtype: torch.dtype, rows: list[int]):
    """A row alone, in another place, or with fewer others has the bits that it has in a batch."""
    inputs = tensors(dtype)
    expected = block(dtype, TILES[1])(**inputs)
    actual = block(dtype, TILES[1])(**rows_of(inputs, rows))
    for got, wanted in zip(actual, expected, strict=True):
        assert torch.equal(got, wanted[rows])


@pytest.mark.slow
@pytest.mark.parametrize("numerics", ["fp32-epilogue", "eager-exact", "deterministic"])
def test_two_runs_agree_in_every_mode(numerics: str):
    inputs = tensors(torch.float32)
    compiled = block(torch.float32, TILES[1], numerics)
    for first, second in zip(compiled(**inputs), compiled(**inputs), strict=True):
        assert torch.equal(first, second)


def test_the_default_mode_depends_on_the_tile():
    """The tests above would notice an order that is not kept."""
    inputs = tensors(torch.float32)
    runs = [block(torch.float32, tile, "fp32-epilogue")(**inputs) for tile in TILES[:2]]
    same = [torch.equal(got, wanted) for got, wanted in zip(*runs, strict=True)]
    assert not all(same)


def test_reference_keeps_the_order():
    inputs = tensors(torch.bfloat16)
    levels = [
        block(torch.bfloat16, tile).reference(inputs, level="scheduled", precision="stated")
        for tile in (TILES[0], TILES[2])
    ]
    for first, second in zip(*levels, strict=True):
        assert torch.equal(first, second)


LINEAR = "fn linear_(x: T[M, 200], weight w: T[96, 200]) -> T[M, 96] { return linear(x, w) }"


@types
def test_reference_has_the_bits_of_the_interpreter(dtype: torch.dtype):
    """Each step of K is rounded to float32 in both, where its order is stated, and only there."""
    inputs = {"x": tensors(dtype)["r"], "w": tensors(dtype)["u"]}
    text = LINEAR.replace("T[", f"{NAMES[dtype]}[")
    schedule = f"target=interpreter tile=32x64x{DEPTH[dtype]}"
    runs: dict[str, torch.Tensor] = {}
    for mode in ("fp32-epilogue", "deterministic"):
        compiled = coda_ir.compile(text, device="cpu", schedule=schedule, numerics=mode)
        runs[mode] = compiled(**inputs)
        expected = compiled.reference(inputs, level="scheduled", precision="stated")
        assert torch.equal(runs[mode], expected)
    assert dtype != torch.float32 or not torch.equal(*runs.values())


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ("tile=64x64x32", "BK is 32, expected the depth 64 of the order"),
        ("tile=64x32x64", "BN is 32, expected a multiple of the 64 columns"),
    ],
)
def test_a_schedule_has_to_keep_the_order(schedule: str, message: str):
    text = PROGRAM.replace("T[", "bf16[")
    options = f"target=interpreter {schedule}"
    with pytest.raises(CodaError, match=message):
        coda_ir.compile(text, device="cpu", schedule=options, numerics="deterministic")


def test_an_unknown_mode():
    with pytest.raises(CodaError, match="unknown numerics mode 'exact'"):
        coda_ir.compile(PROGRAM.replace("T[", "bf16["), device="cpu", numerics="exact")
