"""Errors of the layer between two attentions against float64, forward and backward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from llama_layer import ROWS, Tensors, leaves, pack, pack_weights, torch_layer

from coda_ir.float64 import relative_error

CHECKED_ROWS = 512
RESULTS = ("x2", "q", "k", "v")

grad: Any = torch.autograd.grad  # has no complete types


def check(
    results: Mapping[str, Sequence[torch.Tensor]], inputs: Tensors
) -> dict[str, dict[str, float]]:
    """Errors of every variant's results on the last rows of the last batch element."""
    exact: Tensors = {}
    for name, tensor in inputs.items():
        part = tensor[..., -CHECKED_ROWS:, :] if name in ROWS else tensor
        exact[name] = (part[-1:] if name in ("y", "x0") else part).double()
    expected = torch_layer(pack(exact))
    return {
        variant: {
            name: relative_error(actual[-1:, -CHECKED_ROWS:], reference)
            for name, actual, reference in zip(RESULTS, outputs, expected, strict=True)
        }
        for variant, outputs in results.items()
    }


def exact_gradients(inputs: Tensors, upstream: Sequence[torch.Tensor]) -> Tensors:
    """The gradients in float64, those of the tokens only for the last `CHECKED_ROWS` of them.

    The rows are taken in parts, which bounds the memory.
    """
    weights = leaves({name: t.double() for name, t in inputs.items() if name not in ROWS})
    sums = {name: torch.zeros_like(weight) for name, weight in weights.items()}
    last: Tensors = {}
    time = inputs["y"].shape[1]
    for start in range(0, time, CHECKED_ROWS):
        part = slice(start, start + CHECKED_ROWS)
        rows = leaves({name: inputs[name][..., part, :].double() for name in ROWS})
        taken = {**weights, "y": rows["y"], "x0": rows["x0"]}
        results = torch_layer(pack(weights | rows))
        seeds = [gradient[:, part].double() for gradient in upstream]
        last = dict(zip(taken, grad(results, list(taken.values()), seeds), strict=True))
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
