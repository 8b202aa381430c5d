"""Gradients of functions of the block level: derived ones, and those of PyTorch's autograd."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from coda_ir.api import find_entry
from coda_ir.backends.reference import run_function, trace_function
from coda_ir.context import make_context
from coda_ir.dialects.coda.shapes import element_type_of, is_float
from coda_ir.functions import returned_values
from coda_ir.passes.gradient.derive_gradient import DeriveGradientPass
from coda_ir.passes.support.joint import Joint
from coda_ir.random_inputs import random_arguments
from support.equivalence import assert_results_close
from support.joints import function_of
from support.programs import parse_mlir

Tensors = Sequence[torch.Tensor]


def joint_of(module: ModuleOp, wrt: Sequence[str] = (), function: str | None = None) -> Joint:
    """The joint of the only function of `module`, or of `function`; the module gets it, too."""
    func = find_entry(module, function)
    name = func.sym_name.data
    DeriveGradientPass(function=name, wrt=tuple(wrt)).apply(make_context(), module)
    module.verify()
    parse_mlir(str(module))
    joint = Joint.of(function_of(module, f"{name}_joint"))
    assert joint is not None
    values = (*joint.block.args, *(value for op in joint.block.ops for value in op.results))
    # An operator that was made and not inserted would count as a use in every later rewrite.
    assert all(use.operation.parent is joint.block for value in values for use in value.uses)
    return joint


def differentiated(joint: Joint) -> list[int]:
    """The numbers of the arguments that `joint` has gradients of."""
    names = [joint.argument_name(index) for index in range(joint.primal_arguments)]
    first = joint.primal_results
    count = len(joint.argument_gradients)
    gradients = [joint.result_name(first + index) for index in range(count)]
    return [names.index(name.removeprefix("d_")) for name in gradients]


def autograd(
    func: FuncOp, arguments: Tensors, wrt: Sequence[int], seeds: Tensors
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Results, and gradients by PyTorch's autograd of the reference backend, in float64."""
    leaves: dict[SSAValue, torch.Tensor] = {
        func.args[index]: arguments[index].detach().double().requires_grad_() for index in wrt
    }
    with torch.enable_grad():
        results = trace_function(func, arguments, "float64", leaves).results
    types = map(element_type_of, returned_values(func))
    floats = [result for result, type in zip(results, types, strict=True) if is_float(type)]
    pairs = zip(floats, seeds, strict=True)
    known = [(result, seed) for result, seed in pairs if result.requires_grad]
    if not known:
        return list(results), [torch.zeros_like(leaf) for leaf in leaves.values()]
    of, weights = zip(*known, strict=True)
    gradients = torch.autograd.grad(of, list(leaves.values()), weights, materialize_grads=True)
    return [result.detach() for result in results], list(gradients)


def assert_gradients(
    module: ModuleOp,
    sizes: Mapping[str, int] | None = None,
    wrt: Sequence[str] = (),
    *,
    seed: int = 0,
    arguments: Tensors | None = None,
    rtol: float = 1e-12,
) -> Joint:
    """The joint's results are the function's and its gradients PyTorch's, on random arguments."""
    func = find_entry(module, None)
    joint = joint_of(module, wrt)
    drawn = random_arguments(joint.func, dict(sizes or {}), seed=seed, dtype=torch.float64)
    count = joint.primal_arguments
    values = [*(arguments or drawn[:count]), *drawn[count:]]
    outputs = run_function(joint.func, values, "float64")
    seeds = [value.double() for value in values[count:]]
    results, gradients = autograd(func, values[:count], differentiated(joint), seeds)
    assert_results_close(outputs, [*results, *gradients], rtol)
    return joint


class _Differentiated(torch.autograd.Function):
    """The reference backend's forward with the joint's gradients as its backward."""

    @staticmethod
    def forward(ctx: Any, func: FuncOp, joint: Joint, *arguments: torch.Tensor) -> Any:
        ctx.joint, ctx.arguments = joint, arguments
        results = run_function(func, [value.detach() for value in arguments], "float64")
        ctx.floats = [result.is_floating_point() for result in results]
        return results

    @staticmethod
    def backward(ctx: Any, *seeds: torch.Tensor) -> Any:
        joint = ctx.joint
        values = [value.detach() for value in ctx.arguments]
        floats = [seed for seed, is_float in zip(seeds, ctx.floats, strict=True) if is_float]
        outputs = run_function(joint.func, [*values, *floats], "float64")
        gradients: list[torch.Tensor | None] = [None] * joint.primal_arguments
        for index, gradient in zip(
            differentiated(joint), outputs[joint.primal_results :], strict=True
        ):
            gradients[index] = gradient
        return (None, None, *gradients)


def assert_gradcheck(
    module: ModuleOp, joint: Joint, sizes: Mapping[str, int] | None = None, *, seed: int = 0
) -> None:
    """The joint's gradients are those of central differences in float64."""
    func = find_entry(module, joint.function)
    arguments = random_arguments(func, dict(sizes or {}), seed=seed, dtype=torch.float64)
    wanted = set(differentiated(joint))
    leaves = [
        value.requires_grad_() if index in wanted else value
        for index, value in enumerate(arguments)
    ]

    def call(*values: torch.Tensor) -> Any:
        apply: Any = getattr(_Differentiated, "apply")  # noqa: B009
        return apply(func, joint, *values)

    with torch.enable_grad():
        assert torch.autograd.gradcheck(call, leaves, fast_mode=True, atol=1e-6)
