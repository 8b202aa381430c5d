"""The text of arguments: what it may have, what it means, how it is written as Python."""

import pytest
import torch

from coda_ir.dialects.torch import ArgumentTemplate

NAMESPACE = {"torch": torch, "device": torch.device("cpu")}


def evaluate(
    text: str, *operands: object, **symbols: int
) -> tuple[list[object], dict[str, object]]:
    return ArgumentTemplate.parse(text).evaluate(operands, symbols, NAMESPACE)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("1, -2.5, True, None, 'tanh'", [1, -2.5, True, None, "tanh"]),
        ("[1, [2, -1]]", [[1, [2, -1]]]),
        ("M, 2 * M - 1, (M + 1) // 2, M % 4", [7, 13, 4, 3]),
        ("max(M, 9), min(M, 9)", [9, 7]),
        ("M == 7, M != 7, M - 1 < 6, M <= 7", [True, False, False, True]),
        ("M > 7, M + 1 >= N", [False, True]),
        ("M / 2, int(1.5 * M), (-int(-M / 2 // 1))", [3.5, 10, 4]),
        ("int((M + 3) ** 0.5), (N * 2) ** 0.5", [3, 4.0]),
        ("-inf", [float("-inf")]),
        ("torch.float32, device", [torch.float32, torch.device("cpu")]),
    ],
)
def test_values(text: str, expected: list[object]):
    assert evaluate(text, M=7, N=8) == (expected, {})


def test_operands_and_names():
    assert evaluate("{1}, [{0}, {1}], dim=-1", "x", "y") == (["y", ["x", "y"]], {"dim": -1})
    template = ArgumentTemplate.parse("{1}, [{0}, N * M], dim=-1")
    assert template.operands == [1, 0]
    assert template.symbols == {"M", "N"}


def test_sizes_of_operands():
    template = ArgumentTemplate.parse("[2 * size({1}, -1)], max(size({0}, 0), M)")
    assert template.operands == [1, 0] and template.symbols == {"M"}
    tensors = torch.empty(3, 4), torch.empty(5, 6)
    assert template.evaluate(tensors, {"M": 2}, NAMESPACE) == ([[12], 3], {})
    assert template.render(["a", "b"], {"M": "m"}) == "[2 * b.shape[-1]], max(a.shape[0], m)"


def test_symbols_that_are_called_like_something_else():
    template = ArgumentTemplate.parse("max(0, max), torch, size({0}, size), dtype=torch.int64")
    assert template.symbols == {"max", "torch", "size"}
    symbols = {"max": "a", "torch": "b", "size": "c"}
    assert template.render(["x"], symbols) == "max(0, a), b, x.shape[c], dtype=torch.int64"


def test_an_unknown_symbol_is_named():
    with pytest.raises(KeyError, match="M"):
        evaluate("[M]")


def test_python_source():
    template = ArgumentTemplate.parse("{0}, [M, -1], value=-inf, dtype=torch.bool, device=device")
    assert template.render(["x_1"], {"M": "rows"}) == (
        "x_1, [rows, -1], value=-float('inf'), dtype=torch.bool, device=device"
    )


@pytest.mark.parametrize(
    "text",
    [
        *(
            "__import__('os')",
            "f(1)",
            "size(M, 0)",
            "x.y",
            "lambda: 1",
            "[i for i in M]",
            "{0: 1}",
            "{M}",
        ),
        *("torch.a.b", "1 if M else 2", "M ** 2", "*[1]", "**{0}", "a b", "(", "1j", "f'{M}'"),
        "[" * 2000,
    ],
)
def test_anything_else_is_refused(text: str):
    with pytest.raises(ValueError, match="argument"):
        ArgumentTemplate.parse(text)
