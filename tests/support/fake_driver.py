"""A program for a driver that is not real, and ways to call it: a plugin of the processes that run
`*_cases.py`, in which Triton is not in its interpreter.
"""

from collections.abc import Callable, Iterator
from typing import Any

import fake_cuda
import pytest
import torch

from coda_ir.api import CompiledFunction, parse
from coda_ir.cache import load_source
from coda_ir.lowering import Lowering
from coda_ir.options import CompileOptions

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

Inputs = list[torch.Tensor]


@pytest.fixture(scope="session")
def fake(tmp_path_factory: pytest.TempPathFactory) -> fake_cuda.FakeCuda:
    return fake_cuda.installed() or fake_cuda.install(tmp_path_factory.mktemp("cuda"))


def inputs_of(time: int) -> Inputs:
    shapes = [(2, time, 64), (64, 64), (64, 64)]
    tables = [torch.zeros(time, 16) for _ in range(2)]
    return [*(torch.zeros(shape, dtype=torch.bfloat16) for shape in shapes), *tables]


def with_other(inputs: Inputs, index: int, value: object) -> list[Any]:
    """The arguments of a call with another one in a place."""
    return [*inputs[:index], value, *inputs[index + 1 :]]


def launches_of(fake: fake_cuda.FakeCuda, call: Callable[[], object]) -> list[fake_cuda.Launch]:
    """What a call passes to the driver."""
    fake.record()
    call()
    return fake.recorded()


def always(value: Any, *arguments: object) -> Any:
    return value


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
            lowering = Lowering(parse(program), CompileOptions(schedule))
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
        return launches_of(self.fake, call)

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


@pytest.fixture
def layer(fake: fake_cuda.FakeCuda) -> Iterator[Layer]:
    """Calls with `inputs_of(4)` are recorded."""
    layer = Layer(fake)
    for _ in range(4):
        layer.function(*inputs_of(4))
    assert layer.is_native
    yield layer
    fake.stream = 0
