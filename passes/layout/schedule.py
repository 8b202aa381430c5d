"""Pass `schedule`: choose the schedule of each GEMM with the cost model."""

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import DYNAMIC_INDEX, ModuleOp
from xdsl.utils.exceptions import VerifyException

from coda_ir.cost_model import (
    DEVICES,
    MAIN_LOOPS,
    Device,
    Ranked,
    Space,
    attention_schedule,
    explanation,
    rank,
)
from coda_ir.cost_model.configurations import SMALL_ROWS
from coda_ir.cost_model.ranking import structure_of
from coda_ir.cost_model.rows import RowCounts
from coda_ir.cost_model.workload import Tile, Workload, total_depth
from coda_ir.diagnostics import LoweringError, OptionError
from coda_ir.dialects.gemm import (
    AttentionDmaskOp,
    AttentionGradSumOp,
    AttentionSumOp,
    FusedOp,
    ScheduleAttr,
)
from coda_ir.passes.layout.absorb_finalize import AbsorbFinalizePass
from coda_ir.passes.layout.copy_gathered import COPY_MARGIN, CopiedRows, GatheredRows
from coda_ir.passes.layout.number_groups import number_groups_of
from coda_ir.passes.layout.overlap_launches import OverlapLaunchesPass
from coda_ir.passes.layout.unfuse_gemms import UnfuseGemmsPass
from coda_ir.passes.layout.unfusing import (
    BY,
    extents_of_weights,
    products_of,
    unfuse,
    why_not_unfused,
)
from coda_ir.passes.support.function_pass import NamedPass
from coda_ir.remarks import Remark, emit_remark, enclosing_function, format_location
from coda_ir.symbolic_size import parse_sizes

FORMS = ("fused", *BY)

TOO_WIDE_GROUPS = (
    "the groups of gemm.group_reduce (group_sum, group_max) may be too wide: a partial_row and "
    "finalize combine rows of any width"
)
"""The remedy where no tile fits and no option restricts the tiles."""

APART_MARGIN = 1.25
"""The time that a GEMM without an epilogue of much code has to save, relative to that of the
separate kernel, because products also take memory."""

LOADS_OF_ATTENTION = {
    "pointer": "pointer loads",
    "tma": "tma loads",
    "wgmma": "tma loads, asynchronous products",
}
"""The main loops of attention in remarks."""

Keyed: TypeAlias = Sequence[tuple[Hashable, FusedOp]]
"""GEMMs with keys, which are equal where a schedule does not distinguish between them."""


class SchedulePass(NamedPass):
    """Gives every `gemm.fused` without a schedule the one with the lowest estimated time, and the
    backward of attention tiles that were measured.

        gemm.fused %x columns(...)
        ->  gemm.fused %x schedule<pointer, "128x256x64", warps = 8, ...> columns(...)

    A tile must fit into the registers and the shared memory of `target` (portable, sm_80, sm_90,
    h200, gfx942, interpreter). `tile`, `warps`, `stages`, `group_m` and `split_k` override the
    choice. `mainloop=tma` is used where the operator allows it, and `pointer` elsewhere, with a
    remark; without `tile`, `warp_specialized` includes `ping_pong`, and `pointer` for weights with
    rows shorter than a line of the cache. `sizes` gives the values of symbols, such as "B=1,T=1",
    so that the last wave of programs counts if there are few rows; by default, only static extents
    are known. `explain` adds a remark with the best configurations and their predicted times.

    `gemms=fused` keeps epilogues in their GEMMs, `unfused` separates them where that is legal, and
    `library` lets PyTorch compute the products (see `unfuse-gemms`). By default, epilogues are
    fused unless a separate kernel is estimated to be faster: if groups of columns are padded to a
    power of two, or the epilogue has much code. Tuning may choose another form. If copying gathered
    rows is estimated to be faster, they are copied first, because each tile of columns gathers them
    again.

    `absorb` lets kernels combine the partials of their rows where this is estimated to be faster
    than a separate kernel (see `absorb-finalize`). `pdl` overlaps launches on Hopper (see
    `overlap-launches`). By default, pointwise kernels absorb; if all GEMMs have few rows, as in
    decoding, and the GPU can overlap launches, GEMMs absorb too, and launches overlap.
    """

    target: str = "portable"
    mainloop: str = "pointer"
    tile: str | None = None
    warps: int | None = None
    stages: int | None = None
    group_m: int = 8
    split_k: int | None = None
    sizes: str | None = None
    explain: bool = False
    gemms: str | None = None
    absorb: bool | None = None
    pdl: bool | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self.check_options()
        if self.gemms is not None and self.gemms in BY:
            UnfuseGemmsPass(BY[self.gemms]).apply(ctx, op)
        UnfuseGemmsPass("library", symbolic=True).apply(ctx, op)
        rows = RowCounts(parse_sizes(self.sizes))
        choices: dict[Hashable, Ranked] = {}
        keyed = self._add_choices(choices, op, rows)
        for change in (self._number_groups, self._unfuse_costly, self._copy_gathered):
            if change(keyed, choices, rows):
                keyed = self._add_choices(choices, op, rows)
        self.set_schedules(keyed, choices, rows)
        for sums in op.walk():
            if isinstance(sums, AttentionSumOp) and sums.schedule is None:
                self._set_attention(sums, rows.exact(sums))
        is_waiting = self._waits_for_launches([rows.exact(gemm) for _, gemm in keyed])
        if self.absorb is not False:
            maps_only = self.absorb is None and not is_waiting
            AbsorbFinalizePass(self.target, self.sizes, maps_only=maps_only).apply(ctx, op)
        if is_waiting if self.pdl is None else self.pdl:
            OverlapLaunchesPass(self.target).apply(ctx, op)

    def _add_choices(
        self, choices: dict[Hashable, Ranked], module: ModuleOp, rows: RowCounts
    ) -> Keyed:
        """Return the GEMMs without a schedule; add a choice to `choices` for each new key."""
        keyed: list[tuple[Hashable, FusedOp]] = []
        for gemm in module.walk():
            if isinstance(gemm, FusedOp) and gemm.schedule is None:
                # The layers of a model repeat their GEMMs.
                key = (rows.of(gemm), rows.nominal(gemm), *structure_of(gemm))
                if key not in choices:
                    choices[key] = self._choose(gemm, rows)
                keyed.append((key, gemm))
        return keyed

    def _number_groups(
        self, gemms: Keyed, choices: Mapping[Hashable, Ranked], rows: RowCounts
    ) -> bool:
        """Let rows that are multiplied one by one name their groups; return whether any do."""
        return number_groups_of(
            [op for key, op in gemms if op.groups and choices[key].schedule.has_one_row]
        )

    def _unfuse_costly(
        self, gemms: Keyed, choices: Mapping[Hashable, Ranked], rows: RowCounts
    ) -> bool:
        """Separate epilogues from GEMMs where that is cheaper; return whether any were."""
        keys = dict(gemms).items()
        apart = {key for key, op in keys if self._is_cheaper_apart(op, choices[key], rows)}
        for key, gemm in gemms:
            if key in apart:
                emit_remark(self._analysis(gemm, _apart_text(choices[key])))
                unfuse(gemm, "kernels", narrow=True)
        return bool(apart)

    def _is_cheaper_apart(self, op: FusedOp, choice: Ranked, rows: RowCounts) -> bool:
        estimate = choice.estimate
        is_chosen = self.gemms is not None or self.tile is not None
        is_costly = estimate.configuration.is_padded or estimate.has_long_code
        if is_chosen or not is_costly or why_not_unfused(op, "kernels") is not None:
            return False
        products = products_of(op)
        stored = Workload.of(products, rows.of(op), rows.nominal(op))
        work = estimate.workload
        moved = work.rows * work.columns * (work.epilogue_bytes + stored.epilogue_bytes)
        apart = self.device.pointwise_us(moved, len(op.segments()))
        ranking = self._rank(products, rows.of(op), rows.nominal(op))
        products.erase(safe_erase=False)
        margin = 1.0 if estimate.configuration.is_padded else APART_MARGIN
        apart = max(margin * apart, estimate.computing_us)
        return bool(ranking) and choice.us - ranking[0].us > apart

    def _copy_gathered(
        self, gemms: Keyed, choices: Mapping[Hashable, Ranked], rows: RowCounts
    ) -> bool:
        """Copy the rows that GEMMs gather if that is cheaper; return whether any were copied."""
        readers: dict[GatheredRows, dict[FusedOp, Hashable]] = {}
        for key, gemm in gemms:
            found = GatheredRows.of(gemm)
            if found is not None and self.tile is None:
                readers.setdefault(found, {})[gemm] = key
        gains: dict[Hashable, float] = {}
        is_changed = False
        for gathered, users in readers.items():
            copied = CopiedRows(gathered, list(users))
            for number, (gemm, key) in enumerate(users.items()):
                # The layers of a model repeat their GEMMs.
                if key not in gains:
                    reading = copied.reading(number)
                    ranking = self._rank(reading, rows.of(gemm), rows.nominal(gemm))
                    gains[key] = choices[key].us - ranking[0].us if ranking else 0.0
            first, key = next(iter(users.items()))
            cost = self.device.pointwise_us(2 * choices[key].estimate.workload.gathered_bytes)
            gain = sum(gains[key] for key in users.values())
            if gain > COPY_MARGIN * cost:
                text = f"reads a copy of its rows, which takes {cost:.0f} us and saves {gain:.0f}"
                emit_remark(self._analysis(first, text))
                copied.insert()
                is_changed = True
            else:
                copied.discard()
        return is_changed

    def _waits_for_launches(self, rows: Sequence[int | None]) -> bool:
        """Return whether GEMMs of this many rows read weights for about as long as launches take,
        on a GPU whose launches overlap.
        """
        few = [count is not None and count <= SMALL_ROWS for count in rows]
        return self.device.has_tma and bool(few) and all(few)

    def _set_attention(self, op: AttentionSumOp, rows: int | None) -> None:
        """Set the schedule of the backward of attention, given the number of rows of the sums."""
        op.schedule = schedule = attention_schedule(op, self.device, self.mainloop, rows)
        of_tile, step, _ = schedule.tile
        text = (
            f"tiles of {of_tile} rows of a head of {op.parts.columns} columns, "
            f"{step} rows at a time, {schedule.warps.data} warps, {schedule.stages.data} stages, "
            + LOADS_OF_ATTENTION[schedule.mainloop]
        )
        if schedule.split_k.data > 1:
            what = "batches and heads" if isinstance(op, AttentionDmaskOp) else "heads of queries"
            text += f", {what} split among {schedule.split_k.data} programs"
        is_wanted = self.device.has_tma and self.mainloop not in ("pointer", "tma")
        if is_wanted and isinstance(op, AttentionGradSumOp) and op.wgmma_obstacle is not None:
            text += f"; no asynchronous products: {op.wgmma_obstacle}"
        emit_remark(self._analysis(op, text))

    def set_schedules(
        self, gemms: Keyed, choices: Mapping[Hashable, Ranked], rows: RowCounts
    ) -> None:
        """Give each GEMM the schedule that the cost model chose for its key."""
        for key, gemm in gemms:
            self.set_choice(gemm, choices[key])

    def set_choice(self, op: FusedOp, choice: Ranked) -> None:
        """Give one GEMM a schedule, and emit a remark that describes it."""
        op.schedule = choice.schedule
        emit_remark(self._remark(op, choice))

    def check_options(self) -> None:
        """Raise CodaError for a wrong value of an option, or a main loop that the target lacks."""
        self.check_values()
        loop = MAIN_LOOPS[self.mainloop]
        if not loop.runs_on(self.device):
            able = ", ".join(name for name, device in DEVICES.items() if loop.runs_on(device))
            raise LoweringError(
                f"schedule: target {self.target} has no {loop.title}",
                f"use {able}, or the {loop.fallback} main loop",
            )

    def check_values(self) -> None:
        """Raise CodaError for an invalid value of an option."""
        if self.target not in DEVICES:
            raise OptionError(
                f"schedule: unknown target '{self.target}'", f"use one of {', '.join(DEVICES)}"
            )
        if self.mainloop not in MAIN_LOOPS:
            raise OptionError(
                f"schedule: unknown main loop '{self.mainloop}'",
                f"use one of {', '.join(MAIN_LOOPS)}",
            )
        if self.gemms is not None and self.gemms not in FORMS:
            raise OptionError(f"schedule: unknown gemms '{self.gemms}'", f"use {', '.join(FORMS)}")
        if self.tile is not None:
            _parse_tile(self.tile)
        try:
            ScheduleAttr.get(
                "pointer",
                (64, 64, 64),
                warps=4 if self.warps is None else self.warps,
                stages=1 if self.stages is None else self.stages,
                group_m=self.group_m,
                split_k=1 if self.split_k is None else self.split_k,
            )
        except VerifyException as error:
            raise OptionError(str(error), "leave it out: the cost model chooses") from error

    @property
    def device(self) -> Device:
        return DEVICES[self.target]

    def space(self) -> Space:
        """Return the search space that the options leave open."""
        return Space(
            main_loops=(self.mainloop,),
            tile=None if self.tile is None else _parse_tile(self.tile),
            warps=self.warps,
            stages=() if self.stages is None else (self.stages,),
            group_m=(self.group_m,),
            split_k=() if self.split_k is None else (self.split_k,),
        )

    def _remedy(self) -> str:
        """Return a remedy for the case that nothing fits."""
        asked = {"warps": self.warps, "stages": self.stages, "split_k": self.split_k}
        given = [f"{name}={value}" for name, value in asked.items() if value is not None]
        if given:
            return f"leave {', '.join(given)} to the cost model"
        return TOO_WIDE_GROUPS

    def _rank(self, op: FusedOp, rows: int | None, nominal: int) -> list[Ranked]:
        return rank(op, self.space(), self.device, rows, nominal)

    def _choose(self, op: FusedOp, rows: RowCounts) -> Ranked:
        """Return the fastest configuration that fits. Raises CodaError if none does."""
        _check_static(op)
        place = format_location(op.location)
        try:
            ranking = self._rank(op, rows.of(op), rows.nominal(op))
        except ValueError as error:
            raise LoweringError(f"{place}: schedule: {error}", "choose another tile") from error
        except VerifyException as error:
            raise OptionError(
                f"{place}: {error}", "leave it out: the cost model chooses"
            ) from error
        if not ranking:
            raise LoweringError(
                f"{place}: schedule: no tile of gemm.fused {'x'.join(gemm_shape(op))} fits "
                f"{self.target}",
                self._remedy(),
            )
        if self.explain:
            self.remark(op, explanation(ranking))
        return ranking[0]

    def _remark(self, op: FusedOp, choice: Ranked) -> Remark:
        schedule, estimate = choice.schedule, choice.estimate
        bm, bn, bk = schedule.tile
        count = estimate.configuration.programs
        programs = "1 program" if count == 1 else f"{count} programs"
        text = (
            f"{' x '.join(gemm_shape(op))} in tiles of {bm} x {bn} x {bk}, "
            f"{schedule.warps.data} warps, {schedule.stages.data} stages, {schedule.mainloop} main "
            f"loop: {programs} per row of tiles, {estimate.padding:.0%} padding"
        )
        if schedule.split_k.data > 1:
            text += f", K split among {schedule.split_k.data} programs"
        if choice.refused is not None:
            text += "; no {}: {}".format(*choice.refused)
        needed, most = estimate.configuration.shared_memory(self.device), self.device.shared_memory
        if needed > most:
            text += f"; its stages take {needed >> 10} KiB of shared memory, more than the "
            text += f"{most >> 10} KiB of {self.target}"
        return self._analysis(op, text)

    def remark(self, op: FusedOp, text: str) -> None:
        """Emit a remark about one GEMM."""
        emit_remark(self._analysis(op, f"{' x '.join(gemm_shape(op))}: {text}"))

    def _analysis(self, op: FusedOp | AttentionSumOp, text: str) -> Remark:
        func = enclosing_function(op)
        name = None if func is None else func.sym_name.data
        return Remark("analysis", SchedulePass.name, op.name, op.location, text, function=name)


def _apart_text(choice: Ranked) -> str:
    text = "its epilogue is a separate kernel: "
    if choice.estimate.configuration.is_padded:
        unused = f"{choice.estimate.padding:.0%} of the products unused"
        return f"{text}groups of columns in tiles of a power of two would leave {unused}"
    return f"{text}in the GEMM, it would take {choice.estimate.epilogue_us:.0f} us"


def gemm_shape(op: FusedOp) -> tuple[str, str, str]:
    n = sum(segment.columns for segment in op.segments())
    if op.is_transposed:
        return str(op.row_shape[-1]), str(n), "K"
    return "M", str(n), str(total_depth(op))


def _check_static(op: FusedOp) -> None:
    for name, extent in extents_of_weights(op):
        if extent == DYNAMIC_INDEX:
            raise LoweringError(
                f"{format_location(op.location)}: schedule: {name} of gemm.fused is symbolic",
                "give the extents of weights as numbers or consts; only rows may be symbols",
            )
        if not extent:
            raise LoweringError(
                f"{format_location(op.location)}: schedule: {name} of gemm.fused is 0",
                "remove the product, which has no elements or is 0",
            )


def _parse_tile(text: str) -> Tile:
    extents = text.split("x")
    if len(extents) != 3 or not all(extent.isdigit() for extent in extents):
        raise OptionError(f"schedule: tile is '{text}'", 'write it as "128x256x64"')
    bm, bn, bk = map(int, extents)
    return bm, bn, bk
