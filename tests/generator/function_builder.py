"""A function of the block level under construction: its parameters, operators and values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    ArrayAttr,
    DictionaryAttr,
    FileLineColLoc,
    IntAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    TensorType,
    UnitAttr,
    bf16,
    f16,
    f32,
    f64,
    i32,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from coda_ir.dialects.coda.shapes import AnyTensor, element_type_of, shape_of
from coda_ir.symbolic_shapes import Dims
from generator.choices import Choices

FLOATS: Mapping[str, AnyFloat] = {"bf16": bf16, "f16": f16, "f32": f32, "f64": f64}

FILE = StringAttr("random.coda")


def tensor_of(dims: Dims, element: Attribute) -> AnyTensor:
    """The tensor type of `dims`, in which symbols are dynamic."""
    shape = [DYNAMIC_INDEX if isinstance(dim, str) else dim for dim in dims]
    return TensorType(element, shape)


@dataclass(frozen=True)
class Style:
    """Properties that the values of one program share."""

    rows: Dims
    """The dims before the columns: numbers, or symbols for extents known at run time."""
    element: AnyFloat
    head: int
    """Columns of an attention head."""
    columns: tuple[int, ...]
    """Numbers of columns of linear maps; multiples of `head` among them."""
    named: bool = True
    """True if the parameters carry their dims and names, as those of a frontend do."""
    groups: int = 0
    """Groups that the rows of a GEMM are in; 0 where they are in none."""


@dataclass
class FunctionBuilder:
    """Appends operators to a function of one block."""

    choices: Choices
    style: Style
    name: str = "f"
    block: Block = field(default_factory=Block)
    tiles: list[SSAValue] = field(default_factory=list[SSAValue])
    """Values of the rows of the style times a number of columns."""
    extras: list[SSAValue] = field(default_factory=list[SSAValue])
    """Other values that may be returned: columns, losses, reshaped tensors."""
    aliases: list[SSAValue] = field(default_factory=list[SSAValue])
    """Views of one value that may be returned together."""
    weights: list[SSAValue] = field(default_factory=list[SSAValue])
    hazards: set[str] = field(default_factory=set[str])
    """The reasons why values may be infinite, NaN or ill conditioned."""
    _entries: list[DictionaryAttr] = field(default_factory=list[DictionaryAttr])
    _dims: dict[SSAValue, Dims] = field(default_factory=dict[SSAValue, Dims])

    # Parameters

    def parameter(
        self, dims: Dims, element: Attribute | None = None, *, hint: str = "p", weight: bool = False
    ) -> SSAValue:
        """A new parameter of the function; of the element type of the program unless stated."""
        type = tensor_of(dims, element or self.style.element)
        value = self.block.insert_arg(type, len(self.block.args))
        value.name_hint = f"{hint}{len(self.block.args)}"
        entry: dict[str, Attribute] = {}
        if self.style.named:
            entry["coda.name"] = StringAttr(value.name_hint)
            entry["coda.dims"] = dims_attr(dims)
        if weight:
            entry["coda.weight"] = UnitAttr()
        self._entries.append(DictionaryAttr(entry))
        self._dims[value] = dims
        return value

    def tile_dims(self, columns: int) -> Dims:
        return (*self.style.rows, columns)

    def new_tile(self, columns: int, element: Attribute | None = None) -> SSAValue:
        """A parameter of the rows of the program times `columns`."""
        tile = self.parameter(self.tile_dims(columns), element, hint="x")
        self.tiles.append(tile)
        return tile

    def row(self, columns: int, like: SSAValue | None = None) -> SSAValue:
        """A parameter with an element per column: a bias, a norm weight."""
        element = None if like is None else element_type_of(like)
        return self.parameter((columns,), element, hint="row", weight=True)

    def matrix(self, rows: int, columns: int, like: SSAValue) -> SSAValue:
        """A weight of rows x columns, or one for each group: mostly a new one, sometimes one that
        is used already."""
        dims = (*self.groups, rows, columns)
        wanted = tensor_of(dims, element_type_of(like))
        shared = [weight for weight in self.weights if weight.type == wanted]
        if shared and self.choices.chance(15):
            return self.choices.recent(shared)
        weight = self.parameter(dims, element_type_of(like), hint="w", weight=True)
        self.weights.append(weight)
        return weight

    @property
    def groups(self) -> Dims:
        """The dimension of what is there for each group of rows."""
        return (self.style.groups,) if self.style.groups else ()

    def ends(self) -> SSAValue:
        """A parameter of the ends of the groups of rows."""
        return self.parameter(self.groups, i32, hint="ends")

    def integers(self, dims: Dims) -> SSAValue:
        width = self.choices.pick((64, 32))
        return self.parameter(dims, IntegerType(width), hint="index")

    # Operators

    def add(self, op: Operation, hint: str | None = None) -> SSAValue:
        """Append an operator, with a place in a file of its own, and return its first result."""
        line = len(list(self.block.ops)) + 2
        op.location = FileLineColLoc(FILE, IntAttr(line), IntAttr(5))
        op.results[0].name_hint = hint or op.name.split(".")[-1]
        self.block.add_op(op)
        return op.results[0]

    def tile(self, op: Operation, hint: str | None = None) -> SSAValue:
        """Append an operator whose result is a tile."""
        value = self.add(op, hint)
        self.tiles.append(value)
        return value

    def extra(self, op: Operation, hint: str | None = None) -> SSAValue:
        value = self.add(op, hint)
        self.extras.append(value)
        return value

    def pick_tile(self) -> SSAValue:
        return self.choices.recent(self.tiles)

    def like(self, value: SSAValue) -> list[SSAValue]:
        """The tiles of the type of `value`, itself among them as the last one."""
        others = [t for t in self.tiles if t.type == value.type and t is not value]
        return [*others, value]

    def columns_of(self, value: SSAValue) -> int:
        return shape_of(value)[-1]

    # The function

    def finish(self, results: Sequence[SSAValue], *, private: bool = False) -> FuncOp:
        """The function that returns `results`."""
        self.block.add_op(ReturnOp(*results))
        func = FuncOp(
            self.name,
            (list(self.block.arg_types), [result.type for result in results]),
            Region(self.block),
            visibility="private" if private else None,
            arg_attrs=ArrayAttr(self._entries) if any(e.data for e in self._entries) else None,
        )
        func.location = FileLineColLoc(FILE, IntAttr(1), IntAttr(1))
        return func


def dims_attr(dims: Dims) -> ArrayAttr[Attribute]:
    return ArrayAttr(
        [StringAttr(dim) if isinstance(dim, str) else IntegerAttr(dim, 64) for dim in dims]
    )
