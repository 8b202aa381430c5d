"""What native calls pass to the driver, which is not real: run by test_direct_launch.py beside
direct_launch_cases.py, in a process in which Triton is not in its interpreter.
"""

import gc
import inspect
import struct
import weakref
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from typing import Any

import fake_cuda
import pytest
import torch
from support.threads import in_threads

from coda_ir.api import CompiledFunction, parse
from coda_ir.arguments import ArgumentError
from coda_ir.cache import load_source
from coda_ir.diagnostics import CodaError
from coda_ir.lowering import Lowering
from coda_ir.native_calls import MOST_FAILURES, MOST_RECORDED, library, recording
from coda_ir.native_calls.library import native_library, why_not
from coda_ir.tuning.function import TunedFunction

PROGRAM = """
fn layer(x: bf16[B, T, 64], weight first: bf16[64, 64], weight second: bf16[64, 64],
         cos: f32[T, 16], sin: f32[T, 16]) -> (bf16[B, T, 64], bf16[B, T, 64]) {
    y = linear(x, first)
    z = rope(linear(y, second), cos, sin, head_dim=32)
    return y, linear(z, first)
}
"""
LAUNCHES = 3
SCHEDULE = "target=sm_90 mainloop=tma tile=64x64x64 warps=4 stages=2"
NAMES = ("x", "first", "second", "cos", "sin")

Inputs = list[torch.Tensor]


@pytest.fixture(scope="module")
def fake(tmp_path_factory: pytest.TempPathFactory) -> fake_cuda.FakeCuda:
    return fake_cuda.installed() or fake_cuda.install(tmp_path_factory.mktemp("cuda"))


class Memory:
    """Allocates, and once it is `fixed` the same tensors in each call."""

    def __init__(self):
        self.is_fixed = False
        self.tensors: list[torch.Tensor] = []
        self.place = 0

    def __call__(
        self, shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype
    ) -> torch.Tensor:
        if not self.is_fixed or self.place == len(self.tensors):
            self.tensors.append(torch.empty_strided(shape, strides, dtype=dtype))
            self.place = len(self.tensors) - 1
        tensor = self.tensors[self.place]
        assert tensor.shape == shape and tensor.stride() == strides and tensor.dtype == dtype
        self.place += 1
        return tensor

    def fix(self) -> None:
        self.is_fixed = True
        self.tensors.clear()


class Layer:
    """A program for the driver, and ways to call it."""

    def __init__(self, fake: fake_cuda.FakeCuda, program: str = PROGRAM, schedule: str = SCHEDULE):
        self.fake = fake
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("CODA_DIRECT_LAUNCH", "1")
            lowering = Lowering(parse(program), schedule)
            self.function = CompiledFunction(lowering, None, "triton", torch.device("cpu"))
            source = self.function.source
        # Modules with the same text are one, and so would be what is known of their calls.
        self.module: Any = load_source(f"{source}# {id(self)}\n", "layer")
        vars(self.function).update(_generated=self.module, _run=self.module.run)

    @property
    def is_native(self) -> bool:
        return self.function.native_call is not None

    def record(self, inputs: Inputs) -> None:
        """Call often enough for calls of these sizes to be native."""
        for _ in range(3):
            self.function(*inputs)

    def launches(self, call: Callable[[], object]) -> list[fake_cuda.Launch]:
        self.fake.record()
        call()
        return self.fake.recorded()

    def python_calls(self, call: Callable[[], object]) -> int:
        """How many calls of the module `call` makes."""
        run, count = self.module.run, 0

        def counting(*tensors: torch.Tensor) -> Any:
            nonlocal count
            count += 1
            return run(*tensors)

        vars(self.function)["_run"] = counting
        try:
            call()
        finally:
            vars(self.function)["_run"] = run
        return count


def inputs_of(time: int) -> Inputs:
    shapes = [(2, time, 64), (64, 64), (64, 64)]
    tables = [torch.zeros(time, 16) for _ in range(2)]
    return [*(torch.zeros(shape, dtype=torch.bfloat16) for shape in shapes), *tables]


@pytest.fixture
def layer(fake: fake_cuda.FakeCuda) -> Iterator[Layer]:
    """Calls with `inputs_of(4)` are recorded."""
    layer = Layer(fake)
    for _ in range(4):
        layer.function(*inputs_of(4))
    assert layer.is_native
    yield layer
    fake.stream = 0


def test_launches_are_those_of_triton(fake: fake_cuda.FakeCuda, monkeypatch: pytest.MonkeyPatch):
    for schedule in (SCHEDULE, f"{SCHEDULE} pdl=true", SCHEDULE.replace("tma", "pointer")):
        layer, memory = Layer(fake, schedule=schedule), Memory()
        monkeypatch.setattr(layer.module, "empty_on", partial(always, memory))
        for time in (1, 3, 64, 65):
            memory.is_fixed = False
            layer.record(inputs_of(time))
            memory.fix()
            for inputs in (inputs_of(time), inputs_of(time)):
                assert_same_as_triton(layer, memory, inputs)


def always(value: Any, *arguments: object) -> Any:
    return value


def assert_same_as_triton(layer: Layer, memory: Memory, inputs: Inputs) -> None:
    """A call is native, and passes what Triton's launches pass."""

    def recorded(call: Callable[[], object]) -> list[fake_cuda.Launch]:
        memory.place = 0
        return layer.launches(call)

    call = partial(layer.function, *inputs)
    native: list[fake_cuda.Launch] = []
    assert layer.python_calls(lambda: native.extend(recorded(call))) == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layer.module, "direct_stream", partial(always, None))
        by_triton = recorded(partial(layer.module.run, *inputs))
    assert len(native) == LAUNCHES and native == by_triton


def test_a_call_in_which_nothing_is_as_before(layer: Layer):
    """Other inputs are elsewhere; names, order and results are those of the function."""
    for inputs in (inputs_of(4), inputs_of(4)):
        named = dict(zip(NAMES, inputs, strict=True))
        backwards = dict(reversed(named.items()))
        for call in (
            partial(layer.function, *inputs),
            partial(layer.function, **named),
            partial(layer.function, **backwards),
            partial(layer.function, *inputs[:2], **dict([*named.items()][2:])),
            partial(layer.function.unchecked, *inputs),
        ):
            results: list[torch.Tensor] = []
            assert layer.python_calls(lambda call=call, to=results: to.extend(call())) == 0
            assert all(r.shape == (2, 4, 64) and r.is_contiguous() for r in results)
            assert len({r.untyped_storage().data_ptr() for r in results}) == 2


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


def other(inputs: Inputs, index: int, value: object) -> list[Any]:
    return [*inputs[:index], value, *inputs[index + 1 :]]


def test_arguments_that_do_not_fit(layer: Layer):
    """The general check says what is wrong with them."""
    inputs = inputs_of(4)
    wrong = [
        other(inputs, 0, inputs[0].float()),
        other(inputs, 0, inputs[0][:, :, :32]),
        other(inputs, 1, inputs[1][0]),
        other(inputs, 3, torch.zeros(5, 16)),
        other(inputs, 4, None),
        other(inputs, 4, 3.0),
        other(inputs, 2, inputs[2].to_sparse()),
        other(inputs, 1, inputs[1].to("meta")),
        inputs[:4],
        [*inputs, inputs[0]],
    ]
    for values in wrong:
        with pytest.raises(ArgumentError):
            layer.function(*values)
    with pytest.raises(ArgumentError):
        layer.function(*inputs[:4], sine=inputs[4])
    with pytest.raises(ArgumentError):
        layer.function(*inputs, x=inputs[0])


def test_arguments_that_python_makes_fit(fake: fake_cuda.FakeCuda, layer: Layer):
    """Strided tensors and addresses that are not aligned are copied; subclasses are tensors."""

    class Subclass(torch.Tensor):
        pass

    inputs = inputs_of(4)
    strided = torch.stack([inputs[0], inputs[0]], -1)[..., 0]
    shifted = torch.zeros(65 * 64, dtype=torch.bfloat16)[1 : 64 * 64 + 1].view(64, 64)
    for values in (
        other(inputs, 0, strided),
        other(inputs, 1, shifted),
        other(inputs, 1, inputs[1].as_subclass(Subclass)),
    ):
        assert layer.python_calls(partial(layer.function, *values)) == 1
    parameters = other(inputs, 1, torch.nn.Parameter(inputs[1], requires_grad=False))
    assert layer.python_calls(partial(layer.function, *parameters)) == 0


def test_arguments_that_share_memory(layer: Layer):
    """A recorded call may have them, but none is recorded with them."""
    inputs = inputs_of(4)
    shared = other(inputs, 2, inputs[1])
    assert layer.python_calls(partial(layer.function, *shared)) == 0
    inputs = inputs_of(5)
    shared = other(inputs, 2, inputs[1])
    for _ in range(4):
        assert layer.python_calls(partial(layer.function, *shared)) == 1
    layer.record(inputs)
    assert layer.python_calls(partial(layer.function, *shared)) == 0


def test_what_others_did_is_not_recorded(layer: Layer, monkeypatch: pytest.MonkeyPatch):
    """Calls of the module itself, which nobody asked to observe."""
    for _ in range(3):
        layer.module.run(*inputs_of(6))
    assert layer.module.CALLS.seen
    monkeypatch.setattr(recording, "record", pytest.fail)
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


def test_gradients_that_would_be_lost(layer: Layer):
    inputs = inputs_of(4)
    inputs[1].requires_grad_()
    with pytest.raises(ArgumentError, match="gradient"):
        layer.function(*inputs)
    with torch.no_grad():
        assert layer.python_calls(partial(layer.function, *inputs)) == 0


def test_streams(fake: fake_cuda.FakeCuda, layer: Layer):
    inputs = inputs_of(4)
    for stream in (64, 128, 0):
        fake.stream = stream
        launches: list[fake_cuda.Launch] = []
        call = partial(layer.launches, partial(layer.function, *inputs))
        assert layer.python_calls(lambda call=call, to=launches: to.extend(call())) == 0
        assert [launch.stream for launch in launches] == [stream] * LAUNCHES


def test_another_current_device(layer: Layer, monkeypatch: pytest.MonkeyPatch):
    """What was loaded for a device is not launched on another one."""
    driver = layer.module.direct_driver()
    original, current = driver.get_current_device, [0]
    monkeypatch.setattr(driver, "get_current_device", lambda: current[0])
    layer.record(inputs_of(5))
    assert layer.python_calls(partial(layer.function, *inputs_of(5))) == 0
    current[0] = 1
    assert layer.python_calls(partial(layer.function, *inputs_of(5))) == 1
    assert original() == 0


def test_another_context(fake: fake_cuda.FakeCuda, layer: Layer):
    fake.set_context(1)
    try:
        assert layer.python_calls(partial(layer.function, *inputs_of(4))) == 1
    finally:
        fake.set_context(0)
    assert layer.python_calls(partial(layer.function, *inputs_of(4))) == 0


@pytest.mark.parametrize("name", ["launch_enter_hook", "launch_exit_hook"])
def test_hooks_see_every_launch(layer: Layer, name: str):
    hooks: Any = getattr(import_module("triton").knobs.runtime, name)
    seen: list[object] = []
    hooks.add(seen.append)
    try:
        layer.function(*inputs_of(4))
    finally:
        hooks.remove(seen.append)
    assert len(seen) == LAUNCHES
    assert layer.python_calls(partial(layer.function, *inputs_of(4))) == 0


def test_settings_of_triton(layer: Layer, monkeypatch: pytest.MonkeyPatch):
    runtime, seen = import_module("triton").knobs.runtime, list[object]()
    with monkeypatch.context() as patch:
        patch.setattr(runtime, "launch_enter_hook", seen.append)
        assert layer.python_calls(partial(layer.function, *inputs_of(4))) == 1
    assert len(seen) == LAUNCHES
    with monkeypatch.context() as patch:
        patch.setattr(runtime, "launch_enter_hook", None)
        assert layer.python_calls(partial(layer.function, *inputs_of(4))) == 0
    monkeypatch.setattr(runtime, "debug", True)
    assert layer.python_calls(partial(layer.function, *inputs_of(4))) == 1


def test_a_launch_that_fails(fake: fake_cuda.FakeCuda, layer: Layer):
    inputs = inputs_of(4)
    fake.fail(2, 719)
    with pytest.raises(CodaError, match=r"kernel \w+ was not launched: .*\(CUDA error 719\)"):
        layer.function(*inputs)
    assert len(layer.launches(partial(layer.function, *inputs))) == LAUNCHES


def test_memory_that_is_not_there(layer: Layer, monkeypatch: pytest.MonkeyPatch):
    count = [0]

    def allocate(shape: Any, strides: Any, dtype: torch.dtype) -> torch.Tensor:
        count[0] += 1
        if count[0] == limit[0]:
            raise torch.OutOfMemoryError("no memory")
        return torch.empty_strided(shape, strides, dtype=dtype)

    monkeypatch.setattr(layer.module, "empty_on", partial(always, allocate))
    limit = [0]
    layer.record(inputs_of(5))
    for failing in (1, 2, 3):
        count[0], limit[0] = 0, failing
        with pytest.raises(torch.OutOfMemoryError):
            layer.function(*inputs_of(5))
    count[0], limit[0] = 0, 4
    assert layer.python_calls(partial(layer.function, *inputs_of(5))) == 0


def test_nothing_is_kept_alive(layer: Layer):
    inputs = inputs_of(4)
    references = [weakref.ref(x) for x in inputs]
    for _ in range(3):
        references += map(weakref.ref, layer.function(*inputs))
    del inputs
    gc.collect()
    assert not any(reference() is not None for reference in references)


def test_threads(fake: fake_cuda.FakeCuda, layer: Layer):
    inputs = [inputs_of(time) for time in (1, 2, 3, 4)]
    before = fake.launches

    def work(index: int) -> None:
        for step in range(100):
            layer.function(*inputs[(index + step) % 4])

    in_threads(work)
    assert fake.launches - before == 4 * 100 * LAUNCHES


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
        return Lowering(parse(PROGRAM), SCHEDULE.replace("64x64x64", tile))

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
            layer.function(*other(inputs_of(4), 4, None))
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


def test_one_result_is_a_tensor(fake: fake_cuda.FakeCuda):
    layer = Layer(
        fake,
        PROGRAM.replace("(bf16[B, T, 64], bf16[B, T, 64])", "bf16[B, T, 64]").replace(
            "return y,", "return"
        ),
    )
    layer.record(inputs_of(4))
    results: list[torch.Tensor] = []
    assert layer.python_calls(lambda: results.append(layer.function(*inputs_of(4)))) == 0
    assert results[0].shape == (2, 4, 64)
    assert len(layer.function.unchecked(*inputs_of(4))) == 1


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
