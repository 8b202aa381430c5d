"""Runs the kernel of a `gemm.fused`, compiled or interpreted, against the reference in float64."""

from collections.abc import Sequence
from math import prod
from pathlib import Path
from zlib import crc32

import torch
from xdsl.dialects.builtin import DYNAMIC_INDEX, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from coda_ir.backends.reference import run_function
from coda_ir.backends.triton.definitions import render
from coda_ir.backends.triton.device_text import device_functions, import_lines
from coda_ir.backends.triton.gemm_kernel import emit_gemm
from coda_ir.backends.triton.host.functions import host_functions, standard_modules
from coda_ir.backends.triton.host_values import ROWS, given
from coda_ir.backends.triton.kernel import EmittedKernel
from coda_ir.backends.triton.names import NameAllocator
from coda_ir.backends.triton.prelude import MODULE_HEADER
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.dialects.gemm import Combiner, CombinerAttr, FusedOp, ResultKind
from coda_ir.dialects.gemm.tiling import partial_tiles
from coda_ir.random_inputs.roles import QuantizedElements, roles_of
from coda_ir.signatures import stated_dtype
from coda_ir.storage import overwritten
from support.daily import one_a_day
from support.device import DEVICE
from support.gluon_simulator import Settings, load_module
from support.programs import import_text, parse_mlir as parse_module


def function_of(module: ModuleOp) -> FuncOp:
    return next(op for op in module.walk() if isinstance(op, FuncOp))


def gemms_of(module: ModuleOp) -> list[FusedOp]:
    return [op for op in module.walk() if isinstance(op, FusedOp)]


def module_source(kernels: Sequence[EmittedKernel]) -> str:
    """A module with kernels, and with the host functions that their launches call."""
    functions = host_functions("OVERLAPPING, planned, programs")
    modules = "\n".join(f"import {name}" for name in standard_modules(functions))
    sources = (*device_functions(kernels), *(kernel.source for kernel in kernels))
    head = (modules, MODULE_HEADER, "\n".join(import_lines(kernels)))
    return "\n\n".join([*head, *sources, render(functions)])


SCHEDULES = (Settings(0, 1), Settings(1, 2), Settings(2, 3))
"""Interleavings of warps that a kernel in Gluon runs under, with so many programs.

The simulator finds races by clocks, whatever the interleaving.
"""


def loaded(kernel: EmittedKernel, folder: Path) -> list[dict[str, object]]:
    """The module of a kernel; in the simulator of Gluon, for one schedule a day."""
    source = module_source([kernel])
    if kernel.language == "gluon" and DEVICE == "cpu":
        schedules = one_a_day(SCHEDULES, crc32(source.encode()))
        return [vars(load_module(source, settings)) for settings in schedules]
    return [vars(import_text(source, folder))]


def empty_outputs(op: FusedOp, rows: Sequence[int]) -> list[torch.Tensor]:
    """Outputs full of NaN (integers: of a large number)."""
    assert op.schedule is not None
    rows = op.row_shape if op.is_transposed else rows
    outputs: list[torch.Tensor] = []
    ports = [(part, result.port) for part in op.segments() for result in part.results]
    for index, (value, (segment, port)) in enumerate(zip(op.results, ports, strict=True)):
        if segment.is_stored_transposed(port):
            shape = [segment.columns, *rows]
            outputs.append(torch.full(shape, float("nan"), dtype=stated_dtype(value.type)))
            continue
        match port.kind.data:
            case ResultKind.PARTIAL_ROW:
                tiles = partial_tiles(op, index)
                assert tiles is not None
                shape = [*rows, tiles]
            case ResultKind.PARTIAL_COL:
                shape = _partial_col_shape(value, rows, op.schedule.block_m.data)
            case ResultKind.SELECT:
                shape = list(rows)
            case _:
                shape = [*rows, shape_of(value)[-1]]
        dtype = stated_dtype(value.type)
        fill = float("nan") if dtype.is_floating_point else 77
        outputs.append(torch.full(shape, fill, dtype=dtype))
    return outputs


def _partial_col_shape(value: SSAValue, rows: Sequence[int], block_m: int) -> list[int]:
    """The shape of partials of all rows, or of those of each sample."""
    samples = len(shape_of(value)) - 2
    length = prod(rows[samples:])
    may_straddle = samples > 0 and length % block_m > 0
    return [*rows[:samples], -(-length // block_m) + may_straddle, shape_of(value)[-1]]


def random_arguments(
    func: FuncOp, rows: Sequence[int], generator: torch.Generator
) -> list[torch.Tensor]:
    """Normal floats, weights (arguments named w...) scaled by 1/sqrt(K), integers below N."""
    arguments: list[torch.Tensor] = []
    for parameter in func.args:
        stated = shape_of(parameter)
        leading = [extent for extent in stated if extent == DYNAMIC_INDEX]
        own = list(rows[len(rows) - len(leading) :])
        shape = [own.pop(0) if extent == DYNAMIC_INDEX else extent for extent in stated]
        dtype = stated_dtype(parameter.type)
        if not dtype.is_floating_point:
            if any(isinstance(role, QuantizedElements) for role in roles_of(parameter)):
                limits = torch.iinfo(dtype)
                drawn = torch.randint(limits.min, limits.max + 1, shape, generator=generator)
                arguments.append(drawn.to(dtype))
                continue
            arguments.append(torch.randint(-2, 20, shape, generator=generator).to(dtype))
            continue
        tensor = torch.randn(shape, generator=generator)
        if (parameter.name_hint or "").startswith("w"):
            layouts = {s.layout.value for op in gemms_of_func(func) for s in op.segments()}
            tensor /= shape[0 if layouts == {"kn"} else -1] ** 0.5
        arguments.append(tensor.to(dtype))
    return arguments


def gemms_of_func(func: FuncOp) -> list[FusedOp]:
    return [op for op in func.walk() if isinstance(op, FusedOp)]


def run_kernel(
    func: FuncOp, arguments: Sequence[torch.Tensor], folder: Path
) -> tuple[EmittedKernel, list[torch.Tensor]]:
    """Run the only `gemm.fused` of `func`, whose operands are arguments of `func`."""
    (op,) = gemms_of_func(func)
    given_of = dict(zip(list[SSAValue](func.args), arguments, strict=True))
    rows = given_of[op.x].shape[:-1] if op.gather is None else given_of[op.gather].shape
    rows = op.row_shape if op.is_numbered else rows
    kernel = emit_gemm(op, NameAllocator())
    names = {value: f"arg{index}" for index, value in enumerate(func.args)}
    outputs = empty_outputs(op, rows)
    shared = workspace(op, kernel, rows)
    lines = kernel.launch(
        given(
            str(prod(rows)),
            [names[operand] for operand in op.operands],  # pyright: ignore[reportArgumentType]
            [f"out{index}" for index in range(len(outputs) + 2)],
        )
    )
    in_place = [overwritten(value) for value in op.results]
    places = [
        f"out{index}" if operand is None else names[operand]  # pyright: ignore[reportArgumentType]
        for index, operand in enumerate(in_place)
    ]
    outputs += shared
    runs: list[list[torch.Tensor]] = []
    for scope in loaded(kernel, folder):
        scope |= {f"arg{i}": argument.clone().to(DEVICE) for i, argument in enumerate(arguments)}
        scope |= {f"out{i}": output.clone().to(DEVICE) for i, output in enumerate(outputs)}
        exec("\n".join(lines), scope)
        results = [scope[place] for place in places]
        runs.append([result.cpu() for result in results if isinstance(result, torch.Tensor)])
        if shared:
            counters = scope[f"out{len(outputs) - 1}"]
            assert isinstance(counters, torch.Tensor) and not counters.any(), "left as it was"
    for run in runs[1:]:
        torch.testing.assert_close(run, runs[0], rtol=0, atol=0, equal_nan=True)
    return kernel, runs[0]


def run_text(text: str, arguments: Sequence[torch.Tensor], folder: Path) -> Sequence[torch.Tensor]:
    """The results of the only kernel of a text."""
    return run_kernel(function_of(parse_module(text)), arguments, folder)[1]


def workspace(op: FusedOp, kernel: EmittedKernel, rows: Sequence[int]) -> list[torch.Tensor]:
    """Return what the programs of shared tiles take beside the outputs: NaN, and zeros."""
    shared = kernel.shared_tiles
    if shared is None:
        return []
    tiles = int(eval(shared.tiles.text({ROWS: str(prod(rows))})))
    partials = torch.full((tiles * shared.programs * shared.elements,), float("nan"))
    return [partials, torch.zeros(tiles, dtype=torch.int32)]


def combined(op: Operation, outputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The outputs in float64 with partials combined: their tiling is a matter of the schedule."""
    assert isinstance(op, FusedOp)
    results: list[torch.Tensor] = []
    ports = [result.port for segment in op.segments() for result in segment.results]
    for port, output in zip(ports, outputs, strict=True):
        output = output.double()
        if isinstance(port.combiner, CombinerAttr):
            axis = -1 if port.kind.data == ResultKind.PARTIAL_ROW else -2
            match port.combiner.data:
                case Combiner.ADD:
                    output = output.sum(axis)
                case Combiner.MAX:
                    output = output.amax(axis)
                case Combiner.LSE:
                    output = output.logsumexp(axis)
        results.append(output)
    return results


def check_against_reference(
    text: str,
    rows: Sequence[int],
    folder: Path,
    *,
    seed: int = 0,
    arguments: Sequence[torch.Tensor] | None = None,
) -> EmittedKernel:
    """The kernel agrees with float64 up to the rounding of its output types."""
    func = function_of(parse_module(text))
    if arguments is None:
        arguments = random_arguments(func, rows, torch.Generator().manual_seed(seed))
    kernel, outputs = run_kernel(func, arguments, folder)
    assert_right(func, arguments, outputs)
    return kernel


def assert_right(
    func: FuncOp, arguments: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]
) -> None:
    """The outputs of the only kernel of `func` are those of float64, up to rounding."""
    (op,) = gemms_of_func(func)
    actual = combined(op, outputs)
    expected = combined(op, run_function(func, arguments))
    for value, got, wanted in zip(op.results, actual, expected, strict=True):
        assert_rounded(value, got, wanted)


NARROW_FLOATS = (torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2)


def assert_rounded(value: SSAValue, actual: torch.Tensor, expected: torch.Tensor) -> None:
    """`actual` is `expected` up to one rounding to the element type of `value`."""
    dtype = stated_dtype(value.type)
    rtol, tiny = 2e-5, 0.0
    if dtype in NARROW_FLOATS:
        # Half a unit in the last place, and what float32 accumulation can tip over.
        limits = torch.finfo(dtype)
        rtol, tiny = limits.eps * 0.52, limits.tiny * limits.eps * 0.52
    finite = expected[expected.isfinite()]
    scale = finite.square().mean().sqrt().item() if finite.numel() else 1.0
    torch.testing.assert_close(
        actual,
        expected,
        rtol=rtol,
        atol=2e-6 * scale + 1e-6 + tiny,
        equal_nan=True,
        msg=lambda message: f"{value.name_hint}: {message}",
    )
