"""Functions as PyTorch graphs that Inductor compiles and that call programs.

A program is an operator with a fake implementation, `coda_ir::program`. Inductor plans its memory
and its order relative to other kernels, but does not look inside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from importlib import import_module
from threading import Lock
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakValueDictionary

import torch
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from xdsl.dialects.builtin import DYNAMIC_INDEX

from coda_ir.backends.reference import call_on_device
from coda_ir.backends.triton.runtime.gradients import deterministic
from coda_ir.cache.modules import module_name
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.dialects.torch import AnyCall, Determinism, determinism_of
from coda_ir.functions import find_entry
from coda_ir.launching.executable import TritonExecutable
from coda_ir.mlir.reader import read_module
from coda_ir.symbolic_size import SymbolicSize

if TYPE_CHECKING:
    from coda_ir.calls.arguments import TensorSpec

Tensors: TypeAlias = Sequence[torch.Tensor]


_PROGRAMS: WeakValueDictionary[str, TritonExecutable] = WeakValueDictionary()
"""The programs that graphs call, by the name that the operator has for them.

Equal programs have the same name in every process, so Inductor finds them in its cache.
"""


def load_graph(
    text: str, name: str, programs: Mapping[str, TritonExecutable], device: torch.device
) -> Callable[..., tuple[torch.Tensor, ...]]:
    """Load the function @`name` of an IR `text`. Inductor compiles it at its first call.

    `programs` are the functions that it calls, by name. The graph keeps them.
    """
    func = find_entry(read_module(text, name), name)
    calls = {each: _Call(program) for each, program in programs.items()}

    def graph(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return call_on_device(func, tensors, device, calls)

    is_dynamic = any(DYNAMIC_INDEX in shape_of(argument) for argument in func.args)
    compiled = compiled_by_inductor(graph, is_dynamic=is_dynamic)
    needs = {determinism_of(op) for op in func.walk() if isinstance(op, AnyCall)}
    if needs.isdisjoint((Determinism.ON_REQUEST, Determinism.STRICT)):
        return compiled
    return _repeatable(compiled, warn_only=Determinism.STRICT not in needs)


def _repeatable(
    compiled: Callable[..., tuple[torch.Tensor, ...]], *, warn_only: bool
) -> Callable[..., tuple[torch.Tensor, ...]]:
    """Run the function under PyTorch's deterministic algorithms, which Inductor consults both when
    it compiles and in each call.
    """

    def run(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with deterministic(warn_only=warn_only):
            return compiled(*tensors)

    return run


def compiled_by_inductor(
    graph: Callable[..., Any], *, is_dynamic: bool | None
) -> Callable[..., Any]:
    """Return a function of tensors that Inductor compiles at its first call. `graph` returns a
    tuple.

    If it is not dynamic, all calls have tensors of the same sizes and types. None lets TorchDynamo
    find out which sizes differ between calls.
    """
    is_static = is_dynamic is False
    return _StaticGraph(graph) if is_static else _of_any_size(graph, is_dynamic)


class _StaticGraph:
    """A function of tensors of known sizes, which Inductor compiles for each layout of them.

    TorchDynamo would check the tensors once more: for 20 of them, that takes longer than the rest
    of a call beside its kernels.
    """

    def __init__(self, graph: Callable[..., Any]):
        self._graph = graph
        self._compiled: dict[tuple[tuple[int, ...], ...], Callable[..., Any]] = {}
        self._lock = Lock()

    def __call__(self, *tensors: torch.Tensor) -> Any:
        layout = tuple([tensor.stride() for tensor in tensors])
        compiled = self._compiled.get(layout)
        if compiled is None:
            # In another thread, because modes of the caller, such as inference mode, and those in
            # which TorchDynamo runs a first call, belong to its thread. Settings of Inductor are
            # variables of the context.
            with self._lock, ThreadPoolExecutor(1) as thread:
                compiled = thread.submit(copy_context().run, self._compile, tensors).result()
            self._compiled[layout] = compiled
        return compiled(*tensors)

    def _compile(self, tensors: Tensors) -> Callable[..., Any]:
        """Compile the graph for tensors with these sizes, strides, types and devices."""
        # PyTorch documents both names: in its pages on custom backends and on fake tensors.
        compile = import_module("torch._dynamo").lookup_backend("inductor")
        fake_tensors: Any = import_module("torch._subclasses.fake_tensor")
        with torch.no_grad():
            # Inductor would take a tensor that is passed twice for one argument in all calls, and
            # its cache refuses graphs without an environment of shapes.
            with fake_tensors.FakeTensorMode(shape_env=ShapeEnv()):
                examples = [
                    torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)
                    for x in tensors
                ]
                # Its cache has graphs of PyTorch's operators, but none of other functions.
                graph: GraphModule = make_fx(self._graph)(*examples)
            return compile(graph, examples)


def _of_any_size(graph: Callable[..., Any], is_dynamic: bool | None) -> Callable[..., Any]:
    """Return a function of tensors that TorchDynamo traces for symbolic sizes.

    TorchDynamo treats `graph` as one operator; other tracers see the operators that it calls.
    """
    compiler: Any = torch.compiler  # it has no complete type
    whole = compiler.allow_in_graph(graph)

    def call(*tensors: torch.Tensor) -> Any:
        return whole(*tensors)

    # A copy of the code, as TorchDynamo counts the variants of a code, and gives up after some.
    own = FunctionType(call.__code__.replace(), call.__globals__, closure=call.__closure__)
    compile_graph: Any = getattr(torch, "compile")  # noqa: B009  (it has no complete type)
    compiled = compile_graph(own, fullgraph=True, dynamic=is_dynamic)

    def run(*tensors: torch.Tensor) -> Any:
        with torch.no_grad():
            return compiled(*tensors)

    return run


def operator_name(program: TritonExecutable) -> str:
    """Return the name under which the operator `coda_ir::program` finds a program."""
    return module_name(program.info.source, program.info.signature.name)


class _Call:
    """A call of a program from a graph."""

    def __init__(self, program: TritonExecutable):
        self._name = operator_name(program)
        self._program = _PROGRAMS.setdefault(self._name, program)

    def __call__(self, tensors: Tensors) -> Tensors:
        dense = [tensor.contiguous() for tensor in tensors]
        return torch.ops.coda_ir.program(self._name, dense)


def _run(name: str, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    # PyTorch's operators choose the layout of what they return; Inductor reads the one that `_fake`
    # states.
    return [result.contiguous() for result in _PROGRAMS[name].run(*tensors)]


def _fake(name: str, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return tensors with the shapes and types of the results."""
    signature = _PROGRAMS[name].info.signature
    sizes: dict[str, int] = {}
    for spec, tensor in zip(signature.arguments, tensors, strict=True):
        sizes |= {
            dim: extent
            for dim, extent in zip(spec.dims, tensor.shape, strict=True)
            if isinstance(dim, str)
        }
    device = tensors[0].device
    return [
        torch.empty(_extents(spec, sizes), dtype=spec.dtype, device=device)
        for spec in signature.results
    ]


def _extents(spec: TensorSpec, sizes: Mapping[str, int]) -> list[int]:
    assert None not in spec.dims, "sizes between programs follow from the arguments"
    return [SymbolicSize.of(dim).evaluate(sizes) for dim in spec.dims if dim is not None]


torch.library.define(
    "coda_ir::program",
    "(str name, Tensor[] tensors) -> Tensor[]",
    tags=(torch.Tag.needs_exact_strides,),
)
torch.library.impl("coda_ir::program", "CompositeExplicitAutograd", _run)
_library: Any = torch.library  # partly without types
_library.register_fake("coda_ir::program", _fake)
