"""Targets that are no column stop the kernels of a loss, as they stop PyTorch's.

Each runs in a process of its own, which cannot use the GPU afterwards.
"""

import pytest
import torch
from support.own_process import run_apart

import coda_ir

pytestmark = pytest.mark.gpu

PROGRAMS = {
    "stored": "fn f(z: bf16[M, 1000], t: i64[M]) { return cross_entropy(z, t) }",
    "fused": """
        fn f(x: bf16[M, 256], t: i64[M], weight w: bf16[1000, 256]) {
            return cross_entropy(linear(x, w), t)
        }""",
}


def call(which: str) -> None:
    """Call a loss with right targets, and then with a wrong one."""
    name, target = which.split()
    program = coda_ir.compile(PROGRAMS[name], device="cuda")
    first = torch.randn(64, 1000 if name == "stored" else 256, device="cuda").bfloat16()
    weights = [torch.randn(1000, 256, device="cuda").bfloat16()] if name == "fused" else []
    t = torch.randint(1000, (64,), device="cuda")
    t[3] = -100
    assert program(first, t, *weights).isfinite()
    t[9] = int(target)
    program(first, t, *weights)
    torch.cuda.synchronize()


@pytest.mark.parametrize("target", ["-1", "1000"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_wrong_target_stops_the_kernel(name: str, target: str):
    with pytest.raises(AssertionError, match="device-side assert"):
        run_apart(call, f"{name} {target}")


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_ignored_target_does_not(name: str):
    run_apart(call, f"{name} -100")
