"""Calls of a compiled function as CUDA graphs.

layer = coda_ir.compile("examples/llama_layer.coda", device="cuda").graphed()
x2, q, k, v = layer(y=y, x0=x0, ...)

What a call launches is recorded once for sizes, and replayed as a whole: the host's part of a call
does not grow with the number of kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from coda_ir.calls.results import unpack
from coda_ir.diagnostics import CodaError
from coda_ir.launching.cuda_graphs import CudaGraphs, CudaRecorder, Recorder
from coda_ir.untraced import untraced

if TYPE_CHECKING:
    from coda_ir.compiled import CompiledFunction


MAX_GRAPHS = 64
"""Graphs of a function that are kept; the one that was used longest ago goes first."""


class GraphedFunction:
    """A compiled function of GPUs whose calls replay a CUDA graph, recorded for each sizes.

    Called like a `CompiledFunction`, with the same checks. Weights are read where they are, so that
    updates in place are seen; weights at other addresses have a graph of their own. Other arguments
    are copied. **The results are valid until the next call with the same sizes, which writes into
    the same memory.** Within another capture, the function itself runs, and from the first capture
    that fails on, with a message that says why.
    """

    def __init__(self, function: CompiledFunction, recorder: Recorder | None = None):
        """Raises CodaError unless the function is compiled to kernels for a GPU, and where each
        replay would fold weights again.
        """
        if not function.executable.has_cuda_graphs:
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
        self._graphs = CudaGraphs(
            lambda tensors: function.unchecked(*tensors),
            recorder or CudaRecorder(function.device, shares_memory=False),
            weights=[index for index, spec in enumerate(specs) if spec.is_weight],
            copied=[index for index, spec in enumerate(specs) if not spec.is_weight],
            captures_at_once=True,
            lends_results=True,
            max_graphs=MAX_GRAPHS,
        )

    def __repr__(self) -> str:
        return f"<GraphedFunction {self.function.signature} on {self.function.device}>"

    @untraced
    def __call__(self, *args: torch.Tensor, **kwargs: torch.Tensor) -> Any:
        tensors = self.function.fitting(args, kwargs)
        if not tensors:
            return self.function(*args, **kwargs)
        with torch.no_grad(), torch.cuda.device(tensors[0].device):
            return unpack(tuple(self._graphs([*tensors])))
