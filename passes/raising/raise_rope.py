"""Pass `raise-rope`: turn a rotary embedding that is written out into `coda.rope`."""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import f32, f64
from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.passes.raising.rope_tables import joined_table, pair_table
from coda_ir.passes.raising.rotations import (
    HALF_SPLIT,
    Rotation,
    find_rotated_part,
    find_rotation,
    with_columns_beside,
    with_rows_beside,
)
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, OpInserter, Refusal
from coda_ir.passes.support.heads import (
    Heads,
    heads_in_rows,
    heads_of,
    heads_of_view,
    whole_rows,
)
from coda_ir.passes.support.views import Columns


@dataclass(frozen=True)
class _Rotated:
    """A rotation of heads, with the tables that it needs."""

    rotation: Rotation
    heads: Heads
    """The heads of the result of the rotation."""
    first: int
    """The first column of each period that is rotated."""
    width: int
    cos: SSAValue
    sin: SSAValue
    per_column: bool
    """True if these have an entry for each column, and not for each pair."""

    @property
    def key(self) -> tuple[object, ...]:
        """The key: rotations with the same key are one operator."""
        heads = self.heads
        tables = tuple((shape_of(t)[:-1], element_type_of(t)) for t in (self.cos, self.sin))
        place = (heads.x, heads.first, heads.count, heads.period)
        return (*place, self.rotation.layout, self.width, tables, self.per_column)


class RaiseRopePass(FunctionPass):
    """Raises the rotation of pairs of columns of heads x in all its usual decompositions.

        %h = coda.transpose(coda.reshape %q)          %c = cos of the first half of the angles
        %a = coda.mul %h, %cos                        %r = coda.rope %q, %c, %s {head_dim = D}
        %b = coda.mul (concat(-h2, h1)), %sin   ->    %y = coda.transpose(coda.reshape %r)
        %y = coda.add %a, %b

    Pairs are the halves of a head, or adjacent columns. For the opposite direction of rotation, the
    sines are negated. The result may also be the concatenation of a·cos − b·sin and b·cos + a·sin.
    If only some columns of a head are rotated, the tables have 1 and 0 for the others. Queries and
    keys in the columns of one projection are rotated together.

    Rows that are rotated before they are split into heads count as one head. If each head has its
    own angles, the tables cover the whole row.

    Legal iff the heads are columns of one tensor, or whole in its last two dimensions, and both
    columns of a pair are known to have the same angle. If this is not known, as for tables that are
    arguments, and whole heads are rotated, the tables keep an entry per column (`per_column`).
    Columns that are not rotated pass through x · 1 − y · 0, which preserves every finite value.

    16-bit heads that are rotated in float64 and rounded again, as with tables of complex128, are
    rotated in float32; the difference is small compared with that rounding. Functions in the mode
    `eager-exact` keep float64.

    If only a range of the rows is rotated, and joined with the others of the same tensor, the
    tables have 1 and 0 for those, too.

    A `coda.rope` of some columns of each head, concatenated with the others, is raised in the same
    way. With `decomposed=false`, only these are raised, without remarks on others. Learned tables
    have no gradient in `coda.rope`, and a program that decomposes the rotation may have them.
    """

    decomposed: bool = True

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        groups: dict[object, list[_Rotated]] = {}
        for op in rewriter.ops:
            rotation = find_rotated_part(op, rewriter.shapes)
            if rotation is None and self.decomposed:
                rotation = find_rotation(op, rewriter.shapes)
            if rotation is not None:
                rotation = with_columns_beside(rotation, rewriter.shapes)
                insert = rewriter.before(rotation.op)
                rotation = with_rows_beside(rotation, insert, rewriter.shapes)
                rotated = _check(rotation, rewriter)
                if not isinstance(rotated, Refusal):
                    groups.setdefault(rotated.key, []).append(rotated)
                elif self.decomposed:
                    rewriter.missed(op, rotated)
        for group in groups.values():
            _raise(group, rewriter)


def _check(rotation: Rotation, rewriter: FunctionRewriter) -> _Rotated | Refusal:
    insert, result = rewriter.before(rotation.op), rotation.result
    heads = heads_of_view(result) or whole_rows(result) or heads_in_rows(result, insert)
    if heads is None:
        return Refusal(
            "the operand of the rotation is the columns of a tensor, whole or split into heads",
            "the rotation is not fused: its operand is neither whole rows nor heads of them",
        )
    rotated = Columns.of(rotation.view.dims[-1])
    assert rotated is not None, "columns are rotated"
    first, width = heads.offset + rotation.view.offset - rotation.result.offset, rotated.extent
    if rotation.layout == HALF_SPLIT and (heads.period % width or first % width):
        return Refusal(
            "the rotated columns are a whole fraction of a head",
            f"the rotation is not fused: it rotates {width} columns from {first} on of each "
            f"{heads.period}",
        )
    if heads.period % 2 or first % 2:
        return Refusal(
            "pairs begin at even columns",
            f"the rotation is not fused: it begins at column {first} of heads of {heads.period}",
        )
    columns = (width if rotation.is_full else width // 2,)
    given = () if rotation.is_operator else (rotation.cos, rotation.sin)
    if any(shape_of(table)[-1:] != columns for table in given):
        return Refusal(
            "the tables have an entry for each column, or for each pair of columns",
            "the rotation is not fused: one cosine or sine holds for several pairs",
        )
    tables, per_column = _tables(insert, rotation, heads, is_full=rotation.is_full), False
    if tables is None and rotation.is_full and width == heads.period:
        tables, per_column = _tables(insert, rotation, heads, is_full=False), True
    if tables is None:
        return Refusal(
            "both columns of a pair have the same angle, for all heads",
            "the rotation is not fused: its tables are not known to repeat their columns",
            "compute the angles of half of the columns in the model, and concatenate them",
        )
    cos, sin = (
        insert.cast(table, f32) if element_type_of(table) == f64 else table for table in tables
    )
    if rotation.is_reversed:
        sin = insert.insert(coda.NegOp(sin))
    return _Rotated(rotation, heads, first, width, cos, sin, per_column)


def _tables(
    insert: OpInserter, rotation: Rotation, heads: Heads, *, is_full: bool
) -> tuple[SSAValue, SSAValue] | None:
    """Return cosines and sines of one column of each pair; `is_full` if there are those of both."""
    if rotation.is_operator:
        return rotation.cos, rotation.sin
    layout = rotation.layout
    cos = pair_table(insert, rotation.cos, heads, layout, is_full=is_full)
    sin = pair_table(insert, rotation.sin, heads, layout, is_full=is_full) if cos else None
    return None if cos is None or sin is None else (cos, sin)


def _raise(group: Sequence[_Rotated], rewriter: FunctionRewriter) -> None:
    """Make one `coda.rope` for all rotations of the same columns."""
    group = _disjoint(group)
    heads, layout = group[0].heads, group[0].rotation.layout
    is_alone = len(group) == 1 and heads.is_whole
    anchor = group[0].rotation.op if is_alone else _first_use(heads.x, rewriter)
    tables = [table for rotated in group for table in (rotated.cos, rotated.sin)]
    if not rewriter.order.hoist(tables, anchor):
        return
    insert = rewriter.before(anchor, group[0].rotation.op.location)
    cos, sin = _joined_tables(group, insert)
    head_dim = group[0].width if layout == HALF_SPLIT else heads.period
    rope = coda.RopeOp(
        heads.columns(insert),
        cos,
        sin,
        head_dim=head_dim,
        layout=layout,
        table_heads=heads.period // head_dim,
        per_column=group[0].per_column,
    )
    name = group[0].rotation.op.results[0].name_hint
    value = insert.insert(rope, name)
    for rotated in group:
        _replace(rotated, value, rewriter)
    if not is_alone:
        _read_rotated(group, value, rewriter)


def _joined_tables(group: Sequence[_Rotated], insert: OpInserter) -> tuple[SSAValue, SSAValue]:
    """Return the tables of all columns of the heads, with those of each rotation in its place."""
    if group[0].per_column:
        return group[0].cos, group[0].sin
    pairs, places = group[0].heads.period // 2, [rotated.first // 2 for rotated in group]
    cos = zip(places, (rotated.cos for rotated in group), strict=True)
    sin = zip(places, (rotated.sin for rotated in group), strict=True)
    return joined_table(insert, list(cos), pairs, 1.0), joined_table(insert, list(sin), pairs, 0.0)


def _disjoint(group: Sequence[_Rotated]) -> list[_Rotated]:
    """Return the rotations in column order, except those that overlap an earlier one."""
    found: list[_Rotated] = []
    position = 0
    for rotated in sorted(group, key=lambda rotated: rotated.first):
        if rotated.first >= position:
            found.append(rotated)
            position = rotated.first + rotated.width
    return found


def _first_use(value: SSAValue, rewriter: FunctionRewriter) -> Operation:
    users = [use.operation for use in value.uses]
    return min(users, key=rewriter.order.position)


def _replace(rotated: _Rotated, columns: SSAValue, rewriter: FunctionRewriter) -> None:
    op = rotated.rotation.op
    rewriter.passed(op, "raised to coda.rope")
    insert = rewriter.before(op)
    value = rotated.heads.of(columns, insert)
    value = insert.reshape(value, rewriter.shapes.dims(op.results[0]))
    rewriter.order.give_way(op, [value])


def _read_rotated(group: Sequence[_Rotated], columns: SSAValue, rewriter: FunctionRewriter) -> None:
    """Read the remaining columns of the heads from the rotated tensor, which contains them
    unchanged.

    The tensor before the rotation then has no other use and need not be stored.
    """
    heads = group[0].heads
    for op in rewriter.ops:
        if not isinstance(op, coda.SliceOp) or op.range[0] != len(shape_of(op.x)) - 1:
            continue
        other = heads_of(op.result, rewriter.shapes)
        if other is None or other.part(0, 1) != heads.part(0, 1) or _meets(other, group):
            continue
        insert = rewriter.before(op)
        rewriter.order.give_way(op, [other.of(columns, insert)])


def _meets(heads: Heads, group: Sequence[_Rotated]) -> bool:
    return any(
        heads.offset < rotated.first + rotated.width and rotated.first < heads.offset + heads.width
        for rotated in group
    )
