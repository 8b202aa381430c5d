"""The base class of the block-level operators."""

from abc import ABC

from xdsl.irdl import IRDLOperation, ParsePropInAttrDict


class CodaOp(IRDLOperation, ABC):
    """An operator of the block level, with the assembly format that all of them share.

    `coda.name %a, %b {property = value} : (type(%a), type(%b)) -> type(result)`
    """

    assembly_format = "operands attr-dict `:` functional-type(operands, results)"
    irdl_options = (ParsePropInAttrDict(),)
