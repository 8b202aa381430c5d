"""Launches of state-space models: kernels over chunks of rows."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from xdsl.ir import SSAValue

from coda_ir.backends.triton import (
    delta_rule_kernel,
    scan_text,
    selective_scan_grad_kernel,
    selective_scan_kernel,
    ssd_grad_kernel,
    ssd_kernel,
    ssd_text,
)
from coda_ir.backends.triton.host.program import HostProgram
from coda_ir.backends.triton.host.text import torch_type
from coda_ir.backends.triton.kernel import EmittedKernel, ceiling, indented
from coda_ir.backends.triton.operators.launching import Writer, kernel_named, launch, operands_of
from coda_ir.backends.triton.operators.row_pitches import row_pitch
from coda_ir.dialects import coda
from coda_ir.dialects.coda.scan import StateSpaceGradLike, StateSpaceLike, StateSpaceModel
from coda_ir.dialects.coda.shapes import element_type_of

Emit = Callable[[Any, str, Mapping[SSAValue, int]], EmittedKernel]
"""Makes a kernel of an operator, a name, and the pitches of operands that are ranges of columns."""


def row_pitches_of(host: HostProgram, op: StateSpaceLike) -> Mapping[SSAValue, int]:
    """Return the pitches of operands that are ranges of columns."""
    if isinstance(op, coda.DeltaRuleLike):
        tensors = [op.q, op.k, op.v]
    else:
        tensors = [value for value in dict.fromkeys(op.operands) if value not in op.carried]
    pitches = {value: row_pitch(host, value) for value in tensors}
    return {value: pitch for value, pitch in pitches.items() if pitch is not None}


class _Chunks:
    """The launches of a state space model over chunks of `rows` rows, and the tensors between."""

    def __init__(self, host: HostProgram, op: StateSpaceLike, rows: int):
        self.host, self.op = host, op
        self.final = op.final if isinstance(op, StateSpaceModel) else None
        self.d_initial = op.d_initial if isinstance(op, StateSpaceGradLike) else None
        self.pitches = row_pitches_of(host, op)
        self.samples, self.length, self.columns = map(host.extents.of, host.dims(op.written))
        self.chunks = host.number(ceiling(self.length, rows), "chunks")
        self.all = host.number(f"{self.samples} * {self.chunks}", "all_chunks")

    def scratch(self, name: str, *extents: str | int, type: str = "torch.float32") -> str:
        """Return an uninitialized tensor of this many elements."""
        return self.host.scratch(" * ".join(map(str, extents)), name, type)

    def launch(
        self, emit: Emit, name: str, outputs: Sequence[str], rows: str | None = None
    ) -> None:
        """Launch a kernel whose rows are all chunks, or `rows`."""
        operands = operands_of(self.host, self.op, self.pitches)
        self.host.launch(self._kernel(emit, name), rows or self.all, operands, outputs)

    def carried(
        self,
        kernels: Mapping[str, Emit],
        names: tuple[str, str],
        size: Sequence[str | int],
        end: SSAValue | None = None,
        given: Sequence[str] = (),
    ) -> str:
        """Return states of the extents `size`, carried over all chunks of a sample but one.

        Two kernels compute them, one for each chunk and one for each sample, which get `given`
        after the states and their times. Where the states that are carried out of the last chunk
        are the result `end`, there are those of all chunks.
        """
        added, carry = (self._kernel(emit, name) for name, emit in kernels.items())
        count = f"max(0, {self.chunks} - 1)" if end is None else self.chunks
        rows = self.host.number(f"{self.samples} * {count}", "carried_chunks")
        states = self.scratch(names[0], rows, *size)
        outputs = [states, self.scratch(names[1], rows, size[0]), *given]
        operands = operands_of(self.host, self.op, self.pitches)
        if end is not None:
            outputs.append(self.host.allocate(end))
        self.host.flush()
        start = len(self.host.lines)
        self.host.launch(added, rows, operands, outputs)
        self.host.flush()
        after = len(self.host.lines)
        self.host.launch(carry, self.samples, operands, outputs)
        self.host.flush()
        guarded = len(self.host.lines) if end is None else after
        lines = self.host.lines[start:guarded]
        self.host.lines[start:guarded] = [f"if {rows}:", *indented(lines)]
        return states

    def add_up(self, result: SSAValue, parts: str, shape: Sequence[str | int], dim: int) -> None:
        """Let PyTorch add up the parts of a gradient, of `shape`, if it is used."""
        if result.uses.get_length():
            type = torch_type(element_type_of(result))
            whole = self.host.extents.shape(self.host.dims(result))
            viewed = f"{parts}.view({', '.join(map(str, shape))})"
            call = f"sum_to({viewed}, ({dim},), {whole}, {type})"
            self.host.assign(result, call, is_dense=True, hint="total")

    def _kernel(self, emit: Emit, name: str) -> EmittedKernel:
        return kernel_named(self.host, self.op, name, emit, self.pitches)


class _ScanChunks(_Chunks):
    """The launches of a selective scan."""

    def __init__(self, host: HostProgram, op: coda.SelectiveScanOp | coda.SelectiveScanGradOp):
        super().__init__(host, op, scan_text.CHUNK)
        self.size = (self.columns, op.state_count)

    def states(self) -> str:
        """The states at the end of all chunks, but for the last where they are no result."""
        kernels = {"chunk_states": selective_scan_kernel.chunk_states_kernel}
        carry = {"carry_states": selective_scan_kernel.carry_kernel}
        return self.carried(kernels | carry, ("states", "times"), self.size, self.final)

    def adjoints(self) -> str:
        """The adjoints of the states before all chunks, but for the first where it is no result."""
        kernels = {"chunk_adjoints": selective_scan_grad_kernel.chunk_adjoints_kernel}
        carry = {"carry_adjoints": partial(selective_scan_kernel.carry_kernel, is_reversed=True)}
        return self.carried(kernels | carry, ("adjoints", "times"), self.size, self.d_initial)


class _HeadChunks(_Chunks):
    """The launches of a state space model of heads."""

    def __init__(self, host: HostProgram, op: coda.SSDOp | coda.SSDGradOp):
        chunk = ssd_text.chunk_of(op)
        super().__init__(host, op, chunk)
        self.size = (op.heads, op.state_count, op.head_columns)
        self.sums = self.scratch("sums", self.all, op.heads, ssd_text.SUMS * chunk)
        self.launch(ssd_kernel.block_sums_kernel, "block_sums", [self.sums])

    def states(self) -> str:
        """The states at the end of all chunks, but for the last where they are no result."""
        kernels = {"head_states": ssd_kernel.chunk_states_kernel}
        carry = {"carry_head_states": ssd_kernel.carry_kernel}
        names = ("states", "decays")
        return self.carried(kernels | carry, names, self.size, self.final, [self.sums])

    def adjoints(self) -> str:
        """The adjoints of the states before all chunks, but for the first where it is no result."""
        kernels = {"head_adjoints": ssd_grad_kernel.chunk_adjoints_kernel}
        carry = {"carry_head_adjoints": partial(ssd_kernel.carry_kernel, is_reversed=True)}
        names = ("adjoints", "decays")
        return self.carried(kernels | carry, names, self.size, self.d_initial, [self.sums])


class _DeltaChunks(_Chunks):
    """The launches of the gated delta rule."""

    def __init__(self, host: HostProgram, op: coda.DeltaRuleOp | coda.DeltaRuleGradOp):
        self.rows = delta_rule_kernel.chunk_of(op)
        super().__init__(host, op, self.rows)
        self.heads, self.size = op.heads, op.state_count * op.head_columns
        self.type = torch_type(element_type_of(op.v))
        self.sums = self.scratch("sums", self.all, op.heads, 2 * self.rows)
        self.system = self.scratch("system", self.all, op.heads, self.rows**2, type=self.type)
        self.launch(delta_rule_kernel.solve_kernel, "solve_delta_rule", [self.sums, self.system])

    def states(self) -> list[str]:
        """The states before each chunk, and what its rows write."""
        return self._carried(delta_rule_kernel.carry_states_kernel, ("states", "new"), self.final)

    def adjoints(self) -> list[str]:
        """The adjoints of the states after each chunk, and of what its rows write."""
        emit, names = delta_rule_kernel.carry_adjoints_kernel, ("adjoints", "d_missing")
        return self._carried(emit, names, self.d_initial)

    def _carried(self, emit: Emit, names: tuple[str, str], end: SSAValue | None) -> list[str]:
        """Return states of all chunks, and what belongs to rows and columns of v."""
        states = self.scratch(names[0], self.all, self.heads, self.size, type=self.type)
        places = (self.samples, self.length, self.columns)
        found = [states, self.scratch(names[1], *places, type=self.type)]
        ends = [] if end is None else [self.host.allocate(end)]
        outputs = [self.sums, self.system, *found, *ends]
        self.launch(emit, f"delta_{names[0]}", outputs, self.samples)
        return found


def _step(host: HostProgram, op: StateSpaceModel, emit: Emit, name: str) -> None:
    """Launch the kernel of the only position; it may store the last states in place."""
    pitches = row_pitches_of(host, op)
    kernel = kernel_named(host, op, name, emit, pitches)
    samples = host.extents.of(host.dims(op.written)[0])
    launch(host, op, kernel, samples, operands_of(host, op, pitches))


def _selective_scan(host: HostProgram, op: coda.SelectiveScanOp) -> None:
    if op.is_step:
        return _step(host, op, selective_scan_kernel.step_kernel, "scan_step")
    chunks = _ScanChunks(host, op)
    outputs = [chunks.states(), host.allocate(op.result)]
    return chunks.launch(selective_scan_kernel.scan_kernel, "selective_scan", outputs)


def _ssd(host: HostProgram, op: coda.SSDOp) -> None:
    if op.is_step:
        return _step(host, op, ssd_kernel.step_kernel, "ssd_step")
    chunks = _HeadChunks(host, op)
    outputs = [chunks.sums, chunks.states(), host.allocate(op.result)]
    return chunks.launch(ssd_kernel.ssd_kernel, "ssd", outputs)


def _delta_rule(host: HostProgram, op: coda.DeltaRuleOp) -> None:
    if op.is_step:
        return _step(host, op, delta_rule_kernel.step_kernel, "delta_rule_step")
    chunks = _DeltaChunks(host, op)
    outputs = [chunks.sums, *chunks.states(), host.allocate(op.result)]
    return chunks.launch(delta_rule_kernel.read_kernel, "delta_rule", outputs)


def _selective_scan_grad(host: HostProgram, op: coda.SelectiveScanGradOp) -> None:
    """Kernels, and sums of the parts that they give for a, b and c."""
    chunks, size = _ScanChunks(host, op), op.state_count
    states, adjoints, rows = chunks.states(), chunks.adjoints(), chunks.all
    in_chunk = scan_text.CHUNK // scan_text.STEPS
    blocks = chunks.scratch("block_states", rows, in_chunk, chunks.columns, size)
    chunks.launch(selective_scan_grad_kernel.block_states_kernel, "block_states", [states, blocks])
    wide = host.number(ceiling(chunks.columns, scan_text.CHANNELS), "channel_blocks")
    shapes: dict[SSAValue, tuple[str | int, ...]] = {op.d_a: (rows, chunks.columns, size)}
    for result in (op.d_b, op.d_c):
        shapes[result] = (chunks.samples, chunks.length, wide, size)
    parts = [
        chunks.scratch(f"parts_of_{name}", *shape)
        for name, shape in zip("abc", shapes.values(), strict=True)
    ]
    results = map(host.allocate, (op.d_x, op.d_dt))
    emit = selective_scan_grad_kernel.scan_gradients_kernel
    chunks.launch(emit, "scan_gradients", [blocks, adjoints, *results, *parts])
    for (result, shape), part in zip(shapes.items(), parts, strict=True):
        chunks.add_up(result, part, shape, 0 if result is op.d_a else 2)


def _ssd_grad(host: HostProgram, op: coda.SSDGradOp) -> None:
    """Kernels, and sums of the parts that they give for a, b and c."""
    chunks = _HeadChunks(host, op)
    sums, states, adjoints, rows = chunks.sums, chunks.states(), chunks.adjoints(), chunks.all
    shares = op.heads // ssd_grad_kernel.heads_of_program(op)
    places = (chunks.samples, chunks.length)
    held, own, inner, taken = (
        chunks.scratch(name, *places, op.heads) for name in ("held", "own", "inner", "taken")
    )
    b, c = (chunks.scratch(f"parts_of_{name}", *places, shares * op.state_count) for name in "bc")
    d_x, d_dt = map(host.allocate, (op.d_x, op.d_dt))
    d_a = chunks.scratch("parts_of_a", rows, op.heads)
    kernels = ssd_grad_kernel
    times = [states, adjoints, held, own, inner, taken, d_dt, d_a]
    chunks.launch(kernels.held_kernel, "held", [sums, states, held])
    chunks.launch(
        kernels.x_gradients_kernel, "x_gradients", [sums, adjoints, d_x, own, inner, taken]
    )
    chunks.launch(kernels.b_gradients_kernel, "b_gradients", [sums, adjoints, b])
    chunks.launch(kernels.c_gradients_kernel, "c_gradients", [sums, states, c])
    chunks.launch(kernels.times_kernel, "time_gradients", times)
    chunks.add_up(op.d_a, d_a, (rows, op.heads), 0)
    shape = (f"{chunks.samples} * {chunks.length}", op.groups, shares // op.groups, op.state_count)
    chunks.add_up(op.d_b, b, shape, 2)
    chunks.add_up(op.d_c, c, shape, 2)


def _delta_rule_grad(host: HostProgram, op: coda.DeltaRuleGradOp) -> None:
    """Kernels, and sums of the parts that they give for q and k."""
    chunks = _DeltaChunks(host, op)
    carried = [chunks.sums, *chunks.states(), *chunks.adjoints()]
    places = (chunks.samples, chunks.length)
    q, k = (chunks.scratch(f"parts_of_{n}", *places, op.heads * op.state_count) for n in "qk")
    results = map(host.allocate, (op.d_v, op.d_beta, op.d_decay))
    emit = delta_rule_kernel.gradients_kernel
    chunks.launch(emit, "delta_rule_gradients", [*carried, q, k, *results])
    members = op.heads // op.key_heads
    shape = (f"{chunks.samples} * {chunks.length}", op.key_heads, members, op.state_count)
    chunks.add_up(op.d_q, q, shape, 2)
    chunks.add_up(op.d_k, k, shape, 2)


WRITERS: Mapping[type, Writer] = {
    coda.SelectiveScanOp: _selective_scan,
    coda.SelectiveScanGradOp: _selective_scan_grad,
    coda.SSDOp: _ssd,
    coda.SSDGradOp: _ssd_grad,
    coda.DeltaRuleOp: _delta_rule,
    coda.DeltaRuleGradOp: _delta_rule_grad,
}
"""Emitters of state space models."""
