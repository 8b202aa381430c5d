"""Tracing without what `support.tracing` leaves out: operators have the same rules."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import pytest
import torch
from support.replaced_names import are_present
from support.tracing import LOOKING, MAKING

if not (are_present(LOOKING) and are_present(MAKING)):
    pytest.skip("this version of PyTorch decomposes otherwise", allow_module_level=True)

programs: Any = import_module("torch.export.exported_program")
rules_of_fake_tensors: Any = import_module("torch._subclasses.fake_impls").op_implementations_dict

LINEAR: Any = torch.ops.aten.linear.default
SILU: Any = torch.ops.aten.silu.default
KEYS: Any = import_module("torch._C").DispatchKey


def keep(*_: object) -> object:
    return NotImplemented


def test_rules_of_a_decomposition():
    """The second decomposition with a rule has the rules of the first one, and another rule its
    own; afterwards, operators have what they had.
    """

    def within(rules: Mapping[Any, Callable[..., object]]) -> list[Any]:
        with programs._override_composite_implicit_decomp(rules):
            return [(dict(op.py_kernels), rules_of_fake_tensors.get(op)) for op in (LINEAR, SILU)]

    def other(*_: object) -> object:
        return NotImplemented

    rules_of_fake_tensors.pop(LINEAR, None)
    outside = within({})
    first = within({LINEAR: keep})
    assert len(first[0][0]) > len(outside[0][0]) and first[0][1] is not None
    assert within({}) == outside
    assert within({LINEAR: keep}) == first
    composite = KEYS.CompositeImplicitAutograd
    assert within({LINEAR: other})[0][0][composite] is other
    assert within({LINEAR: keep})[0][0][composite] is keep
    assert within({}) == outside


def test_rules_that_change_outside(monkeypatch: pytest.MonkeyPatch):
    """The rules of an operator outside changed after the first decomposition."""
    key = KEYS.CPU

    def on_cpu(*_: object) -> object:
        return NotImplemented

    for _ in range(2):
        with programs._override_composite_implicit_decomp({LINEAR: keep}):
            assert LINEAR.py_kernels[key] is not on_cpu
        monkeypatch.setitem(LINEAR.py_kernels, key, on_cpu)
        with programs._override_composite_implicit_decomp({LINEAR: keep}):
            assert LINEAR.py_kernels[key] is on_cpu
        assert LINEAR.py_kernels[key] is on_cpu
        monkeypatch.undo()


def test_operators_that_are_registered_later():
    """They are found at the next decomposition."""
    name = "coda_ir_test_later::twice"

    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    collect: Any = import_module("torch._export.utils")._collect_all_valid_cia_ops
    before = collect()
    library: Any = getattr(torch.library, "Library")("coda_ir_test_later", "DEF")  # noqa: B009
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", twice, "CompositeImplicitAutograd")
    assert {op.name() for op in collect() - before} == {name}
    library._destroy()
