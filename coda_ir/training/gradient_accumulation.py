"""Gradient accumulation inside a backward program: it adds to gradients of leaves in place.

PyTorch's node `AccumulateGrad` reads the new gradient of a leaf and its `.grad`, and writes the
sum. A program that is given `.grad` adds in the epilogue of the GEMM that computes the gradient,
and hands PyTorch no gradient of that leaf. It is the same unless somebody looks at the increment.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from types import TracebackType
from typing import Any

import torch
from torch import nn

from coda_ir.calls.arguments import Signature, TensorSpec, short_name

logger = logging.getLogger("coda_ir.gradient_accumulation")

UNKNOWN = object()
"""The hooks of a tensor where PyTorch does not show them."""

_GRAPH: Any = import_module("torch.autograd.graph")


@dataclass
class ExistingGradients:
    """Finds the gradients that a function's backward program may add to in place.

    A message of the logger, once for each argument and reason, says why others are left to PyTorch.
    """

    signature: Signature
    """The signature of the forward program."""
    _told: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])

    def find(self, node: Any, read: Iterable[torch.Tensor]) -> dict[int, torch.Tensor]:
        """Return the gradients by the number of the argument. `node` is the node of PyTorch's graph
        that the backward pass has reached, and `read` are tensors that the program reads.
        """
        reason = self._obstacle_to_all()
        if reason is not None:
            self._tell("all arguments", reason)
            return {}
        found: dict[int, torch.Tensor] = {}
        for index, (target, _) in enumerate(node.next_functions):
            if target is not None:
                spec = self.signature.arguments[index]
                reason = _obstacle(target, spec)
                if reason is None:
                    found[index] = target.variable.grad
                else:
                    self._tell(spec.name, reason)
        return self._apart(found, read)

    def _obstacle_to_all(self) -> str | None:
        if torch.is_grad_enabled():
            return "the gradients are differentiated"
        if torch.compiler.is_compiling():
            return "the backward pass is compiled"
        cuda = torch.cuda
        if cuda.is_initialized() and cuda.current_stream() != cuda.default_stream():
            return "the backward pass runs on a stream of its own"
        return None

    def _apart(
        self, found: dict[int, torch.Tensor], read: Iterable[torch.Tensor]
    ) -> dict[int, torch.Tensor]:
        """Return the gradients in `found` that share no memory with one another or with `read`."""
        shared = _overlapping([*found.values(), *read])
        for number, index in enumerate(list(found)):
            if number in shared:
                name = self.signature.arguments[index].name
                self._tell(name, "its gradient shares memory with what the program reads or writes")
                del found[index]
        return found

    def _tell(self, name: str, reason: str) -> None:
        if (name, reason) not in self._told:
            self._told.add((name, reason))
            where = f"the gradient of {name} in {self.signature.name}"
            logger.info("%s is added by PyTorch: %s", where, reason)


def _obstacle(target: Any, spec: TensorSpec) -> str | None:
    """Return the reason why the gradient of an argument is not added in place to `target`,
    if any.
    """
    leaf: torch.Tensor | None = getattr(target, "variable", None)
    if leaf is None:
        return "it is computed from other tensors"
    gradient = leaf.grad
    if gradient is None:
        return "it has no gradient yet"
    return _unfit(leaf, gradient, spec) or _watched(leaf, target)


def _unfit(leaf: torch.Tensor, gradient: torch.Tensor, spec: TensorSpec) -> str | None:
    if type(leaf) not in (torch.Tensor, nn.Parameter) or type(gradient) is not torch.Tensor:
        return "it is not a plain tensor"
    if gradient.layout != torch.strided:
        return "its gradient is sparse"
    if gradient.dtype != spec.dtype:
        return f"its gradient is {short_name(gradient.dtype)}"
    if gradient.shape != leaf.shape or gradient.device != leaf.device:
        return "its gradient has another shape or place"
    if not gradient.is_contiguous() or not gradient.numel():
        return "its gradient is not contiguous or has no elements"
    if gradient.requires_grad or gradient.is_inference():
        return "its gradient is part of a graph, or was created in inference mode"
    return None


def _watched(leaf: Any, target: object) -> str | None:
    """Return the reason why the increment is needed besides the sum; None if it is not."""
    # PyTorch documents neither a way to see the hooks of a tensor, nor what a backward pass is for.
    # A version without these names adds the gradients as usual.
    will_execute = getattr(import_module("torch._C"), "_will_engine_execute_node", None)
    hooks = (
        getattr(leaf, "_backward_hooks", UNKNOWN),
        getattr(leaf, "_post_accumulate_grad_hooks", UNKNOWN),
    )
    if will_execute is None or UNKNOWN in hooks:
        return "this version of PyTorch does not say what the gradient is for"
    if any(hooks):
        return "it has a hook"
    try:
        is_executed: bool = will_execute(target)
    except RuntimeError:
        # PyTorch has no other word for a leaf that `torch.autograd.grad` returns the gradient of.
        is_executed = False
    return None if is_executed else "this backward pass does not add to gradients"


def _overlapping(tensors: Sequence[torch.Tensor]) -> set[int]:
    """Return the numbers of tensors that may share memory with another one."""
    spans = sorted((*_span(tensor), number) for number, tensor in enumerate(tensors))
    found: set[int] = set()
    last, last_end = -1, -1
    for start, end, number in spans:
        if start < last_end and start < end:
            found |= {last, number}
        if end > last_end:
            last, last_end = number, end
    return found


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the address range of the elements of a tensor."""
    start = tensor.data_ptr()
    if not tensor.numel():
        return start, start
    extents = zip(tensor.shape, tensor.stride(), strict=True)
    last = sum((size - 1) * stride for size, stride in extents)
    return start, start + (last + 1) * tensor.itemsize


@dataclass(frozen=True)
class Adding:
    """A context in which a program adds to gradients, which it finds by the names of their
    arguments.

    PyTorch counts the changes. An exception says which gradients may have been added to.
    """

    program: str
    gradients: Mapping[str, torch.Tensor]

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for gradient in self.gradients.values():
            _GRAPH.increment_version(gradient)
        if error is not None and self.gradients:
            error.add_note(
                f"{self.program} failed while it added to the gradients of "
                f"{', '.join(self.gradients)}: set them to None before trying again"
            )
