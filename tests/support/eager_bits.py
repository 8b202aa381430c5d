"""Elementwise operators of `.coda` beside what eager PyTorch computes, bit for bit."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F

import coda_ir

ROWS, DEPTH, COLUMNS = 32, 8, 24
"""Multiples of the length of a vector: PyTorch rounds rsqrt twice in what is left on the CPU."""


@dataclass(frozen=True)
class Operator:
    """An expression of `.coda` in `y` and `r`, and the same in PyTorch."""

    text: str
    eager: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    columns: int = COLUMNS
    """The columns of the result."""


def halves(y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return y[..., : COLUMNS // 2], y[..., COLUMNS // 2 :]


OPERATORS: Mapping[str, Operator] = {
    "softcap": Operator("softcap(y, 1.5)", lambda y, r: 1.5 * torch.tanh(y / 1.5)),
    "nested softcap": Operator(
        "r + softcap(y * r, 0.3)", lambda y, r: r + 0.3 * torch.tanh(y * r / 0.3)
    ),
    "add": Operator("y + r", lambda y, r: y + r),
    "sub": Operator("r - y", lambda y, r: r - y),
    "nested sub": Operator("r - (y - (r - y))", lambda y, r: r - (y - (r - y))),
    "mul": Operator("y * r * y", lambda y, r: y * r * y),
    "div": Operator("y / (abs(r) + 1.0)", lambda y, r: y / (r.abs() + 1.0)),
    "number over tensor": Operator("0.7 / (abs(y) + 2.0)", lambda y, r: 0.7 / (y.abs() + 2.0)),
    "maximum": Operator("maximum(y, r)", torch.maximum),
    "minimum": Operator("minimum(y, r)", torch.minimum),
    "exp": Operator("exp(y)", lambda y, r: y.exp()),
    "log": Operator("log(abs(y) + 1.0)", lambda y, r: (y.abs() + 1.0).log()),
    "sqrt": Operator("sqrt(abs(y))", lambda y, r: y.abs().sqrt()),
    "rsqrt": Operator("rsqrt(abs(y) + 1.0)", lambda y, r: (y.abs() + 1.0).rsqrt()),
    "tanh": Operator("tanh(y)", lambda y, r: y.tanh()),
    "sigmoid": Operator("sigmoid(y)", lambda y, r: y.sigmoid()),
    "silu": Operator("silu(y) * r", lambda y, r: F.silu(y) * r),
    "glu": Operator("swiglu(y)", lambda y, r: F.silu(halves(y)[0]) * halves(y)[1], COLUMNS // 2),
    "gelu": Operator("gelu(y)", lambda y, r: F.gelu(y)),
    "tanh gelu": Operator("gelu_tanh(y)", lambda y, r: F.gelu(y, approximate="tanh")),
    "relu": Operator("relu(y) - r", lambda y, r: F.relu(y) - r),
    "relu2": Operator("relu2(y)", lambda y, r: F.relu(y).square()),
}

PROGRAM = f"""
fn f(x: TYPE[M, {DEPTH}], weight w: TYPE[{COLUMNS}, {DEPTH}], r: TYPE[M, {COLUMNS}])
    -> (TYPE[M, RESULT], TYPE[M, RESULT]) {{
    y = linear(x, w)
    return FUSED, ALONE
}}
"""

NAMES = {torch.bfloat16: "bf16", torch.float16: "f16"}


def share_of_different_bits(operator: Operator, dtype: torch.dtype) -> float:
    """The share in emitted kernels, the larger of an epilogue and of a kernel without a GEMM.

    A row of the weight selects an element of x: its product is exact.
    """
    text = PROGRAM.replace("TYPE", NAMES[dtype]).replace("FUSED", operator.text)
    text = text.replace("RESULT", str(operator.columns))
    text = text.replace("ALONE", re.sub(r"\by\b", "r", operator.text))
    program = coda_ir.compile(text, target="triton", numerics="eager-exact")
    x = torch.randn(ROWS, DEPTH).to(dtype)
    w = torch.eye(DEPTH).repeat(COLUMNS // DEPTH, 1).to(dtype)
    r = torch.randn(ROWS, COLUMNS).to(dtype)
    given = [each.to(program.device) for each in (x, w, r)]
    y = F.linear(given[0], given[1])
    wanted = operator.eager(y, given[2]), operator.eager(given[2], given[2])
    return max(
        (got != expected).double().mean().item()
        for got, expected in zip(program(*given), wanted, strict=True)
    )
