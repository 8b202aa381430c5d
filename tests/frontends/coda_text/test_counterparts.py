"""The counterparts of names of PyTorch compile, and compute what PyTorch does."""

import re
from collections.abc import Callable, Sequence
from functools import cache

import pytest
import torch
import torch.nn.functional as F

import coda_ir
from coda_ir.diagnostics import DiagnosticError
from coda_ir.dialects import coda
from coda_ir.frontends.coda_text import parse_text
from coda_ir.frontends.coda_text.counterparts import CHOICES, ELEMENTS, FUNCTIONS
from coda_ir.frontends.coda_text.operators import OPERATORS
from coda_ir.frontends.coda_text.remedies import PLACEHOLDERS, choice_remedy, fill, function_remedy

Tensors = Sequence[torch.Tensor]

M, N = 5, 64
SAME = "x: f32[M, 64], y: f32[M, 64], z: f32[M, 64]"


def same() -> Tensors:
    return [torch.randn(M, N) for _ in "xyz"]


def unchanged(x: torch.Tensor) -> torch.Tensor:
    return x


def norm_of(x: torch.Tensor) -> torch.Tensor:
    return (x * x).sum(-1, keepdim=True).sqrt()


def gelu_tanh(x: torch.Tensor) -> torch.Tensor:
    return F.gelu(x, approximate="tanh")


def squared_relu(x: torch.Tensor) -> torch.Tensor:
    return F.relu(x) ** 2


def joined(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.cat([x, y], -1)


def stacked(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.stack([x, y])


def filled(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.masked_fill(y, 0.0)


def selected(x: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    return x[ids]


def unsqueezed(x: torch.Tensor) -> torch.Tensor:
    return x.unsqueeze(0)


def smallest(x: torch.Tensor) -> torch.Tensor:
    return x.amin(-1, keepdim=True)


def holds_once(x: torch.Tensor) -> torch.Tensor:
    return x.any(-1, keepdim=True)


def holds_everywhere(x: torch.Tensor) -> torch.Tensor:
    return x.all(-1, keepdim=True)


Unary = Callable[[torch.Tensor], torch.Tensor]
Reference = Callable[..., torch.Tensor]

FUNCTIONS_OF_ONE: dict[str, Unary] = {
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
    "float": lambda x: x.float(),
    "bfloat16": lambda x: x.bfloat16(),
    "half": lambda x: x.half(),
    "long": lambda x: x.long(),
    "int": lambda x: x.int(),
    "permute": lambda x: x.permute(1, 0),
    "amax": lambda x: x.amax(-1, keepdim=True),
    "prod": lambda x: x.prod(-1, keepdim=True),
    "median": lambda x: x.median(-1, keepdim=True).values,
    "normalize": lambda x: F.normalize(x, dim=-1),
    "var": lambda x: x.var(-1, keepdim=True),
    "std": lambda x: x.std(-1, keepdim=True),
    "argmax": lambda x: x.argmax(-1),
    "count_nonzero": lambda x: x.count_nonzero(-1)[:, None],
    "argmin": lambda x: x.argmin(-1),
    "cumprod": lambda x: x.cumprod(-1),
    "logcumsumexp": lambda x: x.logcumsumexp(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "flip": lambda x: x.flip(-1),
    "roll": lambda x: x.roll(1, -1),
}

TORCH: dict[str, Reference] = {
    **FUNCTIONS_OF_ONE,
    "swish": F.silu,
    **dict.fromkeys(
        ("gelu_new", "gelu_fast", "gelu_approx", "gelu_pytorch_tanh", "tanh_gelu"), gelu_tanh
    ),
    **dict.fromkeys(("squared_relu", "relu_squared"), squared_relu),
    **dict.fromkeys(("logistic", "expit"), torch.sigmoid),
    **dict.fromkeys(("contiguous", "identity", "clone", "detach_copy"), unchanged),
    **dict.fromkeys(("to", "astype", "view", "expand", "squeeze"), unchanged),
    **dict.fromkeys(("unsqueeze", "expand_dims"), unsqueezed),
    **dict.fromkeys(("cat", "concatenate"), joined),
    **dict.fromkeys(("norm", "vector_norm"), norm_of),
    **dict.fromkeys(("amin", "min"), smallest),
    "stack": stacked,
    "zeros": torch.zeros_like,
    "ones": torch.ones_like,
    "min/2": torch.minimum,
    "clamp_min": torch.maximum,
    "clamp_max": torch.minimum,
    "log_sigmoid": F.logsigmoid,
    "mse_loss": F.mse_loss,
    "l1_loss": F.l1_loss,
    **{
        name: getattr(F, name)
        for name in (
            *("leaky_relu", "softsign", "hardtanh", "hardsigmoid", "hardswish", "relu6", "elu"),
            *("selu", "celu", "mish"),
        )
    },
}
"""The functions of PyTorch that are not the ones of the same name in `torch`."""

OTHER_INPUTS: dict[str, tuple[str, Callable[[], Tensors], Reference]] = {
    "masked_fill": (
        "x: f32[M, 64], y: bool[M, 64]",
        lambda: [torch.randn(M, N), torch.randn(M, N) > 0],
        filled,
    ),
    "any": (
        "x: bool[M, 64]",
        lambda: [torch.randn(M, N) > 2],
        holds_once,
    ),
    "all": (
        "x: bool[M, 64]",
        lambda: [torch.randn(M, N) < 2],
        holds_everywhere,
    ),
    **dict.fromkeys(
        ("mm", "dot"),
        (
            "x: f32[M, 64], y: f32[64, 64]",
            lambda: [torch.randn(M, N), torch.randn(N, N)],
            torch.mm,
        ),
    ),
    "addmm": (
        "x: f32[M, 64], y: f32[M, 64], z: f32[64, 64]",
        lambda: [torch.randn(M, N), torch.randn(M, N), torch.randn(N, N)],
        torch.addmm,
    ),
    "flatten": ("x: f32[M, 64]", lambda: [torch.randn(M, N)], torch.flatten),
    "conv2d": (
        "x: f32[2, 4, 8, 8], y: f32[6, 4, 3, 3]",
        lambda: [torch.randn(2, 4, 8, 8), torch.randn(6, 4, 3, 3)],
        F.conv2d,
    ),
    "conv3d": (
        "x: f32[2, 4, 5, 5, 5], y: f32[6, 4, 3, 2, 3]",
        lambda: [torch.randn(2, 4, 5, 5, 5), torch.randn(6, 4, 3, 2, 3)],
        F.conv3d,
    ),
    "index_select": (
        "x: f32[M, 64], y: f32[M, 64], z: i64[M]",
        lambda: [torch.randn(M, N), torch.randn(M, N), torch.arange(M).flip(0)],
        selected,
    ),
}
ATTENTION = ("scaled_dot_product_attention", "sdpa", "flash_attention", "flash_attn_func")
ROTARY = ("rotary", "rotary_embedding", "apply_rotary_emb", "apply_rotary_pos_emb")
ELSEWHERE = {*ATTENTION, *ROTARY, "bmm", "double", "dropout"}
"""Those that other tests below are about."""


def compiled(parameters: str, results: Sequence[str]) -> tuple[coda_ir.CompiledFunction, list[str]]:
    """A function that returns the expressions, as emitted Triton."""
    used = [p for p in parameters.split("], ") if any(mentions(p[0], r) for r in results)]
    declared = ", ".join(p if p.endswith("]") else f"{p}]" for p in used)
    text = f"fn f({declared}) {{ return {', '.join(results)} }}"
    return coda_ir.compile(text, device="cpu"), [p[0] for p in used]


def mentions(name: str, text: str) -> bool:
    return re.search(rf"\b{name}\b", text) is not None


def check(
    parameters: str,
    inputs: Callable[[], Tensors],
    cases: dict[str, Reference],
) -> None:
    """Compare the texts of FUNCTIONS with functions of PyTorch on random data."""
    tensors = dict(zip("xyz", inputs(), strict=False))
    texts = {name: fill(FUNCTIONS[name], {}) for name in cases}
    run, used = compiled(parameters, list(texts.values()))
    results = run(*(tensors[name] for name in used))
    flat = [results] if isinstance(results, torch.Tensor) else [*results]
    for name, reference in cases.items():
        given = [tensors[key] for key in sorted(set(re.findall(r"\b[xyz]\b", texts[name])))]
        wide = [t.double() if t.is_floating_point() else t for t in given]
        compare(name, flat.pop(0), reference(*(wide or [tensors["x"].double()])))
    assert not flat


def compare(name: str, actual: torch.Tensor, expected: torch.Tensor) -> None:
    assert actual.shape == expected.shape, name
    if not expected.is_floating_point():
        assert torch.equal(actual, expected.to(actual.dtype)), name
        return
    bound = {torch.bfloat16: 1e-2, torch.float16: 2e-3}.get(actual.dtype, 2e-5)
    torch.testing.assert_close(
        actual.double(), expected.double(), rtol=bound, atol=bound, equal_nan=True, msg=name
    )


def references(names: Sequence[str]) -> dict[str, Reference]:
    return {name: TORCH[name] if name in TORCH else getattr(torch, name) for name in names}


def plain_names() -> list[str]:
    return [name for name in FUNCTIONS if name not in OTHER_INPUTS and name not in ELSEWHERE]


BATCH = 12


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, len(plain_names()), BATCH))
def test_counterparts_compute_what_pytorch_does(start: int):
    check(SAME, same, references(plain_names()[start : start + BATCH]))


@pytest.mark.parametrize("name", OTHER_INPUTS)
def test_counterparts_with_other_inputs(name: str):
    parameters, inputs, reference = OTHER_INPUTS[name]
    check(parameters, inputs, {name: reference})


def test_doubles_are_for_the_reference_target():
    text = f"fn f(x: f32[M, 64]) {{ return {fill(FUNCTIONS['double'], {})} }}"
    x = torch.randn(M, N)
    assert torch.equal(coda_ir.compile(text, device="cpu", target="reference")(x), x.double())


def test_batches_of_matrices():
    run, _ = compiled(
        "x: f32[2, M, 64], y: f32[2, 64, 8]",
        [fill(FUNCTIONS["bmm"], {**PLACEHOLDERS, "product": "2, M, 8"})],
    )
    x, y = torch.randn(2, M, N), torch.randn(2, N, 8)
    torch.testing.assert_close(run(x, y).double(), x.double() @ y.double(), rtol=1e-5, atol=1e-5)


def test_dropout_keeps_scaled_elements():
    run, _ = compiled("x: f32[M, 64]", [fill(FUNCTIONS["dropout"], {})])
    x = torch.randn(M, N)
    y = run(x)
    assert 0 < (y == 0).sum() < x.numel()
    torch.testing.assert_close(y[y != 0], (2 * x)[y != 0])


@pytest.mark.parametrize("name", ATTENTION)
def test_attention_is_the_one_of_pytorch(name: str):
    run, _ = compiled(SAME, [fill(FUNCTIONS[name], {})])
    x, y, z = same()
    q, k, v = (t.double()[None, None] for t in (x, y, z))
    torch.testing.assert_close(
        run(x, y, z).double(),
        F.scaled_dot_product_attention(q, k, v)[0, 0],
        rtol=1e-4,
        atol=1e-4,
    )


@pytest.mark.parametrize("name", ROTARY)
def test_rotary_embedding_rotates_pairs(name: str):
    run, _ = compiled("x: f32[M, 64], y: f32[M, 32], z: f32[M, 32]", [fill(FUNCTIONS[name], {})])
    x, angles = torch.randn(M, N), torch.rand(M, N // 2)
    first, second = x.double().chunk(2, -1)
    cos, sin = angles.double().cos(), angles.double().sin()
    expected = torch.cat([first * cos - second * sin, second * cos + first * sin], -1)
    torch.testing.assert_close(
        run(x, angles.cos(), angles.sin()).double(), expected, rtol=1e-5, atol=1e-5
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ELEMENTS)
def test_counterparts_in_epilogues(name: str):
    ports = [letter for letter in "yz" if mentions(letter, fill(ELEMENTS[name], {}))]
    kinds = "".join(f", {letter}: tile" for letter in ports)
    declared = "".join(f", {letter}: f32[M, 64]" for letter in ports)
    text = (
        f"epilogue e(x{kinds}) -> (out: tile) {{ out = {fill(ELEMENTS[name], {})} }}\n"
        f"fn f(x: f32[M, 64], w: f32[64, 64]{declared}) "
        f"{{ return e(linear(x, w){''.join(f', {letter}' for letter in ports)}) }}"
    )
    run = coda_ir.compile(text, device="cpu")
    x, w = torch.randn(M, N), torch.randn(N, N) / 8
    others = [torch.randn(M, N) for _ in ports]
    own = {"max": torch.maximum, "min": torch.minimum, "detach": torch.detach}
    reference = {**references([n for n in ELEMENTS if n not in own]), **own}
    expected = reference[name](F.linear(x.double(), w.double()), *(t.double() for t in others))
    bound = 1e-2 if name in ("bfloat16", "half") else 1e-4
    actual = run(x, w, *others).double()
    # A power of a negative number has no value.
    torch.testing.assert_close(
        actual, expected.double(), rtol=bound, atol=bound, equal_nan=name == "pow"
    )


# Names that differ in a few letters.


@cache
def names_of_pytorch() -> list[str]:
    modules = (torch, F, torch.Tensor)
    names = {name for module in modules for name in dir(module) if not name.startswith("_")}
    return sorted(name for name in names if name not in OPERATORS)


def plain(name: str) -> str:
    return name.lower().replace("_", "")


def test_no_function_of_pytorch_is_taken_for_a_misspelled_operator():
    for name in names_of_pytorch():
        for remedy in (
            function_remedy(name, OPERATORS, []),
            choice_remedy("activation", name, coda.ACTIVATIONS, "glu", None),
        ):
            suggested = re.match(r"did you mean '(\w+)'", remedy)
            assert suggested is None or plain(suggested[1]) == plain(name), (name, remedy)


@pytest.mark.parametrize(
    "name, right",
    [
        ("lienar", "linear"),
        ("sofmax", "softmax"),
        ("rmsnorm", "rms_norm"),
        ("RMSNorm", "rms_norm"),
        ("gelo", "gelu"),
        ("SiLU", "silu"),
        ("atention", "attention"),
    ],
)
def test_misspelled_operators_are_recognized(name: str, right: str):
    assert function_remedy(name, OPERATORS, []) == f"did you mean '{right}'?"


@pytest.mark.parametrize("synonym, activation", CHOICES["activation"].items())
def test_other_names_of_activations(synonym: str, activation: str):
    program = f'fn f(x: f32[M, 64]) {{ return glu(x, activation="{synonym}") }}'
    with pytest.raises(DiagnosticError) as error:
        parse_text(program, "a.coda")
    assert error.value.diagnostics[0].remedy == f'write activation="{activation}"'
    parse_text(program.replace(synonym, activation), "a.coda")


@pytest.mark.parametrize("activation", ["relu6", "elu", "quick_gelu", "leaky_relu"])
def test_a_gate_without_a_name(activation: str):
    function = "fn f(h: f32[M, 128]) {{ {} }}".format
    with pytest.raises(DiagnosticError) as error:
        parse_text(function(f'return glu(h, activation="{activation}")'), "a.coda")
    found = re.search(r"help: write (a, b = .*), then (.*)", str(error.value))
    assert found is not None
    run = coda_ir.compile(function(f"{found[1]}; return {found[2]}"), device="cpu")
    x = torch.randn(M, 128)
    a, b = x.double().chunk(2, -1)
    torch.testing.assert_close(
        run(x).double(), references([activation])[activation](a) * b, rtol=1e-5, atol=1e-5
    )
