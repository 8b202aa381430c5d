"""Text of loads and stores: float32 in registers, the stated element type in memory."""

from collections.abc import Iterable

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type
from xdsl.ir import Attribute

from coda_ir.backends.triton.kernel import KernelArgument, indented, pointer_type, tl_type
from coda_ir.dialects.coda.shapes import is_float


def load(pointer: str, type: Attribute, mask: str | None, other: str = "0.0") -> str:
    """An expression that loads elements of `type` and extends floats to float32."""
    guard = f", mask={mask}, other={other if is_float(type) else '0'}" if mask else ""
    loaded = f"tl.load({pointer}{guard})"
    return f"{loaded}.to(tl.float32)" if isinstance(type, BFloat16Type | Float16Type) else loaded


def store(pointer: str, value: str, type: Attribute, mask: str | None, helpers: set[str]) -> str:
    """A statement that stores `value` (float32, or of the integer `type`), rounded to `type`.

    `value` is a name or a literal, which may have fewer dimensions than the pointers.
    """
    guard = f", mask={mask}" if mask else ""
    return f"tl.store({pointer}, {rounded(value, type, helpers)}{guard})"


def rounded(value: str, type: Attribute, helpers: set[str]) -> str:
    """The expression `value` rounded to nearest even in `type`."""
    if not is_float(type) or isinstance(type, Float32Type):
        return value
    if not value.isidentifier():
        value = f"tl.full((), {value}, tl.float32)"
    if isinstance(type, BFloat16Type):
        helpers.add("to_bf16")
        return f"to_bf16({value})"
    return f"{value}.to({tl_type(type)})"


def pointer_argument(name: str, type: Attribute, value: str) -> KernelArgument:
    """The argument for a tensor with elements of `type`; `value` is a template for the host."""
    return KernelArgument(name, pointer_type(type), value)


def function(name: str, arguments: Iterable[KernelArgument], lines: Iterable[str]) -> str:
    """The source of a kernel with the body `lines`."""
    parameters = ", ".join(argument.name for argument in arguments)
    header = f"def {name}({parameters}):"
    if len(header) > 100:
        header = f"def {name}(\n    " + ",\n    ".join(parameters.split(", ")) + ",\n):"
    return "\n".join(["@triton.jit", header, *indented(lines), ""])


def next_power_of_2(extent: int) -> int:
    return 1 << max(0, extent - 1).bit_length()
