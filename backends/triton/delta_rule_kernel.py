"""The kernels of the gated delta rule, by chunks of rows.

    solve             (I + A)⁻¹ of each chunk and head: what its rows write depends on those before
    carry_states      the states before each chunk, and what its rows write: chunk after chunk
    read              the results of each chunk, from both
    step              of one position, all of it

The formulas are in `runtime/delta_rule.py`, whose functions the kernels call.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from coda_ir.backends.triton.host_values import ROW_COUNT, nth_operand, nth_output
from coda_ir.backends.triton.kernel import EmittedKernel, KernelArgument, call
from coda_ir.backends.triton.kernel_text import emitted, next_power_of_2, pointer_argument
from coda_ir.dialects.coda import DeltaRuleOp
from coda_ir.dialects.coda.shapes import element_bytes, element_type_of, shape_of

Pitches = Mapping[SSAValue, int]

CHUNK = 64
"""Rows of a chunk: those of a tile, and of the triangular system of a head."""

MIN_TILE = 16
"""The least extent of a tile of a product."""

CARRIED_BYTES = 64
"""Bytes of a row of states in a program that carries them: 32 columns in 16 bits. Few columns make
many programs, each of which waits for its own products."""

STAGES = 2
"""Stages of loops. (H200, 32 heads of 128 columns, 8192 rows: states take 274 us, with one 403.)"""

STEP_COLUMNS = 16
"""Columns of a head in a program of a step."""


def solve_kernel(op: DeltaRuleOp, name: str, pitches: Pitches) -> EmittedKernel:
    """Emit the kernel of the triangular systems. The rows of the launch are all chunks."""
    text = _Text(op, pitches)
    constants = text.constants("K", "k") | {"LEVELS": CHUNK.bit_length() - 1}
    return text.emitted(
        name,
        "solve_delta_chunk",
        text.operands("k", "beta", "decay") + text.outputs(0, "system"),
        constants,
        summary=f"triangular systems of chunks of {CHUNK} rows",
    )


def carry_states_kernel(op: DeltaRuleOp, name: str, pitches: Pitches) -> EmittedKernel:
    """Emit the kernel of the states before each chunk, and of those behind the last one where they
    are a result. The rows of the launch are the samples.
    """
    text = _Text(op, pitches)
    arguments = [
        *text.operands("k", "v", "beta", "decay", "initial"),
        *text.outputs(0, "system", "states", "new"),
        text.end("final", 3),
    ]
    return text.emitted(
        name,
        "carry_delta_states",
        arguments,
        text.constants("KV", "kv", text.carried),
        summary=f"states carried over chunks of {CHUNK} rows",
        blocks=text.blocks(text.carried),
    )


def read_kernel(op: DeltaRuleOp, name: str, pitches: Pitches) -> EmittedKernel:
    """Emit the kernel of the results. The rows of the launch are all chunks."""
    text = _Text(op, pitches)
    arguments = [
        *text.operands("q", "k", "decay"),
        *text.outputs(0, "states", "new"),
        text.result("y", op.result, 2),
    ]
    return text.emitted(
        name,
        "read_delta_chunk",
        arguments,
        text.constants("KV", "qk", text.read),
        summary=f"the gated delta rule by chunks of {CHUNK} rows",
        blocks=text.blocks(text.read),
    )


def step_kernel(op: DeltaRuleOp, name: str, pitches: Pitches) -> EmittedKernel:
    """Emit the kernel of the only position of each sample, and the states behind it.

    The rows of the launch are the samples.
    """
    text = _Text(op, pitches)
    arguments = [
        *text.operands("q", "k", "v", "beta", "decay", "initial"),
        text.result("y", op.result, 0),
        text.end("final", 1),
    ]
    return text.emitted(
        name,
        "step_delta_states",
        arguments,
        text.constants("KV", "qkv", STEP_COLUMNS),
        summary="one step of the gated delta rule",
        blocks=text.blocks(STEP_COLUMNS),
        has_rows=False,
    )


@dataclass(frozen=True)
class _Text:
    """Text shared by the kernels of the gated delta rule."""

    op: DeltaRuleOp
    pitches: Pitches
    """The elements between the starts of the rows of operands that are ranges of columns."""

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

    def blocks(self, columns: int) -> int:
        """Return the blocks of this many columns of a head of v."""
        return -(-self.op.head_columns // columns)

    def operands(self, *names: str) -> list[KernelArgument | None]:
        """Return the arguments for operands, None for one that there is not."""
        return [self._operand(name) for name in names]

    def _operand(self, name: str) -> KernelArgument | None:
        value = getattr(self.op, name, None)
        if value is None:
            return None
        place = nth_operand(list(self.op.operands).index(value))
        return pointer_argument(f"{name}_ptr", element_type_of(value), place)

    def outputs(self, first: int, *names: str) -> list[KernelArgument | None]:
        """Return the arguments for tensors that the host allocates, from output `first` on."""
        of = element_type_of(self.op.v)
        return [
            pointer_argument(f"{name}_ptr", of, nth_output(number))
            for number, name in enumerate(names, first)
        ]

    def result(self, name: str, value: SSAValue, number: int) -> KernelArgument:
        """Return the argument for a result."""
        return pointer_argument(f"{name}_ptr", element_type_of(value), nth_output(number))

    def end(self, name: str, number: int) -> KernelArgument | None:
        """Return the argument for a result of states; None where it is not wanted."""
        value = getattr(self.op, name, None)
        return None if value is None else self.result(name, value, number)

    def constants(self, widths: str, pitches: str, columns: int = 0) -> Mapping[str, int]:
        """Return the constants of a function: the `widths` K and V of heads, `pitches` of operands,
        and the extents of tiles.
        """
        op = self.op
        found = {"HEADS": op.heads, "MEMBERS": op.heads // op.key_heads}
        found |= {"K": op.state_count} | ({"V": op.head_columns} if "V" in widths else {})
        for name in pitches:
            value = getattr(op, name)
            found[f"{name.upper()}_PITCH"] = self.pitches.get(value, shape_of(value)[-1])
        found["BLOCK_K"] = max(MIN_TILE, next_power_of_2(op.state_count))
        return found | ({"BLOCK_V": columns} if columns else {})

    def emitted(
        self,
        name: str,
        function: str,
        arguments: Sequence[KernelArgument | None],
        constants: Mapping[str, int],
        *,
        summary: str,
        blocks: int = 1,
        has_rows: bool = True,
    ) -> EmittedKernel:
        """Return a kernel that calls a function, with `blocks` programs for each head of each row
        of the launch.
        """
        given = [each for each in arguments if each is not None]
        names = ["None" if each is None else each.name for each in arguments]
        if has_rows:
            v = nth_operand(list(self.op.operands).index(self.op.v))
            given.append(KernelArgument("T", "i32", v.shape(1)))
            names.append("T")
            constants = {**constants, "ROWS": CHUNK}
        numbers = [f"{key}={value}" for key, value in constants.items()]
        return emitted(
            name,
            given,
            call(function, ["tl.program_id(0)", *names, *numbers]),
            summary=summary,
            grid=ROW_COUNT * (self.op.heads * blocks),
            num_stages=STAGES,
        )
