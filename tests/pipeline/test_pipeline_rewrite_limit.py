"""Rewriting that does not end is an error that names the patterns."""

from collections.abc import Sequence
from threading import Thread

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, StringAttr
from xdsl.ir import Dialect
from xdsl.irdl import IRDLOperation, irdl_op_definition, prop_def, traits_def
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.traits import HasCanonicalizationPatternsTrait

from coda_ir.passes.block.canonicalize import CanonicalizePass
from coda_ir.pipeline import PassManager, Pipeline, RewriteLoopError, rewrite_module
from coda_ir.pipeline.rewrite_limit import limit_rewrites


class StateTrait(HasCanonicalizationPatternsTrait):
    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        return (Ping(), Pong())


@irdl_op_definition
class StateOp(IRDLOperation):
    """An operator that patterns can turn over for ever."""

    name = "loop.state"
    state = prop_def(StringAttr)
    traits = traits_def(StateTrait())


def state(text: str) -> StateOp:
    op = StateOp.create(properties={"state": StringAttr(text)})
    op.location = FileLineColLoc(StringAttr("loop.mlir"), IntAttr(7), IntAttr(3))
    return op


def turn(op: StateOp, before: str, after: str, rewriter: PatternRewriter) -> None:
    if op.state.data == before:
        rewriter.replace(op, state(after))


class Ping(RewritePattern):
    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: StateOp, rewriter: PatternRewriter) -> None:
        turn(op, "ping", "pong", rewriter)


class Pong(RewritePattern):
    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: StateOp, rewriter: PatternRewriter) -> None:
        turn(op, "pong", "ping", rewriter)


class LoopPass(ModulePass):
    name = "loop"
    patterns: Sequence[RewritePattern] = (Ping(), Pong())

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        applier = GreedyRewritePatternApplier(list(self.patterns), dce_enabled=False)
        rewrite_module(op, applier)


class OncePass(LoopPass):
    name = "once"
    patterns = (Ping(),)


def run(pass_: ModulePass, limit: int | None, text: str = "ping") -> ModuleOp:
    context = Context()
    context.load_dialect(Dialect("loop", [StateOp]))
    module = ModuleOp([state(text)])
    PassManager(Pipeline((pass_,)), max_rewrites=limit).run(context, module)
    return module


@pytest.mark.parametrize("pass_", [LoopPass(), CanonicalizePass()], ids=["ours", "canonicalize"])
def test_names_the_patterns_and_the_place(pass_: ModulePass):
    with pytest.raises(RewriteLoopError) as caught:
        run(pass_, 11)
    message = str(caught.value)
    assert "rewriting did not finish after 11 rewrites" in message
    assert "Ping (6 times), Pong (6 times)" in message
    assert "last at loop.state (loop.mlir:7:3)" in message


def test_ends_by_default():
    with pytest.raises(RewriteLoopError, match="after 10200 rewrites"):
        run(LoopPass(), None)


def test_single_pattern_without_an_applier():
    class SinglePass(LoopPass):
        name = "single"

        def apply(self, ctx: Context, op: ModuleOp) -> None:
            rewrite_module(op, Flip())

    class Flip(RewritePattern):
        @op_type_rewrite_pattern
        def match_and_rewrite(self, op: StateOp, rewriter: PatternRewriter) -> None:
            rewriter.replace(op, state("pong" if op.state.data == "ping" else "ping"))

    with pytest.raises(RewriteLoopError, match=r"Flip \(4 times\)"):
        run(SinglePass(), 3)


def test_many_walks_share_the_limit():
    class RepeatPass(LoopPass):
        name = "repeat"

        def apply(self, ctx: Context, op: ModuleOp) -> None:
            while True:
                for pattern in (Ping(), Pong()):
                    rewrite_module(op, pattern)

    with pytest.raises(RewriteLoopError, match="Ping"):
        run(RepeatPass(), 20)


def test_what_ends_is_not_touched():
    module = run(OncePass(), 1)
    assert [op.state for op in module.ops if isinstance(op, StateOp)] == [StringAttr("pong")]


def test_folding_and_dead_code_count():
    """Both rewrite beside the patterns."""
    from coda_ir.mlir.reader import read_module

    text = "func.func @f() { %0 = arith.constant 1 : i32  func.return }"
    module = read_module(text, "dead.mlir")
    dead_code = r"dead code elimination \(1 times\)"
    with pytest.raises(RewriteLoopError, match=dead_code), limit_rewrites(0):
        CanonicalizePass().apply(Context(), module)


def test_no_limit_outside_and_in_other_threads():
    modules = [ModuleOp([state("ping")]) for _ in range(2)]

    def turn_over(module: ModuleOp) -> None:
        rewrite_module(module, Ping())

    with limit_rewrites(0):
        thread = Thread(target=turn_over, args=(modules[0],))
        thread.start()
        thread.join()
    turn_over(modules[1])
    for module in modules:
        assert [op.state.data for op in module.ops if isinstance(op, StateOp)] == ["pong"]
