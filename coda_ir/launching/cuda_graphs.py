"""Replays of a program as CUDA graphs: one graph per combination of sizes, up to a limit.

Inputs whose address stays the same between calls, such as weights and a static cache, are read and
updated in place. The others are copied to a fixed address, and copied back if the program updates
them. Weights at other addresses, and other streams, have separate graphs.
"""

from __future__ import annotations

import logging
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from threading import RLock
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar
from weakref import WeakSet

import torch

from coda_ir.calls.results import unpack
from coda_ir.diagnostics import OptionError
from coda_ir.untraced import untraced

if TYPE_CHECKING:
    from coda_ir.compiled import CompiledFunction


@contextmanager
def captured(graph: Any, pool: Any = None) -> Generator[None]:
    """Capture the work on the current device in `graph`, with memory from `pool`, or its own.

    Raises RuntimeError if this fails, and restores all state. Work that waits for the GPU cannot be
    captured, nor can any work while another thread allocates memory or loads code. After such a
    failure, `torch.cuda.graph` would leave PyTorch 2.11 with the stream and memory pool of the
    capture, and with a generator that refuses to draw numbers.
    """
    cuda: Any = torch.cuda  # partly without types
    stream = cuda.current_stream()
    if pool is None:
        pool = cuda.graph_pool_handle()  # an incomplete graph does not return its own
    try:
        with cuda.graph(graph, pool=pool):
            yield
    except BaseException:
        cuda.set_stream(stream)
        _end_capture(cuda, pool)
        raise


def _end_capture(cuda: Any, pool: Any) -> None:
    """End a capture if it has not ended."""
    # PyTorch has no documented way to end the allocations of a capture that failed. Without this
    # function they go on in the memory of the capture.
    end = getattr(import_module("torch._C"), "_cuda_endAllocateToPool", None)
    if end is not None:
        with suppress(RuntimeError):
            end(cuda.current_device(), pool)
    # The generator takes numbers from the captures that use it: one that succeeds gives it back.
    with warnings.catch_warnings(), suppress(RuntimeError):
        warnings.simplefilter("ignore")
        with cuda.graph(cuda.CUDAGraph()):
            pass


Tensors: TypeAlias = Sequence[torch.Tensor]
Run: TypeAlias = Callable[[list[torch.Tensor]], Tensors]
Key: TypeAlias = tuple[object, ...]
Addresses: TypeAlias = dict[int, int]
Given = TypeVar("Given")

logger = logging.getLogger(__name__)

MAX_GRAPHS = 16
"""Graphs of one program that are kept; the one that was used longest ago goes first."""

MAX_SEEN = 256
"""Combinations of sizes that were called once and are remembered."""

MAX_CAPTURES = 64
"""Captures of one program: one whose weights move all the time is not worth them."""

SMALL = 1 << 20
"""Inputs of fewer bytes are always copied: it costs less than to find out whether they move."""


class Recorder(Protocol):
    """Captures work on a GPU and replays it; tests on machines without GPUs replace it."""

    def record(self, run: Callable[[], Tensors]) -> tuple[Callable[[], None], Tensors]:
        """Return a function that repeats `run`, which has run before, and the tensors it writes.

        Recording changes nothing. Raises RuntimeError for work that cannot be captured.
        """
        ...


class CudaRecorder:
    """Captures CUDA graphs."""

    def __init__(self, device: torch.device, *, shares_memory: bool = True):
        """Set up the graphs; with `shares_memory`, those of a stream store results in one pool."""
        self._device, self._shares_memory = device, shares_memory
        self._graphs = defaultdict[int, WeakSet[Any]](WeakSet)
        """Those that there are, by stream. A pool ends with the last of its graphs."""

    def record(self, run: Callable[[], Tensors]) -> tuple[Callable[[], None], Tensors]:
        cuda: Any = torch.cuda  # partly without types
        with cuda.device(self._device):
            graph, others = cuda.CUDAGraph(), self._graphs[_stream()]
            pool = next((other.pool() for other in others), None)
            with captured(graph, pool=pool):
                results = run()
            if self._shares_memory:
                others.add(graph)
            return graph.replay, results


@dataclass
class _Recorded:
    replay: Callable[[], None]
    results: Tensors
    copied: dict[int, torch.Tensor]
    """The fixed places of the inputs that are copied, by position."""
    fixed: Addresses
    """The addresses that the other inputs must have."""
    updated: Sequence[int]
    """Positions of the inputs of `copied` that the graph updates."""


class CudaGraphs:
    """Runs `run` directly at the first call with given sizes, and captures it at the second.

    Results are copies, which the next call does not change. Threads take turns, as the inputs and
    results of a replay are at fixed addresses.
    """

    def __init__(
        self,
        run: Run,
        recorder: Recorder,
        weights: Collection[int] = (),
        updated: Collection[int] = (),
        copied: Collection[int] = (),
        *,
        captures_at_once: bool = False,
        lends_results: bool = False,
        max_graphs: int | None = None,
    ):
        """Set up the graphs. `weights` are the positions of inputs that are never copied, `updated`
        of those that `run` changes, `copied` of those that are copied from the first call on.

        With `captures_at_once`, the first call with sizes captures already, however often. With
        `lends_results`, the results of a replay are valid until the next one of the same graph.
        """
        self._run = run
        self._recorder = recorder
        self._weights = frozenset(weights)
        self._updated = frozenset(updated)
        self._moving = set(copied)
        self._captures_at_once, self._lends_results = captures_at_once, lends_results
        self._seen: OrderedDict[Key, Addresses] = OrderedDict()
        self._recorded: OrderedDict[Key, _Recorded] = OrderedDict()
        self._max_graphs = MAX_GRAPHS if max_graphs is None else max_graphs
        self._captures = 0
        self._is_off = False
        self._turn = RLock()

    def __call__(self, inputs: list[torch.Tensor]) -> Tensors:
        if self._is_off or _is_capturing():
            return self._run(inputs)
        with self._turn:
            return self._replay_or_capture(inputs)

    def _replay_or_capture(self, inputs: list[torch.Tensor]) -> Tensors:
        key, addresses = self._key(inputs), _addresses(inputs)
        recorded = self._recorded.get(key)
        if recorded is not None and self._is_stale(recorded, addresses):
            del self._recorded[key]
            recorded = None
        if recorded is None:
            return self._run_and_capture(key, inputs, addresses)
        self._recorded.move_to_end(key)
        _run_at(recorded.copied, recorded.updated, inputs, recorded.replay)
        if self._lends_results:
            return recorded.results
        return [result.clone() for result in recorded.results]

    def _key(self, inputs: Tensors) -> Key:
        """Return what a capture depends on: stream, sizes, strides, addresses of weights."""
        layouts = ((value.shape, value.stride()) for value in inputs)
        return _stream(), *layouts, *(inputs[at].data_ptr() for at in self._weights)

    def _is_stale(self, recorded: _Recorded, addresses: Addresses) -> bool:
        moved = {at for at, address in recorded.fixed.items() if addresses[at] != address}
        self._moving |= moved
        return bool(moved)

    def _run_and_capture(
        self, key: Key, inputs: list[torch.Tensor], addresses: Addresses
    ) -> Tensors:
        """Run directly, and capture for the next call if a call had these sizes before."""
        before = self._seen.get(key)
        self._seen[key] = addresses
        self._seen.move_to_end(key)
        if len(self._seen) > MAX_SEEN:
            self._seen.popitem(last=False)
        if before is None and not self._captures_at_once:
            return self._run(inputs)
        moving = {at for at, address in (before or {}).items() if addresses[at] != address}
        moving |= {at for at in addresses if inputs[at].nbytes < SMALL} - self._updated
        self._moving |= moving - self._weights
        if self._captures >= MAX_CAPTURES and not self._captures_at_once:
            self._give_up("it was captured too many times: its sizes or weights keep changing")
            return self._run(inputs)
        return self._capture(key, inputs, addresses)

    def _capture(self, key: Key, inputs: list[torch.Tensor], addresses: Addresses) -> Tensors:
        copied = {at: torch.empty_like(inputs[at]) for at in addresses if at in self._moving}
        fixed_inputs = [copied.get(at, value) for at, value in enumerate(inputs)]
        updated = sorted(self._updated & copied.keys())
        # What the call gives. No capture may contain the compiling of kernels that this starts.
        given = _run_at(copied, updated, inputs, lambda: self._run(fixed_inputs))
        self._captures += 1
        try:
            replay, results = self._recorder.record(lambda: self._run(fixed_inputs))
        except RuntimeError as error:
            self._give_up(str(error).partition("\n")[0])
            return given
        fixed = {at: address for at, address in addresses.items() if at not in copied}
        self._recorded[key] = _Recorded(replay, results, copied, fixed, updated)
        if len(self._recorded) > self._max_graphs:
            self._recorded.popitem(last=False)
        return given

    def _give_up(self, reason: str) -> None:
        self._is_off = True
        self._recorded.clear()
        self._seen.clear()
        logger.warning("a graph now runs without CUDA graphs: %s", reason)


def _is_capturing() -> bool:
    """Return whether another capture is active, which must then record the kernels themselves."""
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()


def _stream() -> int:
    """Return the current stream; calls on other streams may run at the same time."""
    cuda: Any = torch.cuda  # partly without types
    return cuda.current_stream().cuda_stream if cuda.is_initialized() else 0


def _addresses(inputs: Tensors) -> Addresses:
    return {at: value.data_ptr() for at, value in enumerate(inputs)}


def _run_at(
    copied: Mapping[int, torch.Tensor],
    updated: Sequence[int],
    inputs: Tensors,
    run: Callable[[], Given],
) -> Given:
    """Run a function that reads some inputs at fixed addresses and updates some of them there."""
    for at, place in copied.items():
        place.copy_(inputs[at])
    given = run()
    for at in updated:
        inputs[at].copy_(copied[at])
    return given


MAX_GRAPHS_OF_FUNCTION = 64
"""Graphs of a function that are kept; the one that was used longest ago goes first."""


class GraphedFunction:
    """A compiled function on a GPU whose calls replay CUDA graphs, one for each set of sizes.

        layer = coda_ir.compile("examples/llama_layer.coda", device="cuda").graphed()
        x2, q, k, v = layer(y=y, x0=x0, ...)

    The host time of a call does not grow with the number of kernels. The function is called like a
    `CompiledFunction`, with the same checks. A replay reads weights in place, so updates take
    effect; weights at other addresses have a separate graph. Other arguments are copied. **The
    results are valid until the next call with the same sizes, which overwrites them.** Within
    another capture, the function itself runs; so it does after a capture has failed, with a message
    that gives the reason.
    """

    def __init__(self, function: CompiledFunction, recorder: Recorder | None = None):
        """Set up graphs. Raises CodaError without kernels on a GPU, and for folded weights."""
        if not function.executable.has_cuda_graphs:
            raise OptionError(
                f"CUDA graphs are for kernels on GPUs, not for {function.target} on "
                f"{function.device}",
                "call the function itself",
            )
        if function.folds_weights:
            raise OptionError(
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
            max_graphs=MAX_GRAPHS_OF_FUNCTION,
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
