"""Small functions to ask legality questions about, at the block and the GEMM level."""

from collections.abc import Callable
from typing import TypeVar

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from coda_ir.passes.support.function_pass import Refusal
from coda_ir.passes.support.order import BlockOrder
from support.programs import parse_mlir

Answer = TypeVar("Answer")


class Function:
    """The body of a function of one block, its values by name, and a check that it stays as is."""

    def __init__(self, parameters: str, *lines: str):
        body = "\n".join(lines)
        self.module = parse_mlir(f"func.func @f({parameters}) {{\n{body}\nfunc.return\n}}")
        (function,) = self.module.ops
        assert isinstance(function, FuncOp)
        self.block = function.body.block
        self.order = BlockOrder(self.block)

    def __getitem__(self, name: str) -> SSAValue:
        values = [*self.block.args, *(value for op in self.block.ops for value in op.results)]
        return next(value for value in values if value.name_hint == name)

    def op(self, name: str) -> Operation:
        owner = self[name].owner
        assert isinstance(owner, Operation)
        return owner

    def ask(self, question: Callable[[], Answer]) -> Answer:
        """The answer to a question that must not change anything."""
        before = str(self.module)
        answer = question()
        assert str(self.module) == before
        return answer


def refused(answer: object) -> Refusal:
    assert isinstance(answer, Refusal), answer
    return answer


TILE = "tensor<?x8xf32>"
PARAMETERS = f"%x: {TILE}, %y: {TILE}, %w: tensor<8x8xf32>, %v: tensor<8x8xf32>"


def gemm(
    result: str,
    *,
    x: str = "x",
    weights: str = "%w : tensor<8x8xf32>",
    mode: str = "",
    ports: str = "",
    types: str = f"tile : {TILE}",
    arguments: str = "%a: f32",
    code: str = "",
    yields: str = "%a : f32",
) -> str:
    """A GEMM of 8 columns, of which every part can be replaced."""
    return f"""
        {result} = gemm.fused %{x} : {TILE} columns({weights}) {mode} {ports} -> ({types}) {{
        ^bb0({arguments}):
          {code}
          gemm.yield {yields}
        }}"""


PAIR = {"arguments": "%a: f32, %b: f32", "yields": "%a, %b : f32, f32"}

EXP_KERNEL = f"""
    %m = gemm.map tile(%x : {TILE}) -> (tile : {TILE}) {{
    ^bb0(%a: f32):
      %e = math.exp %a : f32
      gemm.yield %e : f32
    }}"""


def unary(result: str, operator: str, operand: str) -> str:
    return f"%{result} = coda.{operator} %{operand} : ({TILE}) -> {TILE}"


def binary(result: str, operator: str, a: str, b: str) -> str:
    return f"%{result} = coda.{operator} %{a}, %{b} : ({TILE}, {TILE}) -> {TILE}"


def rms_norm(result: str, x: str) -> str:
    return f"%{result} = coda.rms_norm %{x} {{eps = 1.0e-6 : f64}} : ({TILE}) -> {TILE}"


def linear(result: str, x: str, weight: str = "w") -> str:
    return f"%{result} = coda.linear %{x}, %{weight} : ({TILE}, tensor<8x8xf32>) -> {TILE}"


# Names and tiles
