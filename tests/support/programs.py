"""Small programs written as MLIR text."""

import importlib.util
import itertools
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import torch
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from coda_ir.backends.reference import Precision, run_module
from coda_ir.context import make_context


def parse_mlir(text: str) -> ModuleOp:
    """The verified module that `text` describes."""
    module = Parser(make_context(), text).parse_module()
    module.verify()
    return module


_counter = itertools.count()


def import_text(source: str, folder: Path) -> ModuleType:
    """Import `source` from a file: Triton reads the source of its kernels."""
    path = folder / f"emitted_program_{next(_counter)}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_NAMES = {
    torch.bfloat16: "bf16",
    torch.float16: "f16",
    torch.float32: "f32",
    torch.float64: "f64",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.bool: "i1",
}


def type_of(tensor: torch.Tensor) -> str:
    """The static tensor type of `tensor`."""
    extents = "".join(f"{extent}x" for extent in tensor.shape)
    return f"tensor<{extents}{_NAMES[tensor.dtype]}>"


def run_operator(
    operator: str, *operands: torch.Tensor, results: str, precision: Precision = "stated"
) -> tuple[torch.Tensor, ...]:
    """Run one operator on `operands`; `operator` is its name and properties.

    `results` lists the result types, separated by commas.
    """
    module = parse_mlir(operator_program(operator, operands, results))
    return run_module(module, operands, precision=precision)


def operator_program(operator: str, operands: Sequence[torch.Tensor], result: str) -> str:
    """A function of one operator, whose name and properties are in `operator`."""
    types = [type_of(operand) for operand in operands]
    parameters = ", ".join(f"%a{i} : {type}" for i, type in enumerate(types))
    arguments = ", ".join(f"%a{i}" for i in range(len(operands)))
    name, _, properties = operator.partition(" ")
    count = result.count("tensor<")
    values = ", ".join(f"%r#{i}" for i in range(count)) if count > 1 else "%r"
    return f"""
        func.func @f({parameters}) -> ({result}) {{
          %r{f":{count}" if count > 1 else ""} = {name} {arguments} {properties}
            : ({", ".join(types)}) -> ({result})
          func.return {values} : {result}
        }}"""


def run_body(
    body: str, results: str, *args: torch.Tensor, precision: Precision = "float64"
) -> tuple[torch.Tensor, ...]:
    """Run a function with this body; `$i` in it stands for the name and the type of argument i."""
    parameters = ", ".join(f"%a{index} : {type_of(arg)}" for index, arg in enumerate(args))
    for index, arg in enumerate(args):
        body = body.replace(f"${index}", f"%a{index} : {type_of(arg)}")
    module = parse_mlir(f"func.func @f({parameters}) -> ({results}) {{ {body} }}")
    return run_module(module, args, precision=precision)
