"""The base class of the block-level operators."""

from abc import ABC

from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, ParsePropInAttrDict, traits_def
from xdsl.pattern_rewriter import RewritePattern
from xdsl.traits import HasCanonicalizationPatternsTrait, Pure

CANONICALIZATIONS: list[RewritePattern] = []
"""Filled by `coda.canonicalization`, which needs the operators that need this module."""


class FoldsAway(HasCanonicalizationPatternsTrait):
    """There are cases in which the operator changes nothing: see `coda.canonicalization`."""

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        return tuple(CANONICALIZATIONS)


class CodaOp(IRDLOperation, ABC):
    """An operator of the block level, with the assembly format that all of them share.

    `coda.name %a, %b {property = value} : (type(%a), type(%b)) -> type(result)`
    """

    assembly_format = "operands attr-dict `:` functional-type(operands, results)"
    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())

    @property
    def looked_up(self) -> SSAValue | None:
        """The operand of which the operator reads as many elements as its result has, by number."""
        return None
