# pyright: basic, reportAttributeAccessIssue=false
"""Gradients that PyTorch's autograd and operators compute."""

import contextlib
import sys
import threading

import torch

WARN = 1
ERROR = 2


class DeterministicCalls:
    """The calls that currently run under PyTorch's deterministic algorithms.

    The setting is global to the process, and autograd runs the backward of each device in its own
    thread. The first of several concurrent calls saves the setting, and the last one restores it.
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
        """Apply the setting for the calls that run now."""
        mode, fills = self.before
        if self.running:
            # Keep the error mode if the user has set it.
            mode, fills = (WARN if any(self.running) and mode != ERROR else ERROR), False
        # torch.use_deterministic_algorithms would import Inductor, which takes seconds.
        torch.set_deterministic_debug_mode(mode)
        # PyTorch documents assignment for this setting.
        torch.utils.deterministic.fill_uninitialized_memory = fills


# The setting is global to the process: all emitted modules share one object.
DETERMINISTIC_CALLS = sys.modules.setdefault("coda_ir_deterministic_calls", DeterministicCalls())


@contextlib.contextmanager
def deterministic(warn_only=False):
    """Run the body of a `with` under PyTorch's deterministic algorithms, so that two runs give the
    same bits.

    `warn_only`: warn instead of raising an error for operators that have no deterministic
    algorithm. In this mode PyTorch's attention kernels may be nondeterministic.
    """
    DETERMINISTIC_CALLS.begin(warn_only)
    try:
        yield
    finally:
        DETERMINISTIC_CALLS.end(warn_only)


def vjp(function, inputs, wrt, of, d_outputs):
    """Return the vector-Jacobian product of a function, computed by autograd: the gradients for the
    inputs with the indices `wrt`.

    `d_outputs` are the gradients of the results with the indices `of`. No returned gradient shares
    memory with another tensor.
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
    """Return dyᵀ @ x over all rows, accumulated in float32."""
    dy, x = (z.reshape(z.shape[:-1].numel(), z.shape[-1]) for z in (dy, x))
    if dtype != x.dtype:
        wide = torch.promote_types(dtype, torch.float32)
        dy, x = dy.to(wide), x.to(wide)
    return (dy.T @ x).to(dtype)


def sum_to(x, dims, shape, dtype):
    """Return x summed over `dims` in float32, rounded to dtype and reshaped to `shape`."""
    if x.is_cuda and x.dtype == dtype:  # PyTorch's kernels sum in float32 and round once
        return x.sum(dims).reshape(shape)
    wide = torch.promote_types(x.dtype, torch.float32)
    return x.sum(dims, dtype=wide).to(dtype).reshape(shape)


def pad(x, dim, start, extent):
    """Return x, which begins at index `start`, padded with zeros to `extent` in dimension `dim`."""
    result = x.new_empty(*x.shape[:dim], extent, *x.shape[dim + 1 :])
    end = start + x.shape[dim]
    for place, count in ((0, start), (end, extent - end)):
        if count:
            result.narrow(dim, place, count).zero_()
    result.narrow(dim, start, x.shape[dim]).copy_(x)
    return result


def shifted(x, by):
    """Return x with its rows, the last dimension but one, moved down by `by` positions, or up if
    `by` is negative. Vacated rows are zeros.
    """
    by = max(-x.shape[-2], min(by, x.shape[-2]))
    return torch.nn.functional.pad(x, (0, 0, by, -by)).contiguous()


def mean_share(dloss, target, ignore_index):
    """Return the gradient of each target's loss, for a mean over targets that are not ignored."""
    return dloss / (target != ignore_index).sum()


def sorted_ids(ids):
    """Return the flattened ids in ascending order, and the index where each came from."""
    return torch.sort(ids.reshape(-1).int(), stable=True)
