"""Sizes that are equal in every call, or multiples, because operators require it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations
from math import lcm
from typing import cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, ArrayAttr, IntegerAttr, TensorType
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import VerifyException

from coda_ir.dialects.coda import ReshapeOp
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.shape_rules import UNKNOWN, Dim, Dims
from coda_ir.symbolic_shapes import SymbolicShapes, determined_symbols
from coda_ir.symbolic_size import SymbolicSize

_MAX_TIED = 5
"""Groups of sizes that are tried to be equal: no verifier that refuses unknown sizes has more."""


def equal_sizes(func: FuncOp, shapes: SymbolicShapes) -> list[tuple[Dim, Dim]]:
    """Return pairs of extents, in symbols of the arguments, that every call needs to be equal.

    Types do not show which symbols differ: they write all as `?`. So each operator is verified
    with numbers in place of symbols. It requires those to be equal with which different numbers are
    refused, but equal ones are not. A size of which only multiples of a number are accepted gives
    the pair of its remainder, such as `K % 8`, and 0.
    """
    symbols = determined_symbols(dim for argument in func.args for dim in shapes.dims(argument))
    pairs = dict[tuple[Dim, Dim], None]()
    seen = set[object]()
    for block in func.body.blocks:
        for op in block.ops:
            # A called function checks its arguments.
            if not op.results or isinstance(op, CallOp):
                continue
            sized = _SizedOperator(op, shapes, symbols)
            if sized.identity not in seen:
                seen.add(sized.identity)
                pairs |= dict.fromkeys(sized.equal_extents())
    return list(pairs)


class _SizedOperator:
    """An operator that can be verified with numbers in place of `symbols`."""

    def __init__(self, op: Operation, shapes: SymbolicShapes, symbols: set[str]):
        self._op, self._operands = op, [*dict.fromkeys(op.operands)]
        tensors = [v for v in (*op.operands, *op.results) if isinstance(v.type, TensorType)]
        self._dims = {value: _as_in_type(value, shapes.written(value)) for value in tensors}
        extents = dict.fromkeys(dim for dims in self._dims.values() for dim in dims)
        self._numbers = [dim for dim in extents if isinstance(dim, int)]
        self._named = [
            dim for dim in extents if isinstance(dim, str) and _symbols([dim]) <= symbols
        ]

    @property
    def identity(self) -> object:
        """A key that is equal for operators that require the same."""
        op = self._op
        return type(op), *op.properties.items(), *self._dims.values(), *op.regions

    def equal_extents(self) -> Iterator[tuple[Dim, Dim]]:
        """Return pairs of extents that the operator requires to be equal."""
        unit = self._unit()
        symbols = sorted(_symbols(self._named))
        different = {name: unit * (101 + 2 * i) for i, name in enumerate(symbols)}
        if not symbols or self._fits({name: size + 1 for name, size in different.items()}):
            return
        if not self._fits(dict.fromkeys(symbols, unit + 1)):
            for name in symbols:
                yield from self._multiple(name, unit)
        if self._fits(different):
            return
        if isinstance(self._op, ReshapeOp):
            source, result = map(SymbolicSize.product, self._dims.values())
            if source.symbols | result.symbols <= {*symbols}:
                yield str(source), str(result)
            return
        in_operands = {dim for value in self._op.operands for dim in self._dims.get(value, ())}
        free = [dim for dim in self._named if dim in in_operands or dim.isidentifier()]
        groups = self._groups(free, unit)
        yield from ((group[0], other) for group in groups for other in group[1:])
        if self._fits({name: unit * (101 + 2 * i) for i, of in enumerate(groups) for name in of}):
            return
        if self._fits(dict.fromkeys(free, unit)):
            for group in groups:
                yield from self._tied(group, groups, unit)
            return
        for name in free:
            fitting = [size for size in self._likely_sizes() if self._fits({name: size})]
            if len(fitting) == 1 and not self._fits({name: unit}):
                yield name, fitting[0]

    def _multiple(self, name: str, unit: int) -> Iterator[tuple[Dim, Dim]]:
        """Return the pair that makes a size the multiple of a number, if it has to be one."""
        if not self._fits({name: unit}) or self._fits({name: unit + 1}):
            return
        sizes = (size for size in self._likely_sizes() if self._fits({name: unit + size}))
        if (multiple := next(sizes, None)) is not None:
            divisors = (n for n in range(2, multiple + 1) if multiple % n == 0)
            divisor = next(n for n in divisors if self._fits({name: unit + n}))
            yield f"{name} % {divisor}", 0

    def _likely_sizes(self) -> list[int]:
        """Return 2, the numbers of the operator, their halves and the products of two of them."""
        numbers = {2, *self._numbers, *_numbers(self._op.properties.values())}
        others = {n // 2 for n in numbers} | {a * b for a, b in combinations(numbers, 2)}
        return sorted(size for size in numbers | others if size > 1)

    def _groups(self, names: Sequence[str], unit: int) -> list[list[str]]:
        """Return the names in groups of those that cannot differ, whatever the others are."""
        groups: list[list[str]] = []
        for name in names:
            group = next((of for of in groups if self._are_equal(of[0], name, unit)), None)
            if group is None:
                groups.append([name])
            else:
                group.append(name)
        return groups

    def _are_equal(self, a: str, b: str, unit: int) -> bool:
        """Return whether two sizes have to be equal; one may be a multiple of the other only."""
        differing = ({a: unit, b: 2 * unit}, {a: 2 * unit, b: unit})
        return self._fits({a: unit, b: unit}) and not any(map(self._fits, differing))

    def _tied(
        self, group: Sequence[str], groups: Sequence[Sequence[str]], unit: int
    ) -> Iterator[tuple[Dim, Dim]]:
        """Return the pairs of a group and others, without which it cannot differ from the rest.

        Some verifiers refuse a number beside an unknown size, so that all sizes are numbers here.
        """
        others = [other for other in groups if other is not group]
        equal = dict.fromkeys((name for of in groups for name in of), 2 * unit)
        for count in range(_MAX_TIED):
            for chosen in combinations(others, count):
                changed = [name for of in (group, *chosen) for name in of]
                sizes = (equal | dict.fromkeys(changed, size) for size in (unit, 4 * unit))
                if any(map(self._fits, sizes)):
                    yield from ((group[0], other[0]) for other in chosen if group[0] < other[0])
                    return

    def _unit(self) -> int:
        """Return a size that all numbers of the operator divide, such as the width of heads."""
        return 5040 * lcm(*filter(None, [*self._numbers, *_numbers(self._op.properties.values())]))

    @cached_property
    def _copy(self) -> tuple[Block, Operation]:
        """A copy of the operator on the arguments of a block."""
        block = Block(arg_types=[value.type for value in self._operands])
        return block, self._op.clone(dict(zip(self._operands, block.args, strict=True)))

    def _fits(self, sizes: Mapping[str, int]) -> bool:
        """Return whether the verifier accepts tensors of these sizes; others are unknown."""
        block, copy = self._copy
        pairs = zip([*block.args, *copy.results], [*self._operands, *self._op.results], strict=True)
        for value, original in pairs:
            Rewriter.replace_value_with_new_type(value, self._type(original, sizes))
        try:
            copy.verify_()
        except VerifyException:
            return False
        return True

    def _type(self, value: SSAValue, sizes: Mapping[str, int]) -> Attribute:
        if value not in self._dims:
            return value.type
        shape = [_extent(dim, sizes) for dim in self._dims[value]]
        return TensorType(element_type_of(value), shape)


def _as_in_type(value: SSAValue, dims: Dims) -> Dims:
    """Return extents without the numbers that a schedule gives, such as those of tiles."""
    pairs = zip(shape_of(value), dims, strict=True)
    return tuple(UNKNOWN if of == DYNAMIC_INDEX and isinstance(d, int) else d for of, d in pairs)


def _symbols(dims: Iterable[Dim]) -> set[str]:
    return {symbol for dim in dims for symbol in SymbolicSize.of(dim).symbols}


def _extent(dim: Dim, sizes: Mapping[str, int]) -> int:
    if isinstance(dim, int):
        return dim
    if dim in sizes:
        return sizes[dim]
    size = SymbolicSize.of(dim)
    return size.evaluate(sizes) if size.symbols <= sizes.keys() else DYNAMIC_INDEX


def _numbers(attributes: Iterable[Attribute]) -> Iterator[int]:
    for attribute in attributes:
        if isinstance(attribute, IntegerAttr):
            yield attribute.value.data
        elif isinstance(attribute, ArrayAttr):
            yield from _numbers(cast(ArrayAttr[Attribute], attribute))
