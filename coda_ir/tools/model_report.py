"""A report on a PyTorch model: tables of fused operators, of refusals, and of errors."""

import copy
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from rich.table import Table
from xdsl.dialects.builtin import ModuleOp

from coda_ir.dialects.torch import CallOp
from coda_ir.exported import CompiledModel
from coda_ir.float64 import computing_in_float64, relative_error
from coda_ir.remarks import Remark

NO_KERNELS = {"coda.constant", "coda.reshape", "gemm.yield", "gemm.group_reduce", "gemm.column"}
"""Operators that launch nothing."""


def fusion_tables(model: CompiledModel, remarks: Sequence[Remark]) -> list[Table]:
    """Return the tables of executed, fused and refused operators, from the remarks."""
    remarks = [*remarks, *model.remarks]
    return [kernel_table(model), fused_table(remarks), refused_table(remarks)]


def kernel_table(model: CompiledModel) -> Table:
    """Return the operators of the GEMM level, each a kernel or a call of PyTorch."""
    table = Table("operator", "times", title="What is executed", title_justify="left")
    names = executed(model.function.module("gemm"))
    for name, count in sorted(names.items(), key=lambda item: (-item[1], item[0])):
        table.add_row(name, str(count))
    return table


def executed(module: ModuleOp) -> Counter[str]:
    """Return the operators of a module of the GEMM level that run, by name."""
    return Counter(
        f"PyTorch: {op.callee.data}" if isinstance(op, CallOp) else op.name
        for op in module.walk()
        if op.name.startswith(("coda.", "gemm.", "torch.")) and op.name not in NO_KERNELS
    )


def fused_table(remarks: Sequence[Remark]) -> Table:
    """Return how often each rewrite was applied."""
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
    """Return the refused rewrites, their reasons and costs, and the place of the first one."""
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
    """Return relative errors of results by name, each given as (ours, eager, exact)."""
    title = "Error against float64"
    table = Table("result", "coda", "PyTorch eager", "ratio", title=title, title_justify="left")
    for name, (ours, eager, exact) in results.items():
        error, other = relative_error(ours, exact), relative_error(eager, exact)
        ratio = f"{error / other:.2f}" if other else "" if error else "1.00"
        table.add_row(name, f"{error:.2e}", f"{other:.2e}", ratio)
    return table


def exact_result(model: torch.nn.Module, call: Callable[[torch.nn.Module], Any]) -> Any:
    """Return the result of `call` on a copy of `model` in float64, even where the model asks for
    less.

    The inputs have to be in float64 already.
    """
    wide = copy.deepcopy(model).double()
    with torch.no_grad(), computing_in_float64():
        return call(wide)
