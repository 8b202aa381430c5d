"""How long a configuration of a GEMM takes: a roofline of tiles in waves over the processors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil

from coda_ir.cost_model.configurations import Configuration
from coda_ir.cost_model.devices import Device
from coda_ir.cost_model.main_loops import MainLoop
from coda_ir.cost_model.workload import Workload

EXPOSED_LOADS = 0.4
"""Share of the shorter of loading and multiplying that does not run under the longer one. So that
128 x 128 tiles take 1.16 of the time of 128 x 256 tiles, as they did on an H100 at D = 4096."""

IDLE_COST = 0.75
"""Cost of a processor that waits for the last wave, relative to a busy one: the others run faster
meanwhile. So that 16 x 44 tiles of 128 x 256 (5.3 waves) take 0.93 of the time of 16 x 88 tiles of
128 x 128 (10.7 waves), as they did on an H200."""

REDUCTION_OPERATIONS = 12.0
"""Operations of a sum over a tile for each accumulator, the exchange between threads included."""

WARPGROUP_ROWS = 64
"""Tiles of fewer rows are multiplied by the instructions of the generation before on Hopper."""

SMALL_TILE_EFFICIENCY = 0.62
"""Their share of the peak: the rate of `mma.sync` on an H100 beside that of `wgmma`."""


@dataclass(frozen=True)
class Estimate:
    """Predicted times of one configuration on one device, in nanoseconds but for `us`."""

    configuration: Configuration
    main_loop: MainLoop
    workload: Workload
    device: Device

    @cached_property
    def tiles(self) -> int:
        bm = self.configuration.schedule.block_m.data
        return ceil(self.workload.rows / bm) * self.configuration.programs

    @property
    def padding(self) -> float:
        """Share of the accumulators that have no column."""
        bn = self.configuration.schedule.block_n.data
        return 1 - self.workload.columns / (self.configuration.programs * bn)

    @property
    def waves(self) -> float:
        """Tiles of each processor, on average."""
        return self.tiles / self.device.processors

    @cached_property
    def steps(self) -> int:
        """Of the main loop, all terms together."""
        bk = self.configuration.schedule.block_k.data
        return sum(ceil(depth / bk) for depth in self.workload.depths)

    @cached_property
    def multiplying(self) -> float:
        """Of one tile, at the rate that the main loop reaches."""
        bm, bn, bk = self.configuration.schedule.tile
        device, is_f32 = self.device, self.workload.is_f32
        tflops = device.vector_tflops if is_f32 else device.matrix_tflops
        efficiency = self.main_loop.efficiency
        if device.has_tma and not is_f32 and bm < WARPGROUP_ROWS:
            efficiency *= SMALL_TILE_EFFICIENCY
        per_ns = 1000 * tflops / device.processors * efficiency
        return 2 * bm * bn * bk * self.steps / per_ns

    @cached_property
    def loading(self) -> float:
        """Of the operands of one tile, from the L2 cache."""
        return self.steps * self.configuration.stage_bytes / self.device.cache_bytes_per_ns

    @cached_property
    def main(self) -> float:
        """The main loop of one tile."""
        longer, shorter = sorted((self.multiplying, self.loading), reverse=True)
        return longer + EXPOSED_LOADS * shorter + self.steps * self.main_loop.step_ns

    @cached_property
    def epilogue(self) -> float:
        """The epilogue of one tile: moving its ports and results, and computing them."""
        bm, bn, _ = self.configuration.schedule.tile
        workload, device = self.workload, self.device
        moving = workload.epilogue_bytes / device.cache_bytes_per_ns
        operations = workload.operations + REDUCTION_OPERATIONS * workload.reductions
        computing = operations / (500 * device.vector_tflops / device.processors)
        return bm * bn * (moving + computing)

    @cached_property
    def per_tile(self) -> float:
        """What a tile costs a processor.

        Several programs at a time on a processor share its rates and count as one after the other:
        what they hide of one another is less than what their smaller tiles cost.
        """
        if self.main_loop.overlaps_epilogue:
            return max(self.main, self.epilogue)
        return self.main + self.epilogue + self.device.latency_ns

    @cached_property
    def memory(self) -> float:
        """What memory takes at least."""
        return self.workload.bytes() / self.device.memory_gb_per_s

    @cached_property
    def counted_waves(self) -> float:
        """Waves with what the last one wastes, where the number of tiles is known."""
        if not self.workload.has_known_rows:
            return self.waves
        return max(1.0, self.waves + IDLE_COST * (ceil(self.waves) - self.waves))

    @cached_property
    def us(self) -> float:
        """Microseconds of the kernel."""
        busy = max(self.counted_waves * self.per_tile, self.memory)
        return busy / 1000 + self.device.launch_us

    @property
    def bound(self) -> str:
        """What the time is spent on most."""
        if self.memory > self.counted_waves * self.per_tile:
            return "memory"
        parts = {
            "tensor cores": self.multiplying,
            "L2 cache": self.loading,
            "epilogue": self.epilogue,
            "latency": self.device.latency_ns,
        }
        return max(parts, key=lambda part: parts[part])
