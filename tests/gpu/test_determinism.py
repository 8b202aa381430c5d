"""Two runs of a training step give the same bits on a GPU, operator by operator and as a whole.

python -m pytest tests/gpu/test_determinism.py -q -rA      # the tests that fail name the operators

A test that fails says which tensors and which statements of the emitted program differ. Where
PyTorch differs, too, is printed: its sums at places that tensors name do, and from 2.11 on its
gradient of an embedding of few ids.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.repeated_runs import differences, statements_that_differ

import coda_ir

# Neither transformers nor torch.compile has complete types.
torch_compile: Any = import_module("torch").compile
dynamo: Any = import_module("torch._dynamo")

pytestmark = pytest.mark.gpu

ROWS, WIDTH, REPEATS = 8192, 512, 5
COMPILED = {"errors": "raise", "compare": False}
"""Without the choice of Inductor, whose programs may differ from run to run."""
Step = Callable[[], Sequence[torch.Tensor]]

OPERATORS = {
    "linear": "fn f(x: T[M, 512], weight w: T[384, 512], b: T[384]) -> T[M, 384] {\n"
    "  return linear(x, w, b)\n}",
    "narrow linear": "fn f(x: T[M, 512], weight w: T[24, 512]) -> T[M, 24] {\n"
    "  return linear(x, w)\n}",
    "rms_norm": "fn f(x: T[M, 512], weight w: T[512]) -> T[M, 512] {\n"
    "  return rms_norm(x, w, eps=1e-5)\n}",
    "layer_norm": "fn f(x: T[M, 512], weight w: T[512], weight b: T[512]) -> T[M, 512] {\n"
    "  return layer_norm(x, w, b, eps=1e-5)\n}",
    "softmax": "fn f(x: T[M, 512]) -> T[M, 512] {\n  return softmax(x)\n}",
    "reductions": "fn f(x: T[M, 512]) -> T[M, 1] {\n  return sum(x) * max(x) + mean(x)\n}",
    "swiglu": "fn f(x: T[M, 512], weight n: T[512], weight g: T[1376, 512],\n"
    "     weight u: T[1376, 512], weight d: T[512, 1376]) -> T[M, 512] {\n"
    "  h = rms_norm(x, n, eps=1e-5)\n"
    "  return x + linear(silu(linear(h, g)) * linear(h, u), d)\n}",
    "attention": "fn f(q: T[B, L, 512], k: T[B, L, 128], v: T[B, L, 128]) -> T[B, L, 512] {\n"
    "  return attention(q, k, v, head_dim=64, causal=true)\n}",
    "embedding of few ids": "fn f(ids: i64[M], table: T[256, 512]) -> T[M, 512] {\n"
    "  return embedding(ids, table)\n}",
    "embedding of many ids": "fn f(ids: i64[M], table: T[50257, 512]) -> T[M, 512] {\n"
    "  return embedding(ids, table)\n}",
    "cross_entropy": "fn f(x: T[M, 512], weight w: T[256, 512], target: i64[M]) -> f32[] {\n"
    '  return cross_entropy(linear(x, w), target, reduction="mean")\n}',
}
SIZES = {"M": ROWS, "B": 16, "L": ROWS // 16}
NAMES = {torch.float32: "f32", torch.bfloat16: "bf16"}
dtypes = pytest.mark.parametrize("dtype", NAMES, ids=NAMES.get)


def uneven_ids(rows: int, *shape: int) -> torch.Tensor:
    """As in text, few of them are most of all."""
    drawn = torch.rand(shape, device="cuda").pow(4) * rows
    return drawn.long().clamp(max=rows - 1)


def repeated(step: Step, names: Sequence[str], what: str) -> None:
    """Fails, and says where, unless every call of `step` gives the same bits; it gives `names`."""
    first = step()
    for _ in range(REPEATS):
        if found := differences(names, first, step()):
            statements = statements_that_differ(step, REPEATS) or ["in no statement"]
            pytest.fail("\n".join([f"{what} differs from run to run:", *found, *statements]))


def gradients(function: Any, arguments: dict[str, Any]) -> list[torch.Tensor]:
    """Return what `function` gives, and the gradients of its floats for a fixed seed."""
    floats = [arguments[name] for name in named_floats(arguments)]
    result = function(**arguments)
    seed = torch.linspace(-1, 1, result.numel(), device="cuda").reshape(result.shape)
    return [result.detach(), *torch.autograd.grad(result, floats, seed.to(result.dtype))]


def named_floats(arguments: dict[str, Any]) -> list[str]:
    return [name for name, x in arguments.items() if x.is_floating_point()]


def compare_gradients(function: Any, arguments: dict[str, Any], what: str) -> None:
    names = ["result", *(f"gradient of {name}" for name in named_floats(arguments))]
    repeated(lambda: gradients(function, arguments), names, what)


@dtypes
@pytest.mark.parametrize("name", OPERATORS)
def test_operator(name: str, dtype: torch.dtype) -> None:
    torch.default_generator.manual_seed(0)
    torch.cuda.manual_seed(0)
    text = OPERATORS[name].replace("T[", f"{NAMES[dtype]}[")
    function = coda_ir.compile(text, training=True, device="cuda")
    rows = 50257 if "many" in name else 256
    arguments: dict[str, Any] = {}
    shape: Any
    for spec in function.signature.arguments:
        shape = [SIZES.get(str(dim), dim) for dim in spec.dims]
        if spec.dtype.is_floating_point:
            x = torch.randn(shape, device="cuda") / (shape[-1] ** 0.5 if len(shape) == 2 else 1)
            arguments[spec.name] = x.to(dtype).requires_grad_()
        else:
            arguments[spec.name] = uneven_ids(rows, *shape)
    compare_gradients(function, arguments, f"{name} in {NAMES[dtype]}")


def columns(ids: torch.Tensor) -> torch.Tensor:
    """The same row in every column."""
    return ids[:, None].expand(-1, WIDTH)


CALLS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "index_select": lambda x, ids: x.index_select(0, ids),
    "index": lambda x, ids: x[ids],
    "gather": lambda x, ids: x.gather(0, columns(ids)),
    "gather of elements": lambda x, ids: x.gather(0, columns(ids).contiguous()),
    "index_add": lambda x, ids: x.index_add(0, ids, x * 0.5),
    "index_put": lambda x, ids: x.index_put((ids,), x * 0.5, accumulate=True),
    "scatter_add": lambda x, ids: x.scatter_add(0, columns(ids), x * 0.5),
    "scatter_reduce": lambda x, ids: x.scatter_reduce(0, columns(ids), x * 0.5, "mean"),
    "convolution": lambda x, ids: (
        F.conv1d(x[ids].T[None, :64], x[:WIDTH, :192].reshape(WIDTH, 64, 3))[0].T
    ),
}
"""Functions of x, 8192 x 512, and of an id below 256 for each of its rows. Rows of one id are
unlike each other, or the order in which they are added would not matter.
"""


@pytest.fixture
def fresh_dynamo() -> Iterator[None]:
    dynamo.reset()
    yield
    dynamo.reset()


@dtypes
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.usefixtures("fresh_dynamo")
def test_call_of_pytorch(name: str, dtype: torch.dtype, caplog: pytest.LogCaptureFixture) -> None:
    """Beside a GEMM, without which a graph is left to PyTorch."""
    torch.default_generator.manual_seed(0)
    torch.cuda.manual_seed(0)
    x = torch.randn(ROWS, WIDTH, device="cuda").to(dtype).requires_grad_()
    w = (torch.randn(64, WIDTH, device="cuda") / WIDTH**0.5).to(dtype).requires_grad_()
    arguments = {"x": x, "ids": uneven_ids(256, ROWS), "w": w}

    def model(x: torch.Tensor, ids: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.linear(CALLS[name](x, ids), w)

    first, second = (gradients(model, arguments) for _ in range(2))
    print("eager:", differences(["result", "gradient of x", "gradient of w"], first, second))
    compiled = torch_compile(model, backend="coda", options=COMPILED)
    with caplog.at_level(logging.INFO, "coda_ir.frontends.torch.dynamo"):
        gradients(compiled, arguments)
    assert not [text for text in caplog.messages if " runs in " in text or "left to" in text]
    compare_gradients(compiled, arguments, f"{name} in {NAMES[dtype]}")


def llama() -> Any:
    transformers: Any = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=256,
        hidden_size=WIDTH,
        intermediate_size=1376,
        num_hidden_layers=2,
        num_attention_heads=8,
        num_key_value_heads=8,
        max_position_embeddings=512,
    )
    return transformers.LlamaForCausalLM(config).cuda()


def first_step(model: Any, forward: Any, ids: torch.Tensor, dtype: torch.dtype) -> list[Any]:
    """The loss and the gradients of all parameters; bfloat16 by autocast."""
    model.zero_grad()
    with torch.autocast("cuda", dtype, enabled=dtype != torch.float32):
        loss = forward(input_ids=ids, labels=ids).loss
    loss.backward()
    return [loss.detach(), *(p.grad for p in model.parameters())]


@dtypes
@pytest.mark.usefixtures("fresh_dynamo")
def test_first_step_of_llama(dtype: torch.dtype) -> None:
    torch.default_generator.manual_seed(0)
    torch.cuda.manual_seed(0)
    model, ids = llama(), uneven_ids(256, 16, 512)
    names = ["loss", *(f"gradient of {name}" for name, _ in model.named_parameters())]
    first, second = (first_step(model, model, ids, dtype) for _ in range(2))
    print("eager:", differences(names, first, second))
    compiled = torch_compile(model, backend="coda", options=COMPILED)
    repeated(lambda: first_step(model, compiled, ids, dtype), names, f"a step in {NAMES[dtype]}")
