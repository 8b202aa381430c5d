"""Reading `.mlir` text: modules, and errors with file, line, column, source line and caret."""

from textwrap import dedent

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, FileLineColLoc, ModuleOp, StringAttr
from xdsl.dialects.func import Func, FuncOp
from xdsl.utils.exceptions import ParseError, VerifyException

from coda_ir.diagnostics import DiagnosticError
from coda_ir.mlir.reader import read_module

SILU = "coda.silu %x {} : (tensor<8xf32>) -> tensor<8xf32>"


def read(text: str) -> ModuleOp:
    return read_module(dedent(text), "a.mlir")


def error_of(text: str) -> DiagnosticError:
    with pytest.raises(DiagnosticError) as error:
        read(text)
    return error.value


def attribute(text: str) -> str:
    silu = SILU.replace("{}", f"{{test.a = {text}}}")
    return f"func.func @f(%x: tensor<8xf32>) {{\n  %y = {silu}\n  func.return\n}}\n"


class TestModules:
    def test_operators_have_places(self):
        module = read(attribute("1"))
        func = module.body.block.first_op
        assert isinstance(func, FuncOp) and isinstance(func.location, FileLineColLoc)
        silu = func.body.block.first_op
        assert silu is not None and isinstance(silu.location, FileLineColLoc)
        place = silu.location
        assert (place.filename.data, place.line.data, place.column.data) == ("a.mlir", 2, 8)

    def test_a_written_location_is_kept(self):
        module = read('func.func @f() {\n  func.return\n} loc("b.coda":3:4)\n')
        func = module.body.block.first_op
        assert func is not None and isinstance(func.location, FileLineColLoc)
        assert func.location.filename.data == "b.coda"

    def test_a_context_limits_the_dialects(self):
        context = Context()
        context.load_dialect(Builtin)
        context.load_dialect(Func)
        with pytest.raises(DiagnosticError, match=r"a\.mlir:2:8: error\[E0601\]: .*coda\.silu"):
            read_module(attribute("1"), "a.mlir", context)

    def test_verification_can_be_left_out(self):
        text = "func.func @f() -> f32 {\n  func.return\n}\n"
        assert read_module(text, "a.mlir", verify=False)
        with pytest.raises(DiagnosticError):
            read_module(text, "a.mlir")

    def test_strings_beyond_ascii_are_read_as_printed(self):
        module = read(attribute('"naïve €"'))
        again = read(str(module))
        (func,) = again.ops
        (silu, _) = func.regions[0].block.ops
        assert silu.attributes["test.a"] == StringAttr("naïve €")
        assert module.is_structurally_equivalent(again)


class TestErrors:
    def test_unknown_operator(self):
        error = error_of(
            """\
            func.func @f() {
              %y = coda.unknown
              func.return
            }
            """
        )
        assert str(error) == dedent(
            """\
            a.mlir:2:8: error[E0601]: Operation coda.unknown is not registered
                %y = coda.unknown
                     ^~~~~~~~~~~~"""
        )
        assert isinstance(error.__cause__, ParseError)

    @pytest.mark.parametrize(
        ("operator", "remedy"),
        [("coda.silo", "did you mean coda.silu?"), ("cdoa.silu", "did you mean coda?")],
    )
    def test_operators_with_similar_names(self, operator: str, remedy: str):
        error = error_of(f"func.func @f() {{\n  {operator}\n}}")
        assert error.diagnostics[0].remedy == remedy

    def test_values_without_a_definition(self):
        """The first use is told, not the end of the text, also where others follow."""
        error = error_of(
            """\
            func.func @f(%gate: tensor<8xf32>) -> tensor<8xf32> {
              %y = coda.silu %gaet : (tensor<8xf32>) -> tensor<8xf32>
              %z = coda.add %y, %q : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
              func.return %gaet : tensor<8xf32>
            }
            """
        )
        assert str(error) == dedent(
            """\
            a.mlir:2:18: error[E0601]: %gaet is used but not defined
                %y = coda.silu %gaet : (tensor<8xf32>) -> tensor<8xf32>
                               ^~~~~
              help: did you mean %gate?"""
        )

    def test_failing_verification(self):
        error = error_of(
            """\
            func.func @f(%x: tensor<8xf32>) {
              %y = coda.silu %x : (tensor<8xf32>) -> tensor<9xf32>
              func.return
            }
            """
        )
        (diagnostic,) = error.diagnostics
        assert str(diagnostic.range) == "a.mlir:2:8"
        assert isinstance(error.__cause__, VerifyException)

    def test_a_property_of_a_wrong_kind(self):
        """The place is the operator, not the one that follows."""
        error = error_of(
            """\
            func.func @f(%x: tensor<8xf32>) {
              %y = coda.rms_norm %x {eps = "small"} : (tensor<8xf32>) -> tensor<8xf32>
              func.return
            }
            """
        )
        assert str(error.diagnostics[0].range) == "a.mlir:2:8"

    @pytest.mark.parametrize(
        ("attributes", "mode", "message"),
        [
            (
                '{coda.dims = ["M", "N"]}',
                "",
                'argument 0: coda.dims is ["M", "N"], expected an extent',
            ),
            ("{coda.dims = [9]}", "", "argument 0: coda.dims is [9 : i64], expected an extent or"),
            ('{coda.dims = "M"}', "", 'argument 0: coda.dims is "M", expected an extent or'),
            ('{coda.dims = ["M, N"]}', "", 'argument 0: coda.dims has "M, N", expected a symbol'),
            ("{coda.name = 3}", "", "argument 0: coda.name is 3 : i64, expected a string"),
            ("", 'attributes {coda.numerics = "fast"}', 'coda.numerics is "fast", expected a mode'),
            ("", "attributes {coda.conditions = 3}", "coda.conditions is 3 : i64, expected a list"),
            ("", 'attributes {coda.conditions = ["T > 2"]}', "T > 2 is not a comparison of sizes"),
            ("", 'attributes {coda.conditions = ["f()"]}', "f() is not a comparison of sizes"),
        ],
    )
    def test_metadata_that_does_not_fit(self, attributes: str, mode: str, message: str):
        text = f"func.func @f(%x: tensor<8xf32> {attributes}) {mode} {{\n  func.return\n}}\n"
        assert message in str(error_of(text))

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("func.func @f() {\n  func.return\n", "unexpected end of the text in block definition"),
            ("func @f() {\n  func.return\n}\n", "did you mean func.func?"),
            ("fn f(x: bf16[M, 64]) { return silu(x) }\n", "this is a .coda program"),
        ],
    )
    def test_texts_of_another_kind(self, text: str, message: str):
        assert message in str(error_of(text))

    def test_functions_of_several_blocks(self):
        error = error_of("func.func @f() {\n  func.return\n^bb1:\n  func.return\n}\n")
        assert "a.mlir:1:1: error[E0602]: function has 2 blocks, expected 1" in str(error)

    def test_use_before_definition(self):
        error = error_of(
            """\
            func.func @f() {
              %y = coda.silu %x : (tensor<8xf32>) -> tensor<8xf32>
              %x = coda.silu %y : (tensor<8xf32>) -> tensor<8xf32>
              func.return
            }
            """
        )
        assert "a.mlir:2:8: error[E0602]: operand 0 %x is used where it is not defined" in str(
            error
        )

    def test_use_of_a_value_from_inside_another_operator(self):
        error = error_of(
            """\
            func.func @f() {
              %y = coda.silu %x : (tensor<8xf32>) -> tensor<8xf32>
              func.return
            }
            func.func @g(%x: tensor<8xf32>) {
              func.return
            }
            """
        )
        assert "a.mlir:1:1: error[E0602]: Operation using value defined out of its" in str(error)

    def test_second_definition_of_a_block_has_a_note(self):
        error = error_of(
            """\
            func.func @f() {
              func.return
            ^a:
              func.return
            ^a:
              func.return
            }
            """
        )
        assert [d.severity for d in error.diagnostics] == ["error", "note"]
        assert [str(d.range) for d in error.diagnostics] == ["a.mlir:5:1", "a.mlir:3:1"]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("#", "a.mlir:1:1: error[E0601]: Expected suffix identifier after '#'"),
            (
                "func.func @f(%x: tensor<½xf32>) {}",
                "a.mlir:1:26: error[E0601]: malformed IR",
            ),
            (f"func.func @f(%x: tensor<{'9' * 5000}xf32>) {{}}", "has too many digits"),
            (f"func.func @f(%x: tensor<{2**63}xf32>) {{}}", "the extent has more than 64 bits"),
            (
                attribute("1 : i9999"),
                "a.mlir:2:35: error[E0601]: the integer type has more than 999 bits",
            ),
            (attribute("dense<0> : tensor<99999x99999xi1>"), "more than 1048576 elements"),
            (attribute("[" * 65 + "]" * 65), "brackets are nested more than 64 levels deep"),
            (attribute('"' + "open " * 20), "End of file reached before closing string literal"),
            (attribute(f"affine_map<(d0) -> (d0{' + d0' * 200} mod 3)>"), "levels deep"),
            (attribute(f"affine_map<(d0) -> (d0{' + d0' * 9000})>"), "nested too deeply"),
        ],
    )
    def test_what_the_parser_lets_escape(self, text: str, message: str):
        assert message in str(error_of(text))

    def test_aliases_that_double(self):
        aliases = "".join(f"#a{i} = [#a{i - 1}, #a{i - 1}]\n" for i in range(1, 40))
        error = error_of(f"#a0 = [1, 1]\n{aliases}{attribute('#a39')}")
        assert "a.mlir:10:1: error[E0601]: the alias #a9 expands to more than 1000 others" in str(
            error
        )

    def test_aliases_that_nest(self):
        # Deeper than the stack that Inductor sets for the process, if it has run before.
        aliases = "".join(f"#a{i} = [#a{i - 1}]\n" for i in range(1, 900))
        assert "nested too deeply" in str(error_of(f"#a0 = [1]\n{aliases}{attribute('#a899')}"))
