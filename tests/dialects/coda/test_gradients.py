"""The operators of derivatives: PyTorch's values, and what compiled programs compute."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from support.equivalence import assert_equivalent, assert_results_close, run_checked
from support.programs import parse_mlir, run_operator, type_of
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

import coda_ir
from coda_ir.backends.reference import run_function
from coda_ir.dialects.coda import DERIVED_FROM_RESULT, ActivationGradOp

M, D = 5, 8

Activation = Callable[[torch.Tensor], torch.Tensor]

ACTIVATIONS: dict[str, Activation] = {
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "relu": F.relu,
    "relu2": lambda x: F.relu(x).square(),
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
}

PROGRAM = """
func.func @f(%dy: tensor<?x?x16xbf16> {coda.name = "dy", coda.dims = ["B", "T", 16 : i64]},
             %x: tensor<?x?x8xbf16> {coda.name = "x", coda.dims = ["B", "T", 8 : i64]},
             %c: tensor<?x?x1xf32> {coda.name = "c", coda.dims = ["B", "T", 1 : i64]},
             %cos: tensor<?x2xf32> {coda.name = "cos", coda.dims = ["T", 2 : i64]},
             %sin: tensor<?x2xf32> {coda.name = "sin", coda.dims = ["T", 2 : i64]},
             %ids: tensor<?x?xi64> {coda.name = "ids", coda.dims = ["B", "T"]},
             %dloss: tensor<f32> {coda.name = "dloss", coda.dims = []}) -> (RESULTS) {
BODY
  func.return VALUES : RESULTS
}
"""

OPERATORS = """
coda.weight_gradient %dy, %x : (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>) -> tensor<16x8xbf16>
coda.weight_gradient %dy, %x : (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>) -> tensor<16x8xf32>
coda.sum_to %dy : (tensor<?x?x16xbf16>) -> tensor<16xf32>
coda.sum_to %dy : (tensor<?x?x16xbf16>) -> tensor<?x1x16xbf16>
coda.sum_to %dy : (tensor<?x?x16xbf16>) -> tensor<?x?x16xf32>
coda.sum_to %c : (tensor<?x?x1xf32>) -> tensor<f32>
coda.broadcast %c : (tensor<?x?x1xf32>) -> tensor<?x?x8xf32>
coda.broadcast %dloss, %c : (tensor<f32>, tensor<?x?x1xf32>) -> tensor<?x?x1xf32>
coda.pad %x {dim = 2 : i64, start = 3 : i64} : (tensor<?x?x8xbf16>) -> tensor<?x?x12xbf16>
coda.pad %first, %x {dim = 1 : i64, start = 0 : i64} : (tensor<?x2x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
coda.rope %dy, %cos, %sin {head_dim = 4 : i64, layout = "half_split", transposed} : (tensor<?x?x16xbf16>, tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x?x16xbf16>
coda.cross_entropy_grad %x, %ids, %dloss {ignore_index = 3 : i64, reduction = "mean"} : (tensor<?x?x8xbf16>, tensor<?x?xi64>, tensor<f32>) -> tensor<?x?x8xbf16>
coda.cross_entropy_grad %x, %ids, %dloss, %c {ignore_index = 3 : i64, reduction = "sum"} : (tensor<?x?x8xbf16>, tensor<?x?xi64>, tensor<f32>, tensor<?x?x1xf32>) -> (tensor<?x?x8xbf16>, tensor<?x?x1xf32>)
coda.cross_entropy_grad %x, %ids, %dloss, %c {ignore_index = 3 : i64, reduction = "mean", start = 2 : i64} : (tensor<?x?x8xbf16>, tensor<?x?xi64>, tensor<f32>, tensor<?x?x1xf32>) -> tensor<?x?x8xbf16>
coda.cross_entropy_grad %dy, %ids, %losses {ignore_index = -100 : i64, reduction = "none"} : (tensor<?x?x16xbf16>, tensor<?x?xi64>, tensor<?x?xf32>) -> tensor<?x?x16xbf16>
coda.embedding_grad %ids, %x : (tensor<?x?xi64>, tensor<?x?x8xbf16>) -> tensor<9x8xbf16>
coda.attention_grad %dy, %attended, %lse, %dy, %x, %x {head_dim = 4 : i64, causal = true} : (tensor<?x?x16xbf16>, tensor<?x?x16xbf16>, tensor<?x4x?xf32>, tensor<?x?x16xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>)
torch.vjp "aten.cumsum.default"(%x : tensor<?x?x8xbf16>) of(%x : tensor<?x?x8xbf16>) {arguments = "{0}, 1", of = [0], wrt = [0]} -> tensor<?x?x8xbf16>
torch.vjp "aten.repeat.default"(%x : tensor<?x?x8xbf16>) of(%dy : tensor<?x?x16xbf16>) {arguments = "{0}, [B // B, 1, 2]", of = [0], wrt = [0]} -> tensor<?x?x8xbf16>
coda.sign %x : (tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
coda.maximum_grad %x, %last, %x : (tensor<?x?x8xbf16>, tensor<8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
""".strip().splitlines()  # noqa: E501

ACTIVATION_OPERATORS = [
    f'coda.activation_grad %x, %x {{activation = "{name}"}} : '
    "(tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>"
    for name in ACTIVATIONS
]


def program_of(operators: list[str]) -> ModuleOp:
    """A function that returns the results of `operators`."""
    body = [
        "%first = coda.slice %x {dim = 1 : i64, start = 0 : i64, stop = 2 : i64} : "
        "(tensor<?x?x8xbf16>) -> tensor<?x2x8xbf16>",
        "%row = coda.slice %x {dim = 1 : i64, start = 1 : i64, stop = 2 : i64} : "
        "(tensor<?x?x8xbf16>) -> tensor<?x1x8xbf16>",
        '%losses = coda.reshape %c {coda.dims = ["B", "T"]} : '
        "(tensor<?x?x1xf32>) -> tensor<?x?xf32>",
        "%last = coda.sum_to %row : (tensor<?x1x8xbf16>) -> tensor<8xbf16>",
        "%attended, %lse = coda.attention %dy, %x, %x {head_dim = 4 : i64, causal = true} : "
        "(tensor<?x?x16xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> "
        "tensor<?x?x16xbf16> lse tensor<?x4x?xf32>",
    ]
    values, types = list[str](), list[str]()
    for number, operator in enumerate(operators):
        stated = operator.rpartition("-> ")[2].strip("()").split(", ")
        names = [f"%r{number}_{index}" for index in range(len(stated))]
        body.append(f"{', '.join(names)} = {operator}")
        values += names
        types += stated
    text = PROGRAM.replace("BODY", "\n".join(body))
    return parse_mlir(
        text.replace("VALUES", ", ".join(values)).replace("RESULTS", ", ".join(types))
    )


def arguments() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(3)

    def normal(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
        return torch.randn(shape, generator=generator).to(dtype)

    angles = normal(3, 2, dtype=torch.float32)
    ids = torch.randint(0, 8, (2, 3), generator=generator)
    column = normal(2, 3, 1, dtype=torch.float32)
    loss = normal(dtype=torch.float32)
    return [normal(2, 3, 16), normal(2, 3, 8), column, angles.cos(), angles.sin(), ids, loss]


def test_compiled_programs_compute_what_the_reference_does():
    module = program_of([*OPERATORS, *ACTIVATION_OPERATORS])
    (func,) = module.ops
    assert isinstance(func, FuncOp)
    wanted = run_function(func, arguments(), "stated")
    results = coda_ir.compile(module, device="cpu")(*arguments())
    for index, (result, expected) in enumerate(zip(results, wanted, strict=True)):
        assert result.dtype == expected.dtype and result.shape == expected.shape
        error = (result.double() - expected.double()).abs().max()
        assert error <= 2**-6 * expected.double().abs().max(), f"result {index}: {error}"


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_grad(name: str):
    x, dy = normal(M, D).requires_grad_(), normal(M, D, seed=1)
    y = ACTIVATIONS[name](x)
    (expected,) = torch.autograd.grad(y, x, dy)
    source = (y if name in DERIVED_FROM_RESULT else x).detach()
    operator = f'coda.activation_grad {{activation = "{name}"}}'
    (result,) = run_operator(operator, source, dy, results=type_of(x))
    assert_results_close([result], [expected], 1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_scalar_code_of_an_activation_gradient(name: str):
    """The formula of the compiled code, in float64, against PyTorch's derivative."""
    text = f"""
      func.func @f(%x: tensor<?x8xf32>, %dy: tensor<?x8xf32>) -> tensor<?x8xf32> {{
        %r = coda.activation_grad %x, %dy {{activation = "{name}"}}
          : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
        func.return %r : tensor<?x8xf32>
      }}"""
    before, after = parse_mlir(text), parse_mlir(text)
    run_checked(after, "coda-to-gemm")
    assert not any(isinstance(op, ActivationGradOp) for op in after.walk())
    assert_equivalent(before, after)


def test_maximum_grad_at_ties_and_nan():
    a = torch.tensor([1.0, 2.0, 3.0, float("nan"), 1.0])
    b = torch.tensor([2.0, 2.0, 2.0, 1.0, float("nan")])
    dy = torch.tensor([5.0, 6.0, 7.0, 8.0, 9.0])
    for larger, function in ((True, torch.maximum), (False, torch.minimum)):
        x, y = a.clone().requires_grad_(), b.clone().requires_grad_()
        wanted = torch.autograd.grad(function(x, y), (x, y), dy)
        first, second = (a, b) if larger else (b, a)
        for left, right, expected in ((first, second, wanted[0]), (second, first, wanted[1])):
            (result,) = run_operator("coda.maximum_grad", left, right, dy, results=type_of(dy))
            torch.testing.assert_close(result, expected, rtol=0, atol=0)


def test_maximum_grad_of_a_bound():
    x = torch.tensor([1.0, 2.0, 3.0, float("nan")]).requires_grad_()
    dy, bound = torch.tensor([5.0, 6.0, 7.0, 8.0]), torch.full((4,), 2.0)
    for function, is_larger in ((torch.clamp_min, True), (torch.clamp_max, False)):
        (wanted,) = torch.autograd.grad(function(x, 2.0), x, dy)
        left, right = (x.detach(), bound) if is_larger else (bound, x.detach())
        (result,) = run_operator("coda.maximum_grad {bound}", left, right, dy, results=type_of(dy))
        torch.testing.assert_close(result, wanted, rtol=0, atol=0)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_cross_entropy_grad(reduction: str):
    logits = normal(M, D).requires_grad_()
    target = torch.tensor([0, 7, -100, 3, 3])
    loss = F.cross_entropy(logits, target, reduction=reduction)
    dloss = normal(*loss.shape, seed=1)
    (expected,) = torch.autograd.grad(loss, logits, dloss)
    operator = f'coda.cross_entropy_grad {{ignore_index = -100 : i64, reduction = "{reduction}"}}'
    (result,) = run_operator(operator, logits.detach(), target, dloss, results=type_of(logits))
    assert_results_close([result], [expected], 1e-14)


def test_cross_entropy_grad_of_some_columns():
    """The parts of the rows, side by side, are the gradient of whole rows."""
    logits = normal(M, D).requires_grad_()
    target = torch.tensor([0, 7, -100, 3, 4])
    (expected,) = torch.autograd.grad(F.cross_entropy(logits, target), logits, torch.tensor(0.5))
    lse = logits.detach().logsumexp(-1, keepdim=True)
    parts: list[torch.Tensor] = []
    for start in (0, 4):
        part = logits.detach()[:, start : start + 4]
        properties = f'ignore_index = -100 : i64, reduction = "mean", start = {start} : i64'
        operator = f"coda.cross_entropy_grad {{{properties}}}"
        operands = (part, target, torch.tensor(0.5, dtype=part.dtype), lse.float())
        parts += run_operator(operator, *operands, results=type_of(part))
    assert_results_close([torch.cat(parts, 1)], [expected], 1e-6)
