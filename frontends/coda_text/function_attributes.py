"""The attributes of arguments and results of a function of the IR."""

from xdsl.dialects.builtin import DictionaryAttr, StringAttr, UnitAttr
from xdsl.ir import Attribute

from coda_ir.dialects.coda.weights import WEIGHT
from coda_ir.frontends.coda_text.syntax import Expression, Name, Parameter, TupleExpression
from coda_ir.frontends.coda_text.values import TensorValue, dims_attribute


def argument_attributes(parameter: Parameter, value: TensorValue) -> DictionaryAttr:
    """The name and extents of a parameter, and whether it is a weight."""
    attributes: dict[str, Attribute] = {
        "coda.name": StringAttr(parameter.name.text),
        "coda.dims": dims_attribute(value.dims),
    }
    if parameter.qualifier is not None:
        attributes[WEIGHT] = UnitAttr()
    return DictionaryAttr(attributes)


def result_attributes(returned: Expression, results: list[TensorValue]) -> list[DictionaryAttr]:
    """`coda.dims` of each result, and `coda.name` where it is a plain variable."""
    items = returned.items if isinstance(returned, TupleExpression) else (returned,)
    attributes: list[DictionaryAttr] = []
    for index, result in enumerate(results):
        entries: dict[str, Attribute] = {"coda.dims": dims_attribute(result.dims)}
        item = items[index] if len(items) == len(results) else None
        if isinstance(item, Name):
            entries["coda.name"] = StringAttr(item.text)
        attributes.append(DictionaryAttr(entries))
    return attributes
