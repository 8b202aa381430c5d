"""The element types of tensors, with their names in `.coda`, PyTorch and Triton: the one table."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    Signedness,
)
from xdsl.ir import Attribute


@dataclass(frozen=True)
class ElementType:
    """One element type of the IR."""

    attribute: Attribute
    torch: str
    """The name of PyTorch's dtype: `bfloat16` for `torch.bfloat16`."""
    triton: str | None
    """The name in signatures of kernels; None where kernels cannot load it."""
    tl: str | None
    """The name of the dtype of `triton.language`."""
    coda: str | None = None
    """The name in `.coda`; None where the language lacks it."""


ELEMENT_TYPES = (
    ElementType(BFloat16Type(), "bfloat16", "bf16", "bfloat16", "bf16"),
    ElementType(Float16Type(), "float16", "fp16", "float16", "f16"),
    ElementType(Float32Type(), "float32", "fp32", "float32", "f32"),
    ElementType(Float64Type(), "float64", None, None, "f64"),
    ElementType(Float8E4M3FNType(), "float8_e4m3fn", "fp8e4nv", "float8e4nv", "f8e4m3"),
    ElementType(Float8E5M2Type(), "float8_e5m2", "fp8e5", "float8e5", "f8e5m2"),
    ElementType(IntegerType(32), "int32", "i32", "int32", "i32"),
    ElementType(IntegerType(64), "int64", "i64", "int64", "i64"),
    ElementType(IntegerType(1), "bool", "i1", "int1", "bool"),
    ElementType(IntegerType(8), "int8", "i8", "int8", "i8"),
    ElementType(IntegerType(8, Signedness.UNSIGNED), "uint8", "u8", "uint8", "u8"),
    ElementType(IntegerType(16), "int16", "i16", "int16"),
)

BY_ATTRIBUTE: Mapping[Attribute, ElementType] = MappingProxyType(
    {type.attribute: type for type in ELEMENT_TYPES}
)
