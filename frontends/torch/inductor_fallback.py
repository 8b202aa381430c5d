"""Graphs, and regions of them, that Inductor compiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, TypeAlias

from torch.fx import GraphModule

from coda_ir.frontends.torch.graph_inputs import decompose_as_usual

Boxed: TypeAlias = Callable[[list[Any]], Sequence[Any]]
"""A compiled graph, which takes the list of its inputs and may clear it."""


def compile_with_inductor(graph: GraphModule, example_inputs: Sequence[Any]) -> Boxed:
    """A functional ATen graph by Inductor, which wants operators decomposed in its own way."""
    table: Any = import_module("torch._inductor.decomposition").select_decomp_table()
    make_fx: Any = import_module("torch.fx.experimental.proxy_tensor").make_fx
    fake_mode: Any = import_module("torch._guards").detect_fake_mode(example_inputs)
    with fake_mode, decompose_as_usual():
        decomposed = make_fx(graph, table)(*example_inputs)
    inductor: Any = import_module("torch._inductor.compile_fx")
    return inductor.compile_fx_inner(decomposed, list(example_inputs))
