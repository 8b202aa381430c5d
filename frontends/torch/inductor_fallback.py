"""Graphs, and regions of them, that Inductor compiles."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import torch
from torch.fx import GraphModule

from coda_ir.frontends.torch.graph_inputs import decompose_as_usual
from coda_ir.frontends.torch.types import Runner


def compile_with_inductor(graph: GraphModule, example_inputs: Sequence[Any]) -> Runner:
    """A functional ATen graph by Inductor, which wants operators decomposed in its own way.

    Inductor relies on the strides of the examples, while other regions give tensors of whatever
    strides they like: its inputs are made contiguous.
    """
    guards: Any = import_module("torch._guards")
    table: Any = import_module("torch._inductor.decomposition").select_decomp_table()
    make_fx: Any = import_module("torch.fx.experimental.proxy_tensor").make_fx
    with guards.detect_fake_mode(example_inputs), decompose_as_usual():
        inputs = [_contiguous(value) for value in example_inputs]
        decomposed = make_fx(graph, table)(*inputs)
    # Results without a use: Inductor's attention with a function of the scores lacks some of them.
    decomposed.graph.eliminate_dead_code()
    decomposed.recompile()
    inductor: Any = import_module("torch._inductor.compile_fx")
    with _output_strides_of_its_own(guards.TracingContext.try_get()):
        compiled: Runner = inductor.compile_fx_inner(decomposed, inputs)
    return lambda inputs: compiled([_contiguous(value) for value in inputs])


def _contiguous(value: Any) -> Any:
    return value.contiguous() if isinstance(value, torch.Tensor) else value


@contextmanager
def _output_strides_of_its_own(context: Any) -> Generator[None]:
    """Keep Inductor from reporting the strides of a region as those of the whole graph."""
    if context is None:
        yield
        return
    reported, context.output_strides = context.output_strides, None
    try:
        yield
    finally:
        context.output_strides = reported
