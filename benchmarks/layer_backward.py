"""The layer between two attentions in training: backward, and forward and backward.

    python benchmarks/layer_backward.py --sizes 2048 --json layer_backward_2048.json

coda, PyTorch eager, torch.compile, XLA where JAX is installed with the GPU, and the bare GEMMs, in
turn and in one process. bf16, batch 2 x 8192 tokens, random normal data, weights scaled by
1/sqrt(K). Every gradient is compared with float64 in the same run. One size takes a few minutes,
so that a call each is best; `--device cpu` with small sizes is for tests.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from harness import Candidate, Timing, peak_memory, print_timings, time_interleaved, write_json
from llama_layer import (
    PROGRAM,
    ROWS,
    LayerShape,
    Tensors,
    backward_gemms,
    forward_gemms,
    make_inputs,
    pack,
    pack_weights,
    torch_layer,
)
from rich.console import Console
from rich.table import Table

import coda_ir
from coda_ir.float64 import relative_error

GEMMS, CODA, EAGER, COMPILED, XLA = "cuBLAS GEMMs", "coda", "eager", "torch.compile", "XLA"
VARIANTS = (GEMMS, CODA, EAGER, COMPILED, XLA)
CHECKED_ROWS = 512

# These have no complete types.
torch_compile: Any = import_module("torch").compile
grad: Any = torch.autograd.grad


@dataclass(frozen=True)
class Variant:
    """A layer that can be trained, with the tensors that it takes."""

    layer: Callable[[Tensors], Sequence[torch.Tensor]]
    tensors: Tensors

    def trained(self) -> list[str]:
        return [name for name in self.tensors if name not in ("cos", "sin")]

    def step(self, upstream: Sequence[torch.Tensor]) -> Tensors:
        """The gradients by name, forward and backward."""
        names = self.trained()
        leaves = [self.tensors[name] for name in names]
        return dict(zip(names, grad(self.layer(self.tensors), leaves, upstream), strict=True))

    def backward(self, upstream: Sequence[torch.Tensor]) -> Candidate:
        """The backward alone, again and again, of one forward."""
        results = self.layer(self.tensors)
        leaves = [self.tensors[name] for name in self.trained()]
        return lambda: grad(results, leaves, upstream, retain_graph=True)


def make_variants(shape: LayerShape, inputs: Tensors, wanted: Sequence[str]) -> dict[str, Variant]:
    """The variants that PyTorch's autograd differentiates."""
    packed = _leaves(pack(inputs))
    device = inputs["y"].device
    variants: dict[str, Variant] = {}
    if CODA in wanted:
        constants = shape.constants
        ours = coda_ir.compile(PROGRAM, training=True, constants=constants, device=device)
        variants[CODA] = Variant(lambda t: ours(**t), _leaves(inputs))
    if EAGER in wanted:
        variants[EAGER] = Variant(torch_layer, packed)
    if COMPILED in wanted:
        functorch_config: Any = import_module("torch._functorch.config")
        functorch_config.donated_buffer = False  # so that a backward can be repeated
        variants[COMPILED] = Variant(torch_compile(torch_layer, dynamic=False), packed)
    return variants


def _leaves(tensors: Tensors) -> Tensors:
    return {
        name: tensor.detach().requires_grad_(name not in ("cos", "sin"))
        for name, tensor in tensors.items()
    }


def exact_gradients(inputs: Tensors, upstream: Sequence[torch.Tensor]) -> Tensors:
    """The gradients in float64, those of the tokens only for the last `CHECKED_ROWS` of them.

    The rows are taken in parts, which bounds the memory.
    """
    weights = _leaves({name: t.double() for name, t in inputs.items() if name not in ROWS})
    sums = {name: torch.zeros_like(weight) for name, weight in weights.items()}
    last: Tensors = {}
    time = inputs["y"].shape[1]
    for start in range(0, time, CHECKED_ROWS):
        part = slice(start, start + CHECKED_ROWS)
        rows = _leaves({name: inputs[name][..., part, :].double() for name in ROWS})
        leaves = {**weights, "y": rows["y"], "x0": rows["x0"]}
        results = torch_layer(pack(weights | rows))
        seeds = [gradient[:, part].double() for gradient in upstream]
        last = dict(zip(leaves, grad(results, list(leaves.values()), seeds), strict=True))
        for name in sums:
            sums[name] += last[name]
    return sums | {name: last[name] for name in ("y", "x0")}


def gradient_errors(gradients: Tensors, exact: Tensors) -> dict[str, float]:
    """Errors by name of the packed tensors, of the last tokens where there is one for each."""
    expected = pack_weights(exact) | {name: exact[name] for name in ("y", "x0")}
    if "wq" in gradients:
        gradients = pack_weights(gradients) | {name: gradients[name] for name in ("y", "x0")}
    count = exact["y"].shape[1]
    return {
        name: relative_error(
            gradients[name][:, -count:] if name in ROWS else gradients[name], expected[name]
        )
        for name in expected
    }


@dataclass(frozen=True)
class Measurement:
    """What one size gives, by variant."""

    timings: dict[str, dict[str, Timing]]
    errors: dict[str, dict[str, float]]
    peaks: dict[str, float | None]


def measure(shape: LayerShape, wanted: Sequence[str], device: str, rounds: int) -> Measurement:
    """Time, memory and errors of one size."""
    inputs = make_inputs(shape, device)
    upstream = [torch.randn_like(inputs["x0"]) for _ in range(4)]
    variants = make_variants(shape, inputs, wanted)
    exact = exact_gradients(inputs, upstream)
    errors: dict[str, dict[str, float]] = {}
    peaks: dict[str, float | None] = {}
    for name, variant in variants.items():
        errors[name] = gradient_errors(variant.step(upstream), exact)
        peaks[name] = peak_memory(lambda variant=variant: variant.step(upstream))
    del exact
    steps: dict[str, Candidate] = {
        name: lambda v=variant: v.step(upstream) for name, variant in variants.items()
    }
    backwards = {name: variant.backward(upstream) for name, variant in variants.items()}
    if GEMMS in wanted:
        packed = pack(inputs)
        forward, backward = forward_gemms(packed, shape), backward_gemms(packed, shape)
        backwards = {f"8 {GEMMS}": backward, **backwards}
        steps = {f"12 {GEMMS}": lambda: (forward(), backward()), **steps}
    if XLA in wanted:
        steps |= _xla_step(inputs, upstream)
    timings = {
        "backward": time_interleaved(backwards, rounds=rounds),
        "forward + backward": time_interleaved(steps, rounds=rounds),
    }
    return Measurement(timings, errors, peaks)


def _xla_step(inputs: Tensors, upstream: Sequence[torch.Tensor]) -> dict[str, Candidate]:
    """The layer by XLA, where JAX is installed for the device, as one program."""
    try:
        from xla_layer import make_step

        return {XLA: make_step(pack(inputs), upstream)}
    except ImportError as error:
        print(f"without XLA: {error}")
        return {}


def print_errors(section: str, measured: Measurement) -> None:
    """Errors of every gradient against float64, and the memory of a step."""
    table = Table(title=f"gradients, {section}: error against float64, ratio to eager's")
    table.add_column("gradient of")
    for name in measured.errors:
        table.add_column(name, justify="right")
    eager: Mapping[str, float] = measured.errors.get(EAGER, {})
    for gradient in dict.fromkeys(name for errors in measured.errors.values() for name in errors):
        cells = [
            f"{errors[gradient]:.2e}"
            + (f" ({errors[gradient] / eager[gradient]:.2f})" if gradient in eager else "")
            for errors in measured.errors.values()
        ]
        table.add_row(gradient, *cells)
    peaks = [measured.peaks[name] for name in measured.errors]
    table.add_row("peak GiB", *("" if peak is None else f"{peak:.2f}" for peak in peaks))
    Console(width=110).print(table)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="2048", help="hidden sizes, separated by commas")
    parser.add_argument("--variants", default=",".join(VARIANTS), help="which, with commas")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--time", type=int, default=8192, help="tokens of a sequence")
    parser.add_argument("--head-dim", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args(arguments)
    measured: dict[str, Measurement] = {}
    for d in map(int, given.sizes.split(",")):
        shape = LayerShape(d, given.head_dim, given.batch, given.time)
        section = f"D = {d}"
        found = measure(shape, given.variants.split(","), given.device, given.rounds)
        measured[section] = found
        for part, timings in found.timings.items():
            title = f"layer {part}, {section}, M = {shape.rows}"
            print_timings(title, timings, next(iter(timings)))
        print_errors(section, found)
        if given.json is not None:  # after each size, so that a run cut short leaves something
            _write(given.json, measured)


def _write(path: Path, measured: Mapping[str, Measurement]) -> None:
    write_json(
        path,
        {f"{part}, {size}": t for size, m in measured.items() for part, t in m.timings.items()},
        errors={size: m.errors for size, m in measured.items()},
        peak_gib={size: m.peaks for size, m in measured.items()},
    )


if __name__ == "__main__":
    main()
