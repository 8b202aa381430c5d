"""The IR that functions become: metadata, locations, names, inlining. Shapes of operators are in
the goldens of tests/filecheck/frontends.
"""

import re
from textwrap import dedent

import pytest
from xdsl.dialects.builtin import FileLineColLoc, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from coda_ir.diagnostics import CodaError, DiagnosticError
from coda_ir.frontends.coda_text import parse_text


def parse(text: str, **constants: float) -> ModuleOp:
    module = parse_text(dedent(text), "a.coda", constants)
    module.verify()
    return module


def only_function(module: ModuleOp) -> FuncOp:
    (func,) = module.body.block.ops
    assert isinstance(func, FuncOp)
    return func


def operators(module: ModuleOp) -> list[Operation]:
    return list(only_function(module).body.block.ops)


def place(op: Operation) -> tuple[str, int, int]:
    assert isinstance(op.location, FileLineColLoc)
    return op.location.filename.data, op.location.line.data, op.location.column.data


def test_arguments_and_results_carry_names_and_dims():
    module = parse(
        """\
        fn f(x: bf16[B, T, 8], weight w: bf16[16, 8]) {
            y = linear(x, w)
            return y, silu(y), reshape(y, [B * T, 16])
        }
        """
    )
    func = only_function(module)
    assert func.arg_attrs is not None and func.res_attrs is not None
    assert [str(attribute) for attribute in func.arg_attrs] == [
        '{coda.name = "x", coda.dims = ["B", "T", 8 : i64]}',
        '{coda.name = "w", coda.dims = [16 : i64, 8 : i64], coda.weight}',
    ]
    assert [str(attribute) for attribute in func.res_attrs] == [
        '{coda.dims = ["B", "T", 16 : i64], coda.name = "y"}',
        '{coda.dims = ["B", "T", 16 : i64]}',
        '{coda.dims = ["B*T", 16 : i64]}',
    ]


def test_locations_point_at_the_operator():
    module = parse(
        """\
        fn f(x: bf16[M, 8], w: bf16[8, 8]) {
            y = silu(
                x @ w
            ) + -x
            return y
        }
        """
    )
    assert {op.name: place(op) for op in operators(module)} == {
        "coda.matmul": ("a.coda", 3, 11),
        "coda.silu": ("a.coda", 2, 9),
        "coda.neg": ("a.coda", 4, 9),
        "coda.add": ("a.coda", 4, 7),
        "func.return": ("a.coda", 5, 5),
    }
    func = only_function(module)
    assert place(func) == ("a.coda", 1, 4)
    assert [str(argument.location) for argument in func.args] == [
        'loc("a.coda":1:6)',
        'loc("a.coda":1:21)',
    ]


def test_the_call_of_an_epilogue_is_located_at_its_name():
    module = parse(
        """\
        epilogue biased(acc, bias: row) -> (y: tile) {
            y = acc + bias
        }

        fn f(x: bf16[M, 8], weight w: bf16[16, 8], weight b: bf16[16]) {
            return biased(linear(silu(x), w), b)
        }
        """
    )
    silu, fused = operators(module)[:2]
    assert (place(silu), place(fused)) == (("a.coda", 6, 26), ("a.coda", 6, 12))


def test_inlined_operators_keep_the_place_of_their_own_text():
    module = parse(
        """\
        fn f(x: bf16[M, 8]) { return act(x) }
        fn act(x: bf16[R, C]) {
            return silu(x)
        }
        """
    )
    silu, _ = operators(module)
    assert place(silu) == ("a.coda", 3, 12)


def test_results_are_named_after_variables():
    module = parse(
        """\
        fn f(x: bf16[M, 8]) {
            a, b = split(x, [4, 4])
            c = a
            d = half(b)
            return c * d
        }
        fn half(x: bf16[M, N]) {
            y = 0.5 * x
            return y
        }
        """
    )
    hints = [(op.name, op.results[0].name_hint) for op in operators(module) if op.results]
    assert hints == [
        ("coda.slice", "a"),
        ("coda.slice", "b"),
        ("coda.constant", None),
        ("coda.mul", "d"),
        ("coda.mul", None),
    ]


def test_an_argument_keeps_its_name_where_it_is_assigned():
    module = parse("fn f(x: bf16[M, 8]) { y = x ; return silu(y) }")
    assert only_function(module).args[0].name_hint == "x"


def test_numbers_take_the_element_type_of_the_other_operand():
    module = parse("fn f(x: f16[M, 8]) { return 2 * maximum(x, 1 / 4) }")
    two, quarter = operators(module)[0::2][1], operators(module)[0]
    assert (str(quarter.results[0].type), str(two.results[0].type)) == (
        "tensor<f16>",
        "tensor<f16>",
    )
    assert [str(op.properties["value"]) for op in (quarter, two)] == [
        "2.500000e-01 : f64",
        "2.000000e+00 : f64",
    ]


def test_constants_are_computed():
    module = parse(
        """\
        const HEAD = 64
        const HEADS = 8 // 3 + 2 * 3
        const SCALE = rsqrt(HEAD) * -maximum(1, 2)

        fn f(x: bf16[M, HEADS * HEAD]) { return SCALE * x }
        """
    )
    func = only_function(module)
    assert str(func.args[0].type) == "tensor<?x512xbf16>"
    assert str(operators(module)[0].properties["value"]) == "-2.500000e-01 : f64"


class TestEmission:
    def names(self, text: str) -> list[str]:
        ops = parse(text).body.block.ops
        return [op.sym_name.data for op in ops if isinstance(op, FuncOp)]

    def test_called_functions_are_not_emitted(self):
        text = """\
            fn a(x: bf16[M, 8]) { return b(x) }
            fn b(x: bf16[M, 8]) { return c(x) }
            fn c(x: bf16[M, 8]) { return silu(x) }
            fn d(x: bf16[M, 8]) { return c(x) }
        """
        assert self.names(text) == ["a", "d"]

    def test_epilogues_are_not_emitted(self):
        assert self.names("epilogue e(acc) -> (y: tile) { y = acc }") == []

    def test_a_function_may_hide_an_operator(self):
        text = """\
            fn f(x: bf16[M, 8]) { return swiglu(x) }
            fn swiglu(x: bf16[M, N]) { return silu(x) }
        """
        assert [op.name for op in operators(parse(text))] == ["coda.silu", "func.return"]


def test_symbols_are_per_call():
    module = parse(
        """\
        fn f(x: bf16[M, 8], y: bf16[N, 16]) { return act(x), act(y) }
        fn act(x: bf16[M, N]) -> bf16[M, N] { return reshape(reshape(x, [M * N]), [M, N]) }
        """
    )
    types = [str(op.results[0].type) for op in operators(module) if op.results]
    assert types == [
        "tensor<?xbf16>",
        "tensor<?x8xbf16>",
        "tensor<?xbf16>",
        "tensor<?x16xbf16>",
    ]


def test_reshapes_to_several_symbols_say_which_is_which():
    module = parse("fn f(x: bf16[T, B, 8]) { return reshape(x, [B, T, 8]) }")
    assert str(operators(module)[0].attributes["coda.dims"]) == '["B", "T", 8 : i64]'


class TestOverrides:
    TEXT = "const D = 4096\nconst F = 4 * D\nconst EPS = 1e-5\n" + (
        "fn f(x: bf16[M, F]) { return rms_norm(x, eps=EPS) }"
    )

    def test_later_constants_follow(self):
        func = only_function(parse(self.TEXT, D=64))
        assert str(func.args[0].type) == "tensor<?x256xbf16>"

    def test_an_integer_may_override_a_float(self):
        norm, _ = operators(parse(self.TEXT, EPS=1))
        assert str(norm.properties["eps"]) == "1.000000e+00 : f64"

    def test_unknown_name(self):
        with pytest.raises(CodaError) as error:
            parse(self.TEXT, DD=64)
        assert str(error.value) == "there is no const 'DD' to override\n  help: did you mean 'D'?"

    def test_float_for_an_integer(self):
        with pytest.raises(CodaError) as error:
            parse(self.TEXT, D=0.5)
        assert str(error.value) == (
            "const 'D' is the integer 4096, but overridden with 0.5\n  help: pass an integer"
        )

    def test_no_number(self):
        with pytest.raises(CodaError, match="const 'D' is overridden with True, expected a number"):
            parse(self.TEXT, D=True)


class TestLimits:
    @pytest.mark.slow
    def test_long_chains_of_operators(self):
        text = f"fn f(x: bf16[M, 8]) {{ return {' + '.join(['x'] * 3000)} }}"
        assert len(operators(parse(text))) == 3000

    def test_long_chains_of_functions(self):
        calls = "\n".join(
            f"fn step{i}(x: bf16[M, 8]) {{ return step{i + 1}(x) }}" for i in range(200)
        )
        with pytest.raises(DiagnosticError) as error:
            parse(f"{calls}\nfn step200(x: bf16[M, 8]) {{ return x }}")
        first = error.value.diagnostics[0]
        assert first.message.startswith("calls are nested more than 48 deep (in the call at a.coda")

    @pytest.mark.slow
    def test_long_chains_of_signs(self):
        text = f"fn f(x: bf16[M, 8]) {{ return {'-' * 5000}x }}"
        assert len(operators(parse(text))) == 5001

    def test_deep_expressions_in_deep_calls(self):
        nested = "silu(" * 60
        calls = [
            f"fn step{i}(x: bf16[M, 8]) {{ return {nested}step{i + 1}(x){')' * 60} }}"
            for i in range(40)
        ]
        with pytest.raises(DiagnosticError) as error:
            parse("\n".join([*calls, "fn step40(x: bf16[M, 8]) { return x }"]))
        for diagnostic in error.value.diagnostics:
            assert re.fullmatch(r"the calls in 'step\d+' are nested too deeply", diagnostic.message)
            assert diagnostic.range is not None and diagnostic.range.column == 4

    @pytest.mark.slow
    @pytest.mark.parametrize("body", ["silu(x)", "x"])
    def test_functions_that_double(self, body: str):
        calls = "\n".join(
            f"fn step{i}(x: bf16[M, 8]) {{ return step{i - 1}(step{i - 1}(x)) }}"
            for i in range(1, 40)
        )
        with pytest.raises(DiagnosticError, match="the calls expand the program beyond its limit"):
            parse(f"fn step0(x: bf16[M, 8]) {{ return {body} }}\n{calls}")

    def test_many_calls_of_one_function(self):
        layer = f"fn layer(x: bf16[M, 8]) {{ return x * ({'1 + ' * 100}1) }}"
        calls = "\n".join(f"fn use{i}(x: bf16[M, 8]) {{ return layer(x) }}" for i in range(300))
        module = parse(f"{layer}\n{calls}")
        assert sum(1 for _ in module.ops) == 300

    def test_tuples_that_double(self):
        pairs = "\n".join(f"    t{i} = (t{i - 1}, t{i - 1})" for i in range(1, 60))
        text = f"fn f(x: bf16[M, 8]) {{\n    t0 = (x, x)\n{pairs}\n    return t59\n}}"
        with pytest.raises(DiagnosticError, match="a tuple has a tuple of 2 values inside"):
            parse(text)

    @pytest.mark.parametrize(
        ("size", "message"),
        [
            ("*".join(["(A + B)"] * 500), r"the result of \* is too large for a size"),
            ("A" + " * 999999999999" * 500, r"the result of \* is too large for a size"),
            ("A, B, " + ", ".join(["A + B"] * 80), "has more than 64 terms"),
        ],
    )
    def test_sizes_that_explode(self, size: str, message: str):
        with pytest.raises(DiagnosticError, match=message):
            parse(f"fn f(x: bf16[A, B]) {{ return reshape(x, [{size}]) }}")

    def test_extents_beyond_64_bits(self):
        doubled = "\n".join(f"    y{i} = concat(y{i - 1}, y{i - 1})" for i in range(1, 70))
        text = f"fn f(x: bf16[8]) {{\n    y0 = x\n{doubled}\n    return y69\n}}"
        with pytest.raises(DiagnosticError, match="concat: an extent of the result is too large"):
            parse(text)
