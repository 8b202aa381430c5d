"""Gradients of attention by every kernel that PyTorch has for a GPU, against float64.

pytest tests/gpu/test_attention_gradient.py
"""

from functools import partial
from importlib import import_module
from typing import Any

import pytest
import torch
from support.attention import AttentionCounter
from torch.nn.attention import SDPBackend, sdpa_kernel

import coda_ir
from coda_ir.float64 import relative_error

pytestmark = pytest.mark.gpu

# What is copied into emitted modules has no types.
runtime: Any = import_module("coda_ir.backends.triton.runtime.attention_gradient")

WIDTH, HEADS, KV_HEADS = 64, 8, 2

PROGRAM = """
fn f(q: TYPE[B, T, 512], k: TYPE[B, S, 128], v: TYPE[B, S, 128], sinks: TYPE[8],
     bias: TYPE[8, T, S], padding: bool[B, 1, 1, S]) {
    return attention(q, k, v, head_dim=64, OPTIONS)
}
"""

OPTIONS: list[dict[str, Any]] = [
    {},
    {"causal": True},
    {"causal": True, "window": 100},
    {"mask": "padding"},
    {"causal": True, "mask": "bias"},
    {"causal": True, "sinks": "sinks"},
    {"causal": True, "window": 100, "sinks": "sinks", "mask": "padding"},
    {"causal": True, "softcap": 20.0, "sinks": "sinks", "mask": "bias"},
]

MATH, FLASH = SDPBackend.MATH, SDPBackend.FLASH_ATTENTION
EFFICIENT, CUDNN = SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION

KERNELS: dict[str, list[SDPBackend]] = {
    "any": [FLASH, EFFICIENT, CUDNN, MATH],
    "flash": [FLASH, MATH],
    "efficient": [EFFICIENT, MATH],
    "cudnn": [CUDNN, MATH],
    "math": [MATH],
}


def inputs(dtype: torch.dtype, queries: int, keys: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).to("cuda", dtype)

    padding = torch.arange(keys) < torch.tensor([keys, keys - keys // 4])[:, None]
    return {
        "q": normal(2, queries, HEADS * WIDTH),
        "k": normal(2, keys, KV_HEADS * WIDTH),
        "v": normal(2, keys, KV_HEADS * WIDTH),
        "sinks": normal(HEADS),
        "bias": normal(HEADS, queries, keys),
        "padding": padding[:, None, None].cuda(),
    }


def definition(tensors: dict[str, Any], options: dict[str, Any]) -> torch.Tensor:
    """Attention decomposed into products and a softmax, in the type of `tensors`."""
    q, k, v = (tensors[name].unflatten(-1, (-1, WIDTH)).transpose(1, 2) for name in "qkv")
    k, v = (x.repeat_interleave(HEADS // KV_HEADS, 1) for x in (k, v))
    scores = q @ k.mT * WIDTH**-0.5
    if "softcap" in options:
        scores = options["softcap"] * torch.tanh(scores / options["softcap"])
    mask = tensors[options["mask"]] if "mask" in options else None
    if mask is not None:
        is_bool = mask.dtype == torch.bool
        scores = scores.masked_fill(~mask, -torch.inf) if is_bool else scores + mask
    queries, keys = scores.shape[-2:]
    positions = torch.arange(keys - queries, keys, device="cuda")
    distance = positions[:, None] - torch.arange(keys, device="cuda")
    if options.get("causal"):
        scores = scores.masked_fill(distance < 0, -torch.inf)
    if "window" in options:
        scores = scores.masked_fill(distance.abs() >= options["window"], -torch.inf)
    if "sinks" in options:
        column = tensors["sinks"][:, None, None].expand(*scores.shape[:-1], 1)
        scores = torch.cat([scores, column], -1)
    y = torch.softmax(scores, -1)[..., :keys] @ v
    return y.transpose(1, 2).flatten(2)


def step(function: Any, tensors: dict[str, torch.Tensor], dtype: torch.dtype | None = None) -> Any:
    """The result, and the gradients of all floats that it depends on."""
    given = {
        name: x.to(dtype or x.dtype).detach().requires_grad_() if x.is_floating_point() else x
        for name, x in tensors.items()
    }
    y: Any = function(given)
    d_y = torch.randn(y.shape, generator=torch.Generator().manual_seed(1)).to(y)
    wanted = [x for x in given.values() if x.requires_grad]
    return [y.detach(), *torch.autograd.grad(y, wanted, d_y, allow_unused=True)]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: ",".join(o) or "plain")
@pytest.mark.parametrize(("queries", "keys"), [(130, 130), (64, 515)])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("element", ["bf16", "f32"])
def test_gradients(options: dict[str, Any], queries: int, keys: int, kernel: str, element: str):
    dtype = torch.bfloat16 if element == "bf16" else torch.float32
    text = ", ".join(f"{n}={str(x).lower()}" for n, x in options.items())
    text = PROGRAM.replace("TYPE", element).replace(", OPTIONS", f", {text}" if text else "")
    trained = coda_ir.compile(text, training=True, device="cuda")
    tensors = inputs(dtype, queries, keys)
    used = {"q", "k", "v", "padding", *(x for x in options.values() if isinstance(x, str))}
    learned = {n: x.requires_grad_(x.is_floating_point() and n in used) for n, x in tensors.items()}

    def run(given: dict[str, torch.Tensor]) -> Any:
        return trained(**{n: x if n in used else x.detach() for n, x in given.items()})

    with sdpa_kernel(KERNELS[kernel]):
        first = step(run, learned)
        with AttentionCounter() as counter:
            second = step(run, learned)
    assert counter.forwards <= 1 and counter.backwards <= 1
    decomposed = partial(definition, options=options)
    exact, eager = step(decomposed, learned, torch.float64), step(decomposed, learned)
    for a, b, wanted, decomposed in zip(first, second, exact, eager, strict=True):
        if wanted is None:
            continue
        assert torch.equal(a, b), "two runs give the same bits"
        allowed = 1.25 * relative_error(decomposed.cpu(), wanted.cpu())
        # The few numbers of the sinks vary more.
        floor = (5e-3 if element == "bf16" else 5e-6) * (2 if wanted.numel() == HEADS else 1)
        assert relative_error(a.cpu(), wanted.cpu()) < max(allowed, floor)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("mask", [None, "bool", "added"])
@pytest.mark.parametrize("is_dense", [True, False], ids=["heads first", "rows first"])
def test_heads_that_are_no_columns(kernel: str, mask: str | None, is_dense: bool):
    """A graph gives the backward results of the forward in another layout."""

    def heads() -> torch.Tensor:
        x = torch.randn(2, 200, HEADS, WIDTH, device="cuda", dtype=torch.bfloat16).transpose(1, 2)
        return x.contiguous() if is_dense else x

    q, k, v, d_y = (heads() for _ in range(4))
    seen = torch.ones(200, 200, dtype=torch.bool, device="cuda").tril().expand(2, 1, -1, -1)
    added = torch.zeros(2, 1, 200, 200, device="cuda", dtype=torch.bfloat16)
    masks = {None: None, "bool": seen, "added": added.masked_fill(~seen, -1e30)}
    wide = [x.double().requires_grad_() for x in (q, k, v)]
    scores = wide[0] @ wide[1].mT * WIDTH**-0.5
    exact = torch.softmax(scores if mask is None else scores.masked_fill(~seen, -torch.inf), -1)
    exact = exact @ wide[2]
    wanted = torch.autograd.grad(exact, wide, d_y.double())
    with sdpa_kernel(KERNELS[kernel]):
        y, lse = runtime.attention_of_heads(q, k, v, masks[mask])
        assert relative_error(y, exact.detach()) < 5e-3
        for out in (y, y.contiguous(), y.transpose(1, 2).contiguous().transpose(1, 2)):
            rest = (None, None, 0, 0, 0.0, False, None, None)
            found = runtime.attention_of_heads_grad(
                d_y, q, k, v, masks[mask], [True, True, True, False], out, lse, *rest
            )
            for a, b in zip(found, wanted, strict=True):
                assert relative_error(a, b) < 5e-3


def attend(kernel: str, q: Any, k: Any, v: Any, mask: Any, d_y: Any) -> list[torch.Tensor]:
    """Attention by `kernel`, the logsumexp of the scores, and the gradients of q, k and v."""
    wants, rest = [True, True, True, False], (None, None, 0, 0, 0.0, False, None, None)
    with sdpa_kernel(KERNELS[kernel]):
        y, lse = runtime.attention_of_heads(q, k, v, mask)
        found = runtime.attention_of_heads_grad(d_y, q, k, v, mask, wants, y, lse, *rest)
    return [y, lse, *found]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("number", [-1e4, -1e9, -1e30, "least"])
@pytest.mark.parametrize("kernel", ["efficient", "any"])
def test_queries_of_which_a_number_hides_all_keys(kernel: str, number: Any, dtype: torch.dtype):
    """They weight all keys alike, as where the softmax is decomposed."""
    least = torch.finfo(dtype).min
    number = least if number == "least" else max(number, least)
    heads = [torch.randn(2, HEADS, 100, WIDTH, device="cuda").to(dtype) for _ in range(4)]
    q, k, v, d_y = heads
    hidden = torch.ones(100, 100, dtype=torch.bool, device="cuda").triu(1).repeat(2, 1, 1, 1)
    hidden[0, :, :30], hidden[1, :, :, 60:] = True, True
    mask = torch.zeros(hidden.shape, device="cuda", dtype=dtype).masked_fill(hidden, number)
    wide = [x.float().requires_grad_() for x in (q, k, v)]
    scores = wide[0] @ wide[1].mT * WIDTH**-0.5 + mask.float()
    eager = torch.softmax(scores, -1) @ wide[2]
    wanted = torch.autograd.grad(eager, wide, d_y.float())
    y, _, *found = attend(kernel, q, k, v, mask, d_y)
    bound = 1e-3 if dtype == torch.float32 else 1e-2
    for ours, theirs in zip((y, *found), (eager.detach(), *wanted), strict=True):
        assert relative_error(ours, theirs.double()) < bound


@pytest.mark.parametrize("kernel", ["efficient", "any"])
@pytest.mark.parametrize("is_bool", [True, False])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_queries_that_see_no_key(kernel: str, is_bool: bool, dtype: torch.dtype):
    """They give 0, and no gradients."""
    q, k, v, d_y = (torch.randn(2, HEADS, 200, WIDTH, device="cuda").to(dtype) for _ in range(4))
    seen = torch.rand(2, 1, 200, 200, device="cuda") < 0.5
    seen[0, :, :90], seen[1, :, :, :130] = False, False
    seen[1, :, 7:20] = False
    mask = seen if is_bool else torch.zeros_like(seen, dtype=dtype).masked_fill(~seen, -torch.inf)
    wide = [x.double().requires_grad_() for x in (q, k, v)]
    scores = (wide[0] @ wide[1].mT * WIDTH**-0.5).masked_fill(~seen, -1e4)
    weights = torch.where(seen, torch.softmax(scores, -1), 0.0)
    exact = weights @ wide[2]
    wanted = torch.autograd.grad(exact, wide, d_y.double())
    y, lse, *found = attend(kernel, q, k, v, mask, d_y)
    assert not y[0, :, :90].any() and lse[1, :, 7:20].isposinf().all()
    for ours, theirs in zip((y, *found), (exact.detach(), *wanted), strict=True):
        assert relative_error(ours, theirs) < 1e-2
