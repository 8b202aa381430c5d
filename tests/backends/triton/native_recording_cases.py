"""Which calls are recorded to be repeated by native code, how many, and where there is none: run by
test_direct_launch.py beside native_calls_cases.py.
"""

import gc
import inspect
import struct
import weakref
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import Any

import fake_cuda
import pytest
import torch
from support.fake_driver import LAUNCHES, PROGRAM, SCHEDULE, Layer, always, inputs_of, with_other

from coda_ir.api import CompiledFunction, parse
from coda_ir.calls.arguments import ArgumentError
from coda_ir.lowering import Lowering
from coda_ir.native_calls import MOST_FAILURES, MOST_RECORDED, library, recording
from coda_ir.native_calls.library import native_library, why_not
from coda_ir.options import CompileOptions
from coda_ir.tuned import TunedFunction


def test_calls_of_several_sizes(layer: Layer):
    for time in (1, 2, 3):
        layer.record(inputs_of(time))
    for time in (1, 4, 2, 3, 4, 1):
        assert layer.python_calls(partial(layer.function, *inputs_of(time))) == 0


def test_what_is_recorded_is_bounded(layer: Layer):
    for time in range(1, MOST_RECORDED + 9):
        layer.record(inputs_of(time))
    recorded = vars(layer.function)["_native_calls"]._recorded
    assert 0 < len(recorded) <= MOST_RECORDED


def test_what_others_did_is_not_recorded(layer: Layer, monkeypatch: pytest.MonkeyPatch):
    """Calls of the module itself, which nobody asked to observe."""
    for _ in range(3):
        layer.module.run(*inputs_of(6))
    assert layer.module.CALLS.seen
    monkeypatch.setattr(recording.Call, "recorded", pytest.fail)
    layer.function(*inputs_of(7))


def test_calls_that_cannot_be_recorded(fake: fake_cuda.FakeCuda, monkeypatch: pytest.MonkeyPatch):
    """They are not tried for ever; a Triton that differs is no reason to fail."""
    layer, calls = Layer(fake), list[object]()
    pack = recording.Block.packed

    def changed(block: recording.Block) -> Any:
        calls.append(block)
        raise AttributeError("packed_metadata")

    monkeypatch.setattr(recording.Block, "packed", changed)
    for _ in range(MOST_FAILURES + 8):
        layer.module.CALLS.known.clear()  # what is known of addresses, which may come again
        layer.function(*inputs_of(4))
    assert len(calls) == MOST_FAILURES and not layer.is_native
    monkeypatch.setattr(recording.Block, "packed", pack)


def test_nothing_is_kept_alive(layer: Layer):
    inputs = inputs_of(4)
    references = [weakref.ref(x) for x in inputs]
    for _ in range(3):
        references += map(weakref.ref, layer.function(*inputs))
    del inputs
    gc.collect()
    assert not any(reference() is not None for reference in references)


def the_last(*values: Any) -> Any:
    return values[-1]


def test_tuned_functions(fake: fake_cuda.FakeCuda, monkeypatch: pytest.MonkeyPatch):
    """Sizes of another order have another program, which does its own calls."""
    monkeypatch.setattr("coda_ir.devices.require_triton_for", always)
    monkeypatch.setattr(CompiledFunction, "_with_kernels", the_last)
    monkeypatch.setenv("CODA_DIRECT_LAUNCH", "1")
    made: list[Mapping[str, int]] = []

    def tuned(sizes: Mapping[str, int]) -> Lowering:
        made.append(sizes)
        tile = "64x64x64" if sizes["T"] > 4 else "128x64x64"
        return Lowering(parse(PROGRAM), CompileOptions(SCHEDULE.replace("64x64x64", tile)))

    function = TunedFunction(tuned({"T": 8}), None, torch.device("cpu"), tuned)
    for time in (3, 65, 3, 65):
        inputs = inputs_of(time)
        for _ in range(4):
            fake.record()
            function(*inputs)
            launches = fake.recorded()
            assert launches[0].grid[0] == -(-2 * time // (128 if time == 3 else 64))
        assert vars(function)["_repeat"]((*inputs,)) is not None
    assert len(made) == 3


def no_compiler(*arguments: object) -> None:
    raise RuntimeError("Failed to find C compiler")


def test_programs_that_share_tiles(fake: fake_cuda.FakeCuda, monkeypatch: pytest.MonkeyPatch):
    """Their counters are those of a stream, and not for graphs."""
    header = "fn f(x: bf16[M, 256], weight w: bf16[64, 256]) -> bf16[M, 64]"
    program = f"{header} {{\n    return linear(x, w)\n}}"
    layer = Layer(fake, program, f"{SCHEDULE} split_k=2")
    x, w = (torch.zeros(shape, dtype=torch.bfloat16) for shape in ((16, 256), (64, 256)))
    for stream in (0, 64):
        counters = torch.zeros(1024, dtype=torch.int32)
        layer.module.COUNTERS[None, stream] = [counters]

    def current(*arguments: object) -> torch.Tensor:
        return layer.module.COUNTERS[None, fake.stream][-1]

    monkeypatch.setattr(layer.module, "tile_counters", current)
    call = partial(layer.function, x, w)
    for stream in (0, 64):
        fake.stream = stream
        assert layer.python_calls(call) == 1
        layer.record([x, w])
        address = layer.module.COUNTERS[None, stream][-1].data_ptr()
        for _ in range(2):
            fake.record()
            assert layer.python_calls(call) == 0
            (launch,) = fake.recorded()
            assert launch.stream == stream
            assert address.to_bytes(8, "little") in launch.parameters
    fake.set_capturing(True)
    try:
        assert layer.python_calls(call) == 1
    finally:
        fake.set_capturing(False)
        fake.stream = 0
    assert layer.python_calls(call) == 0


def test_without_a_compiler(fake: fake_cuda.FakeCuda, monkeypatch: pytest.MonkeyPatch):
    """Calls are what they were, and a remark says why."""
    monkeypatch.setattr(
        import_module("triton.runtime.build"), "compile_module_from_src", no_compiler
    )
    monkeypatch.setattr(library, "_REASONS", [])
    native_library.cache_clear()
    layer = Layer(fake)
    for _ in range(4):
        assert layer.python_calls(partial(layer.function, *inputs_of(4))) == 1
    assert not layer.is_native and not layer.module.CALLS.is_observed
    (remark,) = [x for x in layer.function.remarks if x.pass_name == "native-calls"]
    assert "Failed to find C compiler" in remark.message and "C compiler" in str(remark.suggestion)
    native_library.cache_clear()


def test_objects_that_are_not_known(fake: fake_cuda.FakeCuda, monkeypatch: pytest.MonkeyPatch):
    """Where tensors are kept in another way, they are asked."""
    with monkeypatch.context() as patch:
        patch.setattr(library, "_some_tensors", tuple)
        native_library.cache_clear()
        layer = Layer(fake)
        layer.record(inputs_of(4))
        call = partial(layer.function, *inputs_of(4))
        assert layer.python_calls(call) == 0 and len(layer.launches(call)) == LAUNCHES
        with pytest.raises(ArgumentError):
            layer.function(*with_other(inputs_of(4), 4, None))
    native_library.cache_clear()
    assert native_library() is not None


@pytest.mark.parametrize("name", ["cuTensorMapReplaceAddress", "aoti_torch_get_sizes"])
def test_without_a_function(fake: fake_cuda.FakeCuda, monkeypatch: pytest.MonkeyPatch, name: str):
    """An older driver, another PyTorch."""
    for names in ("TORCH_FUNCTIONS", "DRIVER_FUNCTIONS"):
        known: tuple[str, ...] = getattr(library, names)
        others = tuple(
            "no_such_function" if known_name == name else known_name for known_name in known
        )
        monkeypatch.setattr(library, names, others)
    monkeypatch.setattr(library, "_REASONS", [])
    native_library.cache_clear()
    assert native_library() is None and "no_such_function" in str(why_not())
    native_library.cache_clear()


def test_what_was_packed_is_checked(layer: Layer):
    """Offsets outside of the block, and unknown tensors, are refused before anything is written."""
    made = native_library()
    assert made is not None
    functions = (print, int, 0, int, None, print, None, None)
    launch = struct.pack("=Q9I4x", 1, 1, 1, 1, 32, 0, 0, 0, 0, 1)
    right = (launch, b"\0" * 4, struct.pack("=IIQ", 8, 0, 0), struct.pack("=IIQ", 64, 0, 0))
    assert made.recorded((), (b"", (((1,),),), (*right, bytes(192)), *functions))
    for place, wrong in (
        (0, launch[:-8]),
        (0, struct.pack("=Q9I4x", 1, 1, 1, 1, 32, 0, 0, 0, 0, 2)),
        (1, struct.pack("=I", 192)),
        (1, b"\0" * 3),
        (2, struct.pack("=IIQ", 192, 0, 0)),
        (2, struct.pack("=IIQ", 2**32 - 8, 0, 0)),
        (2, struct.pack("=IIQ", 8, 1, 0)),
        (2, struct.pack("=IIQ", 4, 0, 0)),
        (3, struct.pack("=IIQ", 128, 0, 0)),
        (3, struct.pack("=IIQ", 32, 0, 0)),
    ):
        parts = (*right[:place], wrong, *right[place + 1 :], bytes(192))
        with pytest.raises(ValueError, match="packed"):
            made.recorded((), (b"", (((1,),),), parts, *functions))
    for results in (b"\1\0\0\0", b"\0"):
        with pytest.raises(ValueError, match=r"packed|recorded"):
            made.recorded((), (results, (((1,),),), (*right, bytes(192)), *functions))
    names, calls = ("x",), list[object]()
    for wrong in ((["x"], calls), (names, ()), (names * 257, calls)):
        with pytest.raises((TypeError, ValueError)):
            made.calls(*wrong, print)
    with pytest.raises(TypeError):
        made.calls((), [], print).repeat([])


def test_a_function_is_let_go(fake: fake_cuda.FakeCuda):
    """Without the collector of cycles; its signature is that of the class."""
    layer = Layer(fake)
    layer.record(inputs_of(4))
    assert layer.is_native and "kwargs" in inspect.signature(layer.function).parameters
    reference = weakref.ref(layer.function)
    gc.disable()
    try:
        del layer
        assert reference() is None
    finally:
        gc.enable()
