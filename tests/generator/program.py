"""A random program: the module, extents for its symbols, and why its values may be odd."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from generator.choices import Choices


@dataclass(frozen=True)
class Program:
    module: ModuleOp
    extents: Mapping[str, int] = field(default_factory=dict[str, int])
    """Extents of the symbols."""
    hazards: frozenset[str] = frozenset()
    """The reasons why intermediate values may be infinite, NaN or ill conditioned; mostly there is
    none."""
    text: str | None = None
    """The `.coda` text that the module was lowered from."""

    @property
    def functions(self) -> list[FuncOp]:
        """The functions that the program is called by."""
        functions = [op for op in self.module.ops if isinstance(op, FuncOp)]
        return [f for f in functions if f.sym_visibility is None]

    @property
    def is_block_level(self) -> bool:
        """True if no operator is of the GEMM level."""
        return not any(op.name.startswith("gemm.") for op in self.module.walk())


Generator: TypeAlias = Callable[[Choices], Program]
