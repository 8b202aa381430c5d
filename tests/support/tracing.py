"""torch.export, without work that it does over and over.

Most of the time of the export of a small model goes into two things, whose results are the same
each time: for a decomposition, all operators are looked for once for each namespace, and some 500
composite operators are given rules for 22 keys of the dispatcher each.
"""

from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from support.replaced_names import are_present

LOOKING = {
    "torch._export.utils": ["_materialize_cpp_cia_ops", "_collect_all_valid_cia_ops"],
    "torch.export.exported_program": ["_collect_all_valid_cia_ops"],
    "torch.export.decomp_utils": ["_collect_all_valid_cia_ops"],
}
MAKING = {
    "torch.export.exported_program": ["_override_composite_implicit_decomp"],
    "torch._subclasses.fake_impls": ["op_implementations_dict"],
    "torch": ["ops.aten.linear.default.py_kernels", "ops.aten.linear.default._dispatch_cache"],
}
"""Names of PyTorch 2.11 to 2.13 by module, none of which is documented."""


@cache
def speed_up() -> None:
    """Do these things once; nothing happens in versions of PyTorch that do them otherwise."""
    if are_present(LOOKING):
        _look_for_operators_once(import_module("torch._export.utils"))
    if are_present(MAKING):
        _make_rules_once(import_module("torch.export.exported_program"))


def _look_for_operators_once(utilities: Any) -> None:
    """Nothing registers operators while those of all namespaces are collected."""
    look: Any = utilities._materialize_cpp_cia_ops
    collect: Any = utilities._collect_all_valid_cia_ops

    def collect_all() -> Any:
        look()
        utilities._materialize_cpp_cia_ops = lambda: None
        try:
            return collect()
        finally:
            utilities._materialize_cpp_cia_ops = look

    for name in LOOKING:
        module: Any = import_module(name)
        module._collect_all_valid_cia_ops = collect_all


class _Rules(NamedTuple):
    """The rules of an operator while a decomposition runs, and those before it."""

    decomposition: Any
    before: dict[Any, Any]
    within: dict[Any, Any]
    of_fake_tensors: Any


def _make_rules_once(programs: Any) -> None:
    """An operator gets the rules of the decomposition before, if it has the same ones outside."""
    override: Any = programs._override_composite_implicit_decomp
    of_fake_tensors: dict[Any, Any] = import_module(
        "torch._subclasses.fake_impls"
    ).op_implementations_dict
    made: dict[Any, _Rules] = {}

    def is_made(operator: Any, decomposition: Any) -> bool:
        rules = made.get(operator)
        return (
            rules is not None
            and rules.decomposition is decomposition
            and rules.before == operator.py_kernels
            and operator not in of_fake_tensors
        )

    @contextmanager
    def overridden(decompositions: dict[Any, Any]) -> Generator[None]:
        known = [op for op, rule in decompositions.items() if is_made(op, rule)]
        others = {op: decompositions[op] for op in decompositions.keys() - known}
        new = {op: dict(op.py_kernels) for op in others if op not in of_fake_tensors}
        with override(others):
            for op, before in new.items():
                within = dict(op.py_kernels)
                made[op] = _Rules(decompositions[op], before, within, of_fake_tensors[op])
            for op in known:
                _set_kernels(op, made[op].within)
                of_fake_tensors[op] = made[op].of_fake_tensors
            try:
                yield
            finally:
                for op in known:
                    _set_kernels(op, made[op].before)
                    of_fake_tensors.pop(op, None)

    programs._override_composite_implicit_decomp = overridden


def _set_kernels(operator: Any, kernels: dict[Any, Any]) -> None:
    operator.py_kernels.clear()
    operator.py_kernels.update(kernels)
    operator._dispatch_cache.clear()
