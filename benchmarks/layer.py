"""The layer between two attentions: forward, backward, and both, beside the bare GEMMs.

    python benchmarks/layer.py --sizes 2048 --json layer.json
    python benchmarks/layer.py --parts forward --sizes 2048,4096,8192
    python benchmarks/layer.py --parts forward --schedule mainloop=tma --schedule pdl=true
    CODA_DIRECT_LAUNCH=0 python benchmarks/layer.py --parts forward --time 64    # host time

coda, PyTorch eager, torch.compile, Liger where it is installed, and the GEMMs of cuBLAS
alone, in turn and in one process. bf16, batch 2 x 8192 tokens, random normal data, weights scaled
by 1/sqrt(K). Results and gradients of all variants are compared with float64 in the same run.
PyTorch gets packed gate/up and q/k/v weights, which suits it best. `--variants all` adds
what measures alternatives: torch.compile's max-autotune, for two minutes, and coda with tuning, for
at most a minute of the forward and one of the training, and coda with folded weights, which takes
part in the forward alone. Liger's backward overwrites what was saved, and is not timed alone.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import harness
import torch
from float8_layer import float8_gemms
from layer_variants import EAGER, FLOAT8, UNASKED, VARIANTS, Variant, make_variants
from llama_layer import (
    LayerShape,
    Tensors,
    affordable_shapes,
    backward_gemms,
    check,
    exact_gradients,
    forward_gemms,
    gradient_errors,
    make_inputs,
    pack,
)

FORWARD, TRAINING = "forward", "training"
PARTS = (FORWARD, TRAINING)
GEMMS = "cuBLAS GEMMs"


@dataclass
class Measurement:
    """The measurements of one size, by section and variant, and by variant."""

    timings: dict[str, dict[str, harness.Timing]] = field(
        default_factory=dict[str, dict[str, harness.Timing]]
    )
    errors: dict[str, dict[str, dict[str, float]]] = field(
        default_factory=dict[str, dict[str, dict[str, float]]]
    )
    peak_gib: dict[str, float | None] = field(default_factory=dict[str, "float | None"])
    host_us: dict[str, float] = field(default_factory=dict[str, float])
    """Microseconds of the host for a forward."""
    first_call_s: dict[str, dict[str, float]] = field(default_factory=dict[str, dict[str, float]])


@dataclass(frozen=True)
class Comparison:
    """Variants of a layer of one size, measured in alternating rounds."""

    shape: LayerShape
    inputs: Tensors
    variants: Mapping[str, Variant]
    rounds: int

    @property
    def trained(self) -> Mapping[str, Variant]:
        """The variants that have gradients."""
        return {name: each for name, each in self.variants.items() if each.is_trained}

    def forward(self, found: Measurement) -> None:
        """Measure the forward alone."""
        results: dict[str, Sequence[torch.Tensor]] = {}
        seconds = found.first_call_s.setdefault("forward", {})
        for name, variant in self.variants.items():
            _, first = harness.timed(variant.forward)
            seconds[name] = variant.compile_s + first
            results[name] = variant.forward()
        found.errors["results"] = check(results, self.inputs)
        del results
        candidates = {f"4 {GEMMS}": forward_gemms(pack(self.inputs), self.shape)}
        for recipe in dict.fromkeys(FLOAT8[name] for name in self.variants if name in FLOAT8):
            if self.inputs["y"].is_cuda:
                gemms = float8_gemms(pack(self.inputs), self.shape, recipe)
                candidates[f"4 {GEMMS}, float8 {recipe}"] = gemms
        candidates |= {name: each.forward for name, each in self.variants.items()}
        found.timings["forward"] = harness.time_interleaved(candidates, rounds=self.rounds)
        forwards = {name: each.forward for name, each in self.variants.items()}
        found.host_us = harness.host_microseconds(forwards, rounds=self.rounds)

    def training(self, found: Measurement) -> None:
        """Measure the backward of one forward, and forward and backward together."""
        upstream = [torch.randn_like(self.inputs["x0"]) for _ in range(4)]
        exact = exact_gradients(self.inputs, upstream)
        harness.release_memory()
        packed = pack(self.inputs)
        forward, backward = forward_gemms(packed, self.shape), backward_gemms(packed, self.shape)
        steps: dict[str, harness.Candidate] = {f"12 {GEMMS}": lambda: (forward(), backward())}
        steps |= self._steps(found, upstream, exact)
        del exact
        backwards: dict[str, harness.Candidate] = {f"8 {GEMMS}": backward}
        for name, variant in self.trained.items():
            alone = variant.backward(upstream)
            if alone is not None:
                backwards[name] = alone
        found.timings["backward"] = harness.time_interleaved(backwards, rounds=self.rounds)
        found.timings["forward + backward"] = harness.time_interleaved(steps, rounds=self.rounds)

    def _steps(
        self, found: Measurement, upstream: Sequence[torch.Tensor], exact: Tensors
    ) -> dict[str, harness.Candidate]:
        """Return the training step of each variant; their gradients are compared."""
        steps: dict[str, harness.Candidate] = {}
        seconds = found.first_call_s.setdefault("forward + backward", {})
        errors = found.errors.setdefault("gradients", {})
        for name, variant in self.trained.items():
            seeds = variant.seeds(upstream)
            _, seconds[name] = harness.timed(lambda v=variant, s=seeds: v.step(s))
            errors[name] = gradient_errors(variant.step(variant.seeds(upstream)), exact)
            seeds = variant.seeds(upstream)
            steps[name] = lambda v=variant, seeds=seeds: v.step(seeds)
            found.peak_gib[name] = harness.peak_memory(steps[name])
            harness.release_memory()
        return steps


def measure(shape: LayerShape, options: argparse.Namespace) -> Measurement:
    """Measure all parts of one size."""
    names, parts = harness.chosen(options.variants, VARIANTS), harness.chosen(options.parts, PARTS)
    inputs = make_inputs(shape, options.device)
    harness.reset_compilers()
    variants = make_variants(
        shape, inputs, names, options.schedule or (), training=TRAINING in parts
    )
    comparison, found = Comparison(shape, inputs, variants, options.rounds), Measurement()
    if FORWARD in parts:
        comparison.forward(found)
    if TRAINING in parts:
        comparison.training(found)
    return found


def print_measurement(section: str, shape: LayerShape, found: Measurement) -> None:
    for part, timings in found.timings.items():
        title = f"layer {part}, {section}, M = {shape.rows}"
        harness.print_timings(title, timings, next(iter(timings)))
    for what, errors in found.errors.items():
        harness.print_errors(errors, EAGER, f"{what}, {section}")
    for part, seconds in found.first_call_s.items():
        told = ", ".join(f"{name} {value:.1f}" for name, value in seconds.items())
        print(f"first call, {part}, seconds: {told}")
    if found.host_us:
        told = ", ".join(f"{name} {us:.0f}" for name, us in found.host_us.items())
        print(f"host, forward, microseconds of a call: {told}")
    peaks = {name: peak for name, peak in found.peak_gib.items() if peak is not None}
    if peaks:
        told = ", ".join(f"{name} {peak:.2f}" for name, peak in peaks.items())
        print(f"peak memory of a step, GiB: {told}")


def facts(measured: Mapping[str, Measurement]) -> dict[str, object]:
    """Return the facts for the JSON file."""
    timings = {
        f"{part}, {size}": timings
        for size, found in measured.items()
        for part, timings in found.timings.items()
    }
    return {
        "errors": {size: found.errors for size, found in measured.items()},
        "peak_gib": {size: found.peak_gib for size, found in measured.items()},
        "host_us": {size: found.host_us for size, found in measured.items()},
        "first_call_s": {size: found.first_call_s for size, found in measured.items()},
        "milliseconds": harness.timings_data(timings),
    }


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = harness.make_parser(__doc__)
    harness.add_sizes(parser)
    parser.add_argument("--parts", default=",".join(PARTS), help="which, with commas")
    parser.add_argument(
        "--variants", default=",".join(UNASKED), help=f"of {', '.join(VARIANTS)}; or all"
    )
    parser.add_argument(
        "--schedule", action="append", help="also coda with these options of the pass schedule"
    )
    harness.add_layer_options(parser)
    harness.add_common_options(parser)
    return harness.read_options(parser, arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    harness.seed()
    budget = harness.Budget(options.budget)
    measured: dict[str, Measurement] = {}
    for shape in affordable_shapes(options, budget):
        section = f"D = {shape.d}"
        with budget.part():
            measured[section] = measure(shape, options)
        print_measurement(section, shape, measured[section])
        harness.publish(options, **facts(measured))  # a run cut short leaves something


if __name__ == "__main__":
    main()
