"""Errors of compiled programs and of eager PyTorch against float64, with a-priori bounds.

    python benchmarks/numerics.py [--small] [--group layer_norm] [--json FILE]

It prints a table and can write JSON. A case is a program, a model of it in PyTorch, and inputs; an
error is the largest one over the elements of all results, in ulps of the largest element of its
row. Programs run on the GPU where there is one, else in Triton's interpreter: set
TRITON_INTERPRET=1 before, or let nothing import triton first. docs/numerics.md derives the bounds.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

import torch
import torch.nn.functional as F

import coda_ir
from coda_ir.devices import default_device
from coda_ir.dialects.gemm import NumericsMode

Tensors: TypeAlias = dict[str, torch.Tensor]

UNIT_F32 = 2.0**-24
"""The unit roundoff of float32."""

MODES = tuple(mode.value for mode in NumericsMode)
TYPES = {torch.bfloat16: "bf16", torch.float16: "f16", torch.float32: "f32"}


@dataclass(frozen=True)
class Case:
    """One program on one kind of input.

    `bound` gives what every element of the first result may be off by, from the inputs in
    float64; None where no bound is stated.
    """

    group: str
    name: str
    text: str
    model: Callable[[Tensors], torch.Tensor]
    inputs: Tensors
    bound: Callable[[Tensors, torch.dtype], torch.Tensor] | None = None

    @property
    def dtype(self) -> torch.dtype:
        return self.inputs["x"].dtype

    @property
    def source(self) -> str:
        return self.text.replace("T[", f"{TYPES[self.dtype]}[")


@dataclass(frozen=True)
class Row:
    """The errors of one case in ulps: of eager, and of each mode."""

    group: str
    name: str
    dtype: str
    eager: float
    modes: dict[str, float]
    bound: float | None
    """The largest bound over the elements, in the same ulps."""

    def ratio(self, mode: str) -> float:
        """The error relative to eager's, at least half an ulp (which no rounding avoids)."""
        return self.modes[mode] / max(self.eager, 0.5)


def error_in_ulps(actual: torch.Tensor, exact: torch.Tensor, dtype: torch.dtype) -> float:
    """The largest |actual − exact| in ulps of the largest element of the row.

    Infinite where a finite element is not, or the other way round. An exact value above the
    largest finite number of `dtype` stands for infinity.
    """
    limit = torch.finfo(dtype).max
    overflow = exact.abs() > limit
    wrong = actual.isfinite() == overflow | ~exact.isfinite()
    if wrong.any():
        return float("inf")
    usable = actual.isfinite()
    row = torch.where(usable, exact, 0.0).abs().amax(-1, keepdim=True)
    ulp = 2.0 ** row.clamp_min(torch.finfo(dtype).tiny).log2().floor() * torch.finfo(dtype).eps
    difference = torch.where(usable, actual.double() - exact, 0.0).abs()
    return (difference / ulp).max().item()


def measure(case: Case) -> Row:
    """Run a case in every mode, in eager PyTorch, and in float64."""
    device = default_device()
    inputs = {name: tensor.to(device) for name, tensor in case.inputs.items()}
    wide = {n: t.double() if t.is_floating_point() else t for n, t in case.inputs.items()}
    exact = case.model(wide)

    def error(result: torch.Tensor) -> float:
        return error_in_ulps(result.cpu(), exact, case.dtype)

    modes = {
        mode: error(coda_ir.compile(case.source, device=device, numerics=mode)(**inputs))
        for mode in MODES
    }
    bound = None
    if case.bound is not None:
        allowed = case.bound(wide, case.dtype)
        row = exact.abs().amax(-1, keepdim=True)
        ulp = 2.0 ** row.log2().floor() * torch.finfo(case.dtype).eps
        bound = (allowed / ulp).max().item()
    eager = error(case.model(inputs))
    return Row(case.group, case.name, TYPES[case.dtype], eager, modes, bound)


# Bounds, to first order in the unit roundoffs: see docs/numerics.md.


def gamma(count: int) -> float:
    """The bound of the relative error of `count` operations in float32 (Higham 2002, 3.1)."""
    return count * UNIT_F32 / (1 - count * UNIT_F32)


def unit(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).eps / 2


def linear_bound(t: Tensors, dtype: torch.dtype) -> torch.Tensor:
    """One rounding of the result, and K products and sums in float32."""
    size = F.linear(t["x"].abs(), t["w"].abs())
    return unit(dtype) * F.linear(t["x"], t["w"]).abs() + gamma(t["x"].shape[-1] + 1) * size


def norm_bound(t: Tensors, dtype: torch.dtype, *, centered: bool) -> torch.Tensor:
    """The error of norm(r + x·Wᵀ)·Vᵀ, whatever mode computes it.

    The residual stream is rounded at most once to `dtype` and the normalized (or scaled) input of
    the second GEMM once; LayerNorm subtracts a mean, which enlarges both by |mean| / std.
    """
    y = t["r"] + F.linear(t["x"], t["w"])
    mean = y.mean(-1, keepdim=True) if centered else torch.zeros(())
    std = ((y - mean).square().mean(-1, keepdim=True) + 1e-5).rsqrt()
    depth, columns = t["x"].shape[-1], y.shape[-1]
    size = y.abs() + mean.abs()
    product = gamma(depth + 1) * (t["r"].abs() + F.linear(t["x"].abs(), t["w"].abs()))
    moved = 2 * unit(dtype) * size + product + gamma(columns) * size
    relative = moved.square().mean(-1, keepdim=True).sqrt() * std
    normed = (y - mean).abs() * std
    entering = moved * std + normed * (relative + gamma(columns + 8) + unit(dtype))
    weight = (t["g"] * t["v"]).abs()
    cancelled = gamma(columns + 8) * (size * std) @ weight.T
    out = ((y - mean) * std) @ (t["g"] * t["v"]).T
    return entering @ weight.T + cancelled + unit(dtype) * out.abs()


# Cases


def _normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _in(dtype: torch.dtype, **tensors: torch.Tensor) -> Tensors:
    return {name: tensor.to(dtype) for name, tensor in tensors.items()}


def linear_case(group: str, name: str, dtype: torch.dtype, k: int, scale: float) -> Case:
    text = f"fn f(x: T[M, {k}], weight w: T[24, {k}]) -> T[M, 24] {{\n return linear(x, w)\n}}\n"
    inputs = _in(dtype, x=_normal(8, k) * scale, w=_normal(24, k, seed=1) / k**0.5)
    return Case(group, name, text, lambda t: F.linear(t["x"], t["w"]), inputs, linear_bound)


def norm_case(
    group: str, name: str, dtype: torch.dtype, n: int, scale: float, shift: float, kind: str
) -> Case:
    """norm(r + x·Wᵀ)·Vᵀ: the norm is deferred past the second GEMM where the mode allows it."""
    text = f"""fn f(x: T[M, 32], r: T[M, {n}], weight w: T[{n}, 32], weight g: T[{n}],
  weight b: T[{n}], weight v: T[24, {n}]) -> T[M, 24] {{
    y = r + linear(x, w)
    return linear({"layer_norm(y, g, b" if kind == "layer" else "rms_norm(y, g"}, eps=1e-5), v)
}}
"""

    def model(t: Tensors) -> torch.Tensor:
        y = t["r"] + F.linear(t["x"], t["w"])
        if kind == "layer":
            h = F.layer_norm(y, (n,), t["g"], t["b"], 1e-5)
        else:
            h = F.rms_norm(y, (n,), t["g"], 1e-5)
        return F.linear(h, t["v"])

    inputs = _in(
        dtype,
        x=_normal(8, 32) * scale,
        r=(_normal(8, n, seed=1) + shift) * scale,
        w=_normal(n, 32, seed=2) / 32**0.5,
        g=1 + 0.2 * _normal(n, seed=3),
        b=torch.zeros(n, dtype=torch.float64),
        v=_normal(24, n, seed=4) / n**0.5,
    )
    bound = partial(norm_bound, centered=kind == "layer")
    return Case(group, name, text, model, inputs, bound)


def swiglu_case(group: str, name: str, dtype: torch.dtype, scale: float) -> Case:
    text = """fn f(x: T[M, 96], weight w: T[24, 96], weight u: T[24, 96]) -> T[M, 24] {
    return silu(linear(x, w)) * linear(x, u)
}
"""

    def model(t: Tensors) -> torch.Tensor:
        return F.silu(F.linear(t["x"], t["w"])) * F.linear(t["x"], t["u"])

    weights = (_normal(24, 96, seed=seed) / 96**0.5 for seed in (1, 2))
    w, u = weights
    return Case(group, name, text, model, _in(dtype, x=_normal(8, 96) * scale, w=w, u=u))


def edge_case(dtype: torch.dtype, share: float) -> Case:
    """x·Wᵀ − b of numbers near the largest one: eager overflows where the product is rounded."""
    text = "fn f(x: T[M, 32], weight w: T[24, 32], b: T[M, 24]) -> T[M, 24] {\n"
    text += "    return linear(x, w) - b\n}\n"
    largest = torch.finfo(dtype).max * share
    w = torch.zeros(24, 32, dtype=torch.float64)
    w[:, 0] = 1
    x = torch.full((8, 32), largest, dtype=torch.float64)
    inputs = _in(dtype, x=x, w=w * 1.5, b=torch.full((8, 24), largest, dtype=torch.float64))
    name = f"{share:g} of the largest"
    return Case("overflow", name, text, lambda t: F.linear(t["x"], t["w"]) - t["b"], inputs)


def cases(*, small: bool = False) -> Iterator[Case]:
    """The grid; `small` is the part of it that is quick in the interpreter."""
    for dtype in TYPES:
        narrow = dtype == torch.float16
        for exponent in (-4, 4) if small else (-4, -2, 0, 2, 4):
            name, scale = f"magnitude 1e{exponent}", 10.0**exponent
            yield linear_case("linear", name, dtype, 256, scale)
            if not (narrow and exponent > 2):
                yield norm_case("rms_norm", name, dtype, 256, scale, 0.0, "rms")
                yield swiglu_case("swiglu", name, dtype, scale)
        for ratio in (1, 1e3) if small else (1, 10, 1e2, 1e3, 1e4):
            name = f"mean/std {ratio:g}"
            yield norm_case("layer_norm", name, dtype, 256, 1.0, ratio, "layer")
        for extent in (512,) if small else (1024, 16384, 65536):
            yield linear_case("linear", f"K = {extent}", dtype, extent, 1.0)
            yield norm_case("rms_norm", f"N = {extent}", dtype, extent, 1.0, 0.0, "rms")
            yield norm_case("layer_norm", f"N = {extent}", dtype, extent, 1.0, 1.0, "layer")
        for share in (0.5, 0.9):
            yield edge_case(dtype, share)


# The report


def table(rows: Sequence[Row]) -> str:
    header = ["operator", "case", "type", "eager", *MODES, "bound", "worst / eager"]
    lines = [header]
    for row in rows:
        ratio = max(map(row.ratio, MODES)) if row.eager != float("inf") else 0.0
        bound = "" if row.bound is None else f"{row.bound:.3g}"
        errors = [f"{row.modes[mode]:.3g}" for mode in MODES]
        note = f"{ratio:.2f}" + (" *" if ratio > 1.25 else "")
        lines.append([row.group, row.name, row.dtype, f"{row.eager:.3g}", *errors, bound, note])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="numerics", description=__doc__)
    parser.add_argument("--small", action="store_true", help="only the part that CI checks")
    parser.add_argument("--group", help="only the cases of one operator")
    parser.add_argument("--json", type=Path, help="write the errors to this file")
    options = parser.parse_args(arguments)
    chosen = [c for c in cases(small=options.small) if options.group in (None, c.group)]
    rows = [measure(case) for case in chosen]
    print("Largest error in ulps of the largest element of a row; * more than 1.25 x eager.")
    print(table(rows))
    if options.json is not None:
        text = json.dumps([asdict(row) for row in rows], indent=1)
        # JSON has no infinity.
        options.json.write_text(text.replace("Infinity", '"inf"') + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
