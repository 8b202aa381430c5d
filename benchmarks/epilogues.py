"""GEMMs with an epilogue by themselves, beside the GEMM of cuBLAS alone and what others make of it.

    python benchmarks/epilogues.py --json epilogues.json
    python benchmarks/epilogues.py --shapes 2048x2048x2048,4096x4096x4096 --cases SwiGLU,residual

A shape is M x N x K; there are N columns of each weight (of SwiGLU two). bf16, random normal data,
weights scaled by 1/sqrt(K). coda, eager PyTorch, torch.compile, Liger and XLA where they are
installed, in turn and in one process, the L2 cache cleared between calls. Results are compared with
float64 in the same run. `--variants all` adds what measures alternatives: torch.compile's
max-autotune, and coda with tuning.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import torch
from epilogue_cases import CASES, Case, Jax, Sizes, Torch
from harness import (
    Budget,
    Candidate,
    Timing,
    add_common_options,
    chosen,
    make_parser,
    print_errors,
    print_timings,
    publish,
    read_options,
    reset_compilers,
    seed,
    time_interleaved,
    timings_data,
    torch_compile,
    wanted,
)
from layer_variants import (
    CODA,
    CODA_TUNED,
    COMPILED,
    EAGER,
    LIGER,
    MAX_AUTOTUNE,
    UNASKED,
    VARIANTS,
    XLA,
)
from llama_layer import Tensors
from xla_layer import jax_on, to_jax

import coda_ir
from coda_ir.diagnostics import CodaError
from coda_ir.float64 import relative_error

BASELINE = "cuBLAS GEMM"
CHECKED_ROWS = 512
DEFAULT_SHAPES = "16384x2048x2048,4096x4096x4096"


def candidates(
    case: Case, sizes: Sizes, tensors: Tensors, names: Sequence[str]
) -> dict[str, Candidate]:
    """Return what can be had here, by name; says what cannot, and why."""
    device, library = tensors["x"].device, Torch()
    found: dict[str, Candidate] = {BASELINE: lambda: tensors["x"] @ tensors["packed"].T}
    for name, tune in {CODA: False, CODA_TUNED: True}.items():
        if name in names and (not tune or device.type == "cuda"):
            found[name] = _coda(case, sizes, tensors, tune=tune)
    if EAGER in names:
        found[EAGER] = lambda: case.function(library, tensors)
    others = {
        COMPILED: _compiled,
        MAX_AUTOTUNE: partial(_compiled, mode="max-autotune-no-cudagraphs"),
        LIGER: _liger,
        XLA: _xla,
    }
    for name, make in others.items():
        if name in names:
            try:
                made = make(case, tensors)
            except (ImportError, CodaError) as error:
                print(f"without {name}: {error}")
                continue
            if made is not None:
                found[name] = made
    return found


def _coda(case: Case, sizes: Sizes, tensors: Tensors, *, tune: bool) -> Candidate:
    constants, device = case.constants(sizes), tensors["x"].device
    function = coda_ir.compile(case.text, constants=constants, device=device, tune=tune)
    return partial(function, *(tensors[spec.name] for spec in function.signature.arguments))


def _compiled(case: Case, tensors: Tensors, mode: str | None = None) -> Candidate:
    library = Torch()

    def function(tensors: Tensors) -> torch.Tensor:
        return case.function(library, tensors)

    compiled: Callable[[Tensors], object] = torch_compile(function, dynamic=False, mode=mode)
    return lambda: compiled(tensors)


def _liger(case: Case, tensors: Tensors) -> Candidate | None:
    if case.liger is None:
        return None
    liger, run = import_module("liger_kernel.transformers.functional"), case.liger
    if not tensors["x"].is_cuda:
        raise ImportError("its kernels are for GPUs")
    return lambda: run(liger, tensors)


def _xla(case: Case, tensors: Tensors) -> Candidate:
    jax = jax_on(tensors["x"].device)
    library = Jax()

    def function(arrays: Mapping[str, Any]) -> Any:
        return case.function(library, arrays)

    compiled = jax.jit(function)
    arrays = {name: to_jax(jax, tensor) for name, tensor in tensors.items()}
    return lambda: jax.block_until_ready(compiled(arrays))


def check(case: Case, tensors: Tensors, results: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Errors of the last rows, or of the loss, by variant."""
    rows = slice(-CHECKED_ROWS, None)
    by_row = ("x", "r", "target", "cos", "sin")
    is_loss = all(torch.from_dlpack(result).ndim == 0 for result in results.values())
    part = {
        name: tensor[rows] if name in by_row and not is_loss else tensor
        for name, tensor in tensors.items()
    }
    exact = {name: t.double() if t.is_floating_point() else t for name, t in part.items()}
    expected = case.function(Torch(), exact)
    found: dict[str, dict[str, float]] = {}
    for name, result in results.items():
        tensor = torch.from_dlpack(result)
        found[name] = {case.name: relative_error(tensor if is_loss else tensor[rows], expected)}
    return found


def measure(
    case: Case, sizes: Sizes, options: argparse.Namespace
) -> tuple[dict[str, Timing], dict[str, dict[str, float]]]:
    names = chosen(options.variants, VARIANTS)
    tensors = case.draw(sizes, options.device)
    reset_compilers()
    with torch.no_grad():
        made = candidates(case, sizes, tensors, names)
        results = {name: call() for name, call in made.items() if name != BASELINE}
        errors = check(case, tensors, results)
        del results
        return time_interleaved(made, rounds=options.rounds), errors


def wanted_shapes(text: str) -> list[tuple[int, ...]]:
    return [tuple(map(int, shape.split("x"))) for shape in wanted(text)]


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = make_parser(__doc__)
    parser.add_argument(
        "--shapes",
        type=wanted_shapes,
        default=DEFAULT_SHAPES,
        help="M x N x K, with commas between",
    )
    names = ", ".join(case.name for case in CASES)
    parser.add_argument("--cases", help=f"parts of names, with commas between: {names}")
    parser.add_argument(
        "--variants", default=",".join(UNASKED), help=f"of {', '.join(VARIANTS)}; or all"
    )
    add_common_options(parser)
    return read_options(parser, arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    seed()
    budget = Budget(options.budget)
    parts = wanted(options.cases or "") or [""]
    timings: dict[str, dict[str, Timing]] = {}
    errors: dict[str, dict[str, dict[str, float]]] = {}
    for shape in options.shapes:
        sizes = Sizes(*shape)
        for case in CASES:
            section = f"{case.name}, {'x'.join(map(str, shape))}"
            if not any(part in case.name for part in parts):
                continue
            if not budget.allows(section):
                return
            with budget.part():
                timings[section], errors[section] = measure(case, sizes, options)
            print_timings(section, timings[section], BASELINE)
            print_errors(errors[section], EAGER, section)
            publish(options, milliseconds=timings_data(timings), errors=errors)


if __name__ == "__main__":
    main()
