"""Single GEMMs with an epilogue, beside the bare cuBLAS GEMM and other implementations.

    python benchmarks/epilogues.py --json epilogues.json
    python benchmarks/epilogues.py --shapes 2048x2048x2048,4096x4096x4096 --cases SwiGLU,residual

A shape is M x N x K; there are N columns of each weight (of SwiGLU two). bf16, random normal data,
weights scaled by 1/sqrt(K). coda, eager PyTorch, torch.compile, and Liger where it is
installed, in turn and in one process, the L2 cache cleared between calls. Results are compared with
float64 in the same run. `--variants all` adds what measures alternatives: torch.compile's
max-autotune, and coda with tuning.
"""

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import harness
import torch
import torch.nn.functional as F
from layer_variants import CODA, CODA_TUNED, COMPILED, EAGER, LIGER, MAX_AUTOTUNE
from llama_layer import EPS, Tensors, rotated

import coda_ir
from coda_ir.diagnostics import CodaError
from coda_ir.float64 import relative_error

VARIANTS = (CODA, CODA_TUNED, EAGER, COMPILED, MAX_AUTOTUNE, LIGER)
UNASKED = (CODA, EAGER, COMPILED, LIGER)
"""Without what measures alternatives, for minutes."""
BASELINE = "cuBLAS GEMM"
CHECKED_ROWS = 512
DEFAULT_SHAPES = "16384x2048x2048,4096x4096x4096"


HEAD = 128


@dataclass(frozen=True)
class Sizes:
    """The sizes of a GEMM: M rows and N columns of the result; the sum runs over K."""

    m: int
    n: int
    k: int


@dataclass(frozen=True)
class Case:
    """One GEMM and the operators that follow it, or a norm before it."""

    name: str
    text: str
    """The program; M is a symbol, N, K and HEAD are constants."""
    function: Callable[[Tensors], torch.Tensor]
    """The same in PyTorch, on packed weights."""
    weights: int = 1
    """The number of weights of N columns side by side."""
    liger: Callable[[Any, Tensors], torch.Tensor] | None = None
    """The same with the operators of `liger_kernel.transformers.functional`."""

    def constants(self, sizes: Sizes) -> dict[str, int]:
        given = {"N": sizes.n, "K": sizes.k, "HEAD": min(HEAD, sizes.n)}
        return {name: value for name, value in given.items() if f"const {name} " in self.text}

    def draw(self, sizes: Sizes, device: str) -> Tensors:
        """Draw random arguments of the program, by name, and the packed weights `packed`."""

        def normal(*extents: int) -> torch.Tensor:
            return torch.randn(*extents, device=device, dtype=torch.bfloat16)

        m, n, k = sizes.m, sizes.n, sizes.k
        angles = torch.rand(m, min(HEAD, n) // 2, device=device) * 2 * math.pi
        drawn = {
            "x": normal(m, k),
            "w": normal(n, k) / math.sqrt(k),
            "v": normal(n, k) / math.sqrt(k),
            "b": normal(n),
            "r": normal(m, n),
            "g": 1 + normal(k) / 10,
            "target": torch.randint(n, (m,), device=device),
            "cos": angles.cos(),
            "sin": angles.sin(),
        }
        names = ["w", "v"][: self.weights]
        return drawn | {"packed": torch.cat([drawn[name] for name in names])}


def _swiglu(t: Tensors) -> torch.Tensor:
    gate, up = F.linear(t["x"], t["packed"]).chunk(2, -1)
    return F.silu(gate) * up


def _rotary(t: Tensors) -> torch.Tensor:
    product = F.linear(t["x"], t["packed"])
    return rotated(product, t["cos"].to(product.dtype), t["sin"].to(product.dtype))


def _cross_entropy(t: Tensors) -> torch.Tensor:
    """Return the cross entropy as models compute it; float64 stays float64."""
    logits = F.linear(t["x"], t["packed"])
    return F.cross_entropy(logits if logits.dtype == torch.float64 else logits.float(), t["target"])


def _liger_swiglu(liger: Any, t: Tensors) -> torch.Tensor:
    return liger.liger_swiglu(F.linear(t["x"], t["w"]), F.linear(t["x"], t["v"]))


def _liger_norm(liger: Any, t: Tensors) -> torch.Tensor:
    return F.linear(liger.liger_rms_norm(t["x"], t["g"], EPS), t["packed"])


def _liger_cross_entropy(liger: Any, t: Tensors) -> torch.Tensor:
    return liger.liger_fused_linear_cross_entropy(t["x"], t["packed"], t["target"])


def _text(arguments: str, body: str, *, heads: bool = False) -> str:
    head = "const HEAD = 128\n" if heads else ""
    return (
        f"const N = 1024\nconst K = 1024\n{head}"
        f"fn f(x: bf16[M, K], weight w: bf16[N, K], {arguments}) {{\n    return {body}\n}}\n"
    )


CASES = (
    Case(
        "residual",
        _text("r: bf16[M, N]", "r + linear(x, w)"),
        lambda t: t["r"] + F.linear(t["x"], t["packed"]),
    ),
    Case(
        "bias + GELU",
        _text("weight b: bf16[N]", "gelu(linear(x, w, b))"),
        lambda t: F.gelu(F.linear(t["x"], t["packed"]) + t["b"]),
    ),
    Case(
        "SwiGLU",
        _text("weight v: bf16[N, K]", "silu(linear(x, w)) * linear(x, v)"),
        _swiglu,
        weights=2,
        liger=_liger_swiglu,
    ),
    Case(
        "RMSNorm",
        _text("weight g: bf16[K]", f"linear(rms_norm(x, g, eps={EPS}), w)"),
        lambda t: F.linear(F.rms_norm(t["x"], t["g"].shape, t["g"], EPS), t["packed"]),
        liger=_liger_norm,
    ),
    Case(
        "rotary",
        _text(
            "cos: f32[M, HEAD // 2], sin: f32[M, HEAD // 2]",
            "rope(linear(x, w), cos, sin, head_dim=HEAD)",
            heads=True,
        ),
        _rotary,
    ),
    Case(
        "cross entropy",
        _text("target: i64[M]", 'cross_entropy(linear(x, w), target, reduction="mean")'),
        _cross_entropy,
        liger=_liger_cross_entropy,
    ),
)


def candidates(
    case: Case, sizes: Sizes, tensors: Tensors, names: Sequence[str]
) -> dict[str, harness.Candidate]:
    """Return the variants that are available here, by name; print which are not, and why."""
    device = tensors["x"].device
    found: dict[str, harness.Candidate] = {BASELINE: lambda: tensors["x"] @ tensors["packed"].T}
    for name, tune in {CODA: False, CODA_TUNED: True}.items():
        if name in names and (not tune or device.type == "cuda"):
            found[name] = _coda(case, sizes, tensors, tune=tune)
    if EAGER in names:
        found[EAGER] = lambda: case.function(tensors)
    others = {
        COMPILED: _compiled,
        MAX_AUTOTUNE: partial(_compiled, mode="max-autotune-no-cudagraphs"),
        LIGER: _liger,
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


def _coda(case: Case, sizes: Sizes, tensors: Tensors, *, tune: bool) -> harness.Candidate:
    constants, device = case.constants(sizes), tensors["x"].device
    function = coda_ir.compile(case.text, constants=constants, device=device, tune=tune)
    return partial(function, *(tensors[spec.name] for spec in function.signature.arguments))


def _compiled(case: Case, tensors: Tensors, mode: str | None = None) -> harness.Candidate:
    compiled: Callable[[Tensors], object] = harness.torch_compile(
        case.function, dynamic=False, mode=mode
    )
    return lambda: compiled(tensors)


def _liger(case: Case, tensors: Tensors) -> harness.Candidate | None:
    if case.liger is None:
        return None
    liger, run = import_module("liger_kernel.transformers.functional"), case.liger
    if not tensors["x"].is_cuda:
        raise ImportError("its kernels are for GPUs")
    return lambda: run(liger, tensors)


def check(
    case: Case, tensors: Tensors, results: Mapping[str, torch.Tensor]
) -> dict[str, dict[str, float]]:
    """Return the errors of the last rows, or of the loss, by variant."""
    rows = slice(-CHECKED_ROWS, None)
    by_row = ("x", "r", "target", "cos", "sin")
    is_loss = all(result.ndim == 0 for result in results.values())
    part = {
        name: tensor[rows] if name in by_row and not is_loss else tensor
        for name, tensor in tensors.items()
    }
    exact = {name: t.double() if t.is_floating_point() else t for name, t in part.items()}
    expected = case.function(exact)
    found: dict[str, dict[str, float]] = {}
    for name, result in results.items():
        found[name] = {case.name: relative_error(result if is_loss else result[rows], expected)}
    return found


def measure(
    case: Case, sizes: Sizes, options: argparse.Namespace
) -> tuple[dict[str, harness.Timing], dict[str, dict[str, float]]]:
    names = harness.chosen(options.variants, VARIANTS)
    tensors = case.draw(sizes, options.device)
    harness.reset_compilers()
    with torch.no_grad():
        made = candidates(case, sizes, tensors, names)
        results: dict[str, Any] = {n: call() for n, call in made.items() if n != BASELINE}
        errors = check(case, tensors, results)
        del results
        return harness.time_interleaved(made, rounds=options.rounds), errors


def wanted_shapes(text: str) -> list[tuple[int, ...]]:
    return [tuple(map(int, shape.split("x"))) for shape in harness.wanted(text)]


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = harness.make_parser(__doc__)
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
    harness.add_common_options(parser)
    return harness.read_options(parser, arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    harness.seed()
    budget = harness.Budget(options.budget)
    parts = harness.wanted(options.cases or "") or [""]
    timings: dict[str, dict[str, harness.Timing]] = {}
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
            harness.print_timings(section, timings[section], BASELINE)
            harness.print_errors(errors[section], EAGER, section)
            harness.publish(options, milliseconds=harness.timings_data(timings), errors=errors)


if __name__ == "__main__":
    main()
