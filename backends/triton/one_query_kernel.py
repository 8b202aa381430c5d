"""The kernel of attention with one query for each head: `one_query_kernel`.

Heads are too few to occupy a GPU, so that several programs share the keys of a head. Each keeps the
largest score, the sum of exponentials and the weighted sum of values of its own keys; the last
program of a head to arrive combines them, in the order of the keys (arXiv 1805.02867, 2205.14135).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.dialects.builtin import f32, i1
from xdsl.ir import Attribute

from coda_ir.backends.triton.dependent_launch import Launch
from coda_ir.backends.triton.host_values import ROW_COUNT, nth_operand, nth_output
from coda_ir.backends.triton.kernel import EmittedKernel, KernelArgument, SharedTiles, indented
from coda_ir.backends.triton.kernel_text import (
    NEGATIVE_INFINITY,
    emitted,
    load,
    next_power_of_2,
    pointer_argument,
    rounded,
)
from coda_ir.dialects.coda.shapes import element_type_of
from coda_ir.one_query_attention import MAX_QUERIES, OneQueryAttention

PROCESSORS = 128
"""Programs that occupy a GPU, about: of fewer, each has fewer keys."""

LONG = 512
"""Keys of a program from which on two of them on a processor hide each other's latencies. (H200, 8
heads of 32768 keys: 44.6 us with 256 programs, 58.6 with 128; of 4096 keys 15.4 and 14.2.)"""

STEP_BYTES = 16384
"""The bytes of a step's keys, and of its values: several steps fit in shared memory."""

FEW_KEYS = 512
"""Keys for which twice as many programs take half as many at a time. (H200, a layer of LLaMA 7B
with 32 heads of 512 keys and 4-bit weights: 55.6 us, and 58.4 without. With half of the shared
memory, the kernels after it begin 2 us earlier.)"""

MAX_KEYS = 64
"""The keys of a step, so that scores and sums fit in registers."""

MAX_SPLITS, UNROLLED_SPLITS = 32, 8
"""Programs of a head, at most, and those whose sums are loaded at once."""


@dataclass(frozen=True)
class _Tiling:
    """The heads of keys, and the split of a head's keys between programs."""

    batch: int | None
    groups: int
    keys: int | None
    """None where they are known at run time."""
    columns: int
    value_columns: int
    element_bytes: int
    has_columns: bool
    """True if heads lie side by side: keys are as far apart as the columns of all heads."""

    @staticmethod
    def of(op: OneQueryAttention) -> _Tiling:
        (batch, groups, keys, columns), type = op.keys, element_type_of(op.q)
        assert isinstance(groups, int) and isinstance(columns, int)
        known = [extent if isinstance(extent, int) else None for extent in (batch, keys)]
        size = 4 if type == f32 else 2
        widths = (columns, op.value_columns)
        return _Tiling(known[0], groups, known[1], *widths, size, op.has_columns)

    @property
    def block(self) -> int:
        """The keys of a step."""
        widest = max(self.of_keys.width, self.of_values.width)
        size = STEP_BYTES // self._share
        return min(max(16, size // (widest * self.element_bytes)), MAX_KEYS)

    @property
    def _share(self) -> int:
        """The divisor of the keys of a step, and of those of a program."""
        return 2 if self.keys is not None and self.keys <= FEW_KEYS else 1

    @property
    def of_keys(self) -> _Columns:
        return _Columns(self, self.columns, "")

    @property
    def of_values(self) -> _Columns:
        """The columns of values: those of keys if they have as many."""
        is_other = self.value_columns != self.columns
        return _Columns(self, self.value_columns, "value_" if is_other else "")

    @property
    def splits(self) -> int:
        """The programs of a head. If the number of keys is known, each has at least two steps."""
        programs = PROCESSORS * self._share
        wanted = next_power_of_2(-(-programs // (self.groups * (self.batch or 1))))
        if self.keys is not None:
            wanted *= 2 if self.keys >= 2 * LONG * wanted else 1
            wanted = min(wanted, next_power_of_2(self.keys // (2 * self.block)))
        return min(wanted, MAX_SPLITS)

    @property
    def extent(self) -> str:
        """The number of keys, in the kernel."""
        return "S" if self.keys is None else str(self.keys)

    @property
    def partials(self) -> int:
        """The floats that a program stores: values, largest scores and sums."""
        return MAX_QUERIES * (self.of_values.width + 2)


@dataclass(frozen=True)
class _Columns:
    """The columns of a head of keys or values, and their place in memory."""

    tiling: _Tiling
    count: int
    prefix: str
    """The prefix of the variables of the kernel."""

    @property
    def width(self) -> int:
        """The columns of a tile: those of a head, and masked ones."""
        return max(16, next_power_of_2(self.count))

    @property
    def pitch(self) -> int:
        """The number of elements from a key to the next one."""
        return self.tiling.groups * self.count if self.tiling.has_columns else self.count

    @property
    def distance(self) -> str:
        """The distance of keys from the first one, in the kernel."""
        is_short = self.tiling.keys is not None and self.tiling.keys * self.pitch < 2**31
        return f"key[:, None]{'' if is_short else '.to(tl.int64)'} * {self.pitch}"

    @property
    def first_key(self) -> str:
        """The start of the keys of a head, in the kernel."""
        groups, extent = self.tiling.groups, self.tiling.extent
        if not self.tiling.has_columns or groups == 1:
            return f"head * {extent} * {self.count}"
        rows = f"head // {groups} * {extent} * {self.pitch}"
        return f"{rows} + head % {groups} * {self.count}"

    def inside(self, rows: str) -> str:
        """Return the mask of existing elements of `rows`."""
        conditions = [f"{rows}[:, None]"]
        if self.count != self.width:
            conditions.append(f"({self.prefix}column < {self.count})")
        return " & ".join(conditions)

    def places(self, queries: int) -> list[str]:
        """Return the statements for the columns, the elements of queries, and the first key."""
        column = f"{self.prefix}column"
        return [
            f"{column} = tl.arange(0, {self.width})[None, :]",
            f"{self.prefix}row = (head * {queries} + query)[:, None] * {self.count} + {column}",
            f"{self.prefix}first_key = {self.first_key}",
        ]

    @property
    def place(self) -> str:
        """The statement for the place of the keys of a step."""
        first = f"{self.prefix}first_key + {self.distance}"
        return f"{self.prefix}place = {first} + {self.prefix}column"


def one_query_kernel(op: OneQueryAttention, name: str, launch: Launch) -> EmittedKernel:
    """Emit out = softmax(scale · q·kᵀ + mask)·v for each head of keys, of which there are `rows`.

    Operands: q, k, v and, where there is one, the mask. A query that sees no key gives 0.
    """
    type, tiling = element_type_of(op.q), _Tiling.of(op)
    tensors = {"q": type, "k": type, "v": type}
    if op.mask is not None:
        tensors["mask"] = element_type_of(op.mask)
    arguments = [
        pointer_argument(f"{tensor}_ptr", element, nth_operand(index))
        for index, (tensor, element) in enumerate(tensors.items())
    ]
    arguments.append(pointer_argument("out_ptr", type, nth_output(0)))
    shared = None
    if tiling.splits > 1:
        shared = SharedTiles(ROW_COUNT, tiling.splits, tiling.partials)
        arguments.append(KernelArgument("partials_ptr", "*fp32", nth_output(1)))
        arguments.append(KernelArgument("counters_ptr", "*i32", nth_output(2)))
    if tiling.keys is None:
        axis = 1 if op.has_columns else 2
        arguments.append(KernelArgument("S", "i32", nth_operand(1).shape(axis)))
    lines = [*launch.wait_and_start_next(), *_lines(op, tiling, type)]
    shares = f", shared by {tiling.splits} programs" if shared else ""
    summary = f"attention of one query for each head, {tiling.block} keys at a time{shares}"
    kernel = emitted(
        name,
        arguments,
        lines,
        summary=summary,
        grid=ROW_COUNT if shared is None else ROW_COUNT * tiling.splits,
        launch=launch,
        num_stages=3,
    )
    return replace(kernel, shared_tiles=shared)


def _lines(op: OneQueryAttention, tiling: _Tiling, type: Attribute) -> list[str]:
    """Return the body of the kernel."""
    keys, values = tiling.of_keys, tiling.of_values
    parts = [keys] if keys == values else [keys, values]
    step = [
        f"key = start + tl.arange(0, {tiling.block})",
        "inside = key < last",
        *(part.place for part in parts),
        f"k = tl.load(k_ptr + place, mask={keys.inside('inside')}, other=0.0)",
        f"v = tl.load(v_ptr + {values.prefix}place, mask={values.inside('inside')}, other=0.0)",
        f"scores = dot(q, tl.trans(k), tl.zeros(({MAX_QUERIES}, {tiling.block}), tl.float32))",
        *_masked(op, tiling),
        "acc, largest, total = attend_keys(acc, largest, total, scores, v)",
    ]
    return [
        *_share_of(tiling),
        f"query = tl.arange(0, {MAX_QUERIES})",
        f"is_query = query < {op.queries}",
        *(line for part in parts for line in part.places(op.queries)),
        f"q = tl.load(q_ptr + row, mask={keys.inside('is_query')}, other=0.0)",
        *_nothing(tiling),
        f"for start in range(first, last, {tiling.block}):",
        *indented(step),
        *_shared(tiling, _result(type, values)),
    ]


def _share_of(tiling: _Tiling) -> list[str]:
    """Return the statements that find the head of a program, and its share of the keys."""
    if tiling.splits == 1:
        last = tiling.extent
        if tiling.keys is None:
            last = f"bound({last})"
        return ["head = tl.program_id(0).to(tl.int64)", f"first, last = 0, {last}"]
    return [
        f"SPLITS: tl.constexpr = {tiling.splits}",
        "head = (tl.program_id(0) // SPLITS).to(tl.int64)",
        "split = tl.program_id(0) % SPLITS",
        f"first, last = depths_of_split({tiling.extent}, split, SPLITS, {tiling.block})",
    ]


def _nothing(tiling: _Tiling) -> list[str]:
    """Return the sums of no keys."""
    return [
        f"acc = tl.zeros(({MAX_QUERIES}, {tiling.of_values.width}), tl.float32)",
        f"largest = tl.full(({MAX_QUERIES},), {NEGATIVE_INFINITY}, tl.float32)",
        f"total = tl.zeros(({MAX_QUERIES},), tl.float32)",
    ]


def _masked(op: OneQueryAttention, tiling: _Tiling) -> list[str]:
    """Return the masked scores of a step; keys past the end are hidden."""
    scaled = f"scores * {op.scale!r}"
    hidden = f"scores = tl.where(inside[None, :], {scaled}, {NEGATIVE_INFINITY})"
    if op.mask is None:
        return [hidden]
    batch, heads, _, keys = op.mask_dims
    width = 1 if keys == 1 else tiling.extent
    terms, inside = ["mask_ptr"], list[str]()
    if batch != 1:
        terms.append(f"head // {tiling.groups} * {heads} * {width}")
    if heads != 1:
        terms.append(f"(head % {tiling.groups} * {op.queries} + query)[:, None] * {width}")
        inside.append("is_query[:, None]")
    if keys != 1:
        terms.append("key[None, :]")
        inside.append("inside[None, :]")
    type = element_type_of(op.mask)
    value = load(" + ".join(terms), type, " & ".join(inside) or None)
    if type != i1:
        return [hidden, f"scores += {value}"]
    # Truth values are false past the end.
    seen = "seen" if keys != 1 else "seen & inside[None, :]"
    return [f"seen = {value}", f"scores = tl.where({seen}, {scaled}, {NEGATIVE_INFINITY})"]


def _result(type: Attribute, columns: _Columns) -> list[str]:
    """Return the statements that store the result of a head; zeros if its query sees no key."""
    value = "result" if type == f32 else rounded("result", type)
    return [
        "result = acc / tl.where(total == 0.0, 1.0, total)[:, None]",
        f"tl.store(out_ptr + {columns.prefix}row, {value}, mask={columns.inside('is_query')})",
    ]


def _shared(tiling: _Tiling, result: list[str]) -> list[str]:
    """Return the code of a head's last program, which combines all shares and stores the result."""
    if tiling.splits == 1:
        return result
    width = tiling.of_values.width
    # The loads of a few parts do not wait for one another.
    is_short = tiling.splits <= UNROLLED_SPLITS
    parts = "tl.static_range(SPLITS)" if is_short else "tl.range(0, SPLITS, num_stages=1)"
    combined = [
        *_nothing(tiling),
        f"for part in {parts}:",
        "    of_part = partials + part * PARTIALS",
        "    acc, largest, total = combine_attended(acc, largest, total, of_part, is_query)",
        *result,
    ]
    return [
        f"PARTIALS: tl.constexpr = {tiling.partials}",
        "partials = partials_ptr + head * (SPLITS * PARTIALS)",
        "own = partials + split * PARTIALS",
        "store_partial(own, acc, is_query)",
        f"tl.store(own + {MAX_QUERIES * width} + query, largest)",
        f"tl.store(own + {MAX_QUERIES * (width + 1)} + query, total)",
        "if is_last_of_tile(counters_ptr + head, SPLITS):",
        *indented(combined),
    ]
