"""`coda_ir.export`: a PyTorch model as a module and its weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.utils._pytree as _pytree
from xdsl.dialects.builtin import ModuleOp

from coda_ir.context import make_context
from coda_ir.frontends.torch.capture import capture, graph_of
from coda_ir.frontends.torch.importer import GraphImporter, ImportedGraph, ResultNumber
from coda_ir.frontends.torch.operators import HANDLERS
from coda_ir.passes.torch_to_coda import TorchToCodaPass

# PyTorch's trees have no complete types.
pytree: Any = _pytree


class ExportedModel:
    """A model as one function of the IR, with the tensors of its weights by name.

    The weights are the model's own tensors, not copies.
    """

    def __init__(self, imported: ImportedGraph, program: torch.export.ExportedProgram):
        self.module: ModuleOp = imported.module
        self.weights: dict[str, torch.Tensor] = imported.weights
        self._imported = imported
        self._program = program

    def arguments(self, *args: Any, **kwargs: Any) -> list[torch.Tensor]:
        """The tensors of the function, in order, for a call of the model."""
        leaves: list[Any] = pytree.tree_leaves((args, kwargs))
        used = [leaf for leaf, name in zip(leaves, self._imported.inputs, strict=True) if name]
        return [*used, *self.weights.values()]

    def result(self, tensors: Sequence[torch.Tensor]) -> Any:
        """The results of the function in the structure that the model returns."""
        leaves = [
            tensors[leaf.index] if isinstance(leaf, ResultNumber) else leaf
            for leaf in self._imported.outputs
        ]
        spec = self._program.call_spec.out_spec
        return pytree.tree_unflatten(leaves, spec)


def export(
    model: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    name: str | None = None,
    raise_patterns: bool = True,
) -> ExportedModel:
    """Capture `model` called with `args` and `kwargs` as a module of the IR.

    `dynamic_shapes` says which dimensions may differ between calls (see `torch.export.export`);
    the others are fixed. What the model spells out (norms, rotary embedding) becomes named
    operators by the pass `torch-to-coda`, unless `raise_patterns` is false; operators without a
    counterpart run through PyTorch (`torch.call`). Raises CodaError for a model that cannot be
    captured.
    """
    program = capture(model, args, kwargs, dynamic_shapes)
    function = name or _function_name(model)
    imported = GraphImporter(graph_of(program), HANDLERS, function).run()
    imported.module.verify()
    if raise_patterns:
        TorchToCodaPass().apply(make_context(), imported.module)
        imported.module.verify()
    return ExportedModel(imported, program)


def _function_name(model: torch.nn.Module) -> str:
    return "".join(c if c.isalnum() else "_" for c in type(model).__name__) or "model"
