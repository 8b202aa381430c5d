"""The text that an error names is written instead, compiles, and computes what was meant."""

import re
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import coda_ir
from coda_ir.diagnostics import CodaError

PARAMETERS = "x: f32[M, 64], y: f32[M, 64], w: f32[128, 64], m: bool[M, 64]"
Meaning = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]

EXPRESSIONS: dict[str, Meaning] = {
    # Functions and methods of PyTorch.
    "F.linear(x, w)": lambda x, y, w, m: F.linear(x, w),
    "torch.nn.functional.silu(x)": lambda x, y, w, m: F.silu(x),
    "x.silu()": lambda x, y, w, m: F.silu(x),
    "-x.sigmoid()": lambda x, y, w, m: -x.sigmoid(),
    "linear(x, w).tanh()": lambda x, y, w, m: F.linear(x, w).tanh(),
    "x.float()": lambda x, y, w, m: x,
    "x.to(torch.float32)": lambda x, y, w, m: x,
    "x.contiguous()": lambda x, y, w, m: x,
    "x.view(M, 2, 32)": lambda x, y, w, m: x.view(-1, 2, 32),
    "x.reshape(2 * M, 32)": lambda x, y, w, m: x.reshape(-1, 32),
    "x.clamp(0, 1)": lambda x, y, w, m: x.clamp(0, 1),
    "x.clamp(-0.5, 0.5)": lambda x, y, w, m: x.clamp(-0.5, 0.5),
    "(x + y).square()": lambda x, y, w, m: (x + y) ** 2,
    "x.cumsum(-1)": lambda x, y, w, m: x.cumsum(-1),
    "cumprod(x, -1)": lambda x, y, w, m: x.cumprod(-1),
    "x.mul(y)": lambda x, y, w, m: x * y,
    # Functions without a module.
    "swish(x)": lambda x, y, w, m: F.silu(x),
    "square(x + y)": lambda x, y, w, m: (x + y) ** 2,
    "clip(x + y, 0, 1)": lambda x, y, w, m: (x + y).clamp(0, 1),
    "clip(x, -1, 1)": lambda x, y, w, m: x.clip(-1, 1),
    "cat([x, y], -1)": lambda x, y, w, m: torch.cat([x, y], -1),
    "cat([x, y], dim=0)": lambda x, y, w, m: torch.cat([x, y], 0),
    "masked_fill(x, m, -1.5)": lambda x, y, w, m: x.masked_fill(m, -1.5),
    "less(x, 0)": lambda x, y, w, m: x < 0,
    "unsqueeze(x, 1)": lambda x, y, w, m: x.unsqueeze(1),
    "unsqueeze(x, -1)": lambda x, y, w, m: x.unsqueeze(-1),
    "permute(x, 1, 0)": lambda x, y, w, m: x.permute(1, 0),
    "atan(linear(x, w))": lambda x, y, w, m: torch.atan(F.linear(x, w)),
    "argmax(linear(x, w))": lambda x, y, w, m: F.linear(x, w).argmax(-1),
    "min(x, y)": lambda x, y, w, m: torch.minimum(x, y),
    "min(x)": lambda x, y, w, m: x.amin(-1, keepdim=True),
    "std(linear(x, w))": lambda x, y, w, m: F.linear(x, w).std(-1, keepdim=True),
    "stack([x, y])": lambda x, y, w, m: torch.stack([x, y]),
    # Syntax of Python.
    "x % 2": lambda x, y, w, m: x % 2,
    "m & m": lambda x, y, w, m: m & m,
    "m ^ m": lambda x, y, w, m: m ^ m,
    "not m": lambda x, y, w, m: ~m,
}

ADVICE = re.compile(
    r"(?:write |functions are called by name: )"
    r"(.*?)(?:, with the types of the operands|, which reduces .*)?"
)


def remedy_of(program: str) -> str:
    with pytest.raises(CodaError) as error:
        coda_ir.parse(program)
    return str(error.value).rpartition("\n  help: ")[2]


def program_of(expression: str) -> tuple[str, list[str]]:
    names = [name for name in "xywm" if re.search(rf"\b{name}\b", expression)]
    types = dict(zip("xywm", re.findall(r"\w: \w+\[\w+, \d+\]", PARAMETERS), strict=True))
    parameters = ", ".join(types[name] for name in names)
    return f"fn f({parameters}) {{\n    return {expression}\n}}\n", names


@pytest.mark.slow
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_following_the_advice(expression: str):
    advice = ADVICE.fullmatch(remedy_of(program_of(expression)[0]))
    assert advice is not None
    prefix = "-" if expression.startswith("-") else ""
    program, names = program_of(prefix + advice[1])
    data = {
        "x": torch.randn(5, 64),
        "y": torch.randn(5, 64),
        "w": torch.randn(128, 64) / 8,
        "m": torch.randn(5, 64) > 0,
    }
    actual = coda_ir.compile(program, device="cpu")(*(data[name] for name in names))
    x, y, w = (data[name].double() for name in "xyw")
    expected = EXPRESSIONS[expression](x, y, w, data["m"])
    assert isinstance(actual, torch.Tensor) and actual.shape == expected.shape
    if expected.is_floating_point():
        torch.testing.assert_close(actual.double(), expected, rtol=2e-5, atol=2e-5)
    else:
        assert torch.equal(actual, expected)


TEXTS: dict[str, tuple[str, str]] = {
    "element type": ("fn f(x: float32[M, 8]) { return x }", "fn f(x: f32[M, 8]) { return x }"),
    "True": (
        "fn f(x: f32[T, 8]) { return attention(x, x, x, head_dim=8, causal=True) }",
        "fn f(x: f32[T, 8]) { return attention(x, x, x, head_dim=8, causal=true) }",
    ),
    "is_causal": (
        "fn f(x: f32[T, 8]) { return attention(x, x, x, head_dim=8, is_causal=true) }",
        "fn f(x: f32[T, 8]) { return attention(x, x, x, head_dim=8, causal=true) }",
    ),
    "bias": (
        "fn f(x: f32[M, 8], w: f32[8, 8], b: f32[8]) { return linear(x, w, bias=b) }",
        "fn f(x: f32[M, 8], w: f32[8, 8], b: f32[8]) { return linear(x, w, b=b) }",
    ),
    "port": (
        "epilogue e(acc, b: bias) -> (y: tile) { y = acc + b }\n"
        "fn f(x: f32[M, 8], w: f32[8, 8], b: f32[8]) { return e(linear(x, w), b) }",
        "epilogue e(acc, b: row) -> (y: tile) { y = acc + b }\n"
        "fn f(x: f32[M, 8], w: f32[8, 8], b: f32[8]) { return e(linear(x, w), b) }",
    ),
    "combiner": (
        "epilogue e(acc) -> (y: partial_row<sum>) { y = acc }\n"
        "fn f(x: f32[M, 8], w: f32[8, 8]) { return finalize(e(linear(x, w))) }",
        "epilogue e(acc) -> (y: partial_row<add>) { y = acc }\n"
        "fn f(x: f32[M, 8], w: f32[8, 8]) { return finalize(e(linear(x, w))) }",
    ),
}


@pytest.mark.parametrize("case", TEXTS)
def test_did_you_mean(case: str):
    wrong, right = TEXTS[case]
    meant = re.fullmatch(r"did you mean '(\w+)'\?", remedy_of(wrong))
    assert meant is not None
    written, corrected = (re.findall(r"\w+", text) for text in (wrong, right))
    changed = {new for old, new in zip(written, corrected, strict=True) if old != new}
    assert changed == {meant[1]}
    assert coda_ir.parse(right)


@pytest.mark.parametrize(
    "wrong, right",
    [
        ("split(x, 32)", "split(x, [32, 32])"),
        ("split(x, [32, 32], -1)", "split(x, [32, 32], dim=-1)"),
        ("relu(x, inplace=true)", "relu(x)"),
        ("transpose(x, 0, 1)", "transpose(x, [1, 0])"),
        ("reshape(x, M, 64)", "reshape(x, [M, 64])"),
        ("rms_norm(x, y, 1e-5)", "rms_norm(x, eps=1e-5)"),
        ("gelu(x, approximate=true)", "gelu_tanh(x)"),
    ],
)
def test_wrong_arguments_and_what_is_written_instead(wrong: str, right: str):
    assert remedy_of(program_of(wrong)[0])
    assert coda_ir.parse(program_of(right)[0])


def test_smoothed_labels():
    parameters = "logits: f32[M, 64], target: i64[M]"
    remedy = remedy_of(
        f"fn f({parameters}) {{ return cross_entropy(logits, target, label_smoothing=0.1) }}"
    )
    advice = remedy.removeprefix("write ")
    logits, target = torch.randn(5, 64), torch.randint(64, (5,))
    loss = coda_ir.compile(f"fn f({parameters}) {{ return {advice} }}", device="cpu")
    expected = F.cross_entropy(logits.double(), target, label_smoothing=0.1)
    torch.testing.assert_close(loss(logits, target), expected.float(), rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("text", ["a" * 100_000 + "!", "(" * 60 + "x.", "x[" + ":," * 50_000])
def test_long_lines_take_no_long_time(text: str):
    assert remedy_of(f"fn f(x: f32[M, 64]) {{\n    return {text}\n}}\n")
