"""Reduction of modules: what is removed, that candidates verify, bounds, the command to test."""

from collections.abc import Callable
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import PassPipeline

from coda_ir.api import parse
from coda_ir.context import make_context
from coda_ir.dialects.gemm import FusedOp
from coda_ir.reduction import NotInterestingError, Progress, reduce_module
from coda_ir.registry import get_all_passes
from coda_ir.tools.opt.reduce import CommandTest

EXAMPLES = Path(__file__).parents[2] / "examples"


def lowered(module: ModuleOp, passes: str = "coda-to-gemm") -> ModuleOp:
    module = module.clone()
    PassPipeline.parse_spec(get_all_passes(), passes).apply(make_context(), module)
    return module


def has(name: str) -> Callable[[ModuleOp], bool]:
    return lambda module: any(op.name == name for op in module.walk())


def count(module: ModuleOp, name: str) -> int:
    return sum(op.name == name for op in module.walk())


def lines(module: ModuleOp) -> list[str]:
    """The text of a module without the operator around it."""
    return [line.strip() for line in str(module).splitlines()[1:-1]]


def function(arguments: str, body: str, results: str = "") -> ModuleOp:
    return parse(f"func.func @f({arguments}){results} {{\n{body}\n}}", syntax="mlir")


T = "tensor<?x8xf32>"


class TestResult:
    def test_only_the_operator_that_matters_stays(self):
        module = parse(EXAMPLES / "llama_layer.coda")
        assert lines(reduce_module(module, has("coda.rope"))) == [
            "func.func @llama_layer(%y: tensor<?x?x2xbf16>, %cos: tensor<?x1xf32>) {",
            '%q = coda.rope %y, %cos, %cos {head_dim = 2 : i64, layout = "half_split"} : '
            "(tensor<?x?x2xbf16>, tensor<?x1xf32>, tensor<?x1xf32>) -> tensor<?x?x2xbf16>",
            "func.return",
            "}",
        ]

    def test_a_property_of_the_lowered_module(self):
        def merges(module: ModuleOp) -> bool:
            ops = lowered(module).walk()
            return any(isinstance(op, FusedOp) and len(op.segments()) >= 2 for op in ops)

        reduced = reduce_module(parse(EXAMPLES / "llama_layer.coda"), merges)
        assert merges(reduced)
        assert [op.name for op in reduced.walk()][1:] == [
            "func.func",
            "coda.linear",
            "coda.linear",
            "func.return",
        ]

    def test_scheduled_epilogues(self):
        module = lowered(parse(EXAMPLES / "qwen3_block.coda"), "coda-to-gemm,schedule,plan-buffers")
        reduced = reduce_module(module, has("gemm.group_reduce"))
        text = "\n".join(lines(reduced))
        assert sum(1 for _ in reduced.walk()) <= 8
        for gone in ("schedule", "coda.buffers", "coda.dims", "partial_row", "arith.", "math."):
            assert gone not in text

    def test_a_chain_stays_connected(self):
        module = parse(
            """fn f(x: bf16[M, 64], w: bf16[64, 64], v: bf16[64, 64]) {
                return linear(gelu(tanh(relu(linear(x, w)))), v)
            }"""
        )

        def reaches(module: ModuleOp) -> bool:
            linears = [op for op in module.walk() if op.name == "coda.linear"]
            values = {value for op in linears for value in op.results}
            for op in module.walk():
                if op.name in ("coda.relu", "coda.tanh", "coda.gelu"):
                    values.update(op.results if values & set(op.operands) else ())
            return any(values & set(op.operands) for op in linears)

        reduced = reduce_module(module, reaches)
        assert [op.name for op in reduced.walk()][2:-1] == ["coda.linear", "coda.linear"]

    def test_the_input_stays_as_it_is(self):
        module = parse(EXAMPLES / "llama_mlp.coda")
        before = str(module)
        reduce_module(module, has("coda.linear"))
        assert str(module) == before


class TestSearch:
    def test_every_candidate_verifies_and_none_is_tested_twice(self):
        tested: list[str] = []

        def interesting(module: ModuleOp) -> bool:
            module.verify()
            tested.append(str(module))
            return count(module, "coda.linear") >= 2

        reduce_module(parse(EXAMPLES / "gemma_block.coda"), interesting)
        assert len(tested) == len(set(tested)) > 10
        for text in tested:
            parse(text, syntax="mlir")

    def test_deterministic(self):
        module = lowered(parse(EXAMPLES / "gpt2_block.coda"))
        first, second = (reduce_module(module, has("gemm.finalize")) for _ in range(2))
        assert str(first) == str(second)

    @pytest.mark.parametrize("bound", [1, 2, 5])
    def test_bound_on_the_tests(self, bound: int):
        tests: list[Progress] = []
        module = parse(EXAMPLES / "llama_layer.coda")
        reduced = reduce_module(module, has("coda.rope"), max_tests=bound, on_progress=tests.append)
        assert [test.tests for test in tests] == list(range(1, bound + 1))
        assert has("coda.rope")(reduced)
        sizes = [test.operators for test in tests]
        assert sizes == sorted(sizes, reverse=True)

    @pytest.mark.slow
    def test_few_tests_for_many_operators(self):
        chain = "\n".join(
            f"%{i + 1} = coda.{'tanh' if i == 300 else 'relu'} %{i} : ({T}) -> {T}"
            for i in range(1000)
        )
        module = function(f"%0: {T}", f"{chain}\nfunc.return %1000 : {T}", f" -> {T}")
        tests: list[Progress] = []
        reduced = reduce_module(module, has("coda.tanh"), on_progress=tests.append)
        assert tests[-1].operators == 3
        assert len(tests) < 60
        assert count(reduced, "coda.relu") == 0

    def test_an_input_that_is_not_interesting(self):
        with pytest.raises(NotInterestingError, match="the input is not interesting"):
            reduce_module(parse(EXAMPLES / "llama_mlp.coda"), has("coda.rope"))

    def test_errors_of_the_test_are_not_hidden(self):
        def crash(module: ModuleOp) -> bool:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            reduce_module(parse(EXAMPLES / "llama_mlp.coda"), crash)


class TestEdits:
    """Removals of each strategy, on modules where only this one can remove anything."""

    def test_functions_and_their_calls(self):
        module = parse(
            f"""
            func.func private @g(%x: {T}) -> {T} {{ func.return %x : {T} }}
            func.func @f(%x: {T}) -> {T} {{
              %y = func.call @g(%x) : ({T}) -> {T}
              %z = coda.tanh %y : ({T}) -> {T}
              func.return %z : {T}
            }}
            func.func @h() {{ func.return }}
            """,
            syntax="mlir",
        )
        reduced = reduce_module(module, has("coda.tanh"))
        assert count(reduced, "func.func") == 1
        assert not has("func.call")(reduced)

    def test_the_signature_of_a_called_function_stays(self):
        module = parse(
            f"""
            func.func private @g(%x: {T}, %unused: {T}) -> {T} {{ func.return %x : {T} }}
            func.func @f(%x: {T}) -> {T} {{
              %y = func.call @g(%x, %x) : ({T}, {T}) -> {T}
              func.return %y : {T}
            }}
            """,
            syntax="mlir",
        )
        reduced = reduce_module(module, has("func.call"))
        assert count(reduced, "func.func") == 2

    def test_what_is_dropped_becomes_an_argument_with_its_dimensions(self):
        module = function(
            f'%x: {T} {{coda.dims = ["M", 8]}}',
            f"""%y = coda.relu %x : ({T}) -> {T}
            %z = coda.tanh %y : ({T}) -> {T}
            func.return %z : {T}""",
            f" -> {T}",
        )

        def interesting(candidate: ModuleOp) -> bool:
            return has("coda.tanh")(candidate) and '"M"' in str(candidate)

        assert lines(reduce_module(module, interesting))[0].startswith(
            'func.func @f(%x: tensor<?x1xf32> {coda.dims = ["M", 1 : i64]})'
        )

    def test_extents_shrink_in_proportion(self):
        module = function(
            "%x: tensor<3x4096xf32>",
            """%y = coda.reshape %x : (tensor<3x4096xf32>) -> tensor<3x32x128xf32>
            func.return""",
        )

        def interesting(candidate: ModuleOp) -> bool:
            ends = ("x2xf32>\n", "x128xf32>\n")
            return has("coda.reshape")(candidate) and any(end in str(candidate) for end in ends)

        text = str(reduce_module(module, interesting))
        assert "(tensor<1x2xf32>) -> tensor<1x1x2xf32>" in text

    def test_extents_outside_of_types(self):
        module = function(
            "%x: tensor<64x64xf32>",
            """%y = coda.slice %x {dim = 0 : i64, start = 0 : i64, stop = 64 : i64}
               : (tensor<64x64xf32>) -> tensor<64x64xf32>
            func.return""",
        )
        text = str(reduce_module(module, has("coda.slice")))
        assert "stop = 1 : i64" in text and "tensor<1x1xf32>" in text


class TestCommand:
    def test_exit_code_decides(self, tmp_path: Path):
        module = parse(EXAMPLES / "llama_mlp.coda")
        for command, expected in (("grep -q coda.silu %s", True), ("grep -q rope", False)):
            test = CommandTest(command, tmp_path / "a b.mlir", 10, str)
            assert test(module) is expected
        assert test.outcome == "exits with 1"

    @pytest.mark.slow
    def test_time_is_bounded(self, tmp_path: Path):
        test = CommandTest("sleep 60 #", tmp_path / "m.mlir", 1, str)
        assert not test(parse(EXAMPLES / "llama_mlp.coda"))
        assert test.outcome == "takes longer than 1 s"
