"""Numbers of elementwise functions that have some."""

from coda_ir.dialects import coda


def some_numbers(operator: type[coda.ElementwiseOp]) -> tuple[float, ...]:
    """Return a value for each number of a function: not its default, and right for all of them."""
    return (0.7,) * len(operator.NUMBERS)


def with_numbers(name: str, operator: type[coda.ElementwiseOp]) -> str:
    """Return a name of the IR with the properties of an operator: `elu {alpha = 0.7 : f64}`."""
    values = zip(operator.NUMBERS, some_numbers(operator), strict=True)
    properties = ", ".join(f"{number} = {value} : f64" for number, value in values)
    return f"{name} {{{properties}}}" if properties else name
