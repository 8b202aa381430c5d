"""Check solutions of the tasks in tasks.md: `python examples/authoring/check.py FILE.coda`.

Prints `ok NAME` for a task that a function of the file solves, and a line of JSON for each problem.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F

import coda_ir
from coda_ir.diagnostics import CheckError, CodaError, Diagnostic
from coda_ir.error_diagnostics import diagnostics_of
from coda_ir.functions import functions_of
from coda_ir.random_inputs import random_inputs

Tensors: TypeAlias = Mapping[str, torch.Tensor]

SOLUTIONS = Path(__file__).with_name("solutions.coda")
SIZES: Sequence[Mapping[str, int]] = ({"M": 5, "B": 2, "T": 3}, {"M": 32, "B": 1, "T": 7})
VIEWS = {"coda.constant", "coda.reshape", "coda.slice", "coda.transpose", "func.return"}
"""Operators that are no kernels."""


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return x * (x.square().mean(-1, keepdim=True) + eps).rsqrt() * weight


def heads(x: torch.Tensor) -> torch.Tensor:
    """Columns split into heads of 16."""
    return x.reshape(*x.shape[:-1], -1, 16)


def rotated(t: Tensors) -> torch.Tensor:
    first, second = heads(t["x"] @ t["w"].mT).chunk(2, -1)
    cos, sin = t["cos"][:, None], t["sin"][:, None]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1).flatten(-2)


def attended(t: Tensors) -> torch.Tensor:
    q, k, v = (heads(t["x"] @ t[name].mT).transpose(1, 2) for name in ("wq", "wk", "wv"))
    a = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    return t["x"] + a.transpose(1, 2).flatten(-2) @ t["wo"].mT


def quantized(t: Tensors) -> tuple[torch.Tensor, ...]:
    z = (t["x"] @ t["w"].mT).reshape(-1, 2, 64)
    scale = z.abs().amax(-1, keepdim=True) / 127
    return (z / scale).round().flatten(-2), scale.squeeze(-1)


def row_amax(t: Tensors) -> tuple[torch.Tensor, ...]:
    z = t["x"] @ t["w"].mT + t["b"]
    return z.relu(), z.abs().amax(-1, keepdim=True)


def normed_pair(t: Tensors) -> tuple[torch.Tensor, ...]:
    h = t["res"] + t["x"] @ t["w"].mT
    return h, rms_norm(h, t["norm"], 1e-5) @ t["v"].mT


def layer_normed(t: Tensors) -> torch.Tensor:
    h = t["res"] + t["x"] @ t["w"].mT
    return F.layer_norm(h, (64,), t["norm"], t["shift"], 1e-5) @ t["v"].mT


def modulated(t: Tensors) -> torch.Tensor:
    h = F.layer_norm(t["x"], (64,), eps=1e-6) * (1 + t["scale"]) + t["shift"]
    return h @ t["w"].mT


def scaled_rows(t: Tensors) -> tuple[torch.Tensor, ...]:
    z = t["x"] @ t["w"].mT * t["by"]
    return z, z.square().sum(-1, keepdim=True)


REFERENCES: Mapping[str, Callable[[Tensors], Any]] = {
    "bias_gelu": lambda t: F.gelu(F.linear(t["x"], t["w"], t["b"])),
    "gated_mlp": lambda t: F.silu(t["x"] @ t["gate"].mT) * (t["x"] @ t["up"].mT),
    "packed_glu": lambda t: F.silu(t["x"] @ t["w"][:96].mT) * (t["x"] @ t["w"][96:].mT),
    "residual": lambda t: t["res"] + 0.5 * (t["x"] @ t["w"].mT),
    "two_products": lambda t: t["x"] @ t["w"].mT + t["y"] @ t["v"].mT,
    "relu_squared": lambda t: F.relu(t["x"] @ t["w"].mT).square(),
    "softcap_logits": lambda t: 30 * torch.tanh(t["x"] @ t["w"].mT / 30),
    "normed_pair": normed_pair,
    "layer_normed": layer_normed,
    "modulated": modulated,
    "rotated": rotated,
    "head_norm": lambda t: rms_norm(heads(t["x"] @ t["w"].mT), t["norm"], 1e-6).flatten(-2),
    "attention_block": attended,
    "gated_attention_output": lambda t: (t["a"] * (t["x"] @ t["gate"].mT).sigmoid()) @ t["wo"].mT,
    "router": lambda t: (t["x"] @ t["w"].mT).softmax(-1),
    "token_loss": lambda t: F.cross_entropy(t["x"] @ t["head"].mT, t["target"]),
    "row_amax": row_amax,
    "clamped_glu": lambda t: (
        F.gelu(t["x"] @ t["gate"].mT).clamp(max=7) * (t["x"] @ t["up"].mT).clamp(-7, 7)
    ),
    "quantized": quantized,
    "scaled_rows": scaled_rows,
}


def check(file: Path) -> dict[str, list[Diagnostic]]:
    """The problems of each function that is called as a task. Raises CodaError for a wrong file."""
    names = [name for name in functions_of(coda_ir.parse(file)) if name in REFERENCES]
    if not names:
        raise CodaError(f"{file}: no function has the name of a task", "see tasks.md for the names")
    return {name: list(problems(file, name)) for name in names}


def problems(file: Path, name: str) -> Iterator[Diagnostic]:
    """Yield an error for each fault of the solution of a task."""
    found, expected = (compiled(path, name) for path in (file, SOLUTIONS))
    if interface(found) != interface(expected):
        message = f"the signature is {found.signature}"
        yield Diagnostic("error", None, message, f"write {expected.signature}", CheckError.code)
        return
    yield from wrong_numbers(found)
    count, allowed = len(kernels(found)), len(kernels(expected))
    if count > allowed:
        message = f"{count} kernels, expected at most {allowed}: {', '.join(kernels(found))}"
        remedy = "see coda-opt -p coda-to-gemm --remarks=json"
        yield Diagnostic("error", None, message, remedy, CheckError.code)


def wrong_numbers(found: coda_ir.CompiledFunction) -> Iterator[Diagnostic]:
    """The results that differ from PyTorch's, in float64."""
    func = functions_of(found.module("block"))[found.name]
    for seed, sizes in enumerate(SIZES):
        known = {size: sizes[size] for size in sizes if f"{size}," in str(found.signature)}
        given = random_inputs(func, known, seed=seed)
        wide = {k: v.double() if v.is_floating_point() else v for k, v in given.items()}
        results, expected = found.reference(given), REFERENCES[found.name](wide)
        for number, (result, right) in enumerate(
            zip(tuple_of(results), tuple_of(expected), strict=True)
        ):
            error = (result.double() - right).abs().max() / right.abs().max()
            if not error < 1e-6:
                message = f"result {number} differs from PyTorch by {error:.1e} for {known}"
                remedy = "compare the text of the task"
                yield Diagnostic("error", None, message, remedy, CheckError.code)
                return


@cache
def compiled(file: Path, name: str) -> coda_ir.CompiledFunction:
    return coda_ir.compile(file, entry=name, target="reference", device="cpu")


def interface(function: coda_ir.CompiledFunction) -> Sequence[tuple[Any, ...]]:
    """The arguments and the results, whose names callers do not see."""
    arguments = [(each.name, each.dtype, each.dims) for each in function.signature.arguments]
    return [*arguments, *((each.dtype, each.dims) for each in function.signature.results)]


def kernels(function: coda_ir.CompiledFunction) -> list[str]:
    ops = functions_of(function.module("gemm"))[function.name].body.block.ops
    return [op.name for op in ops if op.name not in VIEWS]


def tuple_of(value: Any) -> tuple[torch.Tensor, ...]:
    return (value,) if isinstance(value, torch.Tensor) else tuple(value)


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 1 where there is a problem, 2 for a wrong command line."""
    given = sys.argv[1:] if arguments is None else arguments
    if len(given) != 1:
        print("usage: python examples/authoring/check.py FILE.coda", file=sys.stderr)
        return 2
    try:
        found = check(Path(given[0]))
    except CodaError as error:
        found = {"": list(diagnostics_of(error))}
    for name, diagnostics in found.items():
        for diagnostic in diagnostics:
            print(json.dumps({"task": name, **diagnostic.to_dict()}))
        if not diagnostics:
            print(f"ok {name}")
    return int(any(found.values()))


if __name__ == "__main__":
    sys.exit(main())
