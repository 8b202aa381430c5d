"""Random values for the parameters of a function, each according to its use."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Literal, TypeAlias

import torch
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from coda_ir.diagnostics import OptionError, symbols_remedy
from coda_ir.dialects.coda.weights import is_weight
from coda_ir.functions import functions_of
from coda_ir.random_inputs.roles import (
    Decay,
    GemmWeight,
    GroupEnds,
    Index,
    NormWeight,
    Permutation,
    QuantizedElements,
    Role,
    RotaryTable,
    roles_of,
)
from coda_ir.signatures import signature_of, stated_dtype
from coda_ir.symbolic_shapes import Dim, SymbolicShapes, SymbolicSize, declared_dims

DEFAULT_SIZE = 16
"""Size of a symbol that the caller of `random_inputs` does not give."""

UNNAMED = "?"
"""Key for the size of dynamic extents without a name: they are all the same."""

INTEGER_LIMIT = 4
"""Exclusive upper bound of integers whose uses do not determine a range."""

LARGEST_HALVES = 4
"""Structured activations are at most half of this."""

Values: TypeAlias = Literal["normal", "spread", "structured", "positive"]
"""The distribution of the activations.

* `normal`: of the standard normal distribution.
* `spread`: normal, with rows of magnitudes from 1e-3 to 10, so that a lost eps shows.
* `structured`: halves of small integers (ties, negative and equal values), with a row and a column
  of zeros where there are several.
* `positive`: between 0.1 and 2, so that roots and logarithms are numbers.
"""


def random_inputs(
    func: FuncOp,
    sizes: Mapping[str, int] | None = None,
    *,
    seed: int = 0,
    device: str | torch.device = "cpu",
) -> dict[str, torch.Tensor]:
    """Draw tensors of the stated types for every argument of `func`, by name.

    The same for the same sizes and seed; see `random_arguments`. Symbols that `sizes` lacks are
    16. Raises CodaError for a size of a symbol that the function does not have, and for sizes whose
    tensors do not fit into memory.
    """
    signature = signature_of(func)
    symbols = symbols_of(func)
    for symbol in sizes or {}:
        if symbol not in symbols:
            raise OptionError(
                f"{signature.name} has no dimension '{symbol}'", symbols_remedy(symbols)
            )
    chosen = dict.fromkeys(symbols, DEFAULT_SIZE) | dict(sizes or {})
    try:
        tensors = random_arguments(func, chosen, seed=seed)
    except RuntimeError as error:  # of PyTorch's allocator
        stated = ", ".join(f"{symbol} = {size}" for symbol, size in chosen.items())
        given, symbol = (f" with {stated}", next(iter(chosen))) if chosen else ("", None)
        raise OptionError(
            f"the size of the arguments of {signature.name}{given} exceeds the memory",
            f"choose smaller sizes, as in --dim {symbol}=128" if symbol else "use smaller extents",
        ) from error
    names = [spec.name for spec in signature.arguments]
    return {name: tensor.to(device) for name, tensor in zip(names, tensors, strict=True)}


def random_arguments(
    func: FuncOp,
    sizes: Mapping[str, int],
    *,
    seed: int = 0,
    values: Values = "normal",
    dtype: torch.dtype | None = None,
    device: str | torch.device = "cpu",
) -> list[torch.Tensor]:
    """Draw one tensor per parameter of `func`; equal arguments give equal tensors.

    `sizes` gives the extent of every symbol, and of `?` where the function has extents without a
    name. Floats have the stated type, or `dtype`. Weights of GEMMs are normal with variance 1/K,
    norm weights are around 1, cos and sin belong to the same angles, integers are in the range of
    what they index (and include the ignored index). `values` says what activations look like.
    Each `device` gives other numbers. Raises KeyError for a symbol without a size.
    """
    shapes = SymbolicShapes(func)
    extents = _extents(shapes, func, sizes)
    draw = _Draw(shapes, extents, values)
    tensors: list[torch.Tensor] = []
    for index, parameter in enumerate(func.args):
        shape = [size_of(dim, extents) for dim in shapes.dims(parameter)]
        generator = torch.Generator(device).manual_seed((seed * 1009 + index) % 2**63)
        with torch.device(device):  # whatever PyTorch's default device is
            tensor = draw.parameter(parameter, shape, generator)
        stated = stated_dtype(parameter.type)
        wanted = dtype if dtype is not None and stated.is_floating_point else stated
        tensors.append(tensor.to(wanted))
    return tensors


def symbols_of(func: FuncOp) -> tuple[str, ...]:
    """Return the names of the symbolic extents of the parameters; `?` for those without names."""
    shapes, declared = SymbolicShapes(func), _declared(func)
    names: dict[str, None] = {}
    for parameter in func.args:
        for symbol in _symbols(shapes.dims(parameter)):
            names[symbol if symbol in declared else UNNAMED] = None
    return tuple(names)


def expect_symbols(module: ModuleOp, names: Iterable[str]) -> None:
    """Raise OptionError for a name that is not a symbol of any function."""
    functions = [func for func in functions_of(module).values() if not func.is_declaration]
    known = list(dict.fromkeys(symbol for func in functions for symbol in symbols_of(func)))
    for name in names:
        if name not in known:
            raise OptionError(f"no function has a dimension '{name}'", symbols_remedy(known))


def bind_symbols(func: FuncOp, choose: Callable[[int, str], int]) -> dict[str, int]:
    """Choose a size for every symbol of `func`: `choose(position, name)`."""
    return {symbol: choose(index, symbol) for index, symbol in enumerate(symbols_of(func))}


def size_of(dim: Dim, extents: Mapping[str, int]) -> int:
    """Return the value of a dimension."""
    return SymbolicSize.product([dim]).evaluate(extents)


def _symbols(dims: Iterable[Dim]) -> list[str]:
    return [symbol for dim in dims for symbol in sorted(SymbolicSize.product([dim]).symbols)]


def _declared(func: FuncOp) -> set[str]:
    entries = func.arg_attrs.data if func.arg_attrs else ()
    return {symbol for entry in entries for symbol in _symbols(declared_dims(entry) or ())}


def _extents(shapes: SymbolicShapes, func: FuncOp, sizes: Mapping[str, int]) -> dict[str, int]:
    extents, declared = dict(sizes), _declared(func)
    for parameter in func.args:
        for symbol in _symbols(shapes.dims(parameter)):
            if symbol not in extents:
                extents[symbol] = sizes[symbol if symbol in declared else UNNAMED]
    return extents


@dataclass(frozen=True)
class _Draw:
    """Draws parameters, each according to its use."""

    shapes: SymbolicShapes
    extents: Mapping[str, int]
    values: Values

    def parameter(
        self, parameter: SSAValue, shape: list[int], generator: torch.Generator
    ) -> torch.Tensor:
        roles = list(roles_of(parameter))
        for role in roles:
            if isinstance(role, GroupEnds):
                return self._ends(role, shape, generator)
            if isinstance(role, Permutation):
                return torch.randperm(shape[0], generator=generator)
        if not stated_dtype(parameter.type).is_floating_point:
            if any(isinstance(role, QuantizedElements) for role in roles):
                limits = torch.iinfo(stated_dtype(parameter.type))
                return torch.randint(limits.min, limits.max + 1, shape, generator=generator)
            return self._integers(roles, shape, generator)
        table = _table_kind(parameter, roles)
        if table is not None and shape:
            return _rotation(shape, table)
        normal = torch.randn(shape, generator=generator, dtype=torch.float64)
        for role in roles:
            if isinstance(role, GemmWeight):
                return self._weight(normal, role)
            if isinstance(role, Decay):
                return role.sign * normal.abs()
        if len(shape) == 1:
            return self._row(normal, roles)
        return self._activation(normal, generator, is_weight=is_weight(parameter))

    def _weight(self, normal: torch.Tensor, role: GemmWeight) -> torch.Tensor:
        return normal / max(1, role.k or normal.shape[-1]) ** 0.5

    def _row(self, normal: torch.Tensor, roles: list[Role]) -> torch.Tensor:
        """Draw a vector: a norm weight around 1, anything else (a bias) around 0."""
        if self.values == "structured":
            return (2 * normal).round() / 2
        scales = any(isinstance(role, NormWeight) for role in roles)
        return 1 + 0.2 * normal if scales else 0.2 * normal

    def _activation(
        self, normal: torch.Tensor, generator: torch.Generator, *, is_weight: bool
    ) -> torch.Tensor:
        shape = normal.shape
        match self.values:
            case "spread" if shape and not is_weight:
                exponent = torch.rand([*shape[:-1], 1], generator=generator, dtype=torch.float64)
                return normal * 10 ** (4 * exponent - 3)
            case "structured":
                return _structured(normal)
            case "positive":
                uniform = torch.rand(shape, generator=generator, dtype=torch.float64)
                return 0.1 + 1.9 * uniform
            case _:
                return normal

    def _integers(
        self, roles: list[Role], shape: list[int], generator: torch.Generator
    ) -> torch.Tensor:
        indices = [role for role in roles if isinstance(role, Index)]
        limits = [self._limit(index) for index in indices]
        drawn = torch.randint(min(limits, default=INTEGER_LIMIT), shape, generator=generator)
        ignored = [index.ignored for index in indices if index.ignored is not None]
        special = [value for value in ignored if self._is_accepted(value, indices)]
        if indices and all(index.lenient for index in indices):
            special = [-1, max(limits)]
        for value in special[: drawn.numel() // 2]:
            drawn = torch.where(torch.rand(shape, generator=generator) < 0.2, value, drawn)
        if special and drawn.numel() > 1 and not any((drawn == s).any() for s in special):
            drawn.view(-1)[-1] = special[0]
        return drawn

    def _is_accepted(self, value: int, indices: Iterable[Index]) -> bool:
        """Return whether `value` selects something, or is ignored, wherever it is an index."""
        return all(
            index.lenient or value == index.ignored or 0 <= value < self._limit(index)
            for index in indices
        )

    def _ends(self, role: GroupEnds, shape: list[int], generator: torch.Generator) -> torch.Tensor:
        """Draw the ends of groups that contain all rows; some groups are empty."""
        rows = self._size(role.rows, 0)
        ends = torch.randint(rows + 1, shape, generator=generator).sort().values
        ends[-1:] = rows
        return ends

    def _limit(self, index: Index) -> int:
        """Return the number of things to select from; 1 if only a callee knows it."""
        return max(1, self._size(index.value, index.dim))

    def _size(self, value: SSAValue, dim: int) -> int:
        """Return an extent of `value`; 0 if only a callee knows it."""
        size = SymbolicSize.product([self.shapes.dims(value)[dim]])
        return size.evaluate(self.extents) if size.symbols <= self.extents.keys() else 0


def _structured(normal: torch.Tensor) -> torch.Tensor:
    halves = (2 * normal).round().clamp(-LARGEST_HALVES, LARGEST_HALVES) / 2
    if halves.ndim and halves.shape[-1] > 2:
        halves[..., 1] = 0.0
    if halves.ndim > 1 and prod(halves.shape[:-1]) > 1:
        halves.flatten(0, -2)[-1] = 0.0
    return halves


def _table_kind(parameter: SSAValue, roles: list[Role]) -> str | None:
    """Return `cos` or `sin` for a table of rotary angles."""
    for role in roles:
        if isinstance(role, RotaryTable):
            return role.kind
    hint = parameter.name_hint or ""
    return next((kind for kind in ("cos", "sin") if hint.startswith(kind)), None)


def _rotation(shape: list[int], kind: str) -> torch.Tensor:
    """Return cos or sin of position times frequency, (..., positions x head_dim/2)."""
    count = shape[-2] if len(shape) > 1 else 1
    positions = torch.arange(count, dtype=torch.float64)[:, None]
    if len(shape) > 2:
        # Every sequence of a batch starts at another position.
        starts = torch.arange(shape[0], dtype=torch.float64).reshape(-1, *[1] * (len(shape) - 1))
        positions = positions + 3 * starts
    frequencies = 100.0 ** -torch.linspace(0, 1, shape[-1], dtype=torch.float64)
    # Not from 0: the first position rotates nothing.
    angles = ((positions + 1) * frequencies).expand(*shape[:-2], count, shape[-1])
    return (angles.cos() if kind == "cos" else angles.sin()).reshape(shape).contiguous()
