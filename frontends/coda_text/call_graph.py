"""The call graph: recursion, the order of checks, and which functions are emitted."""

from collections.abc import Iterable, Iterator

from coda_ir.frontends.coda_text.operators import OPERATORS
from coda_ir.frontends.coda_text.program import FunctionDefinition, Scope
from coda_ir.frontends.coda_text.reporter import Reporter
from coda_ir.frontends.coda_text.syntax import Call, calls


def callees(function: FunctionDefinition) -> Iterator[tuple[Call, FunctionDefinition]]:
    """Yield the calls of user functions in the body of a function, in order."""
    for statement in function.tree.body.statements:
        for call in calls(statement.value):
            meaning = function.scope.meanings.get(call.callee.text)
            if isinstance(meaning, FunctionDefinition):
                yield call, meaning


def roots(scope: Scope) -> list[FunctionDefinition]:
    """Return the functions of a file that no function of the file calls."""
    called = {callee for function in scope.functions for _, callee in callees(function)}
    return [function for function in scope.functions if function not in called]


def checking_order(
    functions: Iterable[FunctionDefinition], reporter: Reporter
) -> list[FunctionDefinition]:
    """Return functions, callees first. Recursion is reported and marks its functions as failed."""
    order: list[FunctionDefinition] = []
    done: set[FunctionDefinition] = set()
    for function in functions:
        if function not in done:
            _visit(function, done, order, reporter)
    return order


def _visit(
    root: FunctionDefinition,
    done: set[FunctionDefinition],
    order: list[FunctionDefinition],
    reporter: Reporter,
) -> None:
    """Depth-first search with an explicit stack, because chains of calls may be long."""
    path: list[FunctionDefinition] = [root]
    pending = [callees(root)]
    while path:
        step = next(pending[-1], None)
        if step is None:
            pending.pop()
            order.append(path.pop())
            done.add(order[-1])
            continue
        call, callee = step
        if callee in path:
            _report_recursion(call, path[path.index(callee) :], path[-1], reporter)
        elif callee not in done:
            path.append(callee)
            pending.append(callees(callee))


def _report_recursion(
    call: Call, cycle: list[FunctionDefinition], caller: FunctionDefinition, reporter: Reporter
) -> None:
    names = " -> ".join(function.name for function in (*cycle, cycle[0]))
    remedy = "functions are inlined where they are called, so a function cannot call itself"
    if cycle[0].name in OPERATORS:
        remedy = f"rename this function: it hides the operator {cycle[0].name}"
    reporter.error(caller.scope.file, call.callee.span, f"recursion: {names}", remedy, "E0205")
    for function in cycle:
        function.failed = True
