"""The layer between two attentions, forward: ours, PyTorch eager, torch.compile, the bare GEMMs.

    python benchmarks/layer_forward.py --sizes 2048,4096 --json layer.json
    python benchmarks/layer_forward.py --schedule "target=sm_90 mainloop=warp_specialized"

bf16, batch 2 x 8192 tokens, random normal data, weights scaled by 1/sqrt(K). Each variant is also
compared with float64 in the same run. Needs a GPU.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path

import torch
from harness import Candidate, Timing, print_timings, time_interleaved, write_json
from llama_layer import (
    PROGRAM,
    LayerShape,
    Tensors,
    forward_gemms,
    make_inputs,
    pack,
    torch_layer,
)

import coda_ir
from coda_ir.float64 import relative_error

CHECKED_ROWS = 512

# The types of torch.compile are partly unknown to a strict checker.
torch_compile: Callable[..., Callable[[Tensors], tuple[torch.Tensor, ...]]] = import_module(
    "torch"
).compile


def check(results: dict[str, tuple[torch.Tensor, ...]], inputs: Tensors) -> dict[str, list[float]]:
    """Errors against float64 of every variant on the last rows of the last batch element."""
    rows = {"y", "x0", "cos", "sin"}
    exact: Tensors = {}
    for name, tensor in inputs.items():
        part = tensor[..., -CHECKED_ROWS:, :] if name in rows else tensor
        exact[name] = (part[-1:] if name in ("y", "x0") else part).double()
    expected = torch_layer(pack(exact))
    return {
        variant: [
            relative_error(actual[-1:, -CHECKED_ROWS:], reference)
            for actual, reference in zip(outputs, expected, strict=True)
        ]
        for variant, outputs in results.items()
    }


def measure(
    d: int, variants: Sequence[str], schedules: Sequence[str] = ()
) -> tuple[dict[str, Timing], dict[str, list[float]]]:
    """Timings and errors of the layer at hidden size `d`, also under more `schedules`."""
    shape = LayerShape(d)
    inputs = make_inputs(shape)
    packed = pack(inputs)
    ours = coda_ir.compile(PROGRAM, constants=shape.constants, device="cuda")
    compiled = torch_compile(torch_layer, dynamic=False)
    candidates: dict[str, Candidate] = {
        "4 cuBLAS GEMMs": forward_gemms(packed, shape),
        "coda": lambda: ours(**inputs),
        "eager": lambda: torch_layer(packed),
        "torch.compile": lambda: compiled(packed),
    }
    candidates = {name: c for name, c in candidates.items() if name in variants}
    for schedule in schedules:
        other = coda_ir.compile(
            PROGRAM, constants=shape.constants, device="cuda", schedule=schedule
        )
        candidates[f"coda, {schedule}"] = partial(other, **inputs)
    with torch.no_grad():
        results = {
            name: candidate() for name, candidate in candidates.items() if "GEMMs" not in name
        }
        errors = check(results, inputs)  # pyright: ignore[reportArgumentType]
        del results
        return time_interleaved(candidates), errors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="2048,4096", help="hidden sizes, separated by commas")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument("--schedule", action="append", help="options of another schedule of coda")
    arguments = parser.parse_args()
    variants = ["4 cuBLAS GEMMs", "coda", "eager", "torch.compile"]
    timings: dict[str, dict[str, Timing]] = {}
    errors: dict[str, dict[str, list[float]]] = {}
    for d in map(int, arguments.sizes.split(",")):
        section = f"D = {d}"
        timings[section], errors[section] = measure(d, variants, arguments.schedule or ())
        print_timings(
            f"layer forward, {section}, M = {LayerShape(d).rows}", timings[section], variants[0]
        )
        for name, values in errors[section].items():
            print(f"error against float64, {name}: " + ", ".join(f"{e:.2e}" for e in values))
    if arguments.json is not None:
        write_json(arguments.json, timings, errors=errors)


if __name__ == "__main__":
    main()
