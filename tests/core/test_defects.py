"""Programs that fail: by a defect of this package, or by a mistake that PyTorch refuses, too."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

from coda_ir.defects import DefectWarning, Described, WithFallback
from coda_ir.diagnostics import CodaError


def described() -> Described:
    return Described("the graph of model.py:3", "eager PyTorch", "errors='raise'")


def failing(error: Exception) -> Callable[..., Any]:
    def run(*_: object) -> object:
        raise error

    return run


def test_a_defect_is_reported_once_and_later_calls_do_not_try_again():
    calls: list[str] = []

    def compiled(x: int) -> int:
        calls.append("compiled")
        if x < 3:
            return x + 1
        raise UnboundLocalError("max")

    def eager(x: int) -> int:
        calls.append("eager")
        return x + 1

    run = WithFallback(compiled, eager, described)
    assert run(1) == 2
    with pytest.warns(DefectWarning) as caught:
        assert run(3) == 4
    assert run(1) == 2
    assert calls == ["compiled", "compiled", "eager", "eager"]
    (warning,) = caught
    text = str(warning.message)
    assert text.startswith(
        "the compiled program of the graph of model.py:3 failed because of a defect in coda_ir: "
        "UnboundLocalError: max (test_defects.py:"
    )
    assert "; eager PyTorch runs it from now on\n  help: report this message with " in text
    assert "errors='raise'" in text


def test_what_pytorch_refuses_as_well_is_no_defect():
    eager = failing(IndexError("index out of range"))
    run = WithFallback(failing(KeyError("ours")), eager, described)
    for _ in range(2):
        with pytest.raises(IndexError, match="out of range") as raised:
            run()
        assert isinstance(raised.value.__context__, KeyError)


@pytest.mark.parametrize(
    "error", [CodaError("wrong shape"), torch.OutOfMemoryError("full"), MemoryError()]
)
def test_mistakes_and_missing_memory_are_raised(error: Exception):
    run = WithFallback(failing(error), failing(AssertionError("not tried")), described)
    with pytest.raises(type(error)):
        run()


def test_what_may_have_changed_its_inputs_is_not_run_twice():
    compiled = failing(KeyError("ours"))
    run = WithFallback(compiled, lambda: "eager", described, changes_inputs=True)
    raised = "the error is raised, as the call may have changed its inputs"
    with pytest.warns(DefectWarning, match=raised), pytest.raises(KeyError, match="ours"):
        run()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run() == "eager"


def test_tests_do_not_hide_defects():
    run = WithFallback(failing(KeyError("ours")), lambda: "eager", described)
    with pytest.raises(DefectWarning):
        run()
