"""Tests of what direct launches pass to the driver, which is not a real one: run by
test_direct_launch.py in another process, since Triton must not be in its interpreter.
"""

import gc
import inspect
import re
import struct
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from support import fake_cuda
from support.fake_driver import LAUNCHES, PROGRAM, SCHEDULE, inputs_of, launches_of
from support.threads import in_threads

from coda_ir.api import parse
from coda_ir.backends.triton import emit_program
from coda_ir.backends.triton.definitions import render
from coda_ir.backends.triton.host.functions import host_functions, standard_modules
from coda_ir.backends.triton.prelude import MODULE_HEADER
from coda_ir.cache import load_source
from coda_ir.launching.direct_launch import KNOWN_TRITON
from coda_ir.lowering import Lowering
from coda_ir.options import CompileOptions

KERNELS = """
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit(do_not_specialize=["M"])
def add_rows(x_ptr, out_ptr, M, stride, wide):
    place = tl.program_id(0) * stride + tl.arange(0, 16)
    tl.store(out_ptr + place, tl.load(x_ptr + place) + M + wide)


@direct(add_rows, (0, 1))
def launch_add_rows(kernel, rows, stride, wide, x, out):
    return kernel[(rows,)](x, out, rows, stride, wide, num_warps=1)


@triton.jit(do_not_specialize=["M"])
def copy_box(x_desc, out_ptr, M):
    tile = x_desc.load((0, 0))
    place = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    tl.store(out_ptr + place, tile, mask=place < M)


@direct(copy_box, (0, 1))
def launch_copy_box(kernel, rows, columns, x, out):
    return kernel[(rows + 15) // 16,](
        TensorDescriptor(x, [rows, columns], [columns, 1], [16, 16]), out, rows, num_warps=1
    )
"""


MASKS = """
def run(mask, y, lse, hidden):
    stream = direct_stream(mask.device)
    bounded_mask(mask, mask.shape[-2], mask.shape[-1], y.dtype, None, hidden, stream)
    launch = clear_unseen_launch(y.dtype, y.shape[-1])
    launch(stream, (lse.numel(), *lse.shape[1:], *y.stride()[:3], -1.0), y, lse)
"""


def loaded_with_functions(text: str) -> Any:
    """The module of a text, with the functions of `runtime/` that it calls."""
    functions = host_functions(text)
    imports = "".join(f"import {name}\n" for name in standard_modules(functions))
    return load_source(imports + MODULE_HEADER + render(functions) + text, "direct")


@pytest.fixture
def kernels(fake: fake_cuda.FakeCuda) -> Iterator[ModuleType]:
    """Kernels written by hand, with nothing known of them."""
    module = loaded_with_functions(KERNELS)
    for launch in (module.launch_add_rows, module.launch_copy_box):
        launch.prepared.clear()
        launch.layouts.clear()
        launch.templates.clear()
    yield module


@pytest.fixture(scope="module")
def program(fake: fake_cuda.FakeCuda) -> Any:
    return loaded(PROGRAM, SCHEDULE)


def loaded(text: str, schedule: str) -> Any:
    """The module of a program with direct launches."""
    scheduled = Lowering(parse(text), CompileOptions(schedule)).module("scheduled")
    return load_source(emit_program(scheduled, direct_launch=True).source, "program")


STREAM = (0, 0)
"""The default stream of a device."""

Launch = fake_cuda.Launch


def both(
    fake: fake_cuda.FakeCuda, launch: Any, numbers: tuple[int, ...], *tensors: torch.Tensor
) -> bool:
    """Launch through Triton and twice directly; whether the driver was called directly.

    Asserts that all pass the same.
    """
    launches, by_triton = list[list[Launch]](), list[int]()
    for stream in (None, STREAM, STREAM):
        fake.record()
        by_triton.append(triton_launches(launch, partial(launch, stream, numbers, *tensors)))
        launches.append(fake.recorded())
    assert len(launches[0]) == 1 and launches == [launches[0]] * 3
    assert by_triton in ([1, 0, 0], [1, 1, 1])
    return by_triton == [1, 0, 0]


def triton_launches(launch: Any, call: Callable[[], object]) -> int:
    """Return how many launches of a kernel in a call are Triton's."""
    original, count = launch.kernel.run, 0

    def run(*arguments: Any, **options: Any) -> Any:
        nonlocal count
        count += not options["warmup"]
        return original(*arguments, **options)

    launch.kernel.run = run
    try:
        call()
    finally:
        del launch.kernel.run
    return count


@pytest.mark.parametrize("stride", [1, 2, 16, 17, 48])
def test_numbers_that_triton_specializes_on(fake: fake_cuda.FakeCuda, kernels: Any, stride: int):
    x, out = torch.zeros(4096), torch.zeros(4096)
    for rows in (1, 3, 16):
        assert both(fake, kernels.launch_add_rows, (rows, stride, 7), x, out)


@pytest.mark.parametrize("offsets", [(0, 0), (1, 0), (0, 3), (4, 8)])
def test_addresses_of_all_alignments(
    fake: fake_cuda.FakeCuda, kernels: Any, offsets: tuple[int, int]
):
    x, out = (torch.zeros(256)[offset:] for offset in offsets)
    assert both(fake, kernels.launch_add_rows, (2, 16, 7), x, out)


def test_one_kernel_after_another(fake: fake_cuda.FakeCuda, kernels: Any):
    """Facts about one specialization are not used for another one."""
    x, out = torch.zeros(4096), torch.zeros(4096)
    launch = kernels.launch_add_rows
    for stride in (1, 16, 17, 1, 16, 17):
        for place in (x, x[1:], x[4:]):
            assert both(fake, launch, (3, stride, 7), place, out)


def test_tensors_that_are_one_and_then_two(fake: fake_cuda.FakeCuda, kernels: Any):
    x, out = torch.zeros(16, 16), torch.zeros(256)
    for launch, numbers in (
        (kernels.launch_add_rows, (2, 16, 7)),
        (kernels.launch_copy_box, (16, 16)),
    ):
        for first, second in ((x, x), (x, out), (out, x), (x, x), (out, out)):
            boxes = [tensor.view(16, 16) for tensor in (first, second)]
            boxes = [boxes[0]] * 2 if first is second else boxes
            assert both(fake, launch, numbers, *boxes)


@pytest.mark.parametrize("number", [2**31 - 1, -(2**31), 0, -1])
def test_numbers_of_32_bits(fake: fake_cuda.FakeCuda, kernels: Any, number: int):
    assert both(fake, kernels.launch_add_rows, (2, 16, number), torch.zeros(64), torch.zeros(64))


@pytest.mark.parametrize("number", [2**31, -(2**31) - 1, 2**40])
def test_larger_numbers_are_left_to_triton(fake: fake_cuda.FakeCuda, kernels: Any, number: int):
    x, out = torch.zeros(64), torch.zeros(64)
    assert not both(fake, kernels.launch_add_rows, (2, 16, number), x, out)
    assert both(fake, kernels.launch_add_rows, (2, 16, 7), x, out)
    assert [layout is None for layout in kernels.launch_add_rows.layouts.values()] == [True, False]


def test_descriptors(fake: fake_cuda.FakeCuda, kernels: Any):
    launch = kernels.launch_copy_box
    memory = torch.zeros(4096)
    for rows, columns in ((16, 16), (5, 16), (32, 64), (16, 16)):
        here = memory[: rows * columns].view(rows, columns)
        for x in (torch.zeros(rows, columns), here, torch.zeros(rows, columns)):
            assert both(fake, launch, (rows, columns), x, torch.zeros(256))


def test_a_tensor_that_the_launch_makes_is_left_to_triton(
    fake: fake_cuda.FakeCuda, kernels: Any, monkeypatch: pytest.MonkeyPatch
):
    launch, other = kernels.launch_add_rows, torch.zeros(64)
    inner = launch.launch

    def launch_other(kernel: Any, *arguments: Any) -> Any:
        return inner(kernel, *arguments[:-1], other)

    monkeypatch.setattr(launch, "launch", launch_other)
    assert not both(fake, launch, (2, 16, 7), torch.zeros(64), torch.zeros(64))


def test_tensor_maps_that_change_are_encoded(fake: fake_cuda.FakeCuda, kernels: Any):
    launch, tensors = kernels.launch_copy_box, [torch.zeros(16, 16) for _ in range(2)]
    first, *others = [torch.zeros(256) for _ in range(5)]
    both(fake, launch, (16, 16), tensors[0], first)
    for out, place, maps in zip(others, (0, 1, 1, 0), (0, 1, 0, 1), strict=True):
        before = fake.tensor_maps
        launch(STREAM, (16, 16), tensors[place], out)
        assert fake.tensor_maps - before == maps


def test_nothing_keeps_tensors(fake: fake_cuda.FakeCuda, kernels: Any):
    x, out = torch.zeros(16, 16), torch.zeros(256)
    both(fake, kernels.launch_copy_box, (16, 16), x, out)
    both(fake, kernels.launch_add_rows, (2, 16, 7), x, out)
    references = [weakref.ref(tensor) for tensor in (x, out)]
    del x, out
    gc.collect()
    assert [reference() for reference in references] == [None, None]


def test_what_is_known_is_bounded(
    fake: fake_cuda.FakeCuda, kernels: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(kernels.DirectLaunch, "MAX_ENTRIES", 3)
    launch, tensors = kernels.launch_add_rows, [torch.zeros(256) for _ in range(10)]
    for rows, x in enumerate(tensors, 1):
        assert both(fake, launch, (rows, 16, 7), x, tensors[0])
        assert max(map(len, (launch.prepared, launch.templates, launch.layouts))) <= 3


RANGES = """
fn f(x: bf16[B, T, 64], c: bf16[B, 48], weight w_c: bf16[384, 48], weight w: bf16[64, 64]) {
    m = reshape(linear(c, w_c), [B, 1, 384])
    shift, scale, gate, _, _, _ = chunk(m, 6)
    h = (x - 1) * (1 + scale) + shift
    return x + gate * linear(h, w)
}
"""


ROWS_OF_RANGES = RANGES.replace("[B, 1, 384]", "[B, 6, 64]").replace(
    "shift, scale, gate, _, _, _ = chunk(m, 6)",
    "shift, scale, gate = m[:, 0:1], m[:, 1:2], reshape(m[:, 2], [B, 1, 64])",
)


@pytest.mark.parametrize("text", [RANGES, ROWS_OF_RANGES], ids=["columns", "rows"])
def test_views_are_where_their_tensors_are(fake: fake_cuda.FakeCuda, text: str):
    """Ranges of one tensor that only kernels read take no statement of the host."""
    module = loaded(text, SCHEDULE)
    source = inspect.getsource(module.run)
    assert "narrow" not in source and "reshape" not in source
    for batch, time in ((2, 8), (3, 5), (2, 8)):
        shapes = [(batch, time, 64), (batch, 48), (384, 48), (64, 64)]
        inputs = [torch.zeros(shape, dtype=torch.bfloat16) for shape in shapes]
        for _ in range(2):
            assert fake_cuda.compare_launches(module, partial(module.run, *inputs), fake) == 3


COPIED = """
fn f(x: bf16[B, 5, 64], weight w: bf16[64, 64]) {
    return relu(transpose(reshape(linear(x, w), [B, 5, 8, 8]), [0, 3, 1, 2]))
}
"""


def test_a_view_that_a_kernel_copies_takes_no_statement(fake: fake_cuda.FakeCuda):
    module = loaded(COPIED, SCHEDULE)
    source = inspect.getsource(module.run)
    assert "launch_copy" in source and "permute" not in source and "reshape" not in source
    inputs = [torch.zeros(2, 5, 64, dtype=torch.bfloat16), torch.zeros(64, 64).bfloat16()]
    assert fake_cuda.compare_launches(module, partial(module.run, *inputs), fake) == 3


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_kernels_for_masks(fake: fake_cuda.FakeCuda, dtype: torch.dtype):
    """A launch depends on the types of the tensors, which no number states."""
    module = loaded_with_functions(MASKS)
    for mask_type, queries, keys in ((torch.bool, 5, 16), (dtype, 5, 16), (dtype, 3, 40)):
        mask = torch.zeros(2, 1, queries, keys, dtype=mask_type)
        y, lse = torch.zeros(2, 4, queries, 8, dtype=dtype), torch.zeros(2, 4, queries)
        for hidden in (float("-inf"), -(2.0**20)):
            run = partial(module.run, mask, y, lse, hidden)
            run()
            assert fake_cuda.compare_launches(module, run, fake) == 2


def test_every_launch_of_a_layer(fake: fake_cuda.FakeCuda, program: Any):
    for time in (1, 3, 64, 65):
        run = partial(program.run, *inputs_of(time))
        assert fake_cuda.compare_launches(program, run, fake) == LAUNCHES


PROGRAMMATIC_STREAM_SERIALIZATION = 6
"""The number of the attribute of a launch that overlaps with the kernel before."""


@pytest.mark.parametrize("overlaps", [False, True])
def test_launches_that_overlap(fake: fake_cuda.FakeCuda, overlaps: bool):
    program = loaded(PROGRAM, f"{SCHEDULE} pdl={str(overlaps).lower()}")
    inputs = inputs_of(3)
    run = partial(program.run, *inputs)
    assert fake_cuda.compare_launches(program, run, fake) == LAUNCHES
    fake.record()
    run()
    found = {launch.attributes for launch in fake.recorded()}
    assert found == {overlaps << PROGRAMMATIC_STREAM_SERIALIZATION}


PARAMETER = re.compile(r"\.param (?:\.align \d+ )?\.[a-z](\d+)[^\n,]*?(?:\[(\d+)\])?,?\n")


def test_parameters_are_those_of_the_machine_code(program: Any):
    """PTX states them, with two addresses of scratch memory at the end."""
    program.run(*inputs_of(4))
    names: dict[str, Any] = program.__dict__
    launches = [x for name, x in names.items() if name.startswith("launch_")]
    layouts: list[Any] = [layout for launch in launches for layout in launch.layouts.values()]
    assert layouts
    for layout in layouts:
        ptx: str = layout.compiled.asm["ptx"]
        head = ptx[ptx.index(".entry") : ptx.index("\n)\n")] + "\n"
        stated = [int(bits) // 8 * int(count or 1) for bits, count in PARAMETER.findall(head)]
        formats: list[str] = [
            format for parameters in layout.parameters for format, _ in parameters
        ]
        assert stated == [*map(struct.calcsize, formats), 8, 8]


def test_programs_that_share_tiles(fake: fake_cuda.FakeCuda, monkeypatch: pytest.MonkeyPatch):
    header = "fn f(x: bf16[M, 256], weight w: bf16[64, 256]) -> bf16[M, 64]"
    module = loaded(f"{header} {{\n    return linear(x, w)\n}}", f"{SCHEDULE} split_k=2")
    x, w = (torch.zeros(shape, dtype=torch.bfloat16) for shape in ((16, 256), (64, 256)))
    assert fake_cuda.compare_launches(module, partial(module.run, x, w), fake) == 1


def test_other_arguments(fake: fake_cuda.FakeCuda, program: Any):
    """Copies of strided or unaligned arguments are launched on, at any addresses."""
    inputs = inputs_of(4)
    strided = [torch.stack([x, x], -1)[..., 0] for x in inputs]
    shifted = [torch.zeros(x.numel() + 1, dtype=x.dtype)[1:].view(x.shape) for x in inputs]
    for other in (inputs, inputs_of(8), inputs_of(4), strided, shifted, inputs):
        for _ in range(2):
            assert len(launches_of(fake, partial(program.run, *other))) == LAUNCHES
            run = partial(program.run, *other)
            assert fake_cuda.compare_launches(program, run, fake) == LAUNCHES


def test_nothing_of_a_call_is_kept_alive(program: Any):
    inputs = inputs_of(4)
    references = [weakref.ref(x) for x in inputs]
    for _ in range(5):
        references += map(weakref.ref, program.run(*inputs))
    del inputs
    gc.collect()
    assert not any(reference() is not None for reference in references)


def test_results_of_a_layer_have_the_stated_types(program: Any):
    results = program.run(*inputs_of(3))
    assert [(tuple(r.shape), r.dtype) for r in results] == [((2, 3, 64), torch.bfloat16)] * 2
    assert all(result.is_contiguous() for result in results)


def test_one_stream_after_another(fake: fake_cuda.FakeCuda, kernels: Any):
    x, out = torch.zeros(64), torch.zeros(64)
    both(fake, kernels.launch_add_rows, (2, 16, 7), x, out)
    for stream in (64, 128, 64, 0):
        launch = partial(kernels.launch_add_rows, (0, stream), (2, 16, 7), x, out)
        assert [launch.stream for launch in launches_of(fake, launch)] == [stream]


def test_the_current_stream(fake: fake_cuda.FakeCuda, program: Any):
    inputs = inputs_of(4)
    for stream in (0, 64, 0, 128):
        fake.stream = stream
        fake.record()
        program.run(*inputs)
        assert {launch.stream for launch in fake.recorded()} == {stream}
    fake.stream = 0


@pytest.mark.parametrize("name", ["launch_enter_hook", "launch_exit_hook"])
def test_hooks_see_every_launch(fake: fake_cuda.FakeCuda, program: Any, name: str):
    hooks: Any = getattr(import_module("triton").knobs.runtime, name)
    inputs, seen = inputs_of(4), list[object]()
    program.run(*inputs)
    hooks.add(seen.append)
    try:
        program.run(*inputs)
    finally:
        hooks.remove(seen.append)
    assert len(seen) == LAUNCHES
    program.run(*inputs)
    assert len(seen) == LAUNCHES


def test_a_hook_that_is_a_function(
    fake: fake_cuda.FakeCuda, program: Any, monkeypatch: pytest.MonkeyPatch
):
    runtime, seen = import_module("triton").knobs.runtime, list[object]()
    monkeypatch.setattr(runtime, "launch_enter_hook", seen.append)
    program.run(*inputs_of(4))
    assert len(seen) == LAUNCHES
    monkeypatch.setattr(runtime, "launch_enter_hook", None)
    assert program.direct_stream(torch.device("cpu")) == (None, 0)


def test_debugging_is_left_to_triton(program: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(import_module("triton").knobs.runtime, "debug", True)
    assert program.direct_stream(torch.device("cpu")) is None


def test_threads(fake: fake_cuda.FakeCuda, program: Any):
    inputs = [inputs_of(time) for time in (1, 2, 3, 4)]
    program.run(*inputs[0])
    before = fake.launches

    def work(index: int) -> None:
        for step in range(25):
            program.run(*inputs[(index + step) % 4])

    in_threads(work)
    assert fake.launches - before == 4 * 25 * LAUNCHES


def refuse(*arguments: object) -> None:
    """A library that does not exist."""
    raise OSError(f"no such library: {arguments}")


@pytest.mark.parametrize(
    ("module", "name", "value"),
    [
        ("triton", "__version__", "3.5.1"),
        ("triton", "__version__", "3.60.0"),
        ("triton", "__version__", "4.0.0+git1234"),
        ("torch.version", "hip", "6.4"),
        ("ctypes", "CDLL", refuse),
        ("program", "DRIVER_FUNCTIONS", {"cuNoSuchFunction": ()}),
    ],
)
def test_other_drivers_are_left_to_triton(
    fake: fake_cuda.FakeCuda,
    program: Any,
    monkeypatch: pytest.MonkeyPatch,
    module: str,
    name: str,
    value: object,
):
    device, run = torch.device("cpu"), partial(program.run, *inputs_of(4))
    with monkeypatch.context() as patch:
        patch.setattr(program if module == "program" else import_module(module), name, value)
        program.cuda_driver.cache_clear()
        assert program.direct_stream(device) is None
        assert len(launches_of(fake, run)) == LAUNCHES
    program.cuda_driver.cache_clear()
    assert program.direct_stream(device) == (None, 0)
    assert fake_cuda.compare_launches(program, run, fake) == LAUNCHES


def test_the_versions_that_are_known(program: Any):
    assert program.KNOWN_TRITON == KNOWN_TRITON


def test_several_devices(kernels: Any):
    """Addresses of one device may be those of another one at another time."""
    x, out = torch.zeros(64), torch.zeros(64)
    launch = kernels.launch_add_rows
    for device in (0, 0, 1, 1):
        launch((device, 0), (2, 16, 7), x, out)
    assert {stream for stream, *_ in launch.prepared} == {(0, 0), (1, 0)}
    assert {device for device, *_ in launch.layouts} == {0, 1}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("global_scratch_size", 128),
        ("profile_scratch_size", 128),
        ("launch_cooperative_grid", True),
        ("num_ctas", 2),
        ("tensordesc_meta", [None]),
        ("tensordesc_meta", []),
        ("tensordesc_meta", [{"swizzle": 3}]),
        ("shared", None),
        ("shared", 300000),
    ],
)
def test_other_kernels_are_left_to_triton(
    fake: fake_cuda.FakeCuda, kernels: Any, name: str, value: object
):
    arguments = boxed_arguments(kernels)
    compiled = kernels.copy_box[(1,)](*arguments, num_warps=1)
    assert template(kernels, compiled, arguments) is not None
    other = SimpleNamespace(
        src=compiled.src,
        name=compiled.name,
        asm=compiled.asm,
        metadata=compiled.metadata._replace(**{name: value}),
    )
    assert template(kernels, other, arguments) is None
    assert template(kernels, None, arguments) is None


def template(kernels: Any, compiled: Any, arguments: tuple[Any, ...]) -> object | None:
    """A launch of a kernel that Triton has compiled; None where Triton has to launch it."""
    origins = [(0, kernels.tensor_of(x)) for x in arguments if not isinstance(x, int)]
    layout = kernels.attempt(kernels.ParameterLayout, compiled, arguments)
    return kernels.attempt(kernels.Template, layout, (1,), arguments, origins)


def boxed_arguments(kernels: Any) -> tuple[Any, ...]:
    box = kernels.TensorDescriptor(torch.zeros(16, 16), [16, 16], [16, 1], [16, 16])
    return box, torch.zeros(256), 16


def test_other_parameters_are_left_to_triton(fake: fake_cuda.FakeCuda, kernels: Any):
    """The driver says what a kernel takes."""
    x, out = torch.zeros(64), torch.zeros(64)
    compiled = kernels.add_rows[(1,)](x, out, 1, 16, 7, num_warps=1)
    boxed = kernels.copy_box[(1,)](*boxed_arguments(kernels), num_warps=1)
    other = SimpleNamespace(
        src=compiled.src, name=boxed.name, asm=boxed.asm, metadata=compiled.metadata
    )
    assert template(kernels, compiled, (x, out, 1, 16, 7)) is not None
    assert template(kernels, compiled, (x, out, 1, 16)) is None
    assert template(kernels, other, (x, out, 1, 16, 7)) is None


def test_what_the_driver_refuses_is_left_to_triton(fake: fake_cuda.FakeCuda, kernels: Any):
    launch, tensors = kernels.launch_add_rows, (torch.zeros(64), torch.zeros(64))
    both(fake, launch, (2, 16, 7), *tensors)
    fake.fail(1, 201)  # CUDA_ERROR_INVALID_CONTEXT
    again = partial(launch, STREAM, (2, 16, 7), *tensors)
    assert triton_launches(launch, again) == 1
    assert triton_launches(launch, again) == 0
    fake.fail(2, 700)
    with pytest.raises(RuntimeError, match="no such thing"):
        again()
    assert launches_of(fake, partial(launch, STREAM, (0, 16, 7), *tensors)) == []
