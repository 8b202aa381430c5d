"""What native calls pass to the driver, which is not real, and which calls they leave to Python:
run by test_direct_launch.py beside direct_launch_cases.py.
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import fake_cuda
import pytest
import torch
from support.fake_driver import (
    LAUNCHES,
    PROGRAM,
    SCHEDULE,
    Inputs,
    Layer,
    Memory,
    always,
    inputs_of,
    with_other,
)
from support.threads import in_threads

from coda_ir.calls.arguments import ArgumentError
from coda_ir.diagnostics import CodaError

NAMES = ("x", "first", "second", "cos", "sin")


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


def test_arguments_that_do_not_fit(layer: Layer):
    """The general check says what is wrong with them."""
    inputs = inputs_of(4)
    wrong = [
        with_other(inputs, 0, inputs[0].float()),
        with_other(inputs, 0, inputs[0][:, :, :32]),
        with_other(inputs, 1, inputs[1][0]),
        with_other(inputs, 3, torch.zeros(5, 16)),
        with_other(inputs, 4, None),
        with_other(inputs, 4, 3.0),
        with_other(inputs, 2, inputs[2].to_sparse()),
        with_other(inputs, 1, inputs[1].to("meta")),
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
        with_other(inputs, 0, strided),
        with_other(inputs, 1, shifted),
        with_other(inputs, 1, inputs[1].as_subclass(Subclass)),
    ):
        assert layer.python_calls(partial(layer.function, *values)) == 1
    parameters = with_other(inputs, 1, torch.nn.Parameter(inputs[1], requires_grad=False))
    assert layer.python_calls(partial(layer.function, *parameters)) == 0


def test_arguments_that_share_memory(layer: Layer):
    """A recorded call may have them, but none is recorded with them."""
    inputs = inputs_of(4)
    shared = with_other(inputs, 2, inputs[1])
    assert layer.python_calls(partial(layer.function, *shared)) == 0
    inputs = inputs_of(5)
    shared = with_other(inputs, 2, inputs[1])
    for _ in range(4):
        assert layer.python_calls(partial(layer.function, *shared)) == 1
    layer.record(inputs)
    assert layer.python_calls(partial(layer.function, *shared)) == 0


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


def test_threads(fake: fake_cuda.FakeCuda, layer: Layer):
    inputs = [inputs_of(time) for time in (1, 2, 3, 4)]
    before = fake.launches

    def work(index: int) -> None:
        for step in range(100):
            layer.function(*inputs[(index + step) % 4])

    in_threads(work)
    assert fake.launches - before == 4 * 100 * LAUNCHES


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
