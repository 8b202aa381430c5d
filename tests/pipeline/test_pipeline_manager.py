"""Running pipelines: order, anchors, what instrumentations see, verification, failures."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from coda_ir.context import make_context
from coda_ir.mlir.reader import read_module
from coda_ir.passes import get_all_passes
from coda_ir.passes.pipelines.coda_to_gemm import CodaToGemmPass
from coda_ir.pipeline import (
    InvalidAfterPassError,
    PassInstrumentation,
    PassManager,
    PassRun,
    Pipeline,
    parse_pipeline,
    pipeline_of,
)

TWO_FUNCTIONS = """
func.func @first() { func.return }
func.func @second() { func.return }
"""


def functions_of(module: ModuleOp) -> list[str]:
    return [op.sym_name.data for op in module.ops if isinstance(op, FuncOp)]


@dataclass(frozen=True)
class CallPass(ModulePass):
    """Calls `action` with the module."""

    name = "call"
    action: Callable[[ModuleOp], None]

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self.action(op)


class Log(PassInstrumentation):
    """The hooks in the order in which they were called."""

    def __init__(self, log: list[str], name: str = ""):
        self.log = log
        self.name = name

    def before_pipeline(self, module: ModuleOp) -> None:
        self.log.append(f"{self.name}begin")

    def before_pass(self, run: PassRun, module: ModuleOp) -> None:
        self.log.append(f"{self.name}before {run.index}")

    def before_verify(self, run: PassRun, module: ModuleOp) -> None:
        self.log.append(f"{self.name}verify {run.index}")

    def after_pass(self, run: PassRun, module: ModuleOp) -> None:
        self.log.append(f"{self.name}after {run.index}")

    def after_failure(self, run: PassRun, module: ModuleOp, error: BaseException) -> None:
        self.log.append(f"{self.name}failed {run.index}: {error}")

    def after_pipeline(self, module: ModuleOp) -> None:
        self.log.append(f"{self.name}end")


def run(pipeline: Pipeline, *watchers: PassInstrumentation, verify_each: bool = True) -> ModuleOp:
    module = read_module(TWO_FUNCTIONS, "two.mlir")
    PassManager(pipeline, verify_each).run(make_context(), module, watchers)
    return module


def on_functions(action: Callable[[ModuleOp], None]) -> Pipeline:
    return Pipeline((Pipeline((CallPass(action),), "func.func"),))


def nothing(module: ModuleOp) -> None:
    pass


def fail(module: ModuleOp) -> None:
    raise ValueError("on purpose")


def break_it(module: ModuleOp) -> None:
    """Two functions of one name do not verify."""
    for op in module.ops:
        if isinstance(op, FuncOp):
            op.sym_name = StringAttr("same")


class TestHooks:
    def test_order(self):
        log: list[str] = []
        run(Pipeline((CallPass(nothing), CallPass(nothing))), Log(log))
        assert log == [
            *("begin", "before 0", "verify 0", "after 0"),
            *("before 1", "verify 1", "after 1", "end"),
        ]

    def test_instrumentations_are_nested(self):
        log: list[str] = []
        run(Pipeline((CallPass(nothing),)), Log(log, "a "), Log(log, "b "), verify_each=False)
        assert log == [
            *("a begin", "b begin", "a before 0", "b before 0"),
            *("b after 0", "a after 0", "b end", "a end"),
        ]

    def test_once_for_all_functions(self):
        log: list[str] = []
        run(on_functions(nothing), Log(log), verify_each=False)
        assert log == ["begin", "before 0", "after 0", "end"]

    def test_failure(self):
        log: list[str] = []
        with pytest.raises(ValueError, match="on purpose"):
            run(Pipeline((CallPass(nothing), CallPass(fail))), Log(log), verify_each=False)
        assert log[-2:] == ["before 1", "failed 1: on purpose"]

    def test_the_first_failure_is_told(self):
        class Wrong(PassInstrumentation):
            def after_failure(self, run: PassRun, module: ModuleOp, error: BaseException) -> None:
                raise KeyError("second")

        with pytest.raises(ValueError, match="on purpose"):
            run(Pipeline((CallPass(fail),)), Wrong())

    def test_a_hook_ends_the_pipeline(self):
        class Stop(PassInstrumentation):
            def after_pass(self, run: PassRun, module: ModuleOp) -> None:
                raise ValueError("stop")

        log: list[str] = []
        with pytest.raises(ValueError, match="stop"):
            run(Pipeline((CallPass(nothing), CallPass(nothing))), Log(log), Stop())
        assert log[-1] == "failed 0: stop"


class TestFunctionAnchor:
    def test_each_function_is_alone(self):
        seen: list[list[str]] = []
        run(on_functions(lambda module: seen.append(functions_of(module))))
        assert seen == [["first"], ["second"]]

    def test_what_is_made_stays_at_its_place(self):
        def declare(module: ModuleOp) -> None:
            (name,) = functions_of(module)
            declared = FuncOp.external(f"{name}_helper", [], [])
            block = module.body.block
            block.add_op(declared)

        module = run(on_functions(declare))
        assert functions_of(module) == ["first", "first_helper", "second", "second_helper"]

    def test_a_function_can_be_removed(self):
        def remove(module: ModuleOp) -> None:
            for op in list(module.ops):
                if isinstance(op, FuncOp) and op.sym_name.data == "first":
                    op.detach()

        assert functions_of(run(on_functions(remove))) == ["second"]

    def test_attributes_of_the_module_stay(self):
        def mark(module: ModuleOp) -> None:
            module.attributes[f"seen.{functions_of(module)[0]}"] = UnitAttr()

        assert set(run(on_functions(mark)).attributes) == {"seen.first", "seen.second"}

    def test_a_failure_loses_no_function(self):
        seen: list[list[str]] = []

        class Look(PassInstrumentation):
            def after_failure(self, run: PassRun, module: ModuleOp, error: BaseException) -> None:
                seen.append(functions_of(module))

        with pytest.raises(ValueError, match="on purpose"):
            run(on_functions(fail), Look())
        assert seen == [["first", "second"]]


class TestVerification:
    def test_names_the_pass(self):
        with pytest.raises(InvalidAfterPassError, match="invalid IR after pass 'plan-buffers'"):
            pipeline = parse_pipeline("plan-buffers", {"plan-buffers": lambda: BreakPass})
            run(pipeline)

    def test_only_if_asked_for(self):
        pipeline = parse_pipeline("plan-buffers", {"plan-buffers": lambda: BreakPass})
        assert functions_of(run(pipeline, verify_each=False)) == ["same", "same"]


class BreakPass(ModulePass):
    name = "plan-buffers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        break_it(op)


class TestPipelinePasses:
    def test_steps_run_one_by_one(self):
        runs = PassManager(parse_pipeline("coda-to-gemm,schedule", get_all_passes())).runs()
        steps = CodaToGemmPass().steps()
        assert [run.pass_ for run in runs[:-1]] == list(steps)
        assert {run.parents for run in runs[:-1]} == {("coda-to-gemm",)}
        assert [run.index for run in runs] == list(range(len(steps) + 1))
        assert runs[-1].parents == () and str(runs[-1]) == "schedule"

    def test_the_rest_of_a_pipeline(self):
        text = "func.func(plan-buffers,schedule{warps=2}),plan-buffers"
        runs = PassManager(parse_pipeline(text, get_all_passes())).runs()
        assert str(pipeline_of(runs)) == f"builtin.module({text})"
        assert str(pipeline_of(runs[1:])) == (
            "builtin.module(func.func(schedule{warps=2}),plan-buffers)"
        )
