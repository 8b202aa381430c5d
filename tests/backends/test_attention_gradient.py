"""Attention and its derivative from what the forward saved, against those of the definition."""

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import pytest
import torch
from support.attention import (
    CASES,
    HEADS,
    KINDS,
    KV_HEADS,
    WIDTH,
    definition,
    definition_of_lse,
    inputs,
    normal,
    program,
    result_like,
)
from support.emitted import relative_error
from support.joints import function_of
from torch.nn.attention import SDPBackend, sdpa_kernel

from coda_ir.api import parse
from coda_ir.backends.reference import run_function
from coda_ir.backends.triton.runtime import attention_gradient
from coda_ir.context import make_context
from coda_ir.passes.gradient.derive_gradient import DeriveGradientPass

Tensors = Mapping[str, torch.Tensor]

aten = torch.ops.aten


@pytest.fixture
def emitted() -> ModuleType:
    """The functions that emitted modules have of attention that is trained."""
    return attention_gradient


def leaves(tensors: Tensors, dtype: torch.dtype | None = None) -> dict[str, torch.Tensor]:
    """Copies that gradients are wanted of, but for truth values."""
    return {
        name: x.to(dtype or x.dtype).clone().requires_grad_() if x.is_floating_point() else x
        for name, x in tensors.items()
    }


def exact_gradients(
    tensors: Tensors, numbers: Mapping[str, Any], d_y: torch.Tensor
) -> dict[str, torch.Tensor]:
    """The gradients of all floats by the definition, in float64."""
    wide = leaves(tensors, torch.float64)
    y = definition(**wide, **numbers).transpose(1, 2).flatten(2)
    wanted = {name: x for name, x in wide.items() if x.requires_grad}
    found = torch.autograd.grad(y, list(wanted.values()), d_y.double())
    return dict(zip(wanted, found, strict=True))


@pytest.mark.parametrize(("queries", "keys", "options"), CASES)
def test_reference(queries: int, keys: int, options: dict[str, Any]):
    tensors, numbers = inputs(queries, keys, options, "f32")
    d_y = result_like(tensors)
    module = parse(program(tensors, numbers))
    DeriveGradientPass().apply(make_context(), module)
    _, *found = run_function(function_of(module, "f_joint"), [*tensors.values(), d_y])
    wanted = exact_gradients(tensors, numbers, d_y)
    for (name, expected), actual in zip(wanted.items(), found, strict=True):
        assert relative_error(actual, expected) < 1e-12, name


def check_emitted(emitted: Any, tensors: Tensors, numbers: Mapping[str, Any], kind: str) -> None:
    """The emitted functions against the definition."""
    d_y = result_like(tensors)
    wanted = exact_gradients(tensors, numbers, d_y)
    q, k, v = (tensors[name] for name in "qkv")
    named = {**numbers, **{name: x for name, x in tensors.items() if name not in "qkv"}}
    causal = named.pop("causal", False)
    y, lse = emitted.attention_with_lse(q, k, v, WIDTH, causal, **named)
    wrt = [name for name in wanted if name not in "qkv"]
    found = emitted.attention_grad(d_y, y, lse, q, k, v, WIDTH, causal, **named, wrt=wrt)
    allowed = 2e-6 if kind == "f32" else 1e-2
    expected = definition(**tensors, **numbers).transpose(1, 2).flatten(2)
    assert relative_error(y, expected) < allowed
    assert relative_error(lse, definition_of_lse(**tensors, **numbers)) < 2e-6
    assert lse.is_contiguous() and y.is_contiguous()
    for (name, gradient), actual in zip(wanted.items(), found, strict=True):
        # The rounding of y weighs more in the few numbers that it is added up to.
        assert relative_error(actual, gradient) < allowed * (1 + (name == "sinks")), name
        assert actual.dtype == tensors[name].dtype


@pytest.mark.parametrize(("queries", "keys", "options"), CASES)
@pytest.mark.parametrize("kind", KINDS)
def test_kernels_of_the_cpu(
    emitted: Any, queries: int, keys: int, options: dict[str, Any], kind: str
):
    check_emitted(emitted, *inputs(queries, keys, options, kind), kind)


@pytest.mark.parametrize(("queries", "keys", "options"), CASES)
def test_without_kernels(emitted: Any, queries: int, keys: int, options: dict[str, Any]):
    with sdpa_kernel(SDPBackend.MATH):
        check_emitted(emitted, *inputs(queries, keys, options, "f32"), "f32")


class CudaKernels:
    """PyTorch's kernels for CUDA in terms of those for the CPU, with what they demand."""

    def __init__(self, *, heads_may_be_shared: bool):
        self.heads_may_be_shared = heads_may_be_shared

    def _check(self, *tensors: torch.Tensor, columns: int) -> None:
        for x in tensors:
            assert x.shape[-1] % columns == 0 and x.stride(-1) == 1
        assert self.heads_may_be_shared or len({x.shape[1] for x in tensors}) == 1

    def _check_determinism(self) -> None:
        assert torch.are_deterministic_algorithms_enabled()
        assert not torch.is_deterministic_algorithms_warn_only_enabled()

    def _scaled_dot_product_flash_attention(
        self, q: Any, k: Any, v: Any, dropout: float, causal: bool, *, scale: float
    ) -> tuple[Any, ...]:
        self._check(q, k, v, columns=8)
        y, lse = aten._scaled_dot_product_flash_attention_for_cpu(
            q, k, v, dropout, causal, scale=scale
        )
        return y, lse.contiguous(), None, None, q.shape[2], k.shape[2], None, None, None

    def _scaled_dot_product_cudnn_attention(
        self, q: Any, k: Any, v: Any, mask: Any, with_lse: bool, *rest: Any, scale: float
    ) -> tuple[Any, ...]:
        assert with_lse
        assert mask is None or mask.isfinite().all()
        self._check(q, k, v, columns=8)
        self._check_mask(q, k, mask)
        y, lse = aten._scaled_dot_product_flash_attention_for_cpu(
            q, k, v, *rest, attn_mask=mask, scale=scale
        )
        return y, lse[..., None].contiguous(), None, None, q.shape[2], k.shape[2], None, None, None

    def _scaled_dot_product_flash_attention_backward(
        self, d_y: Any, q: Any, k: Any, v: Any, y: Any, lse: Any, *rest: Any, scale: float
    ) -> tuple[Any, ...]:
        *sizes, dropout, causal, _, _ = rest
        assert sizes == [None, None, q.shape[2], k.shape[2]] and lse.is_contiguous()
        self._check(q, k, v, d_y, y, columns=8)
        self._check_determinism()
        return aten._scaled_dot_product_flash_attention_for_cpu_backward(
            d_y, q, k, v, y, lse, dropout, causal, scale=scale
        )

    def _scaled_dot_product_efficient_attention(
        self,
        q: Any,
        k: Any,
        v: Any,
        mask: Any,
        with_lse: bool,
        dropout: float,
        causal: bool,
        *,
        scale: float | None,
    ) -> tuple[Any, ...]:
        assert with_lse
        self._check(q, k, v, columns=4)
        self._check_mask(q, k, mask)
        y, lse = aten._scaled_dot_product_flash_attention_for_cpu(
            q, k, v, dropout, causal, attn_mask=mask, scale=scale
        )
        padded = torch.nn.functional.pad(lse, (0, -q.shape[2] % 32), value=float("inf"))
        return y, padded.contiguous(), None, None

    def _scaled_dot_product_efficient_attention_backward(
        self, d_y: Any, q: Any, k: Any, v: Any, mask: Any, y: Any, lse: Any, *rest: Any, scale: Any
    ) -> tuple[Any, ...]:
        _, _, dropout, wants, causal = rest
        self._check(q, k, v, d_y, y, columns=4)
        self._check_mask(q, k, mask)
        self._check_determinism()
        assert lse.shape[2] % 32 == 0 and lse[..., q.shape[2] :].isposinf().all()
        lse = lse[..., : q.shape[2]]
        gradients = aten._scaled_dot_product_flash_attention_for_cpu_backward(
            d_y, q, k, v, y, lse, dropout, causal, attn_mask=mask, scale=scale
        )
        scale = q.shape[-1] ** -0.5 if scale is None else scale
        scores = q.float() @ k.float().mT * scale + (0 if mask is None else mask)
        moment = (d_y.float() * y.float()).sum(-1, keepdim=True)
        d_mask = torch.exp(scores - lse[..., None]) * (d_y.float() @ v.float().mT - moment)
        return *gradients, d_mask.to(q.dtype) if wants[3] else None

    def _check_mask(self, q: Any, k: Any, mask: Any) -> None:
        if mask is not None:
            assert mask.shape == (*q.shape[:3], k.shape[2]) and mask.dtype == q.dtype
            assert mask.stride(-1) == 1 and all(stride % 8 == 0 for stride in mask.stride()[:-1])


class TorchWith:
    """The module torch with other kernels."""

    def __init__(self, kernels: object):
        self.ops = type("Operators", (), {"aten": kernels})

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


Available = Callable[..., str | None]

HEADS_APART = ((5, 1, False, False), (5, 2, True, False), (7, 1, True, False), (7, 4, False, True))
"""Keys for 5 queries, heads that share one of them, whether causal, and whether there is a mask."""


@pytest.fixture
def with_cuda(emitted: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Lets the emitted module use a kernel of CUDA where PyTorch could."""

    def use(kernel: str) -> None:
        usual: Available = emitted.available_kernel

        def available(q: Any, k: Any, v: Any, softcap: Any, mask: Any, causal: bool) -> str | None:
            if usual(q, k, v, softcap, mask, causal) is None:
                return None
            return "efficient" if kernel == "efficient" or mask is not None else "flash"

        def is_cudnn(*_: object) -> bool:
            return kernel == "cudnn"

        monkeypatch.setattr(emitted, "available_kernel", available)
        monkeypatch.setattr(emitted, "cudnn_attends", is_cudnn)
        kernels = CudaKernels(heads_may_be_shared=kernel != "efficient")
        monkeypatch.setattr(emitted, "torch", TorchWith(kernels))

    return use


def test_a_kernel_is_chosen_once_for_tensors_of_a_layout(emitted: Any):
    asked: list[tuple[int, ...]] = []

    @emitted.once_for_layouts
    def choose(x: torch.Tensor, _: bool) -> int:
        asked.append(x.stride())
        return len(asked)

    x = torch.randn(4, 4)
    assert [choose(x, True), choose(x.clone(), True), choose(x.T, True)] == [1, 1, 2]
    assert [choose(x, False), choose(x.double(), True), choose(x[:2], True)] == [3, 4, 5]
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        assert choose(x, True) == 6
    assert choose(x, True) == 1
    assert len(asked) == 6


@pytest.mark.parametrize(("queries", "keys", "options"), CASES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kernel", ["flash", "cudnn", "efficient"])
def test_calls_of_kernels_for_cuda(
    emitted: Any,
    with_cuda: Callable[[str], None],
    queries: int,
    keys: int,
    options: dict[str, Any],
    kind: str,
    kernel: str,
):
    with_cuda(kernel)
    check_emitted(emitted, *inputs(queries, keys, options, kind), kind)
    assert not torch.are_deterministic_algorithms_enabled()


def with_rows_inside(tensors: Tensors) -> dict[str, torch.Tensor]:
    """The same with q, k and v laid out as convolutions over rows give them: columns are apart."""
    return {
        name: x.mT.contiguous().mT if name in ("q", "k", "v") else x for name, x in tensors.items()
    }


@pytest.mark.parametrize(("queries", "keys", "options"), CASES)
@pytest.mark.parametrize("kernel", ["cpu", "flash", "cudnn", "efficient"])
def test_columns_that_are_apart(
    emitted: Any,
    with_cuda: Callable[[str], None],
    queries: int,
    keys: int,
    options: dict[str, Any],
    kernel: str,
):
    """PyTorch's kernels read columns side by side; the one for the CPU does not refuse others."""
    if kernel != "cpu":
        with_cuda(kernel)
    tensors, numbers = inputs(queries, keys, options, "f32")
    check_emitted(emitted, with_rows_inside(tensors), numbers, "f32")


def test_columns_that_a_kernel_adds(emitted: Any, with_cuda: Callable[[str], None]):
    """A head of 12 columns is one of 16 for the kernel; what comes back is as dense as q."""
    with_cuda("flash")
    q, k, v, d_y = (normal(2, 5, 12).requires_grad_() for _ in range(4))
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    wanted = torch.autograd.grad(expected, (q, k, v), d_y)
    q, k, v, d_y = (x.detach() for x in (q, k, v, d_y))
    y, lse = emitted.attention_with_lse(q, k, v, 12, False)
    found = emitted.attention_grad(d_y, y, lse, q, k, v, 12, False)
    for actual, exact in zip((y, *found), (expected, *wanted), strict=True):
        assert relative_error(actual, exact) < 2e-6 and actual.is_contiguous()


@pytest.mark.parametrize("columns", [4, 12, 20])
def test_values_of_other_columns(
    emitted: Any, with_cuda: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, columns: int
):
    """Flash attention has one number of columns for q, k and v: others are added to them."""

    def flash(*_: object) -> str:
        return "flash"

    with_cuda("flash")
    monkeypatch.setattr(emitted, "available_kernel", flash)
    tensors, numbers = inputs(6, 6, {"causal": True, "value_dim": columns}, "f32")
    check_emitted(emitted, tensors, numbers, "f32")


@pytest.mark.parametrize("causal", [False, True])
def test_kernels_read_transposed_masks(emitted: Any, causal: bool):
    """PyTorch's kernels want the keys of a query side by side."""
    mask = torch.randn(5, 7, 3).permute(2, 0, 1)[None]
    found = emitted.attention_mask(mask, 5, 7, causal, None, torch.device("cpu"))
    seen = torch.ones(5, 7).tril(2).bool() if causal else torch.ones(5, 7).bool()
    assert torch.equal(found, mask.masked_fill(~seen, float("-inf")))
    assert found.stride(-1) == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize(
    ("shape", "keys"), [((2, 3, 5, 37), 37), ((2, 1, 4, 1), 29), ((2, 4097), 4097)]
)
def test_bounded_masks(emitted: Any, dtype: torch.dtype, shape: tuple[int, ...], keys: int):
    lowest, hides = torch.finfo(dtype).min, float("-inf")
    mask = torch.randint(-3, 3, shape).to(dtype)
    mask[torch.rand(shape) < 0.2] = lowest
    mask[torch.rand(shape) < 0.2] = hides
    mask[0], mask[-1].view(-1, shape[-1])[-1] = hides, lowest
    queries = shape[-2]
    bounded, top, shares = emitted.bounded_mask(mask, queries, keys, dtype)
    wanted = mask.clamp(min=max(lowest, emitted.LOWEST)).masked_fill(mask == hides, hides)
    rows = wanted.expand(*shape[:-1], keys)
    assert torch.equal(bounded, wanted)
    assert torch.equal(top, rows.amax(-1).float())
    assert torch.equal(shares, (rows == rows.amax(-1, keepdim=True)).sum(-1).reciprocal())
    bounded, top, _ = emitted.bounded_mask(mask > 0, queries, keys, dtype, hidden=lowest)
    assert torch.equal(bounded, torch.where(mask > 0, 0.0, lowest).to(dtype))
    assert torch.equal(top, bounded.amax(-1).float())


@pytest.mark.parametrize(("causal", "window"), [(True, None), (True, 2), (False, 3)])
@pytest.mark.parametrize("shape", [(2, 1, 3, 5), (3, 5), (2, 4, 1, 5), (2, 1, 3, 1), (5,)])
def test_bounded_masks_of_causality_and_windows(
    emitted: Any, shape: tuple[int, ...], causal: bool, window: int | None
):
    mask, lowest = torch.rand(shape) < 0.5, float(emitted.LOWEST)
    distances = emitted.seen_distances(3, 5, causal, window)
    bounded, top, _ = emitted.bounded_mask(mask, 3, 5, torch.float32, distances, lowest)
    seen = emitted.attention_mask(mask, 3, 5, causal, window, mask.device)
    assert torch.equal(bounded, torch.where(seen, 0.0, lowest).expand_as(bounded))
    assert torch.equal(top, bounded.amax(-1))


@pytest.mark.parametrize(
    ("kernel", "head_dim"),
    [("flash", 8), ("flash", 12), ("cudnn", 8), ("efficient", 8), ("efficient", 12)],
)
def test_signatures_of_kernels_for_cuda(
    emitted: Any, kernel: str, head_dim: int, monkeypatch: pytest.MonkeyPatch
):
    """The real operators take what is given to them, and give what is expected, without a GPU."""

    def heads(count: int) -> torch.Tensor:
        x = torch.empty(2, 10, count * head_dim, dtype=torch.bfloat16, device="meta")
        return emitted.split_heads(x, head_dim)

    forward, kernel = kernel, "efficient" if kernel == "efficient" else "flash"

    def is_cudnn(*_: object) -> bool:
        return forward == "cudnn"

    monkeypatch.setattr(emitted, "cudnn_attends", is_cudnn)
    q, k, v = heads(HEADS), heads(KV_HEADS), heads(KV_HEADS)
    mask = torch.empty(HEADS, 1, 10, dtype=torch.bfloat16, device="meta")
    for hidden in (None, mask) if kernel == "efficient" else (None,):
        attention = emitted.Heads(q, k, v, hidden is None, mask=hidden)
        attention.kernel, attention.is_causal, attention.mask = kernel, hidden is None, hidden
        attention.bounded = (hidden, *(torch.empty(HEADS, 1, device="meta") for _ in range(2)))
        y, lse = attention.attend()
        assert y.shape == q.shape and lse.shape == q.shape[:3] and lse.dtype == torch.float32
        *found, d_mask = attention.gradients(y, y, lse, hidden is not None)
        assert [x.shape for x in found] == [x.shape for x in (q, k, v)]
        assert (d_mask is None) == (hidden is None)
        assert d_mask is None or d_mask.shape == (2, HEADS, 10, 10)


@pytest.mark.parametrize(("batch", "queries", "keys"), [(0, 3, 3), (2, 0, 3), (2, 3, 0)])
def test_nothing_to_attend(emitted: Any, batch: int, queries: int, keys: int):
    q = normal(batch, queries, HEADS * WIDTH)
    k = normal(batch, keys, KV_HEADS * WIDTH)
    y, lse = emitted.attention_with_lse(q, k, k, WIDTH, False)
    found = emitted.attention_grad(torch.ones_like(y), y, lse, q, k, k, WIDTH, False)
    assert not y.any() and lse.isposinf().all()
    assert not any(gradient.any() for gradient in found)
    assert [gradient.shape for gradient in found] == [q.shape, k.shape, k.shape]


@pytest.mark.parametrize("kernel", ["flash", "efficient"])
@pytest.mark.parametrize(("keys", "shared", "causal", "masked"), HEADS_APART)
def test_heads_that_are_no_columns(
    emitted: Any,
    with_cuda: Callable[[str], None],
    kernel: str,
    keys: int,
    shared: int,
    causal: bool,
    masked: bool,
):
    """With the kernels for CUDA, which run deterministically."""
    q, d_y = normal(2, 4, 5, 8).float(), normal(2, 4, 5, 8).float()
    k, v = (normal(2, 4 // shared, keys, 8).float() for _ in range(2))
    mask = (torch.arange(keys) != 2).expand(5, keys) if masked else None
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    expected = torch.nn.functional.scaled_dot_product_attention(
        *leaves, attn_mask=mask, is_causal=causal, enable_gqa=shared > 1
    )
    wanted = torch.autograd.grad(expected, leaves, d_y)
    with_cuda(kernel)
    y, lse = emitted.attention_of_heads(q, k, v, mask, 0.0, causal)
    rest = (None, None, 0, 0, 0.0, causal, None, None)
    flags = [True, True, True, False]
    found = emitted.attention_of_heads_grad(d_y, q, k, v, mask, flags, y, lse, *rest)
    for actual, exact in zip((y, *found), (expected, *wanted), strict=True):
        assert relative_error(actual, exact) < 2e-6
    assert not torch.are_deterministic_algorithms_enabled()
