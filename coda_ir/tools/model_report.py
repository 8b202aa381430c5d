"""What became of a PyTorch model: tables of what was fused, what was not, and how exact it is."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.utils._pytree as _pytree
from rich.table import Table
from torch.utils._python_dispatch import TorchDispatchMode

from coda_ir.dialects.torch import CallOp
from coda_ir.exported import CompiledModel
from coda_ir.remarks import Remark

# PyTorch's trees have no complete types.
pytree: Any = _pytree

NARROW = (torch.float32, torch.bfloat16, torch.float16)
NO_KERNELS = {"coda.constant", "coda.reshape", "gemm.yield", "gemm.group_reduce"}
"""Operators that launch nothing."""


def kernel_table(model: CompiledModel) -> Table:
    """The operators that are left on the GEMM level, each a kernel or a call of PyTorch."""
    table = Table("operator", "times", title="What is executed", title_justify="left")
    names = Counter(
        f"PyTorch: {op.callee.data}" if isinstance(op, CallOp) else op.name
        for op in model.function.module("gemm").walk()
        if op.name.startswith(("coda.", "gemm.", "torch.")) and op.name not in NO_KERNELS
    )
    for name, count in sorted(names.items(), key=lambda item: (-item[1], item[0])):
        table.add_row(name, str(count))
    return table


def fused_table(remarks: Sequence[Remark]) -> Table:
    """How often each rewrite was done."""
    table = Table("operator", "rewrite", "times", title="Fused", title_justify="left")
    done = Counter(
        (remark.operator, f"{remark.pass_name}: {remark.message}")
        for remark in remarks
        if remark.kind == "passed"
    )
    for (operator, rewrite), count in sorted(done.items()):
        table.add_row(operator, rewrite, str(count))
    return table


def refused_table(remarks: Sequence[Remark]) -> Table:
    """The rewrites that were refused, why, what they cost, and where the first one is."""
    table = Table(
        *("operator", "first in", "why", "bytes", "times"), title="Not fused", title_justify="left"
    )
    missed: dict[tuple[str, str], list[Remark]] = {}
    for remark in remarks:
        if remark.kind == "missed":
            why = remark.message if remark.condition is None else f"not: {remark.condition}"
            missed.setdefault((remark.operator, f"{remark.pass_name}: {why}"), []).append(remark)
    for (operator, why), found in missed.items():
        place = found[0].module or ":".join(map(str, found[0].position or ("?",)))
        table.add_row(operator, place, why, str(found[0].bytes or ""), str(len(found)))
    return table


def error_table(results: Mapping[str, tuple[torch.Tensor, torch.Tensor, torch.Tensor]]) -> Table:
    """Relative errors of results by name, each given as (ours, eager, exact)."""
    title = "Error against float64"
    table = Table("result", "coda", "PyTorch eager", "ratio", title=title, title_justify="left")
    for name, (ours, eager, exact) in results.items():
        error, other = relative_error(ours, exact), relative_error(eager, exact)
        ratio = f"{error / other:.2f}" if other else "" if error else "1.00"
        table.add_row(name, f"{error:.2e}", f"{other:.2e}", ratio)
    return table


def relative_error(actual: torch.Tensor, exact: torch.Tensor) -> float:
    """||actual − exact|| / ||exact|| in float64."""
    difference = (actual.double() - exact.double()).square().sum()
    return float((difference / exact.double().square().sum()).sqrt())


def exact_result(model: torch.nn.Module, call: Callable[[torch.nn.Module], Any]) -> Any:
    """What `call` gives of a copy of `model` in float64, also where the model asks for less.

    The inputs have to be in float64 already.
    """
    wide = copy.deepcopy(model).double()
    with torch.no_grad(), _default_float64(), _Float64Mode():
        return call(wide)


class _Float64Mode(TorchDispatchMode):
    """Computes in float64 where a model asks for float32 or less, as norms and softmaxes do."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        widened: Any = pytree.tree_map(_widened, (tuple(args), dict(kwargs or {})))
        return func(*widened[0], **widened[1])


def _widened(argument: object) -> object:
    return torch.float64 if argument in NARROW else argument


@contextmanager
def _default_float64() -> Generator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
