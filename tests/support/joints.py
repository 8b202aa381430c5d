"""Running a joint function, and the forward and backward that it was split into."""

from collections.abc import Mapping

import torch
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from coda_ir.backends.reference import run_function
from coda_ir.random_inputs import random_arguments
from coda_ir.signatures import signature_of
from support.equivalence import assert_results_close


def function_of(module: ModuleOp, name: str) -> FuncOp:
    (func,) = (op for op in module.ops if isinstance(op, FuncOp) and op.sym_name.data == name)
    return func


def run_split(
    module: ModuleOp, function: str, values: Mapping[str, torch.Tensor]
) -> tuple[torch.Tensor, ...]:
    """The results of the forward without what it saves, and the gradients of the backward.

    Every argument of the backward is found by its name.
    """
    forward = function_of(module, f"{function}_forward")
    backward = function_of(module, f"{function}_backward")
    taken, given = signature_of(forward), signature_of(backward)
    outputs = run_function(forward, [values[spec.name] for spec in taken.arguments], "float64")
    names = [spec.name for spec in taken.results]
    assert len(set(names)) == len(names), f"results of one name: {names}"
    known = {**values, **dict(zip(names, outputs, strict=True))}
    gradients = run_function(backward, [known[spec.name] for spec in given.arguments], "float64")
    return *outputs, *gradients


def assert_split_computes_joint(
    joint: ModuleOp, split: ModuleOp, function: str, sizes: Mapping[str, int]
) -> None:
    """In float64, forward and backward compute what the joint function does."""
    func = function_of(joint, f"{function}_joint")
    arguments = random_arguments(func, sizes, dtype=torch.float64)
    names = [spec.name for spec in signature_of(func).arguments]
    values = dict(zip(names, arguments, strict=True))
    expected = run_function(func, arguments, "float64")
    actual = run_split(split, function, values)
    signature = signature_of(function_of(split, f"{function}_forward"))
    primal = len(expected) - len(signature_of(function_of(split, f"{function}_backward")).results)
    saved = len(signature.results) - primal
    assert_results_close([*actual[:primal], *actual[primal + saved :]], expected, 1e-12)
