"""The joint function of a differentiation: forward and backward in one body."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from coda_ir.diagnostics import OptionError
from coda_ir.dominance import backward_slice
from coda_ir.functions import returned_values
from coda_ir.signatures import entry_name, entry_of

JOINT_ATTRIBUTE = "coda.joint"
SUFFIX = "_joint"


@dataclass(frozen=True)
class Joint:
    """A function from (arguments, gradients of results) to (results, gradients of arguments).

    `primal_arguments` and `primal_results` say how many of each belong to the forward.
    """

    func: FuncOp
    primal_arguments: int
    primal_results: int

    @staticmethod
    def of(func: FuncOp) -> Joint | None:
        """Return the joint function that `func` declares to be."""
        stated = func.attributes.get(JOINT_ATTRIBUTE)
        if not isinstance(stated, DictionaryAttr) or not func.body.blocks:
            return None
        arguments, results = (stated.data.get(name) for name in ("arguments", "results"))
        if not isinstance(arguments, IntegerAttr) or not isinstance(results, IntegerAttr):
            raise OptionError(
                f"{JOINT_ATTRIBUTE} is {stated}, expected the numbers of arguments and results",
                "write {arguments = 1 : i64, results = 1 : i64}",
            )
        return Joint(func, arguments.value.data, results.value.data)

    @property
    def function(self) -> str:
        """The name of the differentiated function."""
        return self.func.sym_name.data.removesuffix(SUFFIX)

    @property
    def block(self) -> Block:
        return self.func.body.block

    @property
    def arguments(self) -> Sequence[SSAValue]:
        return self.block.args[: self.primal_arguments]

    @property
    def result_gradients(self) -> Sequence[SSAValue]:
        return self.block.args[self.primal_arguments :]

    @property
    def results(self) -> Sequence[SSAValue]:
        return returned_values(self.func)[: self.primal_results]

    @property
    def argument_gradients(self) -> Sequence[SSAValue]:
        return returned_values(self.func)[self.primal_results :]

    def argument_entry(self, index: int) -> DictionaryAttr:
        return entry_of(self.func.arg_attrs, index)

    def result_entry(self, index: int) -> DictionaryAttr:
        return entry_of(self.func.res_attrs, index)

    def argument_name(self, index: int) -> str:
        return entry_name(self.argument_entry(index)) or f"arg{index}"

    def result_name(self, index: int) -> str:
        return entry_name(self.result_entry(index)) or f"result{index}"

    def forward_ops(self) -> set[Operation]:
        """Return the operators that the results need."""
        return backward_slice(self.results)

    def gradient_values(self) -> set[SSAValue]:
        """Return the values that depend on the gradient of a result."""
        found = set(self.result_gradients)
        for op in self.block.ops:
            if any(operand in found for operand in op.operands):
                found.update(op.results)
        return found
