"""Equal operators have one kernel, which is emitted once."""

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any

import pytest
from xdsl.ir import Operation

import coda_ir
from coda_ir.backends.triton.equal_code import code_of
from coda_ir.backends.triton.host.kernels import HostKernels
from coda_ir.backends.triton.kernel import EmittedKernel
from coda_ir.backends.triton.names import NameAllocator
from coda_ir.lowering import Lowering
from coda_ir.options import CompileOptions

Emit = Callable[[NameAllocator], EmittedKernel]


CHECKED: dict[str, Any] = {"name": "", "source": "", "description": "", "arguments": ()}
"""Fields in which equal kernels may differ."""


def layers(count: int) -> str:
    """A program with equal GEMMs, attention, kernels of rows, and copies."""
    weights = [
        f"n{i}: bf16[64], q{i}: bf16[64, 64], u{i}: bf16[96, 64], d{i}: bf16[64, 96]"
        for i in range(count)
    ]
    body = "\n".join(
        f"  a{i} = attention(linear(h{i}, q{i}), h{i}, h{i}, head_dim=16, causal=true) + h{i}\n"
        f"  g{i} = silu(linear(rms_norm(a{i}, n{i}, eps=1e-5), u{i}))\n"
        f"  s{i}, _i{i} = topk(layer_norm(a{i} + linear(g{i}, d{i}), eps=1e-5), 8)\n"
        f"  p{i} = reshape(transpose(a{i}[:, :, 8:]), [B, 32, 56])\n"
        f"  h{i + 1} = concat(s{i}, abs(p{i}), dim=2)"
        for i in range(count)
    )
    parameters = ", ".join(["h0: bf16[B, 32, 64]", *weights])
    return f"fn f({parameters}) -> bf16[B, 32, 64] {{\n{body}\n  return h{count}\n}}"


def emit_layers(count: int, *, training: bool) -> None:
    module = coda_ir.parse(layers(count))
    if training:
        from coda_ir.context import make_context
        from coda_ir.passes.pipelines.differentiate import DifferentiatePass

        DifferentiatePass("f", ("h0",)).apply(make_context(), module)
    options = CompileOptions("target=sm_90 mainloop=warp_specialized")
    names = ("f_forward", "f_backward") if training else ("f",)
    for name in names:
        Lowering(module, options).artifact(name)


@pytest.mark.slow
@pytest.mark.parametrize("training", [False, True])
def test_more_layers_emit_no_more_kernels(monkeypatch: pytest.MonkeyPatch, training: bool):
    emitted: list[str] = []
    shared = HostKernels.shared

    def counted(self: HostKernels, op: Operation, key: Hashable, emit: Emit):
        def emit_one(names: NameAllocator) -> EmittedKernel:
            emitted.append(op.name)
            return emit(names)

        return shared(self, op, key, emit_one)

    monkeypatch.setattr(HostKernels, "shared", counted)

    def count(number: int) -> int:
        emitted.clear()
        emit_layers(number, training=training)
        return len(emitted)

    assert count(2) == count(4) > 4


@pytest.mark.slow
@pytest.mark.parametrize("training", [False, True])
def test_a_known_kernel_is_the_one_that_would_be_emitted(
    monkeypatch: pytest.MonkeyPatch, training: bool
):
    compared: set[str] = set()
    shared = HostKernels.shared

    def checked(self: HostKernels, op: Operation, key: Hashable, emit: Emit):
        known, made = shared(self, op, key, emit), emit(self.names.copy())
        compared.add(op.name)
        assert code_of(known.source) == code_of(made.source)
        assert replace(known, **CHECKED) == replace(made, **CHECKED)
        values = [[(x.type, x.value) for x in each.arguments] for each in (known, made)]
        assert values[0] == values[1]
        return known

    monkeypatch.setattr(HostKernels, "shared", checked)
    emit_layers(3, training=training)
    assert {"gemm.fused", "gemm.map", "coda.transpose", "coda.topk"} <= compared
