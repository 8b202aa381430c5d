"""The configurations of a GEMM by estimated time, and a table that explains the order."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from coda_ir.cost_model.configurations import (
    IN_PARTS,
    ONE_ROW,
    PING_PONG,
    SPECIALIZED,
    SPLIT,
    Configuration,
    Space,
    configurations,
)
from coda_ir.cost_model.devices import Device
from coda_ir.cost_model.estimate import Estimate
from coda_ir.cost_model.main_loops import usable_loop, with_main_loop
from coda_ir.cost_model.workload import NOMINAL_ROWS, Workload
from coda_ir.dialects.gemm import FusedOp, ScheduleAttr
from coda_ir.dialects.gemm.tiling import ColumnCuts


@dataclass(frozen=True)
class Ranked:
    """A schedule and its estimate."""

    schedule: ScheduleAttr
    estimate: Estimate
    refused: tuple[str, str] | None = None
    """A main loop that was asked for first, and why it is not taken."""

    @property
    def us(self) -> float:
        """Predicted microseconds."""
        return self.estimate.us


def rank(
    op: FusedOp, space: Space, device: Device, rows: int | None = None, nominal: int = NOMINAL_ROWS
) -> list[Ranked]:
    """Return all configurations of `space` that fit `device`, by predicted time.

    `rows` is the number of rows if it is symbolic; without it, it is taken for `nominal`, and waves
    are not rounded.
    Where memory decides, what leaves the processors more time comes first; other ties keep the
    order of the space. A single row is multiplied by weights of few bits by `one_row` where that is
    legal, and `warp_specialized` includes `ping_pong` where the tile is open, and `pointer` where
    rows of weights are short, too. Raises ValueError for a tile or a `split_k` of the space that is
    not legal.
    """
    workload, cuts = Workload.of(op, rows, nominal), ColumnCuts(op)
    found: dict[ScheduleAttr, Ranked] = {}
    illegal: ValueError | None = None
    for configuration in configurations(cuts, space, device, workload):
        for name in _main_loops(configuration, space, cuts, workload):
            try:
                ranked = _rank(cuts, configuration, name, workload, device)
            except ValueError as error:
                illegal = illegal or error
                continue
            found.setdefault(ranked.schedule, ranked)
    if illegal is not None and space.tile is not None and not found:
        raise illegal
    rows_alone = {s: ranked for s, ranked in found.items() if s.has_one_row}
    found = rows_alone or found
    return sorted(found.values(), key=lambda ranked: (ranked.us, ranked.estimate.busy))


def _main_loops(
    configuration: Configuration, space: Space, cuts: ColumnCuts, workload: Workload
) -> tuple[str, ...]:
    """Return the main loops of the space, after the warp-specialized one for promoted sums and
    before `pointer` for short rows of weights, or the only one that the configuration is for.
    """
    if configuration.schedule.mainloop in (ONE_ROW, PING_PONG, IN_PARTS):
        return (configuration.schedule.mainloop,)
    is_split = SPECIALIZED in space.main_loops and cuts.promotes_sums
    others = tuple("pointer" if name == ONE_ROW else name for name in space.main_loops)
    if SPECIALIZED in others and space.tile is None and workload.has_short_rows:
        others = (*others, "pointer")
    return (SPLIT, *others) if is_split else others


def _rank(
    cuts: ColumnCuts, configuration: Configuration, name: str, workload: Workload, device: Device
) -> Ranked:
    loop, refused = usable_loop(name, cuts, configuration.schedule)
    schedule = with_main_loop(configuration.schedule, loop.name)
    wanted = configuration.schedule.mainloop
    is_shared = workload.sums_rows and schedule.split_k.data > 1
    if wanted == SPECIALIZED and loop.name not in (SPECIALIZED, SPLIT) and not is_shared:
        raise ValueError(f"the tile is for {SPECIALIZED}")
    if wanted == IN_PARTS and loop.name != IN_PARTS:
        raise ValueError(f"the tile is for {IN_PARTS}")
    # The main loop has a say in how the epilogue cuts a tile.
    estimate = Estimate(Configuration.of(cuts, schedule, workload), loop, workload, device)
    return Ranked(schedule, estimate, refused)


def structure_of(op: FusedOp) -> tuple[Hashable, ...]:
    """Return a key that is equal for operators that schedules do not distinguish."""
    number: dict[SSAValue, int] = {}
    structure: list[Hashable] = [value.type for value in (*op.operands, *op.results)]
    structure += op.properties.items()
    for body in op.bodies:
        for value in body.block.args:
            number[value] = len(number)
        for inner in body.block.ops:
            operands = tuple(number[operand] for operand in inner.operands)
            structure += [inner.name, operands, *inner.properties.items()]
            for value in inner.results:
                number[value] = len(number)
    return tuple(structure)


def described(op: FusedOp, schedule: ScheduleAttr, device: Device, rows: int | None) -> Ranked:
    """Return the model's estimates for one schedule."""
    space = Space(
        main_loops=(schedule.mainloop,),
        tile=schedule.tile,
        warps=schedule.warps.data,
        stages=(schedule.stages.data,),
        group_m=(schedule.group_m.data,),
        split_k=(schedule.split_k.data,),
    )
    return rank(op, space, device, rows)[0]


_COLUMNS = (
    *("", "main loop", "tile", "warps", "stages", "group_m", "split_k"),
    *("us", "waves", "main", "epilogue", "bound by"),
)


def explanation(ranking: Sequence[Ranked], count: int = 8) -> str:
    """Return a table of the best configurations: predicted microseconds, and their parts.

    `main` and `epilogue` are nanoseconds of one program, `waves` are programs of each processor.
    """
    first = ranking[0].estimate
    work = first.workload
    rows = [_COLUMNS, *(_row(i, r) for i, r in enumerate(ranking[:count], 1))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.rjust, row, widths)).rstrip() for row in rows]
    title = (
        f"the best of {len(ranking)} configurations on {first.device.name} at {work.rows} x "
        f"{work.columns} x {work.depth}, {work.flops() / 1e9:.4g} GFLOP, "
        f"{work.bytes() / 1e6:.4g} MB"
    )
    return "\n".join([title, *lines])


def _row(number: int, ranked: Ranked) -> tuple[str, ...]:
    schedule, estimate = ranked.schedule, ranked.estimate
    return (
        str(number),
        schedule.mainloop,
        "x".join(map(str, schedule.tile)),
        str(schedule.warps.data),
        str(schedule.stages.data),
        str(schedule.group_m.data),
        str(schedule.split_k.data),
        f"{estimate.us:.1f}",
        f"{estimate.waves:.2f}",
        f"{estimate.main:.0f}",
        f"{estimate.epilogue:.0f}",
        estimate.bound,
    )
