"""Equal operators have one kernel, which is emitted once."""

from collections.abc import Hashable
from dataclasses import replace

import pytest
from xdsl.ir import Operation

import coda_ir
from coda_ir.backends.triton.equal_code import code_of
from coda_ir.backends.triton.host.kernels import HostKernels
from coda_ir.backends.triton.kernel import EmittedKernel
from coda_ir.lowering import Lowering
from coda_ir.options import CompileOptions


def layers(count: int) -> str:
    weights = [
        f"n{i}: bf16[64], q{i}: bf16[64, 64], u{i}: bf16[96, 64], d{i}: bf16[64, 96]"
        for i in range(count)
    ]
    body = "\n".join(
        f"  a{i} = attention(linear(h{i}, q{i}), h{i}, h{i}, head_dim=16, causal=true) + h{i}\n"
        f"  g{i} = silu(linear(rms_norm(a{i}, n{i}, eps=1e-5), u{i}))\n"
        f"  h{i + 1} = layer_norm(a{i} + linear(g{i}, d{i}), eps=1e-5)"
        for i in range(count)
    )
    parameters = ", ".join(["h0: bf16[B, T, 64]", *weights])
    return f"fn f({parameters}) -> bf16[B, T, 64] {{\n{body}\n  return h{count}\n}}"


def emit(count: int, *, training: bool) -> None:
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
    use = HostKernels.use

    def counted(self: HostKernels, kernel: EmittedKernel, op: Operation, key: Hashable = None):
        emitted.append(kernel.name)
        return use(self, kernel, op, key)

    monkeypatch.setattr(HostKernels, "use", counted)

    def count(number: int) -> int:
        emitted.clear()
        emit(number, training=training)
        return len(emitted)

    assert count(2) == count(4) > 4


@pytest.mark.slow
@pytest.mark.parametrize("training", [False, True])
def test_a_known_kernel_is_the_one_that_would_be_emitted(
    monkeypatch: pytest.MonkeyPatch, training: bool
):
    known: dict[tuple[int, Hashable], EmittedKernel] = {}
    compared = 0
    use = HostKernels.use

    def checked(self: HostKernels, kernel: EmittedKernel, op: Operation, key: Hashable = None):
        nonlocal compared
        found = use(self, kernel, op, key)
        if key is not None:
            before = known.setdefault((id(self), key), kernel)
            compared += before is not kernel
            assert code_of(before.source) == code_of(kernel.source)
            fields = {"name": "", "source": "", "description": "", "arguments": ()}
            assert replace(before, **fields) == replace(kernel, **fields)
            values = [[(x.type, x.value) for x in each.arguments] for each in (before, kernel)]
            assert values[0] == values[1]
        return found

    def nothing(self: HostKernels, key: Hashable, op: Operation) -> None:
        return None

    monkeypatch.setattr(HostKernels, "known", nothing)
    monkeypatch.setattr(HostKernels, "use", checked)
    emit(3, training=training)
    assert compared > 4
