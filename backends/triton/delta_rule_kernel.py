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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import f32
from xdsl.ir import Attribute, SSAValue

from coda_ir.backends.triton.host_values import ROW_COUNT, nth_operand, nth_output
from coda_ir.backends.triton.kernel import EmittedKernel, KernelArgument, call
from coda_ir.backends.triton.kernel_text import emitted, next_power_of_2, pointer_argument
from coda_ir.dialects.coda import DeltaRuleGradOp, DeltaRuleLike, DeltaRuleOp
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


def solve_kernel(op: DeltaRuleLike, name: str, pitches: Pitches) -> EmittedKernel:
    """Emit the kernel of the triangular systems. The rows of the launch are all chunks."""
    text = _Text(op, pitches)
    constants = text.constants("K", "k") | {"LEVELS": chunk_of(op).bit_length() - 1}
    return text.emitted(
        name,
        "solve_delta_chunk",
        text.operands("k", "beta", "decay") + text.outputs("sums", "system"),
        constants,
        summary=f"triangular systems of chunks of {chunk_of(op)} rows",
    )


def carry_states_kernel(op: DeltaRuleLike, name: str, pitches: Pitches) -> EmittedKernel:
    """Emit the kernel of the states before each chunk, and of those after the last one where they
    are a result. The rows of the launch are the samples.
    """
    text = _Text(op, pitches)
    arguments = [
        *text.operands("k", "v", "beta", "initial"),
        *text.outputs("sums", "system", "states", "new"),
        text.end("final", 4),
    ]
    return text.emitted(
        name,
        "carry_delta_states",
        arguments,
        text.constants("KV", "kv", text.carried),
        summary=f"states carried over chunks of {chunk_of(op)} rows",
        blocks=text.blocks(text.carried),
        num_stages=STAGES,
    )


def read_kernel(op: DeltaRuleOp, name: str, pitches: Pitches) -> EmittedKernel:
    """Emit the kernel of the results. The rows of the launch are all chunks."""
    text = _Text(op, pitches)
    arguments = [
        *text.operands("q", "k"),
        *text.outputs("sums", "states", "new"),
        text.result("y", op.result, 3),
    ]
    return text.emitted(
        name,
        "read_delta_chunk",
        arguments,
        text.constants("KV", "qk", text.read),
        summary=f"the gated delta rule by chunks of {chunk_of(op)} rows",
        blocks=text.blocks(text.read),
    )


def step_kernel(op: DeltaRuleOp, name: str, pitches: Pitches) -> EmittedKernel:
    """Emit the kernel of the only position of each sample, and the states after it.

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


def carry_adjoints_kernel(op: DeltaRuleGradOp, name: str, pitches: Pitches) -> EmittedKernel:
    """Emit the kernel of the adjoints of the states after each chunk, and of the first states where
    they are a result. The rows of the launch are the samples.
    """
    text = _Text(op, pitches)
    arguments = [
        *text.operands("q", "k", "d_y", "beta", "d_final"),
        *text.outputs("sums", "system", "adjoints", "d_missing"),
        text.end("d_initial", 4),
    ]
    return text.emitted(
        name,
        "carry_delta_adjoints",
        arguments,
        text.constants("KV", "qk", text.carried),
        summary=f"adjoints of states carried over chunks of {chunk_of(op)} rows",
        blocks=text.blocks(text.carried),
        num_stages=STAGES,
    )


def gradients_kernel(op: DeltaRuleGradOp, name: str, pitches: Pitches) -> EmittedKernel:
    """Emit the kernel of the gradients, those of q and k for each head of v, over all chunks."""
    text = _Text(op, pitches)
    arguments = [
        *text.operands("q", "k", "v", "d_y", "beta"),
        *text.outputs("sums", "states", "new", "adjoints", "d_missing", "d_q", "d_k"),
        *(
            text.result(f"d_{each}", getattr(op, f"d_{each}"), number)
            for number, each in enumerate(("v", "beta", "decay"), 7)
        ),
    ]
    return text.emitted(
        name,
        "delta_chunk_gradients",
        arguments,
        text.constants("KV", "qkv", text.carried),
        summary=f"gradients of chunks of {chunk_of(op)} rows",
        num_warps=8,
    )


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

    def outputs(self, *names: str) -> list[KernelArgument | None]:
        """Return the arguments for the first tensors that the host allocates."""
        return [
            pointer_argument(f"{name}_ptr", self._type(name), nth_output(number))
            for number, name in enumerate(names)
        ]

    def _type(self, name: str) -> Attribute:
        return f32 if name in WIDE else element_type_of(self.op.v)

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
        num_warps: int = 4,
        num_stages: int = 1,
    ) -> EmittedKernel:
        """Return a kernel that calls a function, with `blocks` programs for each head of a row."""
        given = [each for each in arguments if each is not None]
        names = ["None" if each is None else each.name for each in arguments]
        if has_rows:
            v = nth_operand(list(self.op.operands).index(self.op.v))
            given.append(KernelArgument("T", "i32", v.shape(1)))
            names.append("T")
            constants = {**constants, "ROWS": chunk_of(self.op)}
        numbers = [f"{key}={value}" for key, value in constants.items()]
        return emitted(
            name,
            given,
            call(function, ["tl.program_id(0)", *names, *numbers]),
            summary=summary,
            grid=ROW_COUNT * (self.op.heads * blocks),
            num_warps=NARROW_WARPS if self.has_narrow_tiles else num_warps,
            num_stages=num_stages,
        )
