"""Calls of PyTorch in emitted programs run under its deterministic algorithms, and nothing else."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest
import torch
from support.emitted import load_module, load_program
from torch.utils._python_dispatch import TorchDispatchMode

from coda_ir.api import parse
from coda_ir.backends.triton import emit_module

# It has no complete types.
settings: Any = import_module("torch.utils.deterministic")

PROGRAM = """
func.func @f(%x: tensor<?xf32> {coda.dims = ["M"]}, %i: tensor<?xi64> {coda.dims = ["N"]},
             %d: tensor<?xf32> {coda.dims = ["N"]}) -> tensor<?xf32> {
  %e = torch.call "aten.mul.Tensor"(%d, %d) {arguments = "{0}, {1}", coda.dims = ["N"]} : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
  %a = CALL -> tensor<?xf32>
  %b = torch.call "aten.mul.Tensor"(%a, %a) {arguments = "{0}, {1}", coda.dims = ["M"]} : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
  func.return %b : tensor<?xf32>
}
"""  # noqa: E501


def call(name: str, arguments: str) -> str:
    types = "(tensor<?xf32>, tensor<?xi64>, tensor<?xf32>)"
    attributes = f'{{arguments = "{arguments}", coda.dims = ["M"]}}'
    return f'torch.call "aten.{name}"(%x, %i, %e) {attributes} : {types}'


def vjp(name: str, arguments: str) -> str:
    operands = "%x, %i : tensor<?xf32>, tensor<?xi64>"
    attributes = f'{{arguments = "{arguments}", of = [0], wrt = [0]}}'
    return f'torch.vjp "aten.{name}"({operands}) of(%e : tensor<?xf32>) {attributes}'


@dataclass
class Recorder(TorchDispatchMode):
    """Recorder of calls, and of whether they have to be deterministic."""

    calls: dict[str, tuple[bool, bool]] = field(default_factory=dict[str, tuple[bool, bool]])

    def __post_init__(self) -> None:
        # It has no complete types.
        mode: Any = super()
        mode.__init__()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        self.calls[name.removesuffix("_")] = modes()
        return func(*args, **kwargs or {})


def modes() -> tuple[bool, bool]:
    """Return whether algorithms have to be deterministic, and whether PyTorch warns of others
    only.
    """
    enabled = torch.are_deterministic_algorithms_enabled()
    return enabled, torch.is_deterministic_algorithms_warn_only_enabled()


def set_modes(enabled: bool, warns: bool) -> None:
    # torch.use_deterministic_algorithms imports Inductor.
    torch._C._set_deterministic_algorithms(enabled, warn_only=warns)  # pyright: ignore


@pytest.fixture(autouse=True)
def set_before() -> Iterator[None]:
    before = modes()
    yield
    set_modes(*before)


@pytest.mark.parametrize(
    ("text", "sum"),
    [
        (call("index_add.default", "{0}, 0, {1}, {2}"), "index_add"),
        (call("index_put.default", "{0}, [{1}], {2}, True"), "index_put"),
        (call("scatter_add.default", "{0}, 0, {1}, {2}"), "scatter_add"),
        (call("scatter_reduce.two", "{0}, 0, {1}, {2}, 'sum'"), "scatter_reduce"),
        (vjp("index_select.default", "{0}, 0, {1}"), "index_add"),
        (vjp("gather.default", "{0}, 0, {1}"), "scatter_add"),
        (vjp("index.Tensor", "{0}, [{1}]"), "index_put"),
        (vjp("take.default", "{0}, {1}"), "put"),
    ],
)
def test_sums_are_deterministic(text: str, sum: str) -> None:
    run = load_program(PROGRAM.replace("CALL", text))
    x, ids, d = torch.zeros(4), torch.tensor([2, 0, 2]), torch.tensor([1.0, 2, 3])
    with Recorder() as recorder:
        result = run(x, ids, d)
    assert recorder.calls.get(sum) == (True, True), recorder.calls
    assert recorder.calls["mul"] == (False, False)
    assert torch.equal(result, torch.tensor([16.0, 0, 100, 0]))


def emitted() -> ModuleType:
    text = PROGRAM.replace("CALL", vjp("gather.default", "{0}, 0, {1}"))
    return load_module(emit_module(parse(text)))


@pytest.mark.parametrize("before", [(False, False), (True, True), (True, False)])
def test_what_was_set_before_holds_again(before: tuple[bool, bool]) -> None:
    """Who asked for errors gets them from these calls, too."""
    module = emitted()
    set_modes(*before)
    with module.deterministic(warn_only=True):
        assert modes() == (True, before != (True, False))
        assert not settings.fill_uninitialized_memory
        with module.deterministic():
            assert modes()[0]
    assert modes() == before
    assert settings.fill_uninitialized_memory
    with pytest.raises(ZeroDivisionError), module.deterministic():
        assert modes() == (True, False)
        _ = 1 / 0
    assert modes() == before


def test_calls_of_two_programs_at_once() -> None:
    """As in two threads, where the first to begin can be the first to end."""
    first, second = (emitted().deterministic(warn_only=True) for _ in range(2))
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert modes() == (True, True)
    second.__exit__(None, None, None)
    assert modes() == (False, False)
