"""The tasks for authors: their solutions are right, and the check finds what is wrong."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from authoring import check

TASKS = (check.SOLUTIONS.parent / "tasks.md").read_text()

WRONG_NUMBERS = """
fn bias_gelu(x: bf16[M, 64], weight w: bf16[96, 64], weight b: bf16[96]) -> bf16[M, 96] {
    return gelu_tanh(linear(x, w, b))
}
"""
WRONG_SIGNATURE = """
fn relu_squared(x: bf16[M, 64], weight w: bf16[96, 64]) -> f32[M, 96] {
    return cast(relu2(linear(x, w)), f32)
}
"""
MORE_KERNELS = """
fn residual(x: bf16[M, 64], res: bf16[M, 96], weight w: bf16[96, 64]) -> bf16[M, 96] {
    return res + 0.5 * linear(x, w) + (sum(softmax(x)) - 1)
}
"""
MISSPELLED = """
fn bias_gelu(x: bf16[M, 64], weight w: bf16[96, 64], weight b: bf16[96]) -> bf16[M, 96] {
    return geluu(linear(x, w, b))
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", check.REFERENCES)
def test_a_solution_has_no_problems(name: str):
    assert list(check.problems(check.SOLUTIONS, name)) == []


def test_every_task_is_stated_once_with_its_signature():
    stated = re.findall(r"^## (\w+)\n\n\S[^\n]+\n\n```coda\n(fn \1\(.*\) -> .*)\n```$", TASKS, re.M)
    assert [name for name, _ in stated] == list(check.REFERENCES)
    text = " ".join(check.SOLUTIONS.read_text().split()).replace("( ", "(").replace(", )", ")")
    for _, signature in stated:
        assert f"{signature} {{" in text


def test_a_command_without_a_file(capsys: pytest.CaptureFixture[str]):
    assert check.main([]) == 2
    assert "usage: python examples/authoring/check.py FILE.coda" in capsys.readouterr().err


def told(text: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """The only line that the check prints, of a file with a problem."""
    file = folder / "solution.coda"
    file.write_text(text)
    assert check.main([str(file)]) == 1
    (line,) = capsys.readouterr().out.splitlines()
    return json.loads(line)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (WRONG_NUMBERS, "result 0 differs from PyTorch by "),
        (WRONG_SIGNATURE, "the signature is relu_squared("),
        (MORE_KERNELS, " kernels, expected at most 1: "),
        (MISSPELLED, "unknown function 'geluu'"),
        ("fn other(x: bf16[M, 64]) -> bf16[M, 64] {\n    return silu(x)\n}\n", "has the name of a"),
    ],
)
def test_problems(text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    problem = told(text, tmp_path, capsys)
    assert problem["severity"] == "error" and message in problem["message"]
    assert problem["code"].startswith("E")
