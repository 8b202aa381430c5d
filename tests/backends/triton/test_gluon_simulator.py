"""The simulator of Gluon kernels: numbers, every planted mistake, the arithmetic of Triton."""

import importlib
from types import ModuleType
from typing import Any

import pytest
import torch
from support.daily import one_a_day
from support.gluon_simulator import (
    BarrierError,
    DataRaceError,
    DeadlockError,
    MissingFenceError,
    OutOfBoundsError,
    SimulationError,
    TmaError,
    UnfinishedError,
    load_module,
    run,
)
from support.gluon_simulator.example import RESIDUAL_GEMM

N, K = 512, 256


def changed(source: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert old in source, old
        source = source.replace(old, new)
    return source


def tensors(rows: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(rows)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).bfloat16()

    return [random(rows, K), random(N, K) / 16, random(rows, N), random(N)]


def run_changed(*changes: tuple[str, str], rows: int = 136, seed: int = 0) -> Any:
    """Run the example, changed, in one program, which has all the tiles."""
    module = load_module(changed(RESIDUAL_GEMM, *changes))
    module.SETTINGS.multiprocessors = 1
    return run(module, *tensors(rows), seed=seed)


@pytest.fixture(scope="module")
def example() -> ModuleType:
    return load_module(RESIDUAL_GEMM)


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "programs"), [(200, 1), (128, 3), (1, 2), (300, 2)])
def test_example_is_right_in_every_schedule(example: ModuleType, rows: int, programs: int) -> None:
    a, w, x, scale = tensors(rows)
    exact = a.double() @ w.double().T + x.double()
    example.SETTINGS.multiprocessors = programs
    for seed in one_a_day(range(3), rows + programs):
        y, h, sums = run(example, a, w, x, scale, seed=seed)
        torch.testing.assert_close(y.double(), exact, rtol=2**-8, atol=1e-5)
        torch.testing.assert_close(h.double(), exact * scale.double(), rtol=2**-8, atol=1e-5)
        expected = exact.square().view(rows, N // 64, 64).sum(2)
        torch.testing.assert_close(sums.double(), expected, rtol=1e-5, atol=1e-5)


def test_schedule_follows_from_its_seed() -> None:
    """An empty phase is arrived at too early: what is noticed first depends on the schedule."""
    change = ("empty.index(stage), count=2", "empty.index(stage), count=1")

    def message(seed: int) -> str:
        with pytest.raises(SimulationError) as error:
            run_changed(change, seed=seed)
        return str(error.value)

    messages = [message(seed) for seed in range(4)]
    assert len(set(messages)) > 1
    assert message(3) == messages[3]


PRODUCER_LOOP = """tiles, gl.num_programs(0)):
        tile_m, tile_n = grouped_tile(tile, gl.cdiv(M, 128), N // 256, 8)
        for k"""
FREE_BEFORE = "mbarrier.arrive(empty.index((step + STAGES - 1) % STAGES)"
LOAD_X = "            x = x_buffers.index(buffer).load(L).to(gl.float32)\n"
WAIT_FOR_ONE = "acc = warpgroup_mma_wait(num_outstanding=1, deps=(acc,))"
WAIT_FOR_ALL = "acc = warpgroup_mma_wait(num_outstanding=0, deps=(acc,))"
BYTES = "a_desc.block_type.nbytes + w_desc.block_type.nbytes"

MISTAKES: dict[str, tuple[type[SimulationError], str, list[tuple[str, str]]]] = {
    "consumers wait for the lap before": (
        SimulationError,
        ".",
        [("full.index(stage), (step // STAGES)", "full.index(stage), (step // STAGES + 1)")],
    ),
    "the producer waits for the lap after": (
        DeadlockError,
        r"producer waits at line 41 \(producer\) for empty\[0\] with parity 0",
        [("((step // STAGES) & 1) ^ 1)", "(step // STAGES) & 1)")],
    ),
    "a port is waited for in the lap before": (
        SimulationError,
        "x_",
        [("(uses + subtile // INS) & 1", "(uses + subtile // INS + 1) & 1")],
    ),
    "a phase for a parity": (
        BarrierError,
        "the parity 2 is neither 0 nor 1",
        [("(uses + subtile // INS) & 1", "uses + subtile // INS")],
    ),
    "a stage is freed one step early": (
        DataRaceError,
        "TMA load .* the warpgroup_mma of line 61",
        [
            (f"{FREE_BEFORE}, pred=k > 0)", "mbarrier.arrive(empty.index(stage))"),
            (f"    {FREE_BEFORE})\n", ""),
        ],
    ),
    "one product too many under way": (
        DataRaceError,
        "TMA load .* the warpgroup_mma of line 61",
        [("num_outstanding=1", "num_outstanding=2")],
    ),
    "no expect": (
        DeadlockError,
        r"full\[0\] in phase 0: 0 of 1 arrivals, -49152 bytes to come",
        [(f"            mbarrier.expect(full.index(stage), {BYTES})\n", "")],
    ),
    "too few bytes": (SimulationError, ".", [(BYTES, "a_desc.block_type.nbytes")]),
    "too many bytes": (
        DeadlockError,
        r"full\[0\] in phase 0: 1 of 1 arrivals, 16384 bytes to come",
        [(BYTES, f"{BYTES} + 16384")],
    ),
    "fewer buffers than stores under way": (
        DataRaceError,
        "out.: the store .* begins before the TMA store .* is over",
        [("OUTS: gl.constexpr = 3", "OUTS: gl.constexpr = 2"), ("wait(OUTS - 1)", "wait(2)")],
    ),
    "each tile begins with buffer 0": (
        DataRaceError,
        "out.: the store .* begins before the TMA store .* is over",
        [("        subtiles = split", "        stored = 0\n        subtiles = split")],
    ),
    "no wait for stores": (
        DataRaceError,
        "out.: the store .* begins before the TMA store .* is over",
        [("            tma.store_wait(OUTS - 1)\n", "")],
    ),
    "no wait for the last stores": (
        UnfinishedError,
        "consumer . ends before it has waited for the TMA store of line 11",
        [("    tma.store_wait(0)\n", "")],
    ),
    "no fence": (
        MissingFenceError,
        "no fence_async_shared between the store of line 10",
        [("            fence_async_shared()\n", "")],
    ),
    "one arrival too few": (
        SimulationError,
        ".",
        [("empty.index(stage), count=2", "empty.index(stage), count=1")],
    ),
    "one arrival too many": (
        DeadlockError,
        r"empty\[0\] in phase 0: 2 of 3 arrivals",
        [("empty.index(stage), count=2", "empty.index(stage), count=3")],
    ),
    "two arrivals of one": (
        BarrierError,
        r"1 arrivals at x_bars., but phase . expects only 0 more of 1|x_bars",
        [
            (
                "mbarrier.expect(x_bars.index(subtile), x",
                "mbarrier.arrive(x_bars.index(subtile))\n"
                "            mbarrier.expect(x_bars.index(subtile), x",
            )
        ],
    ),
    "the accumulator before it is there": (
        UnfinishedError,
        "the accumulator of line 61 .* is used before a warpgroup_mma_wait for it",
        [(f"    {WAIT_FOR_ALL}\n", "")],
    ),
    "a wait without the accumulator": (
        UnfinishedError,
        "is used before",
        [
            (f"    {WAIT_FOR_ALL}\n", "    warpgroup_mma_wait(num_outstanding=0, deps=(0,))\n"),
            (WAIT_FOR_ONE, "warpgroup_mma_wait(num_outstanding=1, deps=(0,))"),
        ],
    ),
    "no mask": (OutOfBoundsError, "of sums_ptr, which has 1088", [(", mask=row_mask", "")]),
    "no init": (
        BarrierError,
        r"full\[0\] is not initialized",
        [("        mbarrier.init(full.index(stage), count=1)\n", "")],
    ),
    "a producer of too few tiles": (
        DeadlockError,
        "producer is over",
        [(PRODUCER_LOOP, f"tiles - 1, {PRODUCER_LOOP[7:]}")],
    ),
    "a producer of too many tiles": (
        DeadlockError,
        "consumer 1 is over",
        [(PRODUCER_LOOP, f"tiles + 1, {PRODUCER_LOOP[7:]}")],
    ),
    "a buffer is loaded again before it is read": (
        DataRaceError,
        "x_buffers.: the load .* begins before the TMA load .* is over",
        [(LOAD_X, ""), ("            scale = gl", f"{LOAD_X}            scale = gl")],
    ),
    "two partitions share buffers": (
        DataRaceError,
        "out0: nothing that the store .* waited for says that the store .* is over",
        [("x_buffers1, x_bars1, out1", "x_buffers1, x_bars1, out0")],
    ),
    "a box of another size": (
        TmaError,
        r"b_smem is \[256, 64\], for a descriptor of .* box \[128, 64\]",
        [("described(w, 256)", "described(w, 128)")],
    ),
    "another swizzle": (
        TmaError,
        "has the layout",
        [
            (
                "gl.bfloat16, [STAGES, 256, 64], w_desc.layout",
                "gl.bfloat16, [STAGES, 256, 64], gl.NVMMASharedLayout(64, 16)",
            )
        ],
    ),
    "a view that is not aligned": (
        TmaError,
        "a stride that is no multiple of 16 bytes",
        [
            ("described(a, 128)", "described(torch.empty(136, K + 1)[:, :K], 128)"),
            ("    programs =", "    K = 256\n    programs ="),
        ],
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake_is_noticed(mistake: str) -> None:
    kind, message, changes = MISTAKES[mistake]
    for seed in one_a_day(range(2), [*MISTAKES].index(mistake)):
        with pytest.raises(kind, match=message):
            run_changed(*changes, seed=seed)


HEADER = """\
import torch
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor
"""


def evaluate(
    expression: str, *operands: torch.Tensor, like: torch.Tensor | None = None
) -> torch.Tensor:
    """The elements of an expression of the blocks x0, x1, ..., and of their number `n`."""
    like = operands[0] if like is None else like
    loads = [f"    x{i} = gl.load(p{i} + lane)\n" for i in range(len(operands))]
    pointers = [f"p{i}, " for i in range(len(operands))]
    source = f"""{HEADER}
@gluon.jit
def larger(a, b):
    return gl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)

@gluon.jit
def kernel(out, {"".join(pointers)}n, SIZE: gl.constexpr):
    lane = gl.arange(0, SIZE, gl.AutoLayout())
{"".join(loads)}    gl.store(out + lane, {expression})

def run({"".join(pointers)}out):
    kernel[(1,)](out, {"".join(pointers)}out.numel(), SIZE=out.numel())
    return out
"""
    return run(load_module(source), *operands, torch.empty_like(like))


FLOATS = torch.tensor([0.3, -1.7, 2.5, float("nan"), 1e30, -0.0, 1.00390625, 3.0])
INTEGERS = torch.tensor([7, -7, 5, -5, 2**31 - 1, -(2**31), 0, 3], dtype=torch.int32)
OTHERS = torch.tensor([2, 2, -3, -3, 2, 3, 7, 5], dtype=torch.int32)


@pytest.mark.parametrize(
    ("expression", "operands", "expected"),
    [
        ("x0 // x1", (INTEGERS, OTHERS), torch.div(INTEGERS, OTHERS, rounding_mode="trunc")),
        ("x0 % x1", (INTEGERS, OTHERS), torch.fmod(INTEGERS, OTHERS)),
        ("x0 * 3 + x1", (INTEGERS, OTHERS), INTEGERS * 3 + OTHERS),
        ("x0.to(gl.uint32, bitcast=True) >> 28", (INTEGERS,), (INTEGERS >> 28) & 15),
        ("x0.to(gl.int64) * x1 >> 1", (INTEGERS, OTHERS), (INTEGERS.long() * OTHERS >> 1).int()),
        ("gl.where(x0 < 0, x1, -1)", (INTEGERS, OTHERS), torch.where(INTEGERS < 0, OTHERS, -1)),
        ("x0.to(gl.bfloat16).to(gl.float32)", (FLOATS,), FLOATS.bfloat16().float()),
        ("x0 * 2.5 - 1", (FLOATS.bfloat16(),), FLOATS.bfloat16() * 2.5 - 1),
        ("x0 * x1", (FLOATS.half(), FLOATS.half()), FLOATS.half() * FLOATS.half()),
        ("1 / x0", (FLOATS,), 1 / FLOATS),
        ("gl.exp(x0) + gl.rsqrt(x0)", (FLOATS,), FLOATS.exp() + FLOATS.rsqrt()),
        ("gl.erf(x0)", (FLOATS,), FLOATS.erf()),
        ("gl.maximum(x0, 1.0)", (FLOATS,), FLOATS.nan_to_num(1.0).clamp(min=1.0)),
        ("x0 * 0 + gl.reduce(x0, 0, larger)", (FLOATS[4:],), FLOATS[4:] * 0 + 1e30),
        ("x0 - x0 + gl.sum(x0, 0)", (OTHERS,), OTHERS * 0 + OTHERS.sum()),
        ("gl.load(p0 + lane, mask=lane < n // 2, other=5)", (OTHERS,), None),
    ],
)
def test_arithmetic_is_that_of_triton(
    expression: str, operands: tuple[torch.Tensor, ...], expected: torch.Tensor | None
) -> None:
    if expected is None:
        expected = torch.cat([operands[0][:4], torch.full((4,), 5, dtype=torch.int32)])
    actual = evaluate(expression, *operands, like=expected)
    torch.testing.assert_close(actual, expected, rtol=1e-6, atol=0, equal_nan=True)


def test_lanes_off_a_mask_are_undefined() -> None:
    actual = evaluate("gl.load(p0 + lane, mask=lane < 2)", FLOATS)
    assert torch.equal(actual[:2], FLOATS[:2]) and actual[2:].isnan().all()


def test_offset_of_32_bits_wraps() -> None:
    with pytest.raises(OutOfBoundsError, match="elements -2147483648 to"):
        evaluate("gl.load(p0 + (lane + 2147483647))", FLOATS)


BOXES = f"""{HEADER}
@gluon.jit
def kernel(x_desc, y_desc, row, column):
    buffer = gl.allocate_shared_memory(gl.float32, [8, 16], x_desc.layout)
    bar = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, x_desc.block_type.nbytes)
    tma.async_copy_global_to_shared(x_desc, [row, column], bar, buffer)
    mbarrier.wait(bar, 0)
    tma.async_copy_shared_to_global(y_desc, [row + 1, column], buffer)
    tma.store_wait(pendings=0)
    mbarrier.invalidate(bar)

def run(x, y, row, column):
    layout = gl.NVMMASharedLayout.get_default_for([8, 16], gl.float32)
    described = [TensorDescriptor.from_tensor(t, [8, 16], layout) for t in (x, y)]
    kernel[(1,)](*described, row, column, num_warps=4)
    return y
"""


@pytest.mark.parametrize(("row", "column"), [(-3, -4), (5, 12), (0, 0), (20, 0), (2, -16)])
def test_boxes_are_zero_beyond_a_tensor_and_clipped(row: int, column: int) -> None:
    x, y = torch.randn(10, 20), torch.full((10, 20), 7.0)
    padded = torch.zeros(100, 100)
    padded[40:50, 40:60] = x
    box = padded[40 + row : 48 + row, 40 + column : 56 + column].clone()
    padded[40:50, 40:60] = y
    padded[41 + row : 49 + row, 40 + column : 56 + column] = box
    actual = run(load_module(BOXES), x, y, row, column)
    assert torch.equal(actual, padded[40:50, 40:60])


def test_names_are_those_of_gluon() -> None:
    """The simulator offers nothing that Triton's Gluon lacks."""
    source = f"""{HEADER}
from triton.experimental.gluon.language.nvidia import hopper
def run():
    return gluon, gl, hopper, mbarrier, tma
"""
    names = ["", ".language", *(f".language.nvidia.hopper{m}" for m in ("", ".mbarrier", ".tma"))]
    for simulated, name in zip(run(load_module(source)), names, strict=True):
        real = importlib.import_module(f"triton.experimental.gluon{name}")
        offered: set[str] = set(dir(simulated))
        assert {name for name in offered if name[0] != "_"} <= set(dir(real))
