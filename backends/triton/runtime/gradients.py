# pyright: basic, reportAttributeAccessIssue=false
"""Derivatives that PyTorch computes."""

import contextlib
import sys
import threading

import torch

WARN = 1
ERROR = 2


class DeterministicCalls:
    """The calls that run under PyTorch's deterministic algorithms now.

    The setting is one of the process, and the backward of each device runs in a thread of its own:
    the first of several calls saves it, and the last restores it.
    """

    def __init__(self):
        self.lock = threading.Lock()
        self.running = []
        self.before = (0, False)

    def begin(self, warn_only):
        with self.lock:
            if not self.running:
                fills = torch.utils.deterministic.fill_uninitialized_memory
                self.before = (torch.get_deterministic_debug_mode(), fills)
            self.running.append(warn_only)
            self.switch()

    def end(self, warn_only):
        with self.lock:
            self.running.remove(warn_only)
            self.switch()

    def switch(self):
        mode, fills = self.before
        if self.running:
            # Errors that the user asked for stay errors.
            mode, fills = (WARN if any(self.running) and mode != ERROR else ERROR), False
        # torch.use_deterministic_algorithms would import Inductor, which takes seconds.
        torch.set_deterministic_debug_mode(mode)
        # A setting that PyTorch documents as one to assign.
        torch.utils.deterministic.fill_uninitialized_memory = fills


# The setting is one of the process: all emitted modules share one object.
DETERMINISTIC_CALLS = sys.modules.setdefault("coda_ir_deterministic_calls", DeterministicCalls())


@contextlib.contextmanager
def deterministic(warn_only=False):
    """PyTorch's deterministic algorithms, so that two runs give the same bits.

    With `warn_only`, PyTorch warns of what has none; the kernels of attention take that for a
    permission.
    """
    DETERMINISTIC_CALLS.begin(warn_only)
    try:
        yield
    finally:
        DETERMINISTIC_CALLS.end(warn_only)


def vjp(function, inputs, wrt, of, d_outputs):
    """Gradients of function(*inputs) for the inputs with the numbers `wrt`.

    `d_outputs` are those of the results with the numbers `of`. No gradient shares memory with
    another tensor.
    """
    inputs = [x.detach() for x in inputs]
    leaves = [inputs[number].requires_grad_() for number in wrt]
    with torch.enable_grad():
        results = function(*inputs)
    results = [results] if isinstance(results, torch.Tensor) else results
    pairs = [(results[i], d) for i, d in zip(of, d_outputs) if results[i].requires_grad]
    if not pairs:
        return [torch.zeros_like(leaf) for leaf in leaves]
    outputs, weights = zip(*pairs)
    gradients = torch.autograd.grad(outputs, leaves, weights, materialize_grads=True)
    return [gradient.clone(memory_format=torch.contiguous_format) for gradient in gradients]


def weight_gradient(dy, x, dtype):
    """The transpose of dy times x, over all rows, accumulated in float32."""
    dy, x = (z.reshape(-1, z.shape[-1]) for z in (dy, x))
    if dtype != x.dtype:
        wide = torch.promote_types(dtype, torch.float32)
        dy, x = dy.to(wide), x.to(wide)
    return (dy.T @ x).to(dtype)


def sum_to(x, dims, shape, dtype):
    """x summed over `dims` in float32, with `shape`."""
    if x.is_cuda and x.dtype == dtype:  # PyTorch's kernels add in float32, and round once
        return x.sum(dims).reshape(shape)
    wide = torch.promote_types(x.dtype, torch.float32)
    return x.sum(dims, dtype=wide).to(dtype).reshape(shape)


def pad(x, dim, start, extent):
    """x from `start` on in a dimension of `extent` elements, and zeros."""
    result = x.new_empty(*x.shape[:dim], extent, *x.shape[dim + 1 :])
    end = start + x.shape[dim]
    for place, count in ((0, start), (end, extent - end)):
        if count:
            result.narrow(dim, place, count).zero_()
    result.narrow(dim, start, x.shape[dim]).copy_(x)
    return result


def shifted(x, by):
    """Rows later by so many positions, which are the last dimension but one, and zeros."""
    result = torch.zeros_like(x, memory_format=torch.contiguous_format)
    kept = max(0, x.shape[-2] - abs(by))
    first, source = max(0, by), max(0, -by)
    if kept:
        result.narrow(-2, first, kept).copy_(x.narrow(-2, source, kept))
    return result


def mean_share(dloss, target, ignore_index):
    """The gradient of a mean over the targets that count, for each of them."""
    return dloss / (target != ignore_index).sum()


def sorted_ids(ids):
    """The ids in order, and the places that they come from."""
    return torch.sort(ids.reshape(-1).int(), stable=True)
