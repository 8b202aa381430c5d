"""CODA IR compiles Transformer blocks into GEMM-plus-epilogue programs and lowers them to Triton.

`coda_ir.parse` reads a `.coda` or `.mlir` program, and `coda_ir.compile` compiles one, with
`training=True` also its backward. `coda_ir.export` converts a PyTorch model, and `coda_ir.save` and
`coda_ir.load` write and read it.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coda_ir.api import CompiledFunction, compile, parse
    from coda_ir.diagnostics import CodaError
    from coda_ir.exported import CompiledModel, ExportedModel, load, save
    from coda_ir.frontends.torch.checkpoints import keep_float8_layers, read_low_bit_layers
    from coda_ir.frontends.torch.experts import register_experts
    from coda_ir.frontends.torch.export import export
    from coda_ir.frontends.torch.kept_scans import keep_scans
    from coda_ir.frontends.torch.quantize import quantize
    from coda_ir.frontends.torch.state_spaces import state_space
    from coda_ir.training.functions import TrainableFunction

__version__ = "0.1.0"

__all__ = [
    "CodaError",
    "CompiledFunction",
    "CompiledModel",
    "ExportedModel",
    "TrainableFunction",
    "__version__",
    "compile",
    "export",
    "keep_float8_layers",
    "keep_scans",
    "load",
    "parse",
    "quantize",
    "read_low_bit_layers",
    "register_experts",
    "save",
    "state_space",
]

_MODULES = {
    "CodaError": "coda_ir.diagnostics",
    "CompiledFunction": "coda_ir.api",
    "CompiledModel": "coda_ir.exported",
    "ExportedModel": "coda_ir.exported",
    "TrainableFunction": "coda_ir.training.functions",
    "compile": "coda_ir.api",
    "export": "coda_ir.frontends.torch.export",
    "keep_float8_layers": "coda_ir.frontends.torch.checkpoints",
    "keep_scans": "coda_ir.frontends.torch.kept_scans",
    "load": "coda_ir.exported",
    "parse": "coda_ir.api",
    "quantize": "coda_ir.frontends.torch.quantize",
    "read_low_bit_layers": "coda_ir.frontends.torch.checkpoints",
    "register_experts": "coda_ir.frontends.torch.experts",
    "save": "coda_ir.exported",
    "state_space": "coda_ir.frontends.torch.state_spaces",
}


def __getattr__(name: str) -> object:
    """Import the public names on first use: xdsl-opt loads this package just to list passes."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_MODULES[name]), name)
