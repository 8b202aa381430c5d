"""Hugging Face models, unchanged but for torch.compile: prefill, decoding and training.

    python benchmarks/models.py --models llama --parts prefill,decode --json llama.json
    python benchmarks/models.py --models llama,qwen3,gemma --layers 4 --plot models.png

The shapes of Llama 7B, Qwen3 8B and Gemma 2B, random weights, bf16, batch 1. Prefill: logits of
2048 tokens without a cache. Decode: one token after 511 in a static cache of 512. Training: loss
and gradients of all parameters for 2048 tokens. Eager PyTorch, Liger where it is installed,
torch.compile, and coda, which is torch.compile(backend="coda"); what compiles decoding replays CUDA
graphs. `--variants all` adds what is
not the default of a part, and max-autotune, which compiles for minutes. The logits, the loss and
the gradients of the first and the last layer are compared with the same model in float64 in the
same run. Needs transformers.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any

import torch
from harness import (
    Budget,
    Candidate,
    Timing,
    add_common_options,
    chosen,
    make_parser,
    peak_memory,
    print_timings,
    publish,
    reset_compilers,
    seed,
    time_interleaved,
    timed,
    timings_data,
)
from launches import copy_rate
from liger_model import LigerModel
from model_parts import MODELS, PARTS, Decode, Part, Tensors, in_float64, make_model
from rich.console import Console
from rich.table import Table

from coda_ir.float64 import relative_error
from coda_ir.frontends.torch.dynamo import coda

EAGER, COMPILED, CODA = "eager", "torch.compile", "coda"
COMPILED_GRAPHS, CODA_GRAPHS = "torch.compile + CUDA graphs", "coda + CUDA graphs"
MAX_AUTOTUNE, LIGER = "max-autotune", "Liger"
CODA_TUNED = "coda + tuning"
"""With CUDA graphs where nothing is trained."""
VARIANTS = (EAGER, COMPILED, COMPILED_GRAPHS, MAX_AUTOTUNE, CODA, CODA_GRAPHS, CODA_TUNED, LIGER)
UNASKED = {
    "prefill": (EAGER, COMPILED, LIGER, CODA),
    "decode": (EAGER, COMPILED_GRAPHS, CODA_GRAPHS),
    "training": (EAGER, COMPILED, LIGER, CODA),
}

torch_compile: Any = import_module("torch").compile  # has no complete types


Compiler = Callable[[Any], Any]
"""Gives something that is called as the model is. Raises ImportError where it is not there."""


def compilers(device: str) -> dict[str, Compiler]:
    """Those of all variants; kernels of the CPU are those of the reference backend."""
    ours: dict[str, Any] = {"target": "reference"} if device == "cpu" else {}
    graphs = {**ours, "cuda_graphs": True}
    return {
        EAGER: lambda model: model,
        COMPILED: partial(torch_compile),
        COMPILED_GRAPHS: partial(torch_compile, mode="reduce-overhead"),
        MAX_AUTOTUNE: partial(torch_compile, mode="max-autotune"),
        CODA: partial(torch_compile, backend=coda, options=ours),
        CODA_GRAPHS: partial(torch_compile, backend=coda, options=graphs),
        CODA_TUNED: partial(torch_compile, backend=coda, options={**graphs, "tune": True}),
        LIGER: LigerModel,
    }


def variants_of(options: argparse.Namespace, part: str) -> list[str]:
    """The variants of a part."""
    if options.variants is None:
        return list(UNASKED[part])
    names = chosen(options.variants, VARIANTS)
    is_training = part == "training"  # ours has no CUDA graphs where there are gradients
    return [name for name in names if not (is_training and name == CODA_GRAPHS)]


@dataclass
class Found:
    """What is found of one part of one model, by variant."""

    timings: dict[str, Timing] = field(default_factory=dict[str, Timing])
    first_call_s: dict[str, float] = field(default_factory=dict[str, float])
    peak_gib: dict[str, float | None] = field(default_factory=dict[str, "float | None"])
    results: dict[str, Tensors] = field(default_factory=dict[str, Tensors])
    errors: dict[str, dict[str, float]] = field(default_factory=dict[str, dict[str, float]])
    floor_ms: float | None = None
    """Of decoding: the time in which a copy would have read all weights."""


def measure(part: Part, names: Sequence[str], rounds: int) -> Found:
    """Times, memory and results of one part."""
    found = Found()
    steps: dict[str, Candidate] = {}
    compile_by_name = compilers(part.model.device.type)
    reset_compilers()
    for name in names:
        try:
            step = part.step(compile_by_name[name](part.model))
        except ImportError as error:
            print(f"without {name}: {error}")
            continue
        _, found.first_call_s[name] = timed(step)
        step()  # CUDA graphs are captured in the second call
        found.results[name] = {key: value.clone() for key, value in step().items()}
        found.peak_gib[name] = peak_memory(step)
        steps[name] = step
    found.timings = time_interleaved(steps, rounds=rounds)
    if isinstance(part, Decode):
        found.floor_ms = part.read_bytes / copy_rate(part.model.device) / 1000
    return found


def compare(found: Found, exact: Mapping[str, torch.Tensor]) -> None:
    """Errors by variant; of the gradients the largest."""
    for name, results in found.results.items():
        errors = {key: relative_error(results[key], value) for key, value in exact.items()}
        gradients = [error for key, error in errors.items() if key not in ("logits", "loss")]
        kept = {key: error for key, error in errors.items() if key in ("logits", "loss")}
        found.errors[name] = kept | ({"worst gradient": max(gradients)} if gradients else {})
    found.results.clear()


def print_found(section: str, found: Found) -> None:
    print_timings(
        section, found.timings, EAGER if EAGER in found.timings else next(iter(found.timings))
    )
    table = Table(title=section)
    columns = ("variant", "first call (s)", "peak GiB", "errors against float64")
    for column in columns:
        table.add_column(column)
    for name, seconds in found.first_call_s.items():
        peak = found.peak_gib[name]
        errors = ", ".join(f"{key} {e:.2e}" for key, e in found.errors[name].items())
        table.add_row(name, f"{seconds:.1f}", "" if peak is None else f"{peak:.2f}", errors)
    Console(width=110).print(table)


def run_model(
    name: str, options: argparse.Namespace, budget: Budget, found: dict[str, Found]
) -> None:
    """Measure the parts of a model that the budget allows, then compare them with float64."""
    model = make_model(name, options.device, options.layers, small=options.small)
    layers = model.config.num_hidden_layers
    parts: dict[str, Part] = {}
    for kind in chosen(options.parts, list(PARTS)):
        tokens = options.context if kind == "decode" else options.tokens
        section = f"{name}, {layers} layers, {kind}, {tokens} tokens"
        if not budget.allows(section):
            break
        with budget.part():
            parts[section] = PARTS[kind](model, tokens)
            found[section] = measure(parts[section], variants_of(options, kind), options.rounds)
    reset_compilers()
    with in_float64(model):
        for section, part in parts.items():
            compare(found[section], part.exact())
            print_found(section, found[section])
            if isinstance(part, Decode):
                print(
                    f"reading {part.read_bytes / 1e9:.2f} GB takes {found[section].floor_ms:.3f} ms"
                )


def facts(found: Mapping[str, Found]) -> dict[str, object]:
    """Return what is written to the JSON file."""
    return {
        "errors": {section: each.errors for section, each in found.items()},
        "first_call_s": {section: each.first_call_s for section, each in found.items()},
        "peak_gib": {section: each.peak_gib for section, each in found.items()},
        "floor_ms": {section: each.floor_ms for section, each in found.items() if each.floor_ms},
        "milliseconds": timings_data({section: each.timings for section, each in found.items()}),
    }


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = make_parser(__doc__)
    parser.add_argument("--models", default="llama", help=f"of {', '.join(MODELS)}")
    parser.add_argument("--parts", default=",".join(PARTS), help="which, with commas")
    parser.add_argument("--variants", help=f"of {', '.join(VARIANTS)}; or all")
    parser.add_argument("--layers", type=int, help="of each model (default: all that it has)")
    parser.add_argument("--tokens", type=int, default=2048, help="of prefill and training")
    parser.add_argument("--context", type=int, default=512, help="tokens of the cache that decodes")
    parser.add_argument("--small", action="store_true", help="tiny models, for tests")
    add_common_options(parser)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    seed()
    budget = Budget(options.budget)
    found: dict[str, Found] = {}
    for name in chosen(options.models, list(MODELS)):
        if not budget.allows(name):
            break
        run_model(name, options, budget, found)
        publish(options, **facts(found))
        reset_compilers()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
