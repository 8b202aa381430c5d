"""GEMMs of one token with weights of 16, 8 and 4 bits, beside PyTorch's.

    python benchmarks/low_bit_weights.py --json low_bit_weights.json

bf16 inputs, random weights whose copies exceed the L2 cache together, each GEMM of a Llama 7B layer
in a CUDA graph of its own. Percent are of the rate of a copy, for the bytes of the weight, its
scales and its zero points. `int4pack_mm` is PyTorch's product of four bits in groups of 128.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

import torch
from harness import make_parser
from rich.console import Console
from rich.table import Table

import coda_ir
from coda_ir.float64 import relative_error
from coda_ir.frontends.torch.low_bit_layers import LowBitLinear, WeightScheme

SHAPES = ((12288, 4096), (4096, 4096), (22016, 4096), (4096, 11008))
"""N and K of the GEMMs of a layer."""
COPIES_BYTES = 2e8
REPLAYS = 5
SCHEMES = {
    "int8": WeightScheme("int8", None),
    "float8": WeightScheme("float8", None),
    "int8, groups": WeightScheme("int8", 128),
    "int4": WeightScheme("int4", 128),
    "int4, zero points": WeightScheme("int4", 128, has_zeros=True),
    "int4, groups of 64": WeightScheme("int4", 64, has_zeros=True),
}

Call = Callable[[], torch.Tensor]


def graph_us(calls: Sequence[Call]) -> float:
    """Microseconds of one of the calls, which are replayed as one CUDA graph."""
    for call in calls:
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = [call() for call in calls]
    graph.replay()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(REPLAYS):
        graph.replay()
    end.record()
    torch.cuda.synchronize()
    assert kept
    return 1000 * start.elapsed_time(end) / REPLAYS / len(calls)


def copy_rate() -> float:
    """Bytes that are read and written in a microsecond of a copy."""
    source = torch.empty(2**28, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.numel() / graph_us([partial(target.copy_, source)] * 2)


def copies(weight: torch.Tensor) -> int:
    return max(4, int(COPIES_BYTES // weight.nbytes))


def plain(x: torch.Tensor, weight: torch.Tensor) -> tuple[Sequence[Call], Sequence[Call], int]:
    """The calls of cuBLAS and of coda with a bf16 weight, and its bytes."""
    weights = [weight.clone() for _ in range(copies(weight))]
    n, k = weight.shape
    text = f"fn f(x: bf16[1, {k}], weight w: bf16[{n}, {k}]) {{ return linear(x, w) }}"
    function = coda_ir.compile(text, device="cuda")
    cublas = [partial(torch.nn.functional.linear, x, w) for w in weights]
    return cublas, [partial(function, x, w) for w in weights], weight.nbytes


def low_bits(
    x: torch.Tensor, weight: torch.Tensor, scheme: WeightScheme
) -> tuple[Sequence[Call], int, float]:
    """The calls of coda with a quantized weight, its bytes, and the error against float64."""
    n, k = weight.shape
    linear = torch.nn.Linear(k, n, bias=False, device="meta")
    linear.weight = torch.nn.Parameter(weight)
    layer = LowBitLinear.of(linear, scheme)
    exported = coda_ir.export(layer, (x,))
    function = exported.compile(device="cuda").function
    given = exported.arguments(x)
    with torch.no_grad():
        calls = [
            partial(function, *(t if t.shape == x.shape else t.clone() for t in given))
            for _ in range(copies(layer.qweight))
        ]
        error = relative_error(calls[0](), x.double() @ layer.dequantized().double().T)
    return calls, sum(p.nbytes for p in layer.parameters()), error


def int4pack(x: torch.Tensor, n: int, k: int) -> tuple[Sequence[Call], int]:
    """The calls of PyTorch's product of four bits, and the bytes of a weight.

    PyTorch documents no public name for this product, which torchao calls by the private one.
    """
    count = int(max(4, COPIES_BYTES // (n * k // 2)))
    drawn = torch.randint(0, 255, (n, k // 2), device="cuda", dtype=torch.uint8)
    packed = torch._convert_weight_to_int4pack(drawn, 8)  # pyright: ignore
    scales = torch.rand(k // 128, n, 2, device="cuda", dtype=torch.bfloat16)
    multiply: Any = torch._weight_int4pack_mm  # pyright: ignore
    calls = [partial(multiply, x, packed.clone(), 128, scales) for _ in range(count)]
    return calls, n * k // 2 + scales.nbytes


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--json", type=Path, default=Path("low_bit_weights.json"))
    parser.add_argument(
        "--weights", default="*", metavar="PATTERN", help=f"of {', '.join(SCHEMES)}"
    )
    options = parser.parse_args()
    rate, records = copy_rate(), list[dict[str, object]]()
    table = Table(title=f"us of one token, copy {rate / 1000:.0f} GB/s")
    for column in ("N x K", "weight", "us", "% of a copy", "error"):
        table.add_column(column, justify="right")

    def add(shape: str, name: str, calls: Sequence[Call], nbytes: int, error: float = 0.0) -> None:
        us = graph_us(calls)
        share = 100 * nbytes / us / rate
        records.append({"shape": shape, "weight": name, "us": us, "share": share, "error": error})
        table.add_row(shape, name, f"{us:.1f}", f"{share:.0f}", f"{error:.2e}" if error else "")

    for n, k in SHAPES:
        shape = f"{n} x {k}"
        x = torch.randn(1, k, device="cuda", dtype=torch.bfloat16)
        weight = torch.randn(n, k, device="cuda", dtype=torch.bfloat16) / k**0.5
        cublas, own, nbytes = plain(x, weight)
        add(shape, "bf16, cuBLAS", cublas, nbytes)
        add(shape, "bf16", own, nbytes)
        for name, scheme in SCHEMES.items():
            if not fnmatchcase(name, options.weights):
                continue
            calls, nbytes, error = low_bits(x, weight, scheme)
            add(shape, name, calls, nbytes, error)
        add(shape, "int4pack_mm", *int4pack(x, n, k))
        table.add_section()
    Console(width=100).print(table)
    options.json.write_text(json.dumps(records, indent=1) + "\n")


if __name__ == "__main__":
    main()
