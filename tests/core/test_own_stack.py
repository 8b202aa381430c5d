"""Work on a stack of its own."""

from contextvars import ContextVar
from threading import current_thread

import pytest

from coda_ir.diagnostics import Diagnostic, collect_diagnostics, emit_diagnostic
from coda_ir.lowering import on_own_stack

NUMBER: ContextVar[int] = ContextVar("number", default=0)


def test_work_has_a_thread_and_work_inside_of_it_stays_there():
    def work() -> list[object]:
        return [current_thread(), on_own_stack(current_thread)]

    first, second = on_own_stack(work)
    assert first is second is not current_thread()
    assert on_own_stack(current_thread) is not first


def test_work_sees_context_variables_and_collectors():
    NUMBER.set(3)
    found = Diagnostic("warning", None, "found", None)
    with collect_diagnostics() as diagnostics:
        on_own_stack(lambda: emit_diagnostic(found))
    assert (on_own_stack(NUMBER.get), diagnostics) == (3, [found])


def test_what_work_raises_is_raised():
    def work() -> None:
        raise KeyError("a name")

    with pytest.raises(KeyError, match="a name"):
        on_own_stack(work)
