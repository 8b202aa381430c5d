"""Symbolic shapes: the symbol (B, T or M) of each dimension of each value of a function.

The IR writes every symbol as `?`; the names are in the metadata of the function's arguments
(`coda.dims`). The operators' shape rules carry them from there to every value, in one walk.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import zip_longest
from math import prod
from typing import cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from coda_ir.argument_template import ArgumentTemplate
from coda_ir.dialects.coda import ConstantOp, ReshapeOp
from coda_ir.dialects.coda.base import CodaOp
from coda_ir.dialects.coda.shapes import element_bytes, element_type_of, shape_of
from coda_ir.dialects.gemm import FusedOp
from coda_ir.dialects.gemm.numerics import NUMERICS_ATTRIBUTE, NumericsAttr
from coda_ir.shape_rules import UNKNOWN, Dim as Dim, Dims as Dims, infer_dims
from coda_ir.symbolic_size import SymbolicSize as SymbolicSize, as_size as as_size

_NAME = re.compile(r"[A-Za-z_]\w*")

CONDITIONS = "coda.conditions"
"""Attribute of a function: comparisons that hold for the sizes of every call, as strings in the
notation of `torch.call`, such as `(B % 2) == 0`.
"""


def declared_dims(attributes: DictionaryAttr | None) -> Dims | None:
    """Return the `coda.dims` of an entry of a function's `arg_attrs` or `res_attrs`, if any."""
    return None if attributes is None else _dims_attribute(attributes.data.get("coda.dims"))


def known_dims(
    type: TensorType[Attribute], attributes: DictionaryAttr | None
) -> tuple[int | str | None, ...]:
    """Return the declared dimensions of a tensor, or its shape, with None for unknown extents."""
    shape, declared = type.get_shape(), declared_dims(attributes)
    if declared is not None and len(declared) == len(shape):
        return tuple(None if dim == UNKNOWN else dim for dim in declared)
    return tuple(None if extent == DYNAMIC_INDEX else extent for extent in shape)


def metadata_fault(func: FuncOp) -> str | None:
    """Return what is wrong with the metadata of a function, which no operator verifies: `coda.dims`
    and `coda.name` of its arguments and results, `coda.numerics` and `coda.conditions`; None if
    nothing is.
    """
    fault = _condition_fault(func)
    if fault is not None:
        return fault
    numerics = func.attributes.get(NUMERICS_ATTRIBUTE)
    if numerics is not None and not isinstance(numerics, NumericsAttr):
        return f'{NUMERICS_ATTRIBUTE} is {numerics}, expected a mode: #gemm.numerics<"fast">'
    types = func.function_type
    sides = (("argument", types.inputs, func.arg_attrs), ("result", types.outputs, func.res_attrs))
    for side, of, entries in sides:
        for index, (type, entry) in enumerate(zip(of, entries or (), strict=False)):
            fault = _entry_fault(type, entry)
            if fault is not None:
                return f"{side} {index}: {fault}"
    return None


def determined_symbols(dims: Iterable[Dim]) -> set[str]:
    """Return the symbols whose sizes follow from these extents of arguments."""
    multiples = (SymbolicSize.of(dim).multiple for dim in dims)
    return {multiple[0] for multiple in multiples if multiple is not None}


def stated_conditions(func: FuncOp) -> tuple[str, ...]:
    """Return the conditions on sizes that a function states."""
    stated = func.attributes.get(CONDITIONS)
    texts = cast(ArrayAttr[Attribute], stated) if isinstance(stated, ArrayAttr) else ()
    return tuple(text.data for text in texts if isinstance(text, StringAttr))


def _condition_fault(func: FuncOp) -> str | None:
    conditions, stated = stated_conditions(func), func.attributes.get(CONDITIONS)
    if stated is not None and stated != ArrayAttr(map(StringAttr, conditions)):
        return f"{CONDITIONS} is {stated}, expected a list of strings"
    dims = [dim for entry in func.arg_attrs or () for dim in declared_dims(entry) or ()]
    known = determined_symbols(dims)
    wrong = next((text for text in conditions if not _compares(text, known)), None)
    return wrong and f"the condition {wrong} is not a comparison of sizes of the arguments"


def _compares(text: str, symbols: Set[str]) -> bool:
    """Return whether a text is a comparison of some of these symbols and numbers."""
    found = _of_symbols(text)
    return found is not None and isinstance(found[0], ast.Compare) and found[1] <= symbols


def _is_size(text: str) -> bool:
    """Return whether a text computes a size from symbols."""
    found = _of_symbols(text)
    return found is not None and not isinstance(found[0], ast.Compare) and bool(found[1])


def _of_symbols(text: str) -> tuple[ast.expr, frozenset[str]] | None:
    """Return the expression and the symbols of a text; None for anything else than one."""
    try:
        template = ArgumentTemplate.parse(text)
    except ValueError:
        return None
    is_one = len(template.call.args) == 1 and not template.call.keywords
    return (template.call.args[0], template.symbols) if is_one and not template.operands else None


def _entry_fault(type: Attribute, entry: DictionaryAttr) -> str | None:
    name, stated = entry.data.get("coda.name"), entry.data.get("coda.dims")
    if name is not None and not isinstance(name, StringAttr):
        return f"coda.name is {name}, expected a string"
    if stated is None or not isinstance(type, TensorType):
        return None
    shape, dims = type.get_shape(), _dims_attribute(stated) or ()
    fits = isinstance(stated, ArrayAttr) and len(dims) == len(shape)
    if not fits or any(isinstance(d, int) and d != n for d, n in zip(dims, shape, strict=True)):
        return f"coda.dims is {stated}, expected an extent or a symbol for each dimension of {type}"
    symbols = (dim for dim in dims if isinstance(dim, str) and dim != UNKNOWN)
    wrong = next((dim for dim in symbols if not _is_size(dim)), None)
    return None if wrong is None else f'coda.dims has "{wrong}", expected a symbol such as "B"'


def _dims_attribute(attribute: Attribute | None) -> Dims | None:
    if not isinstance(attribute, ArrayAttr):
        return None
    return tuple(_dim_of_attribute(dim) for dim in cast(ArrayAttr[Attribute], attribute))


def dims_attribute(dims: Sequence[Dim | SymbolicSize]) -> ArrayAttr[Attribute]:
    """Return the `coda.dims` attribute: numbers, and symbols or their products as strings."""
    return ArrayAttr(
        [IntegerAttr(dim, 64) if isinstance(dim, int) else StringAttr(str(dim)) for dim in dims]
    )


def _dim_of_attribute(dim: Attribute) -> Dim:
    match dim:
        case StringAttr():
            return dim.data
        case IntegerAttr():
            return dim.value.data
        case _:
            return UNKNOWN


USUAL_TILE = 128
"""Rows and columns of a tile, in estimates before a schedule."""


class SymbolicShapes:
    """The symbolic dimensions of every tensor value of a function.

    An extent that no rule names gets a fresh symbol `d0`, `d1`, ..., and so does a sum, which
    `bytes` and `written` write out; two values have the same symbol only where their extents are
    equal. Construction is linear in the number of operators. Values made after construction are
    added when they are asked for.
    """

    def __init__(self, func: FuncOp):
        self._dims: dict[SSAValue, Dims] = {}
        self._fresh = Counter[str]()
        self._sums = dict[str, SymbolicSize]()
        self._taken = declared_symbols([*(func.arg_attrs or ()), *(func.res_attrs or ())])
        self.usual_tiles = dict[str, int]()
        """The numbers of tiles of the usual size, by symbols that no schedule states."""
        self._arguments = func.args
        attributes = func.arg_attrs.data if func.arg_attrs else ()
        for index, argument in enumerate(func.args):
            declared = declared_dims(attributes[index]) if index < len(attributes) else None
            self._record(argument, declared)
        for block in func.body.blocks:
            for op in block.ops:
                self._visit(op)

    def dims(self, value: SSAValue) -> Dims:
        """Return the extents of a tensor value; () for a value that is not a tensor."""
        if value not in self._dims:
            owner = value.owner
            if isinstance(owner, Operation) and _static_shape(value) is None:
                self._visit(owner)
            else:
                self._record(value, None)
        return self._dims[value]

    def written(self, value: SSAValue) -> Dims:
        """Return the extents of a tensor value for people, in which sums are written out."""
        return tuple(
            dim if isinstance(dim, int) else str(SymbolicSize.of(dim).bind(self._sums))
            for dim in self.dims(value)
        )

    def holder(self, value: SSAValue, axis: int) -> tuple[SSAValue, int]:
        """Return an argument and a dimension of the same extent; the given ones if none has it."""
        wanted = self.dims(value)[axis]
        for argument in self._arguments:
            dims = self.dims(argument)
            if wanted in dims:
                return argument, dims.index(wanted)
        return value, axis

    def are_declared(self, dims: Dims) -> bool:
        """Return whether `dims` has arguments' symbols only, which mean the same in any walk."""
        return _symbols_of(dims) <= self._taken

    def stated(self, dims: Dims) -> ArrayAttr[Attribute]:
        """`coda.dims` of an operator, in which an extent that only this walk has a name for is `?`:
        the next walk would give that name to another one.
        """
        return dims_attribute(tuple(dim if self.are_declared((dim,)) else UNKNOWN for dim in dims))

    def numel(self, value: SSAValue) -> SymbolicSize:
        """Return the number of elements."""
        return SymbolicSize.product(self.dims(value))

    def bytes(self, value: SSAValue) -> SymbolicSize:
        """Return the size in memory; 0 for a value that is not a tensor."""
        if not isinstance(value.type, TensorType):
            return SymbolicSize()
        return self._elements(value) * element_bytes(element_type_of(value))

    def _elements(self, value: SSAValue) -> SymbolicSize:
        """Return the number of elements, with sums in place of the symbols for them."""
        return self.numel(value).bind(self._sums)

    def rows(self, value: SSAValue) -> SymbolicSize:
        """Return the product of all dimensions but the last: the M of a GEMM."""
        return SymbolicSize.product(self.dims(value)[:-1])

    def traffic(self, op: Operation) -> SymbolicSize:
        """Return the bytes that `op` moves as a separate kernel: each distinct operand is read
        once, as far as it is needed, and each result written once. Constants are part of the code.
        """
        operands = (v for v in self.read_whole(op) if not isinstance(v.owner, ConstantOp))
        values = dict.fromkeys((*operands, *op.results))
        return sum((self.bytes(value) for value in values), self.looked_up(op))

    def usual_traffic(self, op: Operation) -> SymbolicSize:
        """Return the traffic of `op`, with tiles of the usual size if no schedule states one."""
        return self.traffic(op).bind(self.usual_tiles)

    def read_whole(self, op: Operation) -> list[SSAValue]:
        """Return the operands that `op` reads whole, unlike tables of which it reads elements."""
        table = op.looked_up if isinstance(op, CodaOp) else None
        return [value for value in op.operands if value is not table]

    def looked_up(self, op: Operation) -> SymbolicSize:
        """Return the bytes of the table elements that `op` reads by index."""
        table = op.looked_up if isinstance(op, CodaOp) else None
        if table is None:
            return SymbolicSize()
        return self._elements(op.results[0]) * element_bytes(element_type_of(table))

    def _visit(self, op: Operation) -> None:
        if all(_static_shape(result) is not None for result in op.results):
            return  # Their types say all.
        operands = [self.dims(operand) for operand in op.operands]
        declared, inferred = _declared_results(op), infer_dims(op, operands)
        if isinstance(op, ReshapeOp) and any(map(_differ, declared, inferred)):
            inferred = list[Dims]()  # The rule has taken the symbols to keep their order.
        results = _more_precise(declared, inferred)
        named: dict[str, str] = {}
        for index, result in enumerate(op.results):
            self._record(result, results[index] if index < len(results) else None, named)
        if named:
            self._estimate_tiles(op, named)

    def _estimate_tiles(self, op: Operation, named: Mapping[str, str]) -> None:
        """Record the numbers of tiles of the usual size in the rows and columns of `op`."""
        shapes = [shape for value in op.operands if (shape := shape_of(value))]
        if isinstance(op, FusedOp):
            columns = [segment.columns for segment in op.segments()]
        else:
            columns = [max((shape[-1] for shape in shapes), default=DYNAMIC_INDEX)]
        extents = {f"?tiles{number}": extent for number, extent in enumerate(columns)}
        known = [shape[:-1] for shape in shapes if DYNAMIC_INDEX not in shape[:-1]]
        extents["?row_tiles"] = rows = max(map(prod, known), default=DYNAMIC_INDEX)
        sums = [s[:-2] for value in op.results if (s := shape_of(value))[-2:-1] == (DYNAMIC_INDEX,)]
        samples = max((prod(shape) for shape in sums if DYNAMIC_INDEX not in shape), default=rows)
        extents["?sample_tiles"] = rows if rows == DYNAMIC_INDEX else -(-rows // max(samples, 1))
        for placeholder, extent in extents.items():
            if placeholder in named and extent != DYNAMIC_INDEX:
                self.usual_tiles[named[placeholder]] = -(-extent // USUAL_TILE)

    def _record(
        self, value: SSAValue, inferred: Dims | None, named: dict[str, str] | None = None
    ) -> None:
        """Record `inferred` for `value`; static extents come from its type, and the rest are fresh.

        `named` maps the placeholders of one operator to symbols.
        """
        shape = _static_shape(value)
        if shape is not None:
            self._dims[value] = shape
            return
        shape = shape_of(value)
        if inferred is None or len(inferred) != len(shape):
            inferred = (UNKNOWN,) * len(shape)
        self._dims[value] = tuple(
            self._resolve(extent, dim, {} if named is None else named)
            for extent, dim in zip(shape, inferred, strict=True)
        )

    def _resolve(self, extent: int, dim: Dim, named: dict[str, str]) -> Dim:
        if extent != DYNAMIC_INDEX:
            return extent
        if isinstance(dim, int) or not dim.startswith(UNKNOWN):
            return dim
        if dim == UNKNOWN:
            return self._fresh_symbol("d")
        if " " in dim:
            symbol = self._fresh_symbol("d")
            self._sums[symbol] = SymbolicSize.of(dim.removeprefix(UNKNOWN)).bind(self._sums)
            return symbol
        if dim not in named:
            named[dim] = self._fresh_symbol(dim.strip("?0123456789"))
        return named[dim]

    def _fresh_symbol(self, prefix: str) -> str:
        while True:
            symbol = f"{prefix}{self._fresh[prefix]}"
            self._fresh[prefix] += 1
            if symbol not in self._taken:
                return symbol


def _static_shape(value: SSAValue) -> Dims | None:
    """Return the shape of a value if its type says all of it; () for one that is not a tensor."""
    if not isinstance(value.type, TensorType):
        return ()
    shape = shape_of(value)
    return None if DYNAMIC_INDEX in shape else shape


def _declared_results(op: Operation) -> list[Dims]:
    """Return the `coda.dims` of an operator: of its first result, of each result, or none."""
    attribute = op.attributes.get("coda.dims")
    entries = (*cast(ArrayAttr[Attribute], attribute),) if isinstance(attribute, ArrayAttr) else ()
    each: list[Attribute | None] = [attribute]
    if entries and all(isinstance(entry, ArrayAttr) for entry in entries):
        each = [*entries]
    return [dims for dims in map(_dims_attribute, each) if dims is not None]


def _differ(declared: Dims, inferred: Dims) -> bool:
    """Return whether an extent that is declared is not the inferred one."""
    return any(d not in (UNKNOWN, i) for d, i in zip(declared, inferred, strict=False))


def _more_precise(declared: Sequence[Dims], inferred: Sequence[Dims]) -> list[Dims]:
    """Return the declared extents of results, or inferred ones where none are declared."""
    pairs = zip_longest(declared, inferred, fillvalue=())
    return [
        tuple(d if d != UNKNOWN else i for d, i in zip_longest(known, other, fillvalue=UNKNOWN))
        if known and len(known) >= len(other)
        else other or known
        for known, other in pairs
    ]


def declared_symbols(entries: Iterable[DictionaryAttr]) -> set[str]:
    """Return the symbols that the metadata of arguments or results declares."""
    return _symbols_of(dim for entry in entries for dim in declared_dims(entry) or ())


def _symbols_of(dims: Iterable[Dim]) -> set[str]:
    """Return the symbols in extents such as `B` or `2*d3`."""
    return {name for dim in dims if isinstance(dim, str) for name in _NAME.findall(dim)}
