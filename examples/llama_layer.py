"""A Llama layer from llama_layer.coda: what was fused, what it saves, and how exact it is.

    python examples/llama_layer.py

Runs on a GPU at D = 4096 where there is one, and on the CPU in Triton's interpreter, small,
where there is none.
"""

import ast
import math
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table
from xdsl.dialects.builtin import ModuleOp

import coda_ir
from coda_ir.api import CompiledFunction, find_entry
from coda_ir.devices import default_device
from coda_ir.remarks import format_location
from coda_ir.tools.model_report import error_table
from coda_ir.traffic import total_traffic

LAYER = Path(__file__).with_suffix(".coda")
EPS = 1e-5

Tensors = dict[str, torch.Tensor]


def sizes(on_gpu: bool) -> tuple[dict[str, int], dict[str, int]]:
    """The constants of the program, and the sizes of its symbols."""
    if on_gpu:
        return {"D": 4096, "F": 11008, "HEAD": 128}, {"B": 2, "T": 8192}
    return {"D": 128, "F": 352, "HEAD": 32}, {"B": 2, "T": 37}


def make_inputs(layer: CompiledFunction, symbols: dict[str, int]) -> Tensors:
    """Random inputs: normal activations, weights scaled by 1/sqrt(K), real rotation angles."""
    generator = torch.Generator().manual_seed(0)
    angles = torch.rand(symbols["T"], _columns(layer, "cos"), generator=generator) * 2 * math.pi
    tensors: Tensors = {"cos": angles.cos(), "sin": angles.sin()}
    for spec in layer.signature.arguments:
        shape = [symbols[dim] if isinstance(dim, str) else dim or 1 for dim in spec.dims]
        normal = torch.randn(shape, generator=generator)
        if spec.is_weight:
            normal = normal / math.sqrt(shape[-1]) if len(shape) == 2 else 1 + normal / 10
        tensors.setdefault(spec.name, normal)
    return {
        spec.name: tensors[spec.name].to(layer.device, spec.dtype)
        for spec in layer.signature.arguments
    }


def _columns(layer: CompiledFunction, name: str) -> int:
    (spec,) = (spec for spec in layer.signature.arguments if spec.name == name)
    columns = spec.dims[-1]
    assert isinstance(columns, int)
    return columns


def torch_layer(t: Tensors) -> tuple[torch.Tensor, ...]:
    """The same layer in plain PyTorch; returns x2, q, k, v."""

    def norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, weight.shape, weight, EPS)

    def rope(x: torch.Tensor) -> torch.Tensor:
        cos, sin = t["cos"][:, None], t["sin"][:, None]
        a, b = x.reshape(*x.shape[:-1], -1, 2 * cos.shape[-1]).chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2).to(x.dtype)

    x1 = t["x0"] + F.linear(t["y"], t["wo"])
    h1 = norm(x1, t["norm1"])
    mlp = F.silu(F.linear(h1, t["w_gate"])) * F.linear(h1, t["w_up"])
    x2 = x1 + F.linear(mlp, t["w_down"])
    h2 = norm(x2, t["norm2"])
    q, k, v = (F.linear(h2, t[name]) for name in ("wq", "wk", "wv"))
    return x2, rope(q), rope(k), v


def kernel_table(layer: CompiledFunction) -> Table:
    """The kernels in the order of their first launch, with the first line of their docstrings."""
    functions = [n for n in ast.parse(layer.source).body if isinstance(n, ast.FunctionDef)]
    summaries = {node.name: ast.get_docstring(node) or "" for node in functions}
    table = Table("kernel", "what it does", title="Kernels made", title_justify="left")
    for name in layer.kernels:
        table.add_row(name, summaries[name].partition("\n")[0])
    return table


def fused_table(layer: CompiledFunction) -> Table:
    """Return what became of the operators of each line of the program."""
    text = LAYER.read_text().splitlines()
    steps: dict[int, dict[str, None]] = {}
    for remark in layer.remarks:
        if remark.kind == "passed" and remark.position is not None:
            message = remark.message.replace(f"{LAYER.name}:", "")  # the table is of one file
            step = f"{remark.operator}: {message}"
            steps.setdefault(remark.position[1], {})[step] = None
    table = Table("line", "program", "rewrites", title="Operators fused", title_justify="left")
    for line in sorted(steps):
        table.add_row(str(line), text[line - 1].strip(), "\n".join(steps[line]), end_section=True)
    return table


def refused_table(layer: CompiledFunction) -> Table | str:
    """The rewrites that were not legal, and the bytes that they would have saved."""
    refused = [remark for remark in layer.remarks if remark.kind == "missed"]
    title = "Operators refused"
    table = Table("place", "operator", "why", "bytes", title=title, title_justify="left")
    for remark in refused:
        place = format_location(remark.location)
        why = remark.condition or remark.message
        table.add_row(place, remark.operator, why, str(remark.bytes or ""))
    return table if refused else "Operators refused: none\n"


def traffic_table(layer: CompiledFunction, symbols: dict[str, int]) -> Table:
    def moved(module: ModuleOp) -> int:
        return total_traffic(find_entry(module, layer.name)).evaluate(symbols)

    before, after = moved(layer.module("block")), moved(layer.module("scheduled"))
    table = Table("", "bytes", "share", title="Bytes moved", title_justify="left")
    table.add_row("each operator by itself", f"{before:,}", "100 %")
    table.add_row("as compiled", f"{after:,}", f"{100 * after / before:.0f} %")
    return table


def main() -> None:
    device = default_device()
    constants, symbols = sizes(on_gpu=device.type != "cpu")
    layer = coda_ir.compile(LAYER, device=device, constants=constants)
    inputs = make_inputs(layer, symbols)
    # Wide enough for a line of the program where the output is not a terminal.
    console = Console(width=None if sys.stdout.isatty() else 120)
    shown = ", ".join(f"{name} = {size}" for name, size in {**constants, **symbols}.items())
    console.print(f"{LAYER.name} on {device}: {shown}\n")
    console.print(kernel_table(layer), fused_table(layer), refused_table(layer), sep="\n")
    console.print(traffic_table(layer, symbols))
    exact = torch_layer({name: tensor.double() for name, tensor in inputs.items()})
    names = [spec.name for spec in layer.signature.results]
    with torch.no_grad():
        results = zip(layer(**inputs), torch_layer(inputs), exact, strict=True)
        console.print(error_table(dict(zip(names, results, strict=True))))


if __name__ == "__main__":
    main()
