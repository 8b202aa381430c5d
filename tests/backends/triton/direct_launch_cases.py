"""What direct launches pass to the driver, which is not real: run by test_direct_launch.py, in a
process of their own, since Triton must not be in its interpreter.
"""

import gc
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any

import fake_cuda
import pytest
import torch
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


@direct(add_rows)
def launch_add_rows(kernel, rows, stride, wide, x, out):
    return kernel[(rows,)](x, out, rows, stride, wide, num_warps=1)


@triton.jit(do_not_specialize=["M"])
def copy_box(x_desc, out_ptr, M):
    tile = x_desc.load((0, 0))
    place = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    tl.store(out_ptr + place, tile, mask=place < M)


@direct(copy_box)
def launch_copy_box(kernel, rows, columns, x, out):
    return kernel[(rows + 15) // 16,](
        TensorDescriptor(x, [rows, columns], [columns, 1], [16, 16]), out, rows, num_warps=1
    )
"""


@pytest.fixture
def kernels(fake: fake_cuda.FakeCuda) -> Iterator[ModuleType]:
    """Kernels written by hand, with nothing known of them."""
    functions = host_functions(KERNELS)
    imports = "".join(f"import {name}\n" for name in standard_modules(functions))
    source = imports + MODULE_HEADER + render(functions) + KERNELS
    module: Any = load_source(source, "direct")
    for launch in (module.launch_add_rows, module.launch_copy_box):
        launch.prepared.clear()
        launch.compiled.clear()
        launch.templates.clear()
    yield module


@pytest.fixture(scope="module")
def program(fake: fake_cuda.FakeCuda) -> Any:
    return loaded(PROGRAM, SCHEDULE)


def loaded(text: str, schedule: str) -> Any:
    """The module of a program with direct launches."""
    scheduled = Lowering(parse(text), CompileOptions(schedule)).module("scheduled")
    return load_source(emit_program(scheduled, direct_launch=True).source, "program")


def call(stream: int | None) -> Any:
    """A call of which nothing is collected."""
    return SimpleNamespace(stream=stream, launches=None)


def both(
    fake: fake_cuda.FakeCuda, launch: Any, numbers: tuple[int, ...], *tensors: torch.Tensor
) -> bool:
    """Launch through Triton and twice directly; whether that was not through Triton, too.

    Asserts that all pass the same.
    """
    recorded: list[list[fake_cuda.Launch]] = []
    launch(call(0), numbers, *tensors)  # which may be the first one of its kind
    for stream in (None, 0, 0):
        fake.record()
        launch(call(stream), numbers, *tensors)
        recorded.append(fake.recorded())
    assert len(recorded[0]) == 1
    assert recorded[0] == recorded[1] == recorded[2]
    return bool(launch.prepared)


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
    """What is known of one specialization is not used for another one."""
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
    assert len(kernels.launch_add_rows.compiled) == 1


def test_descriptors(fake: fake_cuda.FakeCuda, kernels: Any):
    launch = kernels.launch_copy_box
    memory = torch.zeros(4096)
    for rows, columns in ((16, 16), (5, 16), (32, 64), (16, 16)):
        here = memory[: rows * columns].view(rows, columns)
        for x in (torch.zeros(rows, columns), here, torch.zeros(rows, columns)):
            assert both(fake, launch, (rows, columns), x, torch.zeros(256))


def test_a_descriptor_is_made_once_for_an_address(fake: fake_cuda.FakeCuda, kernels: Any):
    launch, x = kernels.launch_copy_box, torch.zeros(16, 16)
    for _ in range(4):
        out = torch.zeros(256)
        both(fake, launch, (16, 16), x, out)
    (launcher,) = launch.compiled.values()
    assert [len(known.known) for known in launcher.descriptors.values()] == [1]


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
    monkeypatch.setattr(kernels.DirectLaunch, "MOST", 3)
    out, tensors = torch.zeros(256), [torch.zeros(16, 16) for _ in range(10)]
    for x in tensors:
        both(fake, kernels.launch_copy_box, (16, 16), x, out)
        assert len(kernels.launch_copy_box.prepared) <= 3
    (launcher,) = kernels.launch_copy_box.compiled.values()
    assert all(len(known.known) <= 3 for known in launcher.descriptors.values())


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


def test_repeated_calls_of_a_layer(fake: fake_cuda.FakeCuda, program: Any):
    for time in (1, 3, 64, 65):
        run = partial(program.run, *inputs_of(time))
        assert fake_cuda.compare_repeated(program, run, fake) == LAUNCHES


def test_repeated_calls_whose_programs_share_tiles(fake: fake_cuda.FakeCuda):
    header = "fn f(x: bf16[M, 256], weight w: bf16[64, 256]) -> bf16[M, 64]"
    module = loaded(f"{header} {{\n    return linear(x, w)\n}}", f"{SCHEDULE} split_k=2")
    counters = torch.zeros(1024, dtype=torch.int32)

    def same_counters(*arguments: object) -> torch.Tensor:
        return counters

    module.tile_counters = same_counters
    x, w = (torch.zeros(shape, dtype=torch.bfloat16) for shape in ((16, 256), (64, 256)))
    assert fake_cuda.compare_repeated(module, partial(module.run, x, w), fake) == 1


def test_nothing_is_repeated_while_a_graph_is_captured(
    fake: fake_cuda.FakeCuda, program: Any, monkeypatch: pytest.MonkeyPatch
):
    run = partial(program.run, *inputs_of(4))
    for _ in range(4):
        run()
    monkeypatch.setattr(program, "IS_CAPTURING", lambda: True)
    known = dict(program.CALLS.known)
    direct, seen = program.DirectLaunch.__call__, list[object]()

    def counting(*arguments: Any) -> None:
        seen.append(arguments)
        direct(*arguments)

    monkeypatch.setattr(program.DirectLaunch, "__call__", counting)
    for _ in range(3):
        assert len(launches_of(fake, run)) == LAUNCHES
    assert len(seen) == 3 * LAUNCHES and program.CALLS.known == known


def test_what_a_repeated_call_depends_on(fake: fake_cuda.FakeCuda, program: Any):
    """Other sizes, addresses, strides and streams are other calls."""
    inputs = inputs_of(4)
    strided = [torch.stack([x, x], -1)[..., 0] for x in inputs]
    shifted = [torch.zeros(x.numel() + 1, dtype=x.dtype)[1:].view(x.shape) for x in inputs]
    others = [inputs_of(8), inputs_of(4), strided, shifted]
    for _ in range(4):
        launches_of(fake, partial(program.run, *inputs))
    for stream in (0, 64):
        fake.stream = stream
        for other in (*others, inputs):
            for _ in range(4):
                launches = launches_of(fake, partial(program.run, *other))
                assert len(launches) == LAUNCHES
                assert {launch.stream for launch in launches} == {stream}
                first = int.from_bytes(launches[0].parameters[:8], "little")
                is_taken = other is not strided and other is not shifted
                assert (first == other[0].data_ptr()) is is_taken
    fake.stream = 0
    assert all(len(key) == 3 + len(inputs) + 2 for key in program.CALLS.known)


def test_nothing_of_a_repeated_call_is_kept_alive(program: Any):
    inputs = inputs_of(4)
    references = [weakref.ref(x) for x in inputs]
    for _ in range(5):
        references += map(weakref.ref, program.run(*inputs))
    assert any(program.CALLS.known.values())
    del inputs
    gc.collect()
    assert not any(reference() is not None for reference in references)


def test_temporaries_of_large_calls_are_allocated_one_by_one(
    fake: fake_cuda.FakeCuda, program: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(program.Calls, "MOST_BYTES", 1000)
    monkeypatch.setattr(program, "CALLS", program.Calls())
    types: list[torch.dtype] = []

    def allocate(shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype):
        types.append(dtype)
        return torch.empty_strided(shape, strides, dtype=dtype)

    def allocate_on(device: torch.device) -> Callable[..., torch.Tensor]:
        return allocate

    monkeypatch.setattr(program, "empty_on", allocate_on)
    for run in range(3):
        for time in (3, 64):
            types.clear()
            assert len(launches_of(fake, partial(program.run, *inputs_of(time)))) == LAUNCHES
            assert (torch.uint8 in types) is (time == 3 and run > 0)
    assert set(program.CALLS.sizes) == {(2, 3), (2, 64)}
    assert {key[1] for key in program.CALLS.known} == {(2, 3)}


def test_calls_that_are_known_are_bounded(program: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(program.DirectLaunch, "MOST", 3)
    kept = [inputs_of(4) for _ in range(8)]
    for inputs in kept:
        program.run(*inputs)
        assert len(program.CALLS.known) <= 3


def test_results_of_a_layer_have_the_stated_types(program: Any):
    results = program.run(*inputs_of(3))
    assert [(tuple(r.shape), r.dtype) for r in results] == [((2, 3, 64), torch.bfloat16)] * 2
    assert all(result.is_contiguous() for result in results)


def test_one_stream_after_another(fake: fake_cuda.FakeCuda, kernels: Any):
    x, out = torch.zeros(64), torch.zeros(64)
    both(fake, kernels.launch_add_rows, (2, 16, 7), x, out)
    for stream in (64, 128, 64, 0):
        fake.record()
        kernels.launch_add_rows(call(stream), (2, 16, 7), x, out)
        assert [launch.stream for launch in fake.recorded()] == [stream]


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
    assert program.direct_stream(torch.device("cpu")) == ~0


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


@pytest.mark.parametrize(
    ("module", "name", "value"),
    [
        ("triton.backends.nvidia.driver", "_BASE_ARGS_FORMAT", "iiiKKppOOOOO"),
        ("triton", "__version__", "3.5.1"),
        ("triton", "__version__", "3.60.0"),
        ("triton", "__version__", "4.0.0+git1234"),
    ],
)
def test_other_launchers_are_left_to_triton(
    fake: fake_cuda.FakeCuda,
    program: Any,
    monkeypatch: pytest.MonkeyPatch,
    module: str,
    name: str,
    value: str,
):
    inputs = inputs_of(4)
    with monkeypatch.context() as patch:
        patch.setattr(import_module(module), name, value, raising=False)
        program.direct_driver.cache_clear()
        assert program.direct_stream(torch.device("cpu")) is None
    program.direct_driver.cache_clear()
    assert program.direct_stream(torch.device("cpu")) == ~0
    assert fake_cuda.compare_launches(program, lambda: program.run(*inputs), fake) == LAUNCHES


def test_the_versions_that_are_known(program: Any):
    assert tuple(program.KNOWN_LAUNCHERS) == KNOWN_TRITON


def test_the_default_streams_of_several_devices(kernels: Any):
    """Addresses of one device may be those of another one at another time."""
    x, out = torch.zeros(64), torch.zeros(64)
    launch = kernels.launch_add_rows
    for stream in (~0, ~0, ~1, ~1):
        launch(call(stream), (2, 16, 7), x, out)
    assert {key[0] for key in launch.prepared} == {~0, ~1}


def print_arguments(*arguments: object) -> None:
    """A launcher that is not one in C."""
    print(*arguments)


def test_other_compiled_kernels_are_left_to_triton(fake: fake_cuda.FakeCuda, kernels: Any):
    x, out = torch.zeros(64), torch.zeros(64)
    compiled = kernels.add_rows[(1,)](x, out, 1, 16, 7, num_warps=1)
    arguments = (x, out, 1, 16, 7)
    assert kernels.launcher_of(compiled, arguments) is not None
    assert kernels.launcher_of(None, arguments) is None
    for size in ("global_scratch_size", "profile_scratch_size"):
        setattr(compiled.run, size, 128)
        assert kernels.launcher_of(compiled, arguments) is None
        setattr(compiled.run, size, 0)
    compiled.run.launch, launch = print_arguments, compiled.run.launch
    assert kernels.launcher_of(compiled, arguments) is None
    compiled.run.launch = launch
