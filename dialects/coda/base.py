"""The base class of the block-level operators."""

import re
from abc import ABC
from collections.abc import Iterator
from typing import Self

from xdsl.ir import Operation, SSAValue
from xdsl.irdl import IRDLOperation, ParsePropInAttrDict, traits_def
from xdsl.pattern_rewriter import RewritePattern
from xdsl.traits import HasCanonicalizationPatternsTrait, Pure
from xdsl.utils.exceptions import VerifyException

CANONICALIZATIONS: list[RewritePattern] = []
"""Filled by `coda.canonicalization`, which needs the operators that need this module."""


_WORD_END = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
"""Places between the words of the name of a class."""


class FoldsAway(HasCanonicalizationPatternsTrait):
    """Gives operators the patterns of `coda.canonicalization`."""

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        return tuple(CANONICALIZATIONS)


class CodaOp(IRDLOperation, ABC):
    """An operator of the block level, with the assembly format that all of them share. It has the
    name of its class unless it states another one: `RMSNormOp` is `coda.rms_norm`.

    `coda.name %a, %b {property = value} : (type(%a), type(%b)) -> type(result)`
    """

    assembly_format = "operands attr-dict `:` functional-type(operands, results)"
    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure(), FoldsAway())

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if ABC not in cls.__bases__ and "name" not in vars(cls):
            words = _WORD_END.sub("_", cls.__name__.removesuffix("Op"))
            cls.name = f"coda.{words.lower()}"

    def verify(self, verify_nested_ops: bool = True) -> None:
        super().verify(verify_nested_ops)
        for name in self.attributes:
            # Attributes of passes and front ends have the prefix of a dialect.
            if "." not in name:
                known = ", ".join(self.get_irdl_definition().properties)
                expected = f", expected {known}" if known else ""
                raise VerifyException(f"{name} is no property of {self.name}{expected}")

    @property
    def looked_up(self) -> SSAValue | None:
        """The operand from which each element of the result is looked up by number."""
        return None

    @classmethod
    def operators(cls) -> Iterator[type[Self]]:
        """Yield the operators that derive from this class, some of them by several ways."""
        for derived in cls.__subclasses__():
            if "name" in vars(derived):
                yield derived
            yield from derived.operators()


def new_operators(last: Operation) -> list[Operation]:
    """Return the operators that were made for the operands of a new one, in order, and itself."""
    owners = (value.owner for value in last.operands)
    new = [owner for owner in owners if isinstance(owner, Operation) and owner.parent is None]
    return [*dict.fromkeys(each for owner in new for each in new_operators(owner)), last]
