"""A forward and a backward program as one node of PyTorch's autograd.

The name of an argument of the backward program determines its source: an argument or a result of
the forward program, or `d_r`, the gradient of the result `r`. A result `d_a` is the gradient of the
argument `a`. The forward program returns the results of the function first, followed by the values
that it saves.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import torch

from coda_ir.calls.arguments import Signature, TensorSpec, has_elements
from coda_ir.compiled import CompiledFunction
from coda_ir.diagnostics import ArgumentError, GradientError
from coda_ir.remarks import Remark
from coda_ir.symbolic_size import SymbolicSize
from coda_ir.untraced import untraced

Tensors: TypeAlias = Sequence[torch.Tensor]
Gradients: TypeAlias = Sequence[torch.Tensor | None]
Shape: TypeAlias = tuple[torch.Size, torch.dtype, torch.device]


class DoubleBackwardError(GradientError):
    """A derivative of a gradient was requested; programs do not support second derivatives."""


class BackwardProgramError(GradientError):
    """A backward program that does not fit its forward program."""


@dataclass(frozen=True)
class _Source:
    """The source of an argument of the backward program: position `index` among the arguments or
    results of the forward program, or among the gradients of the results.
    """

    kind: Literal["argument", "result", "gradient"]
    index: int


class _Backward:
    """A backward program, the sources of its arguments, and the destinations of its results.

    Raises BackwardProgramError if an argument has no source.
    """

    def __init__(
        self,
        function: CompiledFunction,
        forward: Signature,
        count: int,
        kept: Sequence[_Source] | None = None,
    ):
        """Set up the program; `kept` are the sources that there are of a call of the forward
        program, by default those that this program needs.
        """
        self.function = function
        self.sources = [_source(s, function, forward, count) for s in function.signature.arguments]
        of_call = (s for s in self.sources if s.kind in ("argument", "result"))
        self.kept = list(dict.fromkeys(of_call)) if kept is None else kept
        places = {source: ("kept", index) for index, source in enumerate(self.kept)}
        self._positions = [places.get(s, (s.kind, s.index)) for s in self.sources]
        names = [spec.name for spec in function.signature.results]
        self.places = [
            names.index(f"d_{spec.name}") if f"d_{spec.name}" in names else None
            for spec in forward.arguments
        ]
        """For each argument of the forward program the number of its gradient."""

    def arguments(self, kept: Tensors, gradients: Tensors) -> list[torch.Tensor]:
        """Return the arguments of the program."""
        given = {"kept": kept, "gradient": gradients}
        return [given[kind][index] for kind, index in self._positions]

    def run(
        self, arguments: list[torch.Tensor], sizes: Mapping[str, int]
    ) -> list[torch.Tensor | None]:
        """Return the gradients of the arguments, None without one; empties `arguments`."""
        results = self.function.run_boxed(arguments, sizes)
        return [None if place is None else results[place] for place in self.places]


class GradientPair:
    """A forward program, which returns results and saved tensors, and its backward program."""

    def __init__(
        self,
        forward: CompiledFunction,
        backward: CompiledFunction,
        count: int,
        specialize: Callable[[Sequence[str]], CompiledFunction],
    ):
        """`count` is the number of results of the function itself, which come first; `specialize`
        makes the backward program for gradients of results that are not there.

        Raises BackwardProgramError if an argument of the backward program has no source.
        """
        self.forward, self.backward = forward, backward
        self._count = count
        self._specialize = specialize
        full = _Backward(backward, forward.signature, count)
        self._full = full
        self._backwards: dict[frozenset[int], _Backward] = {frozenset(): full}
        """The backward programs by the results without a gradient."""
        self._kept = full.kept

    def __repr__(self) -> str:
        return f"<GradientPair {self.forward.signature}, {self.backward.signature}>"

    @property
    def saved(self) -> tuple[TensorSpec, ...]:
        """The tensors that the forward program keeps besides its arguments and results."""
        return self.forward.signature.results[self._count :]

    @property
    def saved_bytes(self) -> SymbolicSize:
        """The size of `saved`, by the symbols of the function."""
        sizes = [
            SymbolicSize.product("?" if dim is None else dim for dim in spec.dims)
            * spec.dtype.itemsize
            for spec in self.saved
        ]
        return sum(sizes, SymbolicSize())

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """The remarks of both programs: saved and recomputed values, fusions, refusals."""
        special = [b.function for b in self._backwards.values() if b is not self._full]
        added = [remark for function in special for remark in function.origin_remarks]
        return (*self.forward.origin_remarks, *self.forward.remarks, *added)

    @property
    def kernels(self) -> tuple[str, ...]:
        """The names of the generated kernels, those of the forward program first."""
        return (*self.forward.kernels, *self.backward.kernels)

    @cached_property
    def differentiable(self) -> frozenset[int]:
        """The positions of the results whose gradients the backward program uses."""
        sources = self._full.sources
        pairs = zip(sources, self.backward.used_arguments, strict=True)
        return frozenset(s.index for s, is_used in pairs if s.kind == "gradient" and is_used)

    def require(self, wrt: Sequence[str]) -> None:
        """Raise BackwardProgramError for a requested gradient that the pair does not compute."""
        for spec, place in zip(self.forward.signature.arguments, self._full.places, strict=True):
            if spec.name in wrt and place is None:
                raise BackwardProgramError(
                    f"{self.backward.name} computes no gradient of {spec.name}",
                    f"return d_{spec.name} from it, or pass {spec.name}.detach()",
                )

    def __call__(self, tensors: Tensors, sizes: Mapping[str, int]) -> tuple[torch.Tensor, ...]:
        """Return the results as a part of PyTorch's graph, for checked tensors and `sizes`."""
        return _apply(_Node, self, sizes, *tensors)

    def run_forward(
        self, tensors: Tensors, sizes: Mapping[str, int]
    ) -> tuple[tuple[torch.Tensor, ...], list[torch.Tensor]]:
        """Return the results of the function, and what the backward program needs of this call."""
        results = self.forward.run_checked(tensors, sizes)
        places = {"argument": tensors, "result": results}
        return results[: self._count], [places[s.kind][s.index] for s in self._kept]

    def with_history(self, kept: Tensors) -> list[torch.Tensor]:
        """Return the tensors `kept`, so that those which depend on others require gradients: saved
        intermediate values have no place in PyTorch's graph.
        """
        is_hidden = [s.kind == "result" and s.index >= self._count for s in self._kept]
        return [
            x.detach().requires_grad_() if hidden and x.is_floating_point() else x
            for x, hidden in zip(kept, is_hidden, strict=True)
        ]

    def run_backward(
        self,
        kept: list[torch.Tensor],
        gradients: Gradients,
        shapes: Sequence[Shape],
        sizes: Mapping[str, int],
    ) -> list[torch.Tensor | None]:
        """Return the gradients of the arguments: None for those without one.

        `kept` is the list that `run_forward` returned. It is emptied, so that each tensor is freed
        after its last use. `gradients` are those of the results; None means that a result was not
        used. Computations that depend only on missing gradients are removed; if a tensor is needed
        nevertheless, it has zeros in the shape of the result.
        """
        missing = frozenset(i for i, g in enumerate(gradients) if g is None) & self.differentiable
        backward = self._backward(missing)
        return backward.run(self._arguments(backward, kept, gradients, shapes), sizes)

    def _backward(self, missing: frozenset[int]) -> _Backward:
        """Return the backward program without the gradients `missing` of results."""
        signature = self.forward.signature
        if missing not in self._backwards:
            results = [f"d_{signature.results[index].name}" for index in sorted(missing)]
            function = self._specialize(results)
            self._backwards[missing] = _Backward(function, signature, self._count, self._kept)
        return self._backwards[missing]

    def _arguments(
        self,
        backward: _Backward,
        kept: list[torch.Tensor],
        gradients: Gradients,
        shapes: Sequence[Shape],
    ) -> list[torch.Tensor]:
        """Return the arguments of a backward program; empties `kept`."""
        dense = [
            _zeros(*shape) if g is None else g for g, shape in zip(gradients, shapes, strict=True)
        ]
        arguments = backward.arguments(kept, dense)
        kept.clear()
        return arguments


def _source(
    spec: TensorSpec, backward: CompiledFunction, forward: Signature, count: int
) -> _Source:
    """Return the source of an argument of the backward program."""
    arguments = [argument.name for argument in forward.arguments]
    results = [result.name for result in forward.results]
    if spec.name in arguments:
        return _Source("argument", arguments.index(spec.name))
    if spec.name in results:
        return _Source("result", results.index(spec.name))
    gradients = [f"d_{name}" for name in results[:count]]
    if spec.name in gradients:
        return _Source("gradient", gradients.index(spec.name))
    raise BackwardProgramError(
        f"argument {spec.name} of {backward.name} is neither an argument nor a result of "
        f"{forward.name}, nor the gradient d_r of a result r",
        f"return {spec.name} from {forward.name} to save it",
    )


class _Node(torch.autograd.Function):
    """One call of a pair in PyTorch's graph.

    Saved tensors go through `save_for_backward`, which detects changes in place and calls hooks,
    such as those of activation checkpointing. The node drops its references when the backward pass
    reaches it, unless the graph is retained; the backward program then frees each tensor after its
    last use.
    """

    @staticmethod
    def forward(
        ctx: Any, pair: GradientPair, sizes: Mapping[str, int], *tensors: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        results, kept = pair.run_forward(tensors, sizes)
        if len({result.untyped_storage().data_ptr() for result in results}) == len(results):
            # PyTorch refuses to change what is a view here in place, though nothing else sees it.
            results = tuple(result.detach() for result in results)
        elif len(set(map(id, results))) < len(results):
            # Of a value that is two results, one may have a gradient and the other one none.
            results = tuple(result.view_as(result) for result in results)
        ctx.pair, ctx.sizes = pair, sizes
        ctx.shapes = [(result.shape, result.dtype, result.device) for result in results]
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*kept)
        constant = [r for i, r in enumerate(results) if i not in pair.differentiable]
        ctx.mark_non_differentiable(*constant)
        return results

    @staticmethod
    @untraced
    def backward(ctx: Any, *grad_outputs: torch.Tensor | None) -> tuple[Any, ...]:
        kept: list[torch.Tensor] = list(ctx.saved_tensors)
        ctx.maybe_clear_saved_tensors()
        pair: GradientPair = ctx.pair
        is_differentiated = torch.is_grad_enabled()
        upstream = [gradient for gradient in grad_outputs if gradient is not None]
        if not all(map(has_elements, upstream)):
            raise ArgumentError(
                f"{pair.backward.name} is called with a batch of gradients",
                "leave out is_grads_batched=True and vectorize=True",
            )
        needed = [*pair.with_history(kept), *upstream] if is_differentiated else []
        with torch.no_grad():
            found = pair.run_backward(kept, grad_outputs, ctx.shapes, ctx.sizes)
        if is_differentiated:
            found = _once(pair.backward.name, found, needed)
        return None, None, *found


def _apply(function: type[torch.autograd.Function], *arguments: object) -> Any:
    apply: Any = getattr(function, "apply")  # noqa: B009  (it has no complete type)
    return apply(*arguments)


def _zeros(shape: torch.Size, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Return a gradient of zeros that takes no memory, for a result whose gradient is missing."""
    return torch.zeros((), dtype=dtype, device=device).expand(shape)


class _Once(torch.autograd.Function):
    """Gradients that raise an error if they are differentiated."""

    @staticmethod
    def forward(ctx: Any, name: str, count: int, *tensors: torch.Tensor) -> Any:
        ctx.name = name
        return tuple(tensor.detach() for tensor in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *_: torch.Tensor) -> Any:
        raise DoubleBackwardError(
            f"a gradient that {ctx.name} computed is differentiated again; second derivatives are "
            "not supported",
            "leave out create_graph=True, or use the PyTorch model for second derivatives",
        )


def _once(name: str, found: Gradients, needed: Tensors) -> list[torch.Tensor | None]:
    given = [gradient for gradient in found if gradient is not None]
    guarded = iter(_apply(_Once, name, len(given), *given, *needed))
    return [None if gradient is None else next(guarded) for gradient in found]
