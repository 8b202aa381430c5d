"""Kernels between guards on a GPU: none writes outside of its tensors, or uses what is there.

All inputs, results and workspaces have guards of NaN, and sizes are no multiples of tiles.
"""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from support.attention_heads import Heads
from support.between_guards import ResultError, between_guards, run_between_guards
from support.goldens import EXAMPLES, GOLDENS, inputs_of
from support.programs import parse_mlir
from xdsl.dialects.func import FuncOp

import coda_ir
from coda_ir.api import parse
from coda_ir.backends.triton import emit_module
from coda_ir.cache import load_source
from coda_ir.context import make_context
from coda_ir.equivalence.emitted_run import EmittedFaultError, is_same
from coda_ir.functions import functions_of
from coda_ir.passes.layout.plan_buffers import PlanBuffersPass
from coda_ir.random_inputs import random_arguments
from coda_ir.random_inputs.draw import symbols_of

pytestmark = pytest.mark.gpu

LAYER = EXAMPLES / "llama_layer.coda"

SMALL = {"D": 160, "F": 200, "HEAD": 40, "HEADS": 4, "KV_HEADS": 2, "K": 72, "N": 200, "V": 1000}
"""Constants of the examples: no multiples of tiles, but of 16 bytes, as descriptors need."""

SIZES = [{"B": 1, "T": 1, "M": 1}, {"B": 2, "T": 67, "M": 67}, {"B": 1, "T": 133, "M": 133}]

HOPPER = [
    "mainloop=tma",
    "mainloop=warp_specialized",
    "mainloop=ping_pong pdl=true absorb=true",
    "mainloop=pointer pdl=true absorb=true",
    "mainloop=pointer split_k=2",
    "mainloop=tma split_k=2 pdl=true",
]

BACKEND = sorted((GOLDENS / "backends" / "triton").glob("*.mlir"))

Tensors = list[torch.Tensor]
Run = Callable[..., Tensors]


def forward(function: Any) -> Run:
    def run(*tensors: torch.Tensor) -> Tensors:
        results = function(*tensors)
        return [results] if isinstance(results, torch.Tensor) else [*results]

    return run


def backward(function: Any) -> Run:
    """The gradients of all arguments that have one, for a gradient of 1 of each result."""
    specs = function.signature.arguments
    is_wanted = [s.dtype.is_floating_point and s.name not in ("cos", "sin") for s in specs]

    def run(*tensors: torch.Tensor) -> Tensors:
        leaves = [x.detach().requires_grad_(w) for x, w in zip(tensors, is_wanted, strict=True)]
        results = [result for result in forward(function)(*leaves) if result.requires_grad]
        ones = [torch.ones_like(result) for result in results]
        wanted = [leaf for leaf in leaves if leaf.requires_grad]
        found: Any = torch.autograd.grad(results, wanted, ones, allow_unused=True)
        return [gradient for gradient in found if gradient is not None]

    return run


def arguments(func: FuncOp, seed: int) -> list[Tensors]:
    """Random arguments of a function, for each of the sizes."""
    sets: list[Tensors] = []
    for sizes in SIZES:
        symbols = dict.fromkeys(symbols_of(func), 7) | sizes
        sets.append([x.cuda() for x in random_arguments(func, symbols, seed=seed)])
    return sets


def check(run: Run, sets: list[Tensors]) -> None:
    """Check that a function has bitwise the same results between guards as without them, in a
    second call, too.
    """
    for tensors in sets:
        expected = run(*tensors)
        with between_guards(finite=True) as ran:
            for _ in range(2):
                assert all(map(torch.equal, run(*tensors), expected))
        assert ran


def constants(path: Path) -> dict[str, int]:
    declared = set(re.findall(r"^const (\w+)", path.read_text(), re.MULTILINE))
    return {name: SMALL[name] for name in declared & set(SMALL)}


def check_example(path: Path, schedule: str | None = None, *, training: bool = False) -> int:
    """Check the functions of an example; return their number."""
    given = constants(path)
    functions = functions_of(parse(path, constants=given))
    if training:
        functions = {n: f for n, f in functions.items() if "gemm." not in str(f)}
    for name, func in functions.items():
        function: Any = coda_ir.compile(
            path,
            entry=name,
            constants=given,
            device="cuda",
            schedule=schedule,
            training=training,
        )
        check((backward if training else forward)(function), arguments(func, seed=1))
    return len(functions)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.coda")), ids=lambda path: path.stem)
def test_examples(path: Path):
    assert check_example(path)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.coda")), ids=lambda path: path.stem)
def test_derived_backward_of_examples(path: Path):
    assert check_example(path, training=True) or path.stem == "custom_epilogue"


@pytest.mark.parametrize("schedule", HOPPER)
def test_main_loops(schedule: str):
    assert check_example(LAYER, f"target=sm_90 {schedule}") == 1


@pytest.mark.parametrize("schedule", ["mainloop=tma", "mainloop=pointer split_k=2"])
def test_main_loops_of_the_backward(schedule: str):
    assert check_example(LAYER, f"target=sm_90 {schedule}", training=True) == 1


@pytest.mark.parametrize("path", BACKEND, ids=lambda path: path.stem)
def test_goldens(path: Path):
    for text in inputs_of(path):
        module = parse_mlir(text)
        has_schedules = any(getattr(op, "schedule", None) is not None for op in module.walk())
        if has_schedules:
            PlanBuffersPass().apply(make_context(), module)
        for name, func in functions_of(module).items():
            if has_schedules:
                source = emit_module(module, name)
                emitted = load_source(source, name)
                plain, guarded = emitted.run, partial(run_alone, emitted)
            else:
                plain = coda_ir.compile(module, entry=name, device="cuda")
                guarded = partial(call_between, plain)
            for tensors in arguments(func, seed=2):
                expected = forward(plain)(*tensors)
                assert all(map(is_same, forward(guarded)(*tensors), expected))


def run_alone(emitted: ModuleType, *tensors: torch.Tensor) -> Any:
    return run_between_guards(emitted, tensors, emitted.run)[0]


def call_between(function: Any, *tensors: torch.Tensor) -> Any:
    with between_guards():
        return function(*tensors)


HEADS = {
    "causal": Heads(8, 2, 64),
    "window": Heads(4, 2, 64, options="causal=true, window=100"),
    "all keys, capped": Heads(4, 1, 128, options="causal=false, softcap=2.0"),
}


@pytest.mark.parametrize("of", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize(("queries", "keys"), [(1, 77), (133, 133), (70, 301)])
def test_attention(of: Heads, queries: int, keys: int):
    tensors = [x.cuda() for x in of.inputs(queries, keys)]
    check(forward(coda_ir.compile(of.text, device="cuda")), [tensors])
    check(backward(coda_ir.compile(of.text, device="cuda", training=True)), [tensors])


NEGATION = """
fn f(x: f32[M, 24]) -> f32[M, 24] {
    return log(-x)
}
"""


def changed(*changes: tuple[str, str]) -> Any:
    """The function with changes of its Triton."""
    function = coda_ir.compile(NEGATION, device="cuda")
    source = function.source
    for old, new in changes:
        assert old in source
        source = source.replace(old, new)
    vars(function.executable)["module"] = load_source(source, "f")
    return function


def test_a_stray_store_is_told_with_its_kernel_and_tensor():
    x = -torch.rand(6, 24, device="cuda") - 1
    function = changed(("tile_ptr + row", "tile_ptr + 24 + row"))
    (kernel,) = function.kernels
    for _ in range(2):  # by Triton, then directly
        message = f"kernel {kernel} wrote outside of a buffer"
        with between_guards(), pytest.raises(EmittedFaultError, match=message):
            function(x)


def test_a_result_that_is_not_a_number_is_told_with_its_kernel():
    function = changed()
    (kernel,) = function.kernels
    with between_guards(finite=True):
        function(-torch.ones(6, 24, device="cuda"))
        with pytest.raises(ResultError, match=f"of f, of kernel {kernel}, has NaN"):
            function(torch.arange(-3.0, 3.0, device="cuda")[:, None].expand(6, 24))
