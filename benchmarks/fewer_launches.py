"""The layer's forward with fewer launches, and with launches that overlap, beside that without.

    python benchmarks/fewer_launches.py --sizes 2048,4096 --times 1,64,8192

`absorb` lets GEMMs combine the partial sums of norms (4 kernels instead of 6), `pdl` starts kernels
while those before end. All variants are compared with float64, and those that differ in launches
only bit by bit, call after call and in a CUDA graph. Times are those of calls, and of replays of a
graph, for several numbers of tokens of each of 2 sequences: with few of them launches weigh most.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

import torch
from harness import (
    Budget,
    Candidate,
    Timing,
    add_common_options,
    add_sizes,
    make_parser,
    print_errors,
    print_timings,
    publish,
    time_interleaved,
    timings_data,
    wanted,
    wanted_sizes,
)
from layer_errors import check
from llama_layer import PROGRAM, LayerShape, Tensors, forward_gemms, make_inputs, pack

import coda_ir
from coda_ir import CompiledFunction

PLAIN, ABSORB, PDL, BOTH = "plain", "absorb", "pdl", "absorb + pdl"
OPTIONS = {PLAIN: "", ABSORB: " absorb=true", PDL: " pdl=true", BOTH: " absorb=true pdl=true"}
SAME = {PDL: PLAIN, BOTH: ABSORB}
"""What differs in launches only."""
REPEATS = 20
"""Calls that follow one another without waiting, each of which has to be right."""

Results = Sequence[torch.Tensor]


def variants_of(shape: LayerShape, schedule: str, device: str) -> dict[str, CompiledFunction]:
    """The compiled layer by variant; launches overlap on GPUs only."""
    names = OPTIONS if device != "cpu" else (PLAIN, ABSORB)
    return {
        name: coda_ir.compile(
            PROGRAM, constants=shape.constants, device=device, schedule=schedule + OPTIONS[name]
        )
        for name in names
    }


def graph_of(function: CompiledFunction, inputs: Tensors) -> tuple[Candidate, Results]:
    """A call as a CUDA graph, and where its results are."""
    for _ in range(3):
        function(**inputs)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = function(**inputs)
    return graph.replay, results


def assert_same(name: str, actual: Results, expected: Results) -> None:
    for a, b in zip(actual, expected, strict=True):
        if not torch.equal(a, b):
            raise SystemExit(f"{name}: differs from {SAME.get(name, name)}, where only launches do")


def check_launches(
    functions: Mapping[str, CompiledFunction], inputs: Tensors
) -> dict[str, Results]:
    """The results by variant. Exits where those of launches that overlap are not the same bits."""
    results = {name: function(**inputs) for name, function in functions.items()}
    for name, function in functions.items():
        expected = results[SAME.get(name, name)]
        for again in [function(**inputs) for _ in range(REPEATS)]:
            assert_same(name, again, expected)
    return results


def measure(
    functions: Mapping[str, CompiledFunction], shape: LayerShape, device: str, rounds: int
) -> tuple[dict[str, dict[str, Timing]], dict[str, dict[str, float]]]:
    """Times of calls and of graphs, and errors against float64."""
    inputs = make_inputs(shape, device)
    results = check_launches(functions, inputs)
    errors = check(results, inputs)
    gemms = {"4 cuBLAS GEMMs": forward_gemms(pack(inputs), shape)}
    calls: dict[str, Candidate] = {
        name: lambda f=function: f(**inputs) for name, function in functions.items()
    }
    timings = {"calls": time_interleaved(gemms | calls, rounds=rounds)}
    if device == "cpu":
        return timings, errors
    replays: dict[str, Candidate] = {}
    for name, function in functions.items():
        replays[name], captured = graph_of(function, inputs)
        for _ in range(REPEATS):
            replays[name]()
        assert_same(name, captured, results[SAME.get(name, name)])
    timings["graphs"] = time_interleaved(replays, rounds=rounds)
    return timings, errors


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = make_parser(__doc__)
    add_sizes(parser)
    parser.add_argument("--times", default="1,64,8192", help="tokens of a sequence, with commas")
    parser.add_argument("--head-dim", type=int, default=128)
    parser.add_argument(
        "--schedules",
        default="target=sm_90 mainloop=warp_specialized,target=sm_90 mainloop=tma",
        help="options of the pass schedule, with commas between schedules",
    )
    add_common_options(parser)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    budget = Budget(options.budget)
    timings: dict[str, dict[str, Timing]] = {}
    errors: dict[str, dict[str, dict[str, float]]] = {}
    kernels: dict[str, dict[str, int]] = {}
    for d in wanted_sizes(options.sizes):
        for schedule in wanted(options.schedules):
            shapes = [LayerShape(d, options.head_dim, 2, t) for t in wanted_sizes(options.times)]
            if not budget.allows(f"D = {d}, {schedule}"):
                break
            with budget.part():
                functions = variants_of(shapes[0], schedule, options.device)
                for shape in shapes:
                    section = f"D = {d}, M = {shape.rows}, {schedule}"
                    found, errors[section] = measure(
                        functions, shape, options.device, options.rounds
                    )
                    print_errors(errors[section], PLAIN, section)
                    for what, each in found.items():
                        timings[f"{what}, {section}"] = each
                        print_timings(f"{what}, {section}", each, PLAIN)
            kernels[f"D = {d}, {schedule}"] = {n: len(f.kernels) for n, f in functions.items()}
            publish(options, errors=errors, kernels=kernels, milliseconds=timings_data(timings))


if __name__ == "__main__":
    main()
