"""The time of a configuration of a GEMM: a roofline of tiles in waves over the processors."""

from dataclasses import dataclass
from functools import cached_property
from math import ceil, hypot

from coda_ir.cost_model.configurations import SMALL_ROWS, Configuration
from coda_ir.cost_model.devices import Device
from coda_ir.cost_model.main_loops import MainLoop
from coda_ir.cost_model.workload import Workload

EXPOSED_LOADS = 0.4
"""Share of the shorter of loading and multiplying that does not run under the longer one. Chosen so
that 128 x 128 tiles take 1.16 of the time of 128 x 256 tiles, as they did on an H100 at D = 4096.
"""

EXPOSED_EPILOGUE = 0.5
"""Share of the shorter of epilogue and main loop that does not run under the longer one, if they
overlap. Chosen so that in tiles of 128 x 128, GELU, with its operand as another result, takes 40,
247 and 118 us at 4096 x 3072 x 768, 16384 x 4096 x 1024 and 2048 x 8192 x 2048, and its gradient 48
and 284 us at the first two; they took 38, 236, 113, 46 and 277 on an H200."""

HALF_WORD_LOAD_NS = 0.37
"""Nanoseconds of loading an element alone, from rows of no multiple of 4 bytes. Chosen so that
16384 x 1024 x 479 take 270 us, as they did on an H100; 16384 x 1024 x 480 take 40."""

IDLE_COST = 0.75
"""Cost of a processor that waits for the last wave, relative to a busy one: the others run faster
meanwhile. Chosen so that 16 x 44 tiles of 128 x 256 (5.3 waves) take 0.93 of the time of 16 x 88
tiles of 128 x 128 (10.7 waves), as they did on an H200."""

EPILOGUE_RATE = 0.5
"""Share of the peak rate of additions that epilogues reach. Chosen so that those of GELU and its
gradient in tiles of 128 x 256 took 7 and 16 us, as they did on an H100 with an error function."""

CROWDED_OPERATIONS, CROWDED_ACCUMULATORS, CROWDING = 22, 64, 3.2
"""Operations for each accumulator, and accumulators of a thread, above which an epilogue of
products of float8 takes longer, and the factor: the sums of pieces leave it few registers. Chosen
so that the gradient of a SwiGLU (42 operations) takes 2.62 ms in tiles of 128 x 256, and 1.78 ms in
tiles of 128 x 128, as it did on an H100 at 16384 x 11008 x 4096. With scales of blocks it has 24
operations, and took 2.66 and 1.77 ms. That of a norm, which moves as much with 20 operations, took
1.44 and 1.73 ms at 16384 x 4096 x 11008."""

CODE_CACHE, INSTRUCTION_BYTES = 120_000, 16
"""Bytes of instructions that a processor finds in its cache, and of one. The epilogue of a thread
has separate instructions for each of its accumulators; where these do not fit, it also takes
`CROWDING` times as long. On an H200, in tiles of 128 x 256, the gradient of xIELU took 75 us (165
KB), Mish 19 (141 KB), and the gradient of GELU 16 (107 KB). With code of 122 KB, a step of xIELU
took 0.97 of its time with a separate kernel."""

LARGE_ACCUMULATORS = 128
"""Accumulators of a thread in tiles of 128 x 256."""

REGISTERS, OTHER_REGISTERS = 65536, 64
"""32-bit registers of a processor, and those of a thread beside its accumulators."""

NARROW_FLOAT32, HIGH_FLOAT32 = 0.35, 0.6
"""Exponents by which products of float32 with weights K x N take longer in tiles of at least
`SMALL_ROWS` rows that are narrower than 256, and narrower than they are high. Chosen so that 204800
x 256 x 80 take 276 us in tiles of 32 x 256, as they did on an H200."""

FLOAT32_EFFICIENCY, FLOAT32_GROWTH = 0.33, 0.8
"""Share of the peak rate of products of float32 with weights N x K in tiles of which a thread has
`MOST_ACCUMULATORS`, and the exponent by which it grows from `FEWEST_ACCUMULATORS` on: an element
that is loaded is multiplied more often. On an H200, 8192 x 1024 x 1024 took 2306 us in tiles of 32
x 64 with 4 warps, 1234 of 64 x 64, 750 of 128 x 64, and 779 of 128 x 128 with 8 warps, and cuBLAS
352. There, 204800 x 80 x 256 took 1436 us in tiles of 128 x 32, and 204800 x 40 x 80 took 208 in
tiles of 128 x 64, with a sigmoid."""

FEWEST_ACCUMULATORS, MOST_ACCUMULATORS = 16, 64

PRODUCTS_OF_PARTS = 6
"""Products of bfloat16 for a product of float32 in three parts."""

ROW_OPERATIONS, WORD_OPERATIONS = 4.0, 2.0
"""Instructions of a thread for each element of a weight of a row that no tensor core multiplies,
and of one in words along K, which tensor cores multiply."""

BUSY_MEMORY = 2
"""The factor by which a load takes longer than alone while all processors load and nothing is
loaded ahead. Chosen so that 4096 columns of 11008 took 40 us in bf16, as they did on an H100."""

MEETING_LOADS = 4
"""Loads that take as long as a fence, an atomic operation and a load. Not measured."""

SUM_LOADS = 2.5
"""The factor by which the last program of a tile takes longer to load the sums of all than each
took to store its own. On an H200, 1024 rows took 9.6 us for 512 x 512 sums by 4 programs for a tile
of 128 x 64, 14.7 by 6 for 128 x 128, and 15.8 and 18.4 for 256 x 256 by 12 and 16 for 128 x 64."""

SUMMED_ROWS, SUMMED_ROWS_OF_LOW = 1.2, 0.92
"""The factor by which loads that hide all else take longer if rows are summed over, in tiles of
more rows than an instruction of a group of four warps has, and in others. On an H200, 8192 rows
took 33 us for 1024 x 1024 sums by 2 programs for a tile of 128 x 128, 30.8 in tiles of 128 x 64 in
steps of 128, and 26.6 in tiles of 64 x 128; 512 x 512 sums took 17.5 by 4 programs for a tile of
128 x 64, and 15.5 by 2 for 64 x 64."""

WARPGROUP_ROWS = 64
"""Tiles of fewer rows are multiplied by the instructions of the generation before on Hopper."""

SMALL_TILE_EFFICIENCY = 0.62
"""Their share of the peak: the rate of `mma.sync` on an H100 beside that of `wgmma`."""


@dataclass(frozen=True)
class Estimate:
    """The predicted times of one configuration on one device, in nanoseconds except for `us`."""

    configuration: Configuration
    main_loop: MainLoop
    workload: Workload
    device: Device

    @cached_property
    def tiles(self) -> int:
        bm = self.configuration.schedule.block_m.data
        return self.workload.tiles(bm) * self.configuration.programs

    @property
    def padding(self) -> float:
        """The share of the accumulators that have no column."""
        bn = self.configuration.schedule.block_n.data
        return 1 - self.workload.columns / (self.configuration.programs * bn)

    @property
    def splits(self) -> int:
        """The number of programs that share a tile."""
        return self.configuration.schedule.split_k.data

    @property
    def waves(self) -> float:
        """The average number of programs of each processor."""
        return self.tiles * self.splits / self.device.processors

    @cached_property
    def resident(self) -> int:
        """The number of programs that a processor works on at a time: as many as exist and fit."""
        configuration, device = self.configuration, self.device
        threads = 32 * configuration.schedule.warps.data
        is_row = configuration.schedule.has_one_row
        others = OTHER_REGISTERS // 2 if is_row else OTHER_REGISTERS
        registers = threads * (configuration.accumulators + others)
        fitting = (
            device.shared_memory // max(1, configuration.shared_memory(device)),
            device.threads // threads,
            REGISTERS // registers,
        )
        return max(1, min(*fitting, ceil(self.waves)))

    @cached_property
    def steps(self) -> int:
        """The number of steps of a program's main loop, over all terms."""
        bk = self.configuration.schedule.block_k.data
        return sum(ceil(ceil(depth / bk) / self.splits) for depth in self.workload.depths)

    @cached_property
    def multiplying(self) -> float:
        """The time of the products of one tile, at the rate that the main loop reaches."""
        bm, bn, bk = self.configuration.schedule.tile
        device, has_parts = self.device, self.configuration.schedule.multiplies_parts
        is_f32 = self.workload.is_f32 and not has_parts
        if self.configuration.schedule.has_one_row:
            # Additions that fetch, widen and multiply an element.
            per_ns = 500 * device.vector_tflops / device.processors * self.main_loop.efficiency
            operations = WORD_OPERATIONS if self.workload.has_words else ROW_OPERATIONS
            return bn * bk * self.steps * operations / per_ns
        tflops = device.vector_tflops if is_f32 else device.matrix_tflops
        if self.workload.is_float8:
            tflops *= device.float8_rate
        if has_parts:
            tflops /= PRODUCTS_OF_PARTS
        efficiency = self.main_loop.efficiency
        if device.has_tma and not is_f32 and bm < WARPGROUP_ROWS:
            efficiency *= SMALL_TILE_EFFICIENCY
        if is_f32 and device.has_tma and self.workload.loads_along_k:
            fewest, most = FEWEST_ACCUMULATORS, MOST_ACCUMULATORS
            counted = min(most, max(fewest, self.configuration.accumulators))
            efficiency = FLOAT32_EFFICIENCY * (counted / most) ** FLOAT32_GROWTH
        elif is_f32 and bm >= SMALL_ROWS:
            efficiency /= (256 / bn) ** NARROW_FLOAT32 * max(1.0, bm / bn) ** HIGH_FLOAT32
        per_ns = 1000 * tflops / device.processors * efficiency
        return 2 * bm * bn * bk * self.steps / per_ns

    @cached_property
    def loading(self) -> float:
        """The time of loading the operands of one tile from the L2 cache."""
        bm, bn, bk = self.configuration.schedule.tile
        x_is_slow, weights_are_slow = self.workload.loads_half_words
        alone = bk * (bm * x_is_slow + bn * weights_are_slow) * HALF_WORD_LOAD_NS
        return self.steps * (
            alone + self.configuration.stage_bytes / self.device.cache_bytes_per_ns
        )

    @cached_property
    def main(self) -> float:
        """The time of the main loop of one program."""
        longer, shorter = sorted((self.multiplying, self.loading), reverse=True)
        rows = self.gathering + self.sharing_rows
        if self._hides_steps:
            longer *= self._summed_rows
            return max(longer + rows, self.waiting)
        barriers = self.steps * self.main_loop.step_ns
        return max(longer + EXPOSED_LOADS * shorter + barriers + rows, self.waiting)

    @property
    def _summed_rows(self) -> float:
        if not self.workload.sums_rows:
            return 1.0
        is_low = self.configuration.schedule.block_m.data <= WARPGROUP_ROWS
        return SUMMED_ROWS_OF_LOW if is_low else SUMMED_ROWS

    @property
    def _hides_steps(self) -> bool:
        schedule, device = self.configuration.schedule, self.device
        has_many_stages = schedule.stages.data > device.stages
        return self.main_loop.hides_steps and has_many_stages and schedule.block_m.data > SMALL_ROWS

    @property
    def sharing_rows(self) -> float:
        """The time of loading short rows of the weights of one tile in boxes, which processors that
        work on other rows of x load as well.
        """
        workload = self.workload
        if not workload.has_short_rows:
            return 0.0
        _, bn, bk = self.configuration.schedule.tile
        rows = bn if workload.loads_along_k else bk
        row_ns = self.main_loop.short_row_ns * 16 / workload.weight_row_bytes
        return self.steps * rows * row_ns / self.configuration.programs

    @property
    def gathering(self) -> float:
        """The time of copying the gathered rows of one tile by their numbers."""
        if not self.workload.gathered_bytes:
            return 0.0
        bm, _, bk = self.configuration.schedule.tile
        rows = bk if self.workload.sums_rows else bm
        return self.steps * rows * self.main_loop.gathered_row_ns

    @cached_property
    def waiting(self) -> float:
        """The time of the main loop if it waits for memory: one stage is used while the others, and
        those of the other programs on the processor, are in flight.
        """
        schedule, loop = self.configuration.schedule, self.main_loop
        if schedule.has_one_row:
            return self.steps * BUSY_MEMORY * self.device.memory_ns / self.resident
        under_way = max(1, schedule.stages.data - 1) * (1 if loop.stage_ns else self.resident)
        stage_ns = loop.stage_ns + loop.piece_ns * (len(schedule.pieces) - 1)
        return self.steps * max(stage_ns, self.device.memory_ns) / under_way

    @cached_property
    def epilogue(self) -> float:
        """The time of the epilogue of one tile: moving its ports and results, and computing."""
        bm, bn, _ = self.configuration.schedule.tile
        workload, device, loop = self.workload, self.device, self.main_loop
        moving = workload.epilogue_bytes / device.cache_bytes_per_ns
        computing = 1000 * device.processors * self._operations_us
        storing = (
            loop.unaligned_ns * workload.unaligned + loop.half_word_ns * workload.of_half_words
        )
        storing += loop.scattered_ns * workload.has_scattered_rows
        return bm * bn * (moving + computing + storing) * (CROWDING if self._is_crowded else 1.0)

    @property
    def _operations_us(self) -> float:
        """The microseconds of the operations for an accumulator, on all processors."""
        operations = self.workload.operations + self.workload.reductions
        return operations / (EPILOGUE_RATE * 0.5e6 * self.device.vector_tflops)

    @property
    def computing_us(self) -> float:
        """The microseconds of the operations of the epilogue, also in a separate kernel."""
        return self.workload.rows * self.workload.columns * self._operations_us

    @property
    def epilogue_us(self) -> float:
        """The microseconds of all epilogues, one after the other."""
        return self.counted_waves * self.epilogue / self.splits / 1000

    @property
    def _is_crowded(self) -> bool:
        accumulators, workload = self.configuration.accumulators, self.workload
        is_heavy = workload.is_float8 and workload.operations > CROWDED_OPERATIONS
        is_full = is_heavy and accumulators > CROWDED_ACCUMULATORS
        return is_full or self._exceeds_cache(accumulators)

    @property
    def has_long_code(self) -> bool:
        """True if the instructions of the epilogue of a large tile exceed their cache."""
        return self._exceeds_cache(LARGE_ACCUMULATORS)

    def _exceeds_cache(self, accumulators: int) -> bool:
        copies = 2 if self.configuration.schedule.alternates else 1
        return INSTRUCTION_BYTES * copies * accumulators * self.workload.instructions > CODE_CACHE

    @cached_property
    def sharing(self) -> float:
        """The time of storing the sums of a program for the last program of its tile."""
        if self.splits == 1:
            return 0.0
        bm, bn, _ = self.configuration.schedule.tile
        return 4 * min(bm, self.workload.rows) * bn / self.device.cache_bytes_per_ns

    @cached_property
    def meeting(self) -> float:
        """Return what the last program of a tile does after the main loops: loading all sums."""
        if self.splits == 1:
            return 0.0
        return SUM_LOADS * self.sharing * self.splits + MEETING_LOADS * self.device.memory_ns

    @cached_property
    def per_program(self) -> float:
        """Return what a program costs a processor.

        Several programs at a time on a processor share its rates and count as one after the other:
        what they hide of one another is less than what their smaller tiles cost. Only tiles of few
        rows, which wait for memory, and those of a single step start at the same time and wait
        together.
        """
        if self.main_loop.overlaps_epilogue:
            longer, shorter = sorted((self.main, self.epilogue), reverse=True)
            return longer + EXPOSED_EPILOGUE * shorter
        is_small = self.configuration.schedule.block_m.data <= SMALL_ROWS or self.steps == 1
        together = self.resident if is_small else 1
        epilogue = self.sharing + self.epilogue / self.splits
        latency = 0.0 if self.main_loop.loads_ahead else self.device.latency_ns / together
        return self.main + epilogue + latency

    @cached_property
    def memory(self) -> float:
        """Return the minimum time of memory traffic, with the sums of programs that share tiles."""
        sums = 0 if self.splits == 1 else self.splits * self.workload.rows * self.workload.columns
        return (self.workload.bytes() + 8 * sums) / self.device.memory_gb_per_s

    @cached_property
    def counted_waves(self) -> float:
        """The number of waves, with the waste of the last one if the programs are counted."""
        if not self.workload.has_known_rows:
            return self.waves
        return max(1.0, self.waves + IDLE_COST * (ceil(self.waves) - self.waves))

    @cached_property
    def busy(self) -> float:
        """Return the minimum time of the programs, on the multiprocessor that has most of them. If
        epilogues and main loops overlap, half of its warps compute the last epilogue alone.
        """
        alone = self.epilogue if self.main_loop.overlaps_epilogue else 0.0
        return self.counted_waves * self.per_program + alone

    @cached_property
    def us(self) -> float:
        """The microseconds of the kernel."""
        longer = max(self.busy, self.memory)
        if self.configuration.schedule.has_one_row:
            # Loads wait for multiplications of the same program.
            longer = hypot(self.busy, self.memory)
        return (longer + self.meeting) / 1000 + self.device.launch_us

    @property
    def bound(self) -> str:
        """Return the dominant cost."""
        if self.memory > self.busy:
            return "memory"
        parts = {
            "tensor cores": self.multiplying,
            "L2 cache": self.loading,
            "epilogue": self.epilogue / self.splits,
            "latency": max(self.device.latency_ns, self.waiting),
        }
        return max(parts, key=lambda part: parts[part])
