"""The layer between two attentions, forward: ours, PyTorch eager, torch.compile, the bare GEMMs.

    python benchmarks/layer_forward.py --sizes 2048,4096 --json layer.json

bf16, batch 2 x 8192 tokens, random normal data, weights scaled by 1/sqrt(K). Each variant is also
compared with float64 in the same run. Needs a GPU.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import torch
import torch.nn.functional as F
from harness import Candidate, Timing, print_timings, time_interleaved, write_json

import coda_ir
from coda_ir.float64 import relative_error

LAYER = Path(__file__).parent.parent / "examples" / "llama_layer.coda"
BATCH, TIME, HEAD_DIM, EPS = 2, 8192, 128, 1e-5
CHECKED_ROWS = 512

Tensors = dict[str, torch.Tensor]

# The types of torch.compile are partly unknown to a strict checker.
torch_compile: Callable[..., Callable[[Tensors], tuple[torch.Tensor, ...]]] = import_module(
    "torch"
).compile


def mlp_width(d: int) -> int:
    """8/3 of the hidden size, rounded up to a multiple of 256, as Llama has it."""
    return -(-int(d * 8 / 3) // 256) * 256


def make_inputs(d: int, dtype: torch.dtype = torch.bfloat16) -> Tensors:
    """Random inputs and weights of a layer of hidden size `d`, by their names in the program."""

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, device="cuda", dtype=dtype)

    def weight(n: int, k: int) -> torch.Tensor:
        return normal(n, k) / math.sqrt(k)

    f = mlp_width(d)
    angles = torch.rand(TIME, HEAD_DIM // 2, device="cuda") * 2 * math.pi
    return {
        "y": normal(BATCH, TIME, d),
        "x0": normal(BATCH, TIME, d),
        "wo": weight(d, d),
        "norm1": 1 + normal(d) / 10,
        "w_gate": weight(f, d),
        "w_up": weight(f, d),
        "w_down": weight(d, f),
        "norm2": 1 + normal(d) / 10,
        "wq": weight(d, d),
        "wk": weight(d, d),
        "wv": weight(d, d),
        "cos": angles.cos(),
        "sin": angles.sin(),
    }


def pack(inputs: Tensors) -> Tensors:
    """The weights as the PyTorch layer likes them best: gate and up, and q, k, v, in one matrix."""
    packed = {name: inputs[name] for name in ("y", "x0", "wo", "norm1", "w_down", "norm2")}
    packed["w_gate_up"] = torch.cat([inputs["w_gate"], inputs["w_up"]])
    packed["w_qkv"] = torch.cat([inputs["wq"], inputs["wk"], inputs["wv"]])
    for table in ("cos", "sin"):
        packed[table] = inputs[table].to(inputs["y"].dtype)
    return packed


def torch_layer(t: Tensors) -> tuple[torch.Tensor, ...]:
    """The layer in plain PyTorch on packed weights; returns x2, q, k, v."""
    d = t["x0"].shape[-1]

    def norm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, (d,), w, EPS)

    def rope(x: torch.Tensor) -> torch.Tensor:
        heads = x.reshape(*x.shape[:-1], -1, HEAD_DIM)
        a, b = heads[..., : HEAD_DIM // 2], heads[..., HEAD_DIM // 2 :]
        cos, sin = t["cos"][:, None], t["sin"][:, None]
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)

    x1 = t["x0"] + F.linear(t["y"], t["wo"])
    gate, up = F.linear(norm(x1, t["norm1"]), t["w_gate_up"]).chunk(2, -1)
    x2 = x1 + F.linear(F.silu(gate) * up, t["w_down"])
    q, k, v = F.linear(norm(x2, t["norm2"]), t["w_qkv"]).chunk(3, -1)
    return x2, rope(q), rope(k), v


def four_gemms(packed: Tensors) -> Candidate:
    """The four GEMMs of the layer alone, as cuBLAS runs them."""
    d = packed["x0"].shape[-1]
    hidden = packed["x0"].reshape(-1, d)
    wide = torch.randn(hidden.shape[0], mlp_width(d), device="cuda", dtype=hidden.dtype)
    pairs = [
        (hidden, packed["wo"]),
        (hidden, packed["w_gate_up"]),
        (wide, packed["w_down"]),
        (hidden, packed["w_qkv"]),
    ]
    return lambda: [a @ w.T for a, w in pairs]


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


def measure(d: int, variants: list[str]) -> tuple[dict[str, Timing], dict[str, list[float]]]:
    """Timings and errors of the layer at hidden size `d`."""
    inputs = make_inputs(d)
    packed = pack(inputs)
    f = mlp_width(d)
    ours = coda_ir.compile(LAYER, constants={"D": d, "F": f}, device="cuda")
    compiled = torch_compile(torch_layer, dynamic=False)
    candidates: dict[str, Candidate] = {
        "4 cuBLAS GEMMs": four_gemms(packed),
        "coda": lambda: ours(**inputs),
        "eager": lambda: torch_layer(packed),
        "torch.compile": lambda: compiled(packed),
    }
    candidates = {name: c for name, c in candidates.items() if name in variants}
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
    arguments = parser.parse_args()
    variants = ["4 cuBLAS GEMMs", "coda", "eager", "torch.compile"]
    timings: dict[str, dict[str, Timing]] = {}
    errors: dict[str, dict[str, list[float]]] = {}
    for d in map(int, arguments.sizes.split(",")):
        section = f"D = {d}"
        timings[section], errors[section] = measure(d, variants)
        print_timings(
            f"layer forward, {section}, M = {BATCH * TIME}", timings[section], variants[0]
        )
        for name, values in errors[section].items():
            print(f"error against float64, {name}: " + ", ".join(f"{e:.2e}" for e in values))
    if arguments.json is not None:
        write_json(arguments.json, timings, errors=errors)


if __name__ == "__main__":
    main()
