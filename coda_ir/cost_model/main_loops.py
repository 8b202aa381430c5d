"""The main loops that a schedule can name, and what distinguishes them for the cost model."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from xdsl.dialects.builtin import Float32Type
from xdsl.utils.exceptions import VerifyException

from coda_ir.cost_model.devices import Device
from coda_ir.dialects.coda.shapes import element_type_of, is_float8
from coda_ir.dialects.gemm import ScheduleAttr
from coda_ir.dialects.gemm.tiling import ColumnCuts
from coda_ir.dialects.gemm.tma import tma_obstacle
from coda_ir.dialects.gemm.warp_specialized import staging


@dataclass(frozen=True)
class MainLoop:
    """One way to compute a tile of accumulators.

    A new main loop is an entry here and in `ScheduleAttr.MAINLOOPS`.
    """

    name: str
    title: str
    """The name of its hardware in remarks."""
    efficiency: float
    """Share of the peak rate of the multiplications alone, without loads and barriers."""
    step_ns: float
    """Nanoseconds of barriers in each step."""
    stage_ns: float = 0.0
    """Nanoseconds from when a stage is free until it is loaded again, while all processors load."""
    piece_ns: float = 0.0
    """The same for each further box that the columns of a stage are loaded in."""
    short_row_ns: float = 0.0
    """Nanoseconds more for a row of 16 bytes of weights in a box: all processors load the same
    lines of the L2 cache, row by row. Longer rows take less in proportion, and whole lines nothing.
    """
    gathered_row_ns: float = 0.0
    """Nanoseconds more for a row of a step that threads copy by its number, beside boxes."""
    overlaps_epilogue: bool = False
    """True if the epilogue of one tile runs under the multiplications of the next."""
    unaligned_ns: float = 0.0
    """Nanoseconds more for an element of a result whose rows are no multiples of 16 bytes."""
    scattered_ns: float = 0.0
    """Nanoseconds more for an element of a result whose rows are scattered, which threads store."""
    half_word_ns: float = 0.0
    """Nanoseconds more where they are no multiples of 4 bytes either."""
    hides_steps: bool = False
    """True if more stages than usual leave only the longer of loading and multiplying a step."""
    loads_ahead: bool = False
    """True if the first loads of a tile run under the tile before."""
    fallback: str | None = None
    """The main loop for operators that this one cannot run."""
    runs_on: Callable[[Device], bool] = lambda device: True
    obstacle: Callable[[ColumnCuts, ScheduleAttr], str | None] = lambda cuts, schedule: None
    """The reason why it cannot run an operator under a schedule; None if it can."""


def _one_row_obstacle(cuts: ColumnCuts, schedule: ScheduleAttr) -> str | None:
    """Return the reason why a GEMM cannot be multiplied row by row."""
    op = cuts.op
    if op.is_transposed:
        return "its rows are summed over"
    if is_float8(cuts.element):
        return "products of float8 are those of tensor cores"
    if op.order is not None:
        return "its sums have a stated order"
    return None


def _parts_obstacle(cuts: ColumnCuts, schedule: ScheduleAttr) -> str | None:
    """Return the reason why elements are not multiplied in three parts."""
    op = cuts.op
    if not all(isinstance(element_type_of(x), Float32Type) for x in (*op.inputs, *op.weights)):
        return "its operands are not in float32"
    if op.order is not None:
        return "its sums have a stated order"
    return None


def _staging_obstacle(cuts: ColumnCuts, schedule: ScheduleAttr) -> str | None:
    found = staging(cuts, schedule)
    return found if isinstance(found, str) else None


# So that the GEMMs of the layer take what they took on an H100: 2.34 and 9.3 ms at D = 2048 and
# 4096. Bare ones took what cuBLAS takes. At 4096 x 4096 x 4096, a step of 128 x 128 tiles took
# 529, 410 and 387 ns with 3, 4 and 5 stages, and one of 128 x 192 tiles 698 and 540 ns with 3
# and 4. Of 4096 x 50257 x 768 the result took 0.61 ms, of 50304 columns 0.45. Mixtral's 16384 rows
# took 6.1 ms gathered and 5.4 in boxes (28672 x 4096), and 3.67 and 3.36 (14336 x 4096). On an
# H200, 614656 x 8 x 8, 614656 x 32 x 32 and 131072 x 64 x 8 took 24.5, 27.6 and 16.6 us by TMA in
# tiles of 128 rows, and 7.4, 20.3 and 6.1 through pointers. There, 262144 x 2048 x 768 with
# scattered rows took 1330 us by eight warps together, and 1286 in turns.
_WARP_SPECIALIZED = MainLoop(
    "warp_specialized",
    "warp specialization",
    efficiency=0.98,
    step_ns=0,
    stage_ns=1050,
    piece_ns=340,
    short_row_ns=21,
    gathered_row_ns=0.7,
    unaligned_ns=0.1,
    scattered_ns=0.045,
    loads_ahead=True,
    fallback="tma",
    runs_on=lambda device: device.has_tma,
    obstacle=_staging_obstacle,
)

_MAIN_LOOPS = (
    # So that the forward of a Llama layer takes what it took on an H100 (benchmarks/README.md): at
    # D = 2048, 4096, 8192 by TMA 2.77, 10.3, 40.2 ms instead of 2.76, 10.1, 39.2, and through
    # pointers at D = 4096 1.165 x that.
    # 4096 x 50257 x 768 took 3.75 ms, and 4100 x 50258 x 768 0.67 to 0.68.
    MainLoop(
        "pointer", "pointers", efficiency=0.79, step_ns=70, unaligned_ns=0.06, half_word_ns=2.0
    ),
    MainLoop(
        "tma",
        "TMA",
        efficiency=0.97,
        step_ns=70,
        short_row_ns=21,
        hides_steps=True,
        unaligned_ns=0.06,
        half_word_ns=2.0,
        fallback="pointer",
        runs_on=lambda device: device.has_tma,
        obstacle=tma_obstacle,
    ),
    _WARP_SPECIALIZED,
    # So that bare GEMMs took 1.09 of the time of eight warps together on an H100 at D = 4096: tiles
    # of 128 x 128 load a third more. On an H200, a SwiGLU at 16384 x 11264 x 2048 took 1.15.
    replace(
        _WARP_SPECIALIZED,
        name="ping_pong",
        title="ping-pong",
        efficiency=0.92,
        overlaps_epilogue=True,
        fallback="warp_specialized",
    ),
    # For promoted sums of float8: one group adds while the other one multiplies.
    replace(_WARP_SPECIALIZED, name="split_rows", piece_ns=0.0, fallback="warp_specialized"),
    # So that K of 4096 and 12288 or 22016 columns took 36 and 62 us in bf16, 21 and 34 us in
    # float8, and 16 and 27 us in four bits, as they did on an H100.
    MainLoop("one_row", "one row", efficiency=0.8, step_ns=0, obstacle=_one_row_obstacle),
    # So that 8192 x 1024 x 1024 takes 230, 242 and 264 us in tiles of 128 x 128 x 64, of 128 x 128
    # x 32 and of 128 x 64 x 32; it took 198, 220 and 221 on an H200. 4096 x 4096 x 4096 took 1804
    # in the second, and is estimated at 1843.
    MainLoop(
        "three_parts",
        "three parts",
        efficiency=0.57,
        step_ns=200,
        fallback="pointer",
        obstacle=_parts_obstacle,
    ),
    MainLoop(
        "wgmma",
        "asynchronous products",
        efficiency=1.0,
        step_ns=0,
        fallback="tma",
        runs_on=lambda device: device.has_tma,
        obstacle=lambda cuts, schedule: "only the backward of attention has them",
    ),
)

MAIN_LOOPS: Mapping[str, MainLoop] = MappingProxyType({loop.name: loop for loop in _MAIN_LOOPS})
"""Main loops by the name in a schedule. A test compares with `ScheduleAttr.MAINLOOPS`."""


def usable_loop(
    name: str, cuts: ColumnCuts, schedule: ScheduleAttr
) -> tuple[MainLoop, tuple[str, str] | None]:
    """Return the main loop of this name, or its fallback, with the title of the refused loop and
    the reason.

    Raises ValueError as `column_ranges` does.
    """
    wanted = MAIN_LOOPS[name]
    try:
        reason = wanted.obstacle(cuts, with_main_loop(schedule, name))
    except (ValueError, VerifyException) as error:
        if wanted.fallback is None:
            raise ValueError(str(error)) from error
        reason = str(error)
    if reason is None or wanted.fallback is None:
        return wanted, None
    found, _ = usable_loop(wanted.fallback, cuts, schedule)
    return found, (wanted.title, reason)


def with_main_loop(schedule: ScheduleAttr, name: str) -> ScheduleAttr:
    """Return the schedule with another main loop."""
    return ScheduleAttr.get(
        name,
        schedule.tile,
        warps=schedule.warps.data,
        stages=schedule.stages.data,
        group_m=schedule.group_m.data,
        split_k=schedule.split_k.data,
    )
