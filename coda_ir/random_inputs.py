"""Random tensors that a function can be called with: for `coda-opt --run`, demos and tests."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

import torch
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from coda_ir.arguments import Signature, TensorSpec
from coda_ir.diagnostics import CodaError
from coda_ir.dialects.coda import CrossEntropyOp, EmbeddingOp
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.dialects.gemm import FusedOp, ResultKind
from coda_ir.symbolic_shapes import Dim, SymbolicShapes, SymbolicSize

DEFAULT_SIZE = 16
"""Size of a symbol that the caller does not give."""


def random_inputs(
    func: FuncOp,
    sizes: Mapping[str, int] | None = None,
    *,
    seed: int = 0,
    device: str | torch.device = "cpu",
) -> dict[str, torch.Tensor]:
    """Tensors for every argument of `func` by name: the same for the same sizes and seed.

    Floats are normal; a matrix of static shape is taken for a weight and divided by sqrt(K), so
    that activations keep their scale. Integers are indices into whatever they select from.
    Raises CodaError for a size of a symbol that the function does not have.
    """
    signature, shapes = Signature.of(func), SymbolicShapes(func)
    generator = torch.Generator().manual_seed(seed)
    bindings = _bindings(signature, sizes or {})
    tensors: dict[str, torch.Tensor] = {}
    for spec, argument in zip(signature.arguments, func.args, strict=True):
        bound = SymbolicSize.product([_index_bound(argument, shapes)])
        tensor = _random_tensor(spec, bindings, _evaluate(bound, bindings), generator)
        tensors[spec.name] = tensor.to(device)
    return tensors


def _bindings(signature: Signature, sizes: Mapping[str, int]) -> dict[str, int]:
    symbols = [dim for spec in signature.arguments for dim in spec.dims if isinstance(dim, str)]
    for symbol in sizes:
        if symbol not in symbols:
            raise CodaError(
                f"{signature.name} has no dimension '{symbol}'",
                f"its symbols are {', '.join(dict.fromkeys(symbols)) or 'none'}",
            )
    return {symbol: sizes.get(symbol, DEFAULT_SIZE) for symbol in symbols}


def _evaluate(size: SymbolicSize, bindings: Mapping[str, int]) -> int:
    return size.evaluate({symbol: bindings.get(symbol, DEFAULT_SIZE) for symbol in size.symbols})


def _random_tensor(
    spec: TensorSpec, bindings: Mapping[str, int], bound: int, generator: torch.Generator
) -> torch.Tensor:
    shape = [
        dim if isinstance(dim, int) else bindings.get(dim or "", DEFAULT_SIZE) for dim in spec.dims
    ]
    if not spec.dtype.is_floating_point:
        return torch.randint(0, max(bound, 1), shape, generator=generator).to(spec.dtype)
    tensor = torch.randn(shape, generator=generator)
    is_matrix = len(shape) == 2 and all(isinstance(dim, int) for dim in spec.dims)
    return (tensor / sqrt(max(shape[-1], 1)) if is_matrix else tensor).to(spec.dtype)


def _index_bound(argument: SSAValue, shapes: SymbolicShapes) -> Dim:
    """How many things an integer argument selects from, by its uses; 2 where none says."""
    for use in argument.uses:
        match use.operation:
            case EmbeddingOp() as op:
                return shapes.dims(op.table)[0]
            case CrossEntropyOp() as op:
                return shapes.dims(op.logits)[-1]
            case FusedOp() as op:
                for segment in op.segments():
                    selects = any(r.port.kind.data == ResultKind.SELECT for r in segment.results)
                    if selects and any(port.value is argument for port in segment.ports):
                        return sum(shape_of(weight)[0] for weight in segment.weights)
            case _:
                continue
    return 2
