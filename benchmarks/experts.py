"""Expert blocks: a forward, a training step and one token, beside the bare grouped GEMMs.

    python benchmarks/experts.py --json experts.json
    python benchmarks/experts.py --blocks qwen3_moe --parts forward,training --tokens 32768

Blocks of transformers with a residual, bf16, random weights: Qwen3-MoE, Mixtral, DeepSeek V3 and
GPT-OSS at their widths. Eager PyTorch, torch.compile and coda take turns in one process; one token
(`decode`) runs in CUDA graphs. `grouped GEMMs` are the products alone, by PyTorch, with as many
rows for each expert. Errors are those of the fleet: the largest of a result or of the gradient of
a weight, against float32 (PyTorch has no grouped GEMM in float64), in which the router may choose
other experts; two sets of DeepSeek's weights in float32 do not fit. `peak` is what a step allocates
beside the model and, in training, its gradients.
"""

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

import harness
import torch
from expert_blocks import BLOCKS, Block, grouped_gemms
from fleet.measure import (
    CODA,
    CODA_GRAPHS,
    COMPILED,
    COMPILED_GRAPHS,
    EAGER,
    VARIANTS,
    Record,
    measure,
)
from fleet.models import Setting
from launches import copy_rate
from rich.console import Console

FORWARD, TRAINING, DECODE = "forward", "training", "decode"
PARTS = (FORWARD, TRAINING, DECODE)
IN_GRAPHS = {EAGER: EAGER, COMPILED: COMPILED_GRAPHS, CODA: CODA_GRAPHS}
"""The variants that compute one token."""
MAX_COMPARED = 2**33
"""Bytes of experts, of which a GPU holds a wide copy and its gradients."""


@dataclass
class Figures:
    """The measurements of one part of one block."""

    tokens: int
    record: Record
    gemms_ms: float | None = None
    """The time of the grouped GEMMs alone."""
    copied_ms: float | None = None
    """Reading the experts of one token once, at the rate of a copy."""
    baseline: str = field(default=COMPILED)


def measure_part(
    block: Block, part: str, tokens: int, variants: Sequence[str], options: argparse.Namespace
) -> Figures:
    """Measure a part of a block for a number of tokens."""
    is_decoding = part == DECODE
    dtype = torch.bfloat16 if options.device == "cuda" else torch.float32
    record = measure(
        block.member(),
        TRAINING if part == TRAINING else FORWARD,
        Setting(device=options.device, dtype=dtype, tokens=tokens),
        [IN_GRAPHS.get(name, name) for name in variants] if is_decoding else variants,
        rounds=options.rounds,
        compares=block.experts * block.expert_bytes <= MAX_COMPARED,
    )
    harness.release_memory()
    found = Figures(tokens, record)
    if is_decoding:
        found.baseline = COMPILED_GRAPHS
        if options.device == "cuda":
            # A copy reads half of what it moves.
            rate = copy_rate(torch.device(options.device))
            found.copied_ms = block.k * block.expert_bytes / rate / 1000
    elif options.device == "cuda":
        forward, backward = grouped_gemms(block, tokens, options.device)
        step = {FORWARD: forward, TRAINING: lambda: (forward(), backward())}
        found.gemms_ms = harness.time_interleaved({"": step[part]}, rounds=options.rounds)[
            ""
        ].median
    return found


def show(block: str, part: str, figures: Figures) -> None:
    """Print the table of a part."""
    record = figures.record
    columns = ("variant", "ms", f"x {figures.baseline}", "error", "peak, GiB")
    table = harness.table_of(f"{block}, {part}, {figures.tokens} tokens", *columns)
    baseline = record.milliseconds.get(figures.baseline)
    rows = dict(record.milliseconds)
    if figures.gemms_ms is not None:
        rows["grouped GEMMs"] = figures.gemms_ms
    if figures.copied_ms is not None:
        rows["reading its experts"] = figures.copied_ms
    for name, ms in rows.items():
        error, peak = record.errors.get(name), record.peak_gib.get(name)
        table.add_row(
            name,
            f"{ms:.3f}",
            "" if baseline is None else f"{ms / baseline:.2f}",
            "" if error is None else f"{error:.2e}",
            "" if peak is None else f"{peak:.2f}",
        )
    Console(width=110).print(table)
    for name, note in record.notes.items():
        print(f"{name}: {note}")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = harness.make_parser(__doc__)
    parser.add_argument("--blocks", default="all", help=f"of {', '.join(BLOCKS)} (all)")
    parser.add_argument("--parts", default="all", help=f"of {', '.join(PARTS)} (all)")
    parser.add_argument("--variants", default=",".join(VARIANTS), help="of those of the fleet")
    parser.add_argument(
        "--tokens",
        type=harness.wanted_sizes,
        default="",
        help="numbers, instead of those of each block",
    )
    harness.add_common_options(parser)
    return harness.read_options(parser, arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    budget, parts = harness.Budget(options.budget), harness.chosen(options.parts, PARTS)
    measured: list[dict[str, object]] = []
    for name in harness.chosen(options.blocks, tuple(BLOCKS)):
        block = BLOCKS[name] if options.device == "cuda" else BLOCKS[name].small()
        sizes: Sequence[int] = options.tokens or block.tokens
        cases = [(part, tokens) for part in parts if part != DECODE for tokens in sizes]
        cases += [(DECODE, 1)] if DECODE in parts else []
        for part, tokens in cases:
            if not budget.allows(f"{name}, {part}, {tokens} tokens"):
                continue
            with budget.part():
                figures = measure_part(
                    block, part, tokens, harness.wanted(options.variants), options
                )
            show(name, part, figures)
            measured.append({"block": name, "part": part, **asdict(figures)})
            harness.publish(options, measured=measured)


if __name__ == "__main__":
    main()
