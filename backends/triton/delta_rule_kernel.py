"""The kernels of the gated delta rule and of its gradients, by chunks of rows.

    solve             (I + A)⁻¹ of each chunk and head: what its rows write depends on those before
    carry_states      the states before each chunk, and what its rows write: chunk after chunk
    read              the results of each chunk, from both
    step              of one position, all of it
    carry_adjoints    the adjoints of the states after each chunk, from the last one on
    gradients         those of each chunk, from both

The formulas are in `runtime/delta_rule.py`. The kernels call its functions and those of
`runtime/delta_rule_gradient.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from coda_ir.backends.triton.host_values import ROW_COUNT, nth_operand, nth_output
from coda_ir.backends.triton.kernel import EmittedKernel, KernelArgument, call
from coda_ir.backends.triton.kernel_text import emitted, next_power_of_2, pointer_argument
from coda_ir.dialects.coda import DeltaRuleLike
from coda_ir.dialects.coda.shapes import element_bytes, element_type_of, shape_of

Pitches = Mapping[SSAValue, int]

CHUNK, FLOAT32_CHUNK = 64, 32
"""Rows of a chunk: those of a tile, and of the triangular system of a head. Products of float32
have no tensor cores, so that larger ones take many instructions, and minutes to compile."""

MIN_TILE = 16
"""The least extent of a tile of a product."""

CARRIED_BYTES = 64
"""Bytes of a row of states in a program that carries them: 32 columns in 16 bits. Few columns make
many programs, each of which waits for its own products."""

WIDE = ("sums", "d_q", "d_k")
"""Tensors between kernels that are float32; others have the type of v."""

STAGES = 2
"""Stages of loops over chunks. With one, two tiles have one place in such a loop, too, as described
for NARROW, and adjoints of full chunks were wrong. (H200, Triton 3.6, 32 heads of 128 columns: the
states of 8192 rows take 227 us, and 403 us with one.)"""

NARROW, NARROW_WARPS = 64, 2
"""Columns of k, and of v, of which fewer are multiplied by two warps. With four, Triton chooses
Hopper's instructions for groups of warps, and products of one kernel read tiles with rows of
different lengths from one place in shared memory, after each other. ptxas 12.8, which is Triton
3.6's, then computes places in the later one from a register that nothing sets (a case of
triton-lang/triton#7197): 64 keys and 32 values gave wrong results on an H200. 12.9 does not."""

STEP_COLUMNS = 16
"""Columns of a head in a program of a step."""


def chunk_of(op: DeltaRuleLike) -> int:
    """Return the rows of a chunk in the kernels of `op`."""
    return FLOAT32_CHUNK if element_type_of(op.v) == f32 else CHUNK


@dataclass(frozen=True)
class _Text:
    """Text shared by the kernels of the gated delta rule."""

    op: DeltaRuleLike
    pitches: Pitches
    """The elements between the starts of the rows of operands that are ranges of columns."""

    @property
    def has_narrow_tiles(self) -> bool:
        is_narrow = min(self.op.state_count, self.columns) < NARROW
        return is_narrow and element_type_of(self.op.v) != f32

    @property
    def carried(self) -> int:
        """The columns of a head in a program that carries states."""
        return min(CARRIED_BYTES // element_bytes(self.op.v.type), self.columns)

    @property
    def read(self) -> int:
        """The columns of a head in a program that reads states."""
        return min(4 * self.carried, self.columns)

    @property
    def columns(self) -> int:
        """The columns of a head of v, in a tile."""
        return max(MIN_TILE, next_power_of_2(self.op.head_columns))

    def operand(self, name: str) -> KernelArgument | None:
        """Return the argument for an operand; None where there is none."""
        value = getattr(self.op, name, None)
        if value is None:
            return None
        place = nth_operand(list(self.op.operands).index(value))
        return pointer_argument(f"{name}_ptr", element_type_of(value), place)

    def output(self, name: str, number: int) -> KernelArgument:
        """Return the argument for a tensor that the host allocates between kernels."""
        type = f32 if name in WIDE else element_type_of(self.op.v)
        return pointer_argument(f"{name}_ptr", type, nth_output(number))

    def result(self, name: str, number: int) -> KernelArgument | None:
        """Return the argument for a result; None where it is not wanted."""
        value = self.op.results[0] if name == "y" else getattr(self.op, name, None)
        if value is None:
            return None
        return pointer_argument(f"{name}_ptr", element_type_of(value), nth_output(number))

    def constants(self, pitches: Sequence[str], columns: int) -> dict[str, int]:
        """Return the constants of a function: the widths of heads, `pitches` of operands, and the
        extents of tiles, for `columns` of v, if any.
        """
        op = self.op
        found = {"HEADS": op.heads, "MEMBERS": op.heads // op.key_heads}
        found |= {"K": op.state_count} | ({"V": op.head_columns} if columns else {})
        for name in pitches:
            value = getattr(op, name)
            found[f"{name.upper()}_PITCH"] = self.pitches.get(value, shape_of(value)[-1])
        found["BLOCK_K"] = max(MIN_TILE, next_power_of_2(op.state_count))
        return found | ({"BLOCK_V": columns} if columns else {})


@dataclass(frozen=True)
class _Kernel:
    """Emits a kernel that calls `function`, with programs for each head of a row of the launch.

    Names are separated by spaces. An operand or a result that there is not is None.
    """

    function: str
    summary: str
    operands: str
    outputs: str
    """Tensors between kernels."""
    results: str
    pitches: str
    """Operands that may be ranges of columns."""
    columns: Callable[[_Text], int] = lambda _: 0
    """The columns of v in a tile."""
    is_split: bool = True
    """True if each program has a tile of the columns of a head."""
    is_step: bool = False
    levels: bool = False
    num_warps: int = 4
    num_stages: int = 1

    def __call__(self, op: DeltaRuleLike, name: str, pitches: Pitches) -> EmittedKernel:
        text, rows = _Text(op, pitches), chunk_of(op)
        outputs, columns = self.outputs.split(), self.columns(text)
        arguments = [
            *map(text.operand, self.operands.split()),
            *map(text.output, outputs, count()),
            *map(text.result, self.results.split(), count(len(outputs))),
        ]
        constants = text.constants(self.pitches.split(), columns)
        if self.levels:
            constants["LEVELS"] = rows.bit_length() - 1
        if not self.is_step:
            v = nth_operand(list(op.operands).index(op.v))
            arguments.append(KernelArgument("T", "i32", v.shape(1)))
            constants["ROWS"] = rows
        names = ["None" if each is None else each.name for each in arguments]
        numbers = [f"{key}={value}" for key, value in constants.items()]
        blocks = -(-op.head_columns // columns) if columns and self.is_split else 1
        return emitted(
            name,
            [each for each in arguments if each is not None],
            call(self.function, ["tl.program_id(0)", *names, *numbers]),
            summary=self.summary.format(rows=rows),
            grid=ROW_COUNT * (op.heads * blocks),
            num_warps=NARROW_WARPS if text.has_narrow_tiles else self.num_warps,
            num_stages=self.num_stages,
        )


solve_kernel = _Kernel(
    "solve_delta_chunk",
    "triangular systems of chunks of {rows} rows",
    operands="k beta decay",
    outputs="sums system",
    results="",
    pitches="k",
    levels=True,
)
"""The triangular systems. The rows of the launch are all chunks."""

carry_states_kernel = _Kernel(
    "carry_delta_states",
    "states carried over chunks of {rows} rows",
    operands="k v beta initial",
    outputs="sums system states new",
    results="final",
    pitches="k v",
    columns=lambda text: text.carried,
    num_stages=STAGES,
)
"""The states before each chunk, and those after the last one where they are a result. The rows of
the launch are the samples."""

read_kernel = _Kernel(
    "read_delta_chunk",
    "the gated delta rule by chunks of {rows} rows",
    operands="q k",
    outputs="sums states new",
    results="y",
    pitches="q k",
    columns=lambda text: text.read,
)
"""The results. The rows of the launch are all chunks."""

step_kernel = _Kernel(
    "step_delta_states",
    "one step of the gated delta rule",
    operands="q k v beta decay initial",
    outputs="",
    results="y final",
    pitches="q k v",
    columns=lambda _: STEP_COLUMNS,
    is_step=True,
)
"""The result at the only position of each sample, and the states after it. The rows of the launch
are the samples."""

carry_adjoints_kernel = _Kernel(
    "carry_delta_adjoints",
    "adjoints of states carried over chunks of {rows} rows",
    operands="q k d_y beta d_final",
    outputs="sums system adjoints d_missing",
    results="d_initial",
    pitches="q k",
    columns=lambda text: text.carried,
    num_stages=STAGES,
)
"""The adjoints of the states after each chunk, and of the first states where they are a result. The
rows of the launch are the samples."""

gradients_kernel = _Kernel(
    "delta_chunk_gradients",
    "gradients of chunks of {rows} rows",
    operands="q k v d_y beta",
    outputs="sums states new adjoints d_missing d_q d_k",
    results="d_v d_beta d_decay",
    pitches="q k v",
    columns=lambda text: text.carried,
    is_split=False,
    num_warps=8,
)
"""The gradients, those of q and k for each head of v, over all chunks."""
