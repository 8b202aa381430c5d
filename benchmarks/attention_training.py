"""Attention in training: the forward that saves, the backward, and both.

    python benchmarks/attention_training.py --json attention_training.json

coda and PyTorch's attention by each of its kernels, flash attention also under PyTorch's
deterministic algorithms, in turn and in one process. bf16, causal,
random normal data. The gradients of the first tokens are compared with float64 in the same run, and
the bits of ten runs with one another.
"""

import argparse
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeAlias

import harness
import torch
import torch.nn.functional as F
from rich.console import Console
from torch.nn.attention import SDPBackend, sdpa_kernel

import coda_ir
from coda_ir.float64 import relative_error

PROGRAM = """
const HEADS = 32
const KV_HEADS = 8
const HEAD = 128
fn attend(q: bf16[B, T, HEADS * HEAD], k: bf16[B, T, KV_HEADS * HEAD],
          v: bf16[B, T, KV_HEADS * HEAD]) {
    return attention(q, k, v, head_dim=HEAD, causal=true)
}
"""

CODA = "coda"

KERNELS: dict[str, SDPBackend] = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cuDNN": SDPBackend.CUDNN_ATTENTION,
}
"""PyTorch's kernels; the one that it chooses by itself is timed, too."""

CHECKED_TOKENS = 512

RUNS = 10
"""Whose bits are compared."""

grad: Any = torch.autograd.grad

Tensors: TypeAlias = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Sizes:
    """The sizes of q, k and v."""

    batch: int
    time: int
    heads: int
    kv_heads: int
    head_dim: int

    def inputs(self, device: str) -> Tensors:
        """Draw q, k and v with heads side by side, and the gradient of the result."""
        generator = torch.Generator().manual_seed(0)
        counts = (self.heads, self.kv_heads, self.kv_heads, self.heads)
        shapes = [(self.batch, self.time, count * self.head_dim) for count in counts]
        drawn = (torch.randn(shape, generator=generator) for shape in shapes)
        return tuple(x.to(device, torch.bfloat16) for x in drawn)


@dataclass(frozen=True)
class Variant:
    """Attention with gradients, by one of PyTorch's kernels or by the one that PyTorch chooses."""

    attend: Callable[..., torch.Tensor]
    kernel: SDPBackend | None = None
    is_strict: bool = False
    """True if PyTorch is asked for deterministic algorithms."""

    @contextmanager
    def chosen(self) -> Generator[None]:
        before = torch.are_deterministic_algorithms_enabled()
        with nullcontext() if self.kernel is None else sdpa_kernel(self.kernel):
            torch.use_deterministic_algorithms(before or self.is_strict)
            try:
                yield
            finally:
                torch.use_deterministic_algorithms(before)

    def step(self, inputs: Tensors) -> Tensors:
        """Return the result and the gradients of q, k and v."""
        *leaves, upstream = inputs
        leaves = [x.detach().requires_grad_() for x in leaves]
        with self.chosen():
            y = self.attend(*leaves)
            return y.detach(), *grad(y, leaves, upstream)

    def forward(self, inputs: Tensors) -> torch.Tensor:
        with self.chosen():
            return self.attend(*(x.detach().requires_grad_() for x in inputs[:3]))

    def backward(self, inputs: Tensors) -> harness.Candidate:
        """Return a function that repeats the backward of one forward."""
        *leaves, upstream = inputs
        leaves = [x.detach().requires_grad_() for x in leaves]
        with self.chosen():
            y = self.attend(*leaves)

        def run() -> Any:
            with self.chosen():
                return grad(y, leaves, upstream, retain_graph=True)

        return run


def sdpa(head_dim: int) -> Callable[..., torch.Tensor]:
    """PyTorch's attention for heads that lie side by side in columns."""

    def attend(*tensors: torch.Tensor) -> torch.Tensor:
        q, k, v = (x.reshape(*x.shape[:2], -1, head_dim).transpose(1, 2) for x in tensors)
        y = F.scaled_dot_product_attention(
            q, k, v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1]
        )
        return y.transpose(1, 2).reshape(tensors[0].shape)

    return attend


def make_variants(sizes: Sizes, inputs: Tensors) -> dict[str, Variant]:
    """Return the variants that run on the device at these sizes."""
    constants = {"HEADS": sizes.heads, "KV_HEADS": sizes.kv_heads, "HEAD": sizes.head_dim}
    device = inputs[0].device
    ours: Any = coda_ir.compile(PROGRAM, training=True, constants=constants, device=device)
    eager = sdpa(sizes.head_dim)
    variants = {CODA: Variant(ours), "PyTorch": Variant(eager)}
    others = {name: Variant(eager, kernel) for name, kernel in KERNELS.items()}
    others["flash, deterministic"] = Variant(eager, SDPBackend.FLASH_ATTENTION, is_strict=True)
    for name, variant in others.items():
        try:
            variant.step(inputs)
        except RuntimeError as error:
            print(f"without {name}: {str(error).splitlines()[0]}")
        else:
            variants[f"PyTorch, {name}"] = variant
    return variants


@dataclass(frozen=True)
class Accuracy:
    """Errors of y, dq, dk and dv against float64, and whether all runs have the same bits."""

    errors: list[float]
    is_deterministic: bool


def check(variants: Mapping[str, Variant], sizes: Sizes, inputs: Tensors) -> dict[str, Accuracy]:
    """Measure the accuracy on the first tokens, and compare bits on all of them."""
    short = tuple(x[:, :CHECKED_TOKENS].contiguous() for x in inputs)
    wide = tuple(x.double() for x in short)
    exact = Variant(sdpa(sizes.head_dim), SDPBackend.MATH).step(wide)
    found: dict[str, Accuracy] = {}
    for name, variant in variants.items():
        pairs = zip(variant.step(short), exact, strict=True)
        errors = [relative_error(x.cpu(), y.cpu()) for x, y in pairs]
        first = variant.step(inputs)
        others = (variant.step(inputs) for _ in range(RUNS - 1))
        is_deterministic = all(all(map(torch.equal, first, other)) for other in others)
        found[name] = Accuracy(errors, is_deterministic)
    return found


def print_accuracy(found: Mapping[str, Accuracy], peaks: Mapping[str, float | None]) -> None:
    what = f"errors against float64, bits of {RUNS} runs, peak memory of a step"
    table = harness.table_of(what, "variant", "y", "dq", "dk", "dv", "runs", "peak GiB")
    for name, accuracy in found.items():
        runs = "equal" if accuracy.is_deterministic else "differ"
        peak = peaks[name]
        cells = [*(f"{error:.2e}" for error in accuracy.errors), runs]
        table.add_row(name, *cells, "" if peak is None else f"{peak:.2f}")
    Console(width=110).print(table)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--kv-heads", type=int, default=8)
    harness.add_layer_options(parser)
    harness.add_common_options(parser)
    given = harness.read_options(parser, arguments)
    sizes = Sizes(given.batch, given.time, given.heads, given.kv_heads, given.head_dim)
    inputs = sizes.inputs(given.device)
    variants = make_variants(sizes, inputs)
    accuracy = check(variants, sizes, inputs)
    peaks = {
        name: harness.peak_memory(lambda v=variant: v.step(inputs))
        for name, variant in variants.items()
    }
    print_accuracy(accuracy, peaks)
    parts: dict[str, dict[str, harness.Candidate]] = {
        "forward": {name: lambda v=v: v.forward(inputs) for name, v in variants.items()},
        "backward": {name: v.backward(inputs) for name, v in variants.items()},
        "forward + backward": {name: lambda v=v: v.step(inputs) for name, v in variants.items()},
    }
    timings = {
        part: harness.time_interleaved(candidates, rounds=given.rounds)
        for part, candidates in parts.items()
    }
    for part, found in timings.items():
        harness.print_timings(f"attention, {part}, {sizes}", found, CODA)
    facts = {name: vars(found) for name, found in accuracy.items()}
    harness.publish(
        given, accuracy=facts, peak_gib=peaks, milliseconds=harness.timings_data(timings)
    )


if __name__ == "__main__":
    main()
