"""Calls of a compiled function as CUDA graphs.

layer = coda_ir.compile("examples/llama_layer.coda", device="cuda").graphed()
x2, q, k, v = layer(y=y, x0=x0, ...)

What a call launches is recorded once for sizes, and replayed as a whole: the host's part of a call
does not grow with the number of kernels.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import torch

from coda_ir.calls.results import unpack
from coda_ir.diagnostics import CodaError
from coda_ir.launching.captures import captured
from coda_ir.untraced import untraced

if TYPE_CHECKING:
    from coda_ir.compiled import CompiledFunction

MOST_GRAPHS = 64
"""Of a function; the one that was not used for longest goes first."""

WARM_UP_CALLS = 3
"""Calls before one is recorded, in which kernels are compiled and memory is allocated."""

Tensors = Sequence[torch.Tensor]


@dataclass(frozen=True)
class Recording:
    """What was recorded: it reads `inputs` and the weights, and writes `results`."""

    graph: Any
    inputs: list[torch.Tensor]
    results: tuple[torch.Tensor, ...]

    def replay(self, inputs: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """The results for other inputs, in the memory of the last ones."""
        for mine, given in zip(self.inputs, inputs, strict=True):
            mine.copy_(given)
        self.graph.replay()
        return self.results


class GraphedFunction:
    """A compiled function of GPUs whose calls replay a CUDA graph, recorded for each sizes.

    Called like a `CompiledFunction`, with the same checks. Weights are read where they are, so that
    updates in place are seen; weights at other addresses have a graph of their own. Other arguments
    are copied. **The results are valid until the next call with the same sizes, which writes into
    the same memory.** Within another capture, the function itself runs.
    """

    def __init__(self, function: CompiledFunction):
        """Raises CodaError unless the function is compiled to kernels for a GPU, and where each
        replay would fold weights again.
        """
        if function.device.type != "cuda" or function.target != "triton":
            raise CodaError(
                f"CUDA graphs are for kernels on GPUs, not for {function.target} on "
                f"{function.device}",
                "call the function itself",
            )
        if function.folds_weights:
            raise CodaError(
                "a CUDA graph would fold the weights again in each replay",
                "compile without fold_weights, or call the function itself",
            )
        self.function = function
        specs = function.signature.arguments
        self._weights = [index for index, spec in enumerate(specs) if spec.is_weight]
        self._inputs = [index for index, spec in enumerate(specs) if not spec.is_weight]
        self._recordings: OrderedDict[object, Recording] = OrderedDict()

    def __repr__(self) -> str:
        return f"<GraphedFunction {self.function.signature} on {self.function.device}>"

    @untraced
    def __call__(self, *args: torch.Tensor, **kwargs: torch.Tensor) -> Any:
        tensors = self.function.fitting(args, kwargs)
        if not tensors or torch.cuda.is_current_stream_capturing():
            return self.function(*args, **kwargs)
        with torch.cuda.device(tensors[0].device):
            return unpack(self._replay(tensors))

    def _replay(self, tensors: Tensors) -> tuple[torch.Tensor, ...]:
        inputs = [tensors[index] for index in self._inputs]
        key = self._key(tensors, inputs)
        recording = self._recordings.get(key)
        if recording is None:
            recording = self._recordings[key] = self._record(tensors, inputs)
            if len(self._recordings) > MOST_GRAPHS:
                self._recordings.popitem(last=False)
        else:
            self._recordings.move_to_end(key)
        return recording.replay(inputs)

    def _key(self, tensors: Tensors, inputs: Tensors) -> object:
        """What decides the graph. Calls on other streams may run at the same time."""
        weights = [tensors[index] for index in self._weights]
        places = [(weight.data_ptr(), weight.stride()) for weight in weights]
        stream = torch.cuda.current_stream().cuda_stream
        return stream, *(x.shape for x in inputs), *places

    def _record(self, tensors: Tensors, inputs: Tensors) -> Recording:
        copies = [torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in inputs]
        arguments = list(tensors)
        for index, original, copy in zip(self._inputs, inputs, copies, strict=True):
            copy.copy_(original.detach())
            arguments[index] = copy
        cuda: Any = import_module("torch.cuda")
        side, current = cuda.Stream(), cuda.current_stream()
        side.wait_stream(current)
        with torch.no_grad(), cuda.stream(side):
            for _ in range(WARM_UP_CALLS):
                self.function.unchecked(*arguments)
        current.wait_stream(side)
        graph = cuda.CUDAGraph()
        with torch.no_grad(), captured(graph):
            results = self.function.unchecked(*arguments)
        return Recording(graph, copies, results)
