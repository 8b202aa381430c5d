"""Programs for the faults of warp-specialized kernels, which run in the simulator of Gluon."""

from dataclasses import dataclass
from pathlib import Path

from support import gemm_programs as programs, gradient_programs as gradients
from support.attention_heads import Heads
from support.block_programs import gated_blocks, scaled_blocks
from support.kernel_harness import check_against_reference
from support.row_group_arguments import arguments_of_groups
from support.simulated_attention import check_simulated_backward

HOPPER = 'warp_specialized, "128x256x64", warps = 8, stages = 3, group_m = 2'
SPLIT_ROWS = 'split_rows, "128x256x128", warps = 8, stages = 3, group_m = 2'
PING_PONG = 'ping_pong, "128x128x64", warps = 8, stages = 3, group_m = 2'


@dataclass(frozen=True)
class SimulatedCase:
    """One GEMM for Hopper, in the simulator."""

    source: str
    rows: int
    ends: tuple[int, ...] = ()
    """The ends of groups of rows, if there are some."""

    def check(self) -> None:
        """The kernel agrees with the reference under several schedules."""
        ends = self.ends
        arguments = arguments_of_groups(self.source, self.rows, ends) if ends else None
        check_against_reference(self.source, [self.rows], Path(), arguments=arguments)


@dataclass(frozen=True)
class SimulatedAttention:
    """The backward of attention on Hopper, in the simulator."""

    of: Heads
    rows: int
    far: float | None = None
    """The first column of each head of q, if that of k is -8, for scores of large magnitude."""
    is_decomposed: bool = False

    def check(self) -> None:
        """The gradients agree with float64."""
        q, k, v = self.of.inputs(self.rows, self.rows, batch=1)
        if self.far is not None:
            q[..., :: self.of.width], k[..., :: self.of.width] = self.far, -8
        check_simulated_backward(self.of.text, [q, k, v], seed=1, is_decomposed=self.is_decomposed)


HOPPER_CASES: dict[str, SimulatedCase | SimulatedAttention] = {
    "hopper, attention": SimulatedAttention(Heads(2, 1, 64), 150),
    "hopper, attention of far keys": SimulatedAttention(Heads(1, 1, 64, "causal=false"), 41, 200),
    "hopper, decomposed attention": SimulatedAttention(Heads(1, 1, 64), 100, is_decomposed=True),
    "hopper, residual norm": SimulatedCase(programs.residual_norm("bf16", 200, 512, HOPPER), 300),
    "hopper, narrow tiles": SimulatedCase(
        programs.residual_norm("bf16", 72, 256, HOPPER.replace("256", "128")), 300
    ),
    "hopper, more stages": SimulatedCase(
        programs.residual_norm("bf16", 200, 512, HOPPER.replace("stages = 3", "stages = 4")),
        300,
    ),
    "hopper, combined partials": SimulatedCase(programs.scaled_rows("lse", 5, HOPPER), 150),
    "hopper, by turns": SimulatedCase(programs.residual_norm("bf16", 200, 512, PING_PONG), 300),
    "hopper, unaligned rows": SimulatedCase(programs.unaligned(517, 72, HOPPER, "f32"), 133),
    "hopper, unaligned rows by turns": SimulatedCase(programs.unaligned(261, 72, PING_PONG), 300),
    "hopper, two weights": SimulatedCase(programs.swiglu("bf16", 72, 352, HOPPER), 150),
    "hopper, rotary": SimulatedCase(programs.qkv_rope("bf16", 72, 128, (2, 2), HOPPER), 150),
    "hopper, rotary in three types": SimulatedCase(
        programs.rotated_pairs(
            "halves, 128", "64xf32", ["half f32", "half bf16", "half f16"], HOPPER
        ),
        150,
    ),
    "hopper, blocks": SimulatedCase(scaled_blocks(SPLIT_ROWS, n=600), 150),
    "hopper, blocks of heads": SimulatedCase(gated_blocks(SPLIT_ROWS, "halves, 128"), 150),
    "hopper, blocks of two weights": SimulatedCase(
        gated_blocks(SPLIT_ROWS, "two weights", n=384), 150
    ),
    "hopper, weights": SimulatedCase(
        gradients.merged_weight_gradients("bf16", 136, (256, 256), HOPPER), 200
    ),
    "hopper, moved rows in groups": SimulatedCase(
        programs.moved_rows("bf16", 72, 520, HOPPER, rows="gather scatter", groups=4),
        *(420, (5, 150, 150, 420)),
    ),
    "hopper, boxes of groups": SimulatedCase(
        programs.grouped_residual("bf16", 64, 264, 3, HOPPER, "kn"), 330, (130, 131, 330)
    ),
    "hopper, neighbours of groups": SimulatedCase(
        programs.grouped_neighbours("bf16", 64, 72, 3, HOPPER), 330, (130, 131, 330)
    ),
    "hopper, halves of groups": SimulatedCase(
        programs.grouped_swiglu("bf16", 72, 136, 3, HOPPER, packed=True), 330, (130, 131, 330)
    ),
    "hopper, summed rows": SimulatedCase(
        programs.summed_rows(
            *("bf16", 136, 264, 4, HOPPER.replace("group_m = 2", "group_m = 4")),
            gather="weights",
        ),
        *(210, (50, 50, 190, 200)),
    ),
    "hopper, summed rows in boxes": SimulatedCase(
        programs.summed_rows("bf16", 256, 64, 3, HOPPER), 210, (70, 70, 200)
    ),
}
