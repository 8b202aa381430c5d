# pyright: basic, reportOptionalMemberAccess=false, reportArgumentType=false
"""Attention that is differentiated: the forward keeps the logsumexp of the scores, and the
kernels of the backward compute no softmax again.

The forward and the backward kernels of PyTorch are called as its autograd calls them. What the
kernels of a device give and take is brought to one form, so that they can be exchanged: the
logsumexp in natural units, B x heads x queries, and inf for a query that sees no key.
"""

import functools

import torch
import triton
import triton.language as tl

from coda_ir.backends.triton.runtime.attention import (
    attention_mask,
    capped_scores,
    dense_columns,
    hidden_scores,
    joined_heads,
    softmax_of_keys,
    spelled_attention,
    split_heads,
    split_qkv,
)
from coda_ir.backends.triton.runtime.gradients import deterministic


def attention_with_lse(q, k, v, head_dim, causal, dense=True, **options):
    """`attention`, and the logsumexp of the scores: batch x heads x queries, with the sinks.

    That of a query that sees no key is inf, so that all its weights are 0.
    """
    heads = Heads(*split_qkv(q, k, v, head_dim), causal=causal, **options)
    y, lse = heads.attend()
    return joined_heads(y, q, dense), lse.contiguous()


def attention_grad(
    d_out, out, lse, q, k, v, head_dim, causal, sinks=None, mask=None, wrt=(), **options
):
    """The gradients of attention for q, k, v, and for "sinks" and "mask" where `wrt` has them.

    `out` and `lse` are what `attention_with_lse` gave.
    """
    heads = split_qkv(q, k, v, head_dim)
    d_y, y = (split_heads(x, heads[2].shape[-1]) for x in (d_out.contiguous(), out))
    heads = Heads(*heads, causal=causal, sinks=sinks, mask=mask, **options)
    *d_heads, d_mask = heads.gradients(d_y, y, lse, "mask" in wrt)
    gradients = [joined_heads(x, z) for x, z in zip(d_heads, (q, k, v))]
    if "sinks" in wrt:
        # Their value is 0, so the gradient of their scores is -weight * sum(d_y * y).
        moment = (d_y.to(lse.dtype) * y).sum(-1)
        weights = torch.exp(sinks.to(lse.dtype)[:, None] - lse)
        gradients.append(-(weights * moment).sum((0, 2)).to(sinks.dtype))
    if "mask" in wrt:
        gradients.append(d_mask.sum_to_size(mask.shape).to(mask.dtype).contiguous())
    return gradients


def attention_of_heads(
    q, k, v, mask=None, dropout=0.0, is_causal=False, return_debug_mask=False, *, scale=None
):
    """ATen's overrideable attention of heads that are no columns: what it gives, and the
    logsumexp of the scores.
    """
    y, lse = heads_of_aten(q, k, v, mask, is_causal, scale).attend()
    return y, lse.contiguous()


def attention_of_heads_grad(d_y, q, k, v, mask, wanted, y, lse, *rest, scale=None):
    """The gradients for q, k, v, and for the mask where that is wanted."""
    wants_mask = mask is not None and wanted[3]
    heads = heads_of_aten(q, k, v, mask, rest[5], scale)
    *gradients, d_mask = heads.gradients(d_y.contiguous(), y, lse, wants_mask)
    if wants_mask:
        gradients.append(d_mask.sum_to_size(mask.shape).to(mask.dtype))
    return [x.contiguous() for x in gradients]


def heads_of_aten(q, k, v, mask, is_causal, scale):
    """Return the arguments of ATen, where a query sees the keys up to its own number."""
    if is_causal and q.shape[2] != k.shape[2]:
        mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril()
        is_causal = False
    return Heads(q, k, v, is_causal, scale=scale, mask=mask)


LOWEST = -(2.0**99)
"""The lowest number of a mask, whose multiples are finite. All types but float16 have it."""

VANISHING = -1e8
"""A score beside which float32 has no digits for products of queries and keys, or their sums."""


@triton.jit
def bound_mask(
    mask_ptr, bounded_ptr, top_ptr, share_ptr, COLUMNS, REPEATS, LOWEST, HIDDEN, BLOCK: tl.constexpr
):
    """Raise the finite numbers of a mask's row that are below LOWEST to LOWEST; for -inf, and where
    a boolean mask is false, store HIDDEN. Store the largest number of the row, and the reciprocal
    of the number of keys that have it. Each column of the mask applies to REPEATS keys.
    """
    row = tl.program_id(0).to(tl.int64)
    top = tl.full((), float("-inf"), tl.float32)
    count = tl.zeros((), tl.int32)
    start = 0
    while start < COLUMNS:
        columns = start + tl.arange(0, BLOCK)
        places, is_there = row * COLUMNS + columns, columns < COLUMNS
        x = tl.load(mask_ptr + places, is_there, 0)
        if mask_ptr.dtype.element_ty == tl.int1:
            x = tl.where(x != 0, 0.0, HIDDEN)
        else:
            # In this order, NaN stays NaN.
            x = x.to(tl.float32)
            x = tl.where(x == float("-inf"), HIDDEN, tl.where(x < LOWEST, LOWEST, x))
        tl.store(bounded_ptr + places, x.to(bounded_ptr.dtype.element_ty), is_there)
        x = tl.where(is_there, x, float("-inf"))
        block_top = tl.max(x, 0)
        block_count = tl.sum(((x == block_top) & is_there).to(tl.int32), 0)
        is_new, is_kept = block_top >= top, block_top <= top
        count = tl.where(is_kept, count, 0) + tl.where(is_new, block_count, 0)
        top = tl.maximum(top, block_top)
        start += BLOCK
    tl.store(top_ptr + row, top)
    tl.store(share_ptr + row, 1.0 / (count * REPEATS).to(tl.float32))


def bounded_mask(mask, keys, dtype, hidden=float("-inf")):
    """Return the mask as numbers that PyTorch's kernels can add, `hidden` for keys that do not
    count, the largest number of each row, and the reciprocal of the number of keys that have it.

    The kernels multiply scores by log2(e), and give 0 or NaN where that overflows.
    """
    mask = mask.contiguous()
    bounded, columns = torch.empty_like(mask, dtype=dtype), mask.shape[-1]
    top, shares = (mask.new_empty(mask.shape[:-1], dtype=torch.float32) for _ in range(2))
    lowest = max(LOWEST, torch.finfo(dtype).min)
    block = min(triton.next_power_of_2(columns), 4096)
    if mask.numel():
        sizes = columns, keys // columns
        grid = (top.numel(),)
        bound_mask[grid](mask, bounded, top, shares, *sizes, lowest, hidden, BLOCK=block)
    return bounded, top, shares


@triton.jit
def clear_unseen(
    y_ptr,
    lse_ptr,
    ROWS,
    HEADS,
    QUERIES,
    batch_stride,
    head_stride,
    row_stride,
    COLUMNS: tl.constexpr,
    LANES: tl.constexpr,
    BOUND: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Store results of 0 and a logsumexp of inf for the queries whose logsumexp is below BOUND."""
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    is_unseen = tl.load(lse_ptr + row, row < ROWS, 0.0) < BOUND
    tl.store(lse_ptr + row, float("inf"), is_unseen)
    of_head, query = (row // QUERIES).to(tl.int64), (row % QUERIES).to(tl.int64)
    place = of_head // HEADS * batch_stride + of_head % HEADS * head_stride + query * row_stride
    column = tl.arange(0, LANES)[None, :]
    tl.store(y_ptr + place[:, None] + column, 0.0, is_unseen[:, None] & (column < COLUMNS))


class Heads:
    """Attention of q, k and v: batch x heads x rows x head_dim; v may have other columns.

    `kernel`, `is_causal` and `mask` are what `attention_kernel` gives.
    """

    def __init__(
        self, q, k, v, causal, window=None, scale=None, softcap=None, sinks=None, mask=None
    ):
        q, k, v = map(dense_columns, (q, k, v))
        self.q, self.k, self.v = q, k, v
        self.scale, self.softcap, self.sinks = scale, softcap, sinks
        found = attention_kernel(q, k, v, causal, window, softcap, mask)
        self.kernel, self.is_causal, self.mask = found

    def attend(self):
        """Return the result of attention, and the logsumexp of the scores."""
        if self.kernel is None:
            return self.attend_spelled()
        if self.kernel != "cpu" and cudnn_attends(
            self.q, self.k, self.v, self.mask, self.is_causal
        ):
            y, lse = self.attend_by_cudnn()
        else:
            y, lse = self.attend_fused()
            if self.mask is not None:
                lse = lse.masked_fill(self.unseen(), float("inf"))
        if self.sinks is not None:
            sinks = self.sinks.to(lse.dtype)[:, None]
            y = (y * torch.sigmoid(lse - sinks)[..., None]).to(y.dtype)
            lse = torch.logaddexp(lse, sinks)
        return y, lse

    def attend_spelled(self):
        scores = capped_scores(self.q, self.k, self.scale, self.softcap)
        scores = hidden_scores(scores, self.mask)
        lse = torch.logsumexp(scores, -1)
        unseen = (scores == float("-inf")).all(-1)
        if self.sinks is not None:
            lse = torch.logaddexp(lse, self.sinks.to(lse.dtype)[:, None])
        y = spelled_attention(scores, self.v, self.sinks).to(self.q.dtype)
        return y, lse.masked_fill(unseen, float("inf"))

    def attend_fused(self):
        """Call a kernel of PyTorch."""
        q, mask = self.q, self.added_mask()
        if self.kernel == "cpu":
            return attention_operator("cpu")(
                q, self.k, self.v, 0.0, self.is_causal, attn_mask=mask, scale=self.scale
            )
        if self.kernel == "flash":
            y, lse, *_ = attention_operator("flash")(
                *padded_columns(q, self.k, self.v),
                0.0,
                self.is_causal,
                scale=self.factor(),
            )
            return y[..., : self.v.shape[-1]], lse
        y, lse, *_ = attention_operator("efficient")(
            q, *self.repeated(), mask, True, 0.0, self.is_causal, scale=self.scale
        )
        # The kernel gives some that stand for no query.
        return y, lse[..., : q.shape[2]]

    def attend_by_cudnn(self):
        """Call cuDNN's kernel. A query that sees no key would get NaN from infinite numbers; from
        lower ones than any other of a mask, it gets a logsumexp as low.
        """
        mask = self.added_mask(2 * LOWEST)
        y, lse, *_ = attention_operator("cudnn")(
            self.q, self.k, self.v, mask, True, 0.0, self.is_causal, scale=self.factor()
        )
        lse = lse.reshape(self.q.shape[:3])
        if mask is not None:
            columns, block = y.shape[-1], 128
            sizes = (lse.numel(), *lse.shape[1:], *y.stride()[:3], columns)
            lanes = triton.next_power_of_2(columns)
            grid = (triton.cdiv(lse.numel(), block),)
            clear_unseen[grid](y, lse, *sizes, LANES=lanes, BOUND=1.5 * LOWEST, BLOCK=block)
        return y, lse

    def gradients(self, d_y, y, lse, wants_mask=False):
        """The gradients of q, k, v and the mask."""
        d_y, y = dense_columns(d_y), dense_columns(y)
        if self.kernel is None or (self.kernel == "cpu" and (wants_mask or self.is_far())):
            return self.gradients_spelled(d_y, lse)
        if self.kernel == "flash":
            return [*self.gradients_flash(d_y, y, lse), None]
        d_mask = None
        if self.kernel == "cpu":
            d_heads = self.gradients_cpu(d_y, y, lse)
        else:
            *d_heads, d_mask = self.gradients_efficient(d_y, y, lse, wants_mask)
        pairs = zip(d_heads, (self.q, self.k, self.v))
        gradients = [summed_heads(x, of.shape[1]).to(of.dtype) for x, of in pairs]
        return [*gradients, d_mask if wants_mask else None]

    def has_added_mask(self):
        """Return whether the mask is added to the scores, instead of saying which keys count."""
        return self.mask is not None and self.mask.dtype != torch.bool

    @functools.cached_property
    def bounded(self):
        """What `bounded_mask` returns."""
        return bounded_mask(self.mask, self.k.shape[2], self.q.dtype)

    def unseen(self):
        """The queries whose keys the mask hides."""
        if self.kernel == "efficient":
            _, top, _ = self.bounded
            return top == float("-inf")
        if self.mask.dtype == torch.bool:
            return ~self.mask.any(-1)
        return self.mask.amax(-1) == float("-inf")

    def is_far(self):
        """Return whether all scores of a query are numbers so large that their lse has no digits
        for the sum of the weights, as where padding hides all of its keys by -1e9.
        """
        return self.has_added_mask() and bool((self.mask.amax(-1) < -1e3).any())

    def gradients_spelled(self, d_y, lse):
        """With every score spelled out."""
        q, k, wide = self.q, self.k, lse.dtype
        d_y = d_y.to(wide)
        k_all, v_all = (x.to(wide) for x in self.repeated())
        scores = capped_scores(q, k, self.scale, self.softcap)
        weights = softmax_of_keys(hidden_scores(scores, self.mask), self.sinks)
        d_v = summed_heads(weights.transpose(-1, -2) @ d_y, k.shape[1])
        d_weights = d_y @ v_all.transpose(-1, -2)
        d_scores = weights * (d_weights - (weights * d_weights).sum(-1, keepdim=True))
        d_inside = d_scores * self.factor()
        if self.softcap is not None:
            d_inside = d_inside * (1 - (scores / self.softcap).square())
        d_k = summed_heads(d_inside.transpose(-1, -2) @ q.to(wide), k.shape[1])
        return [x.to(q.dtype) for x in (d_inside @ k_all, d_k, d_v)] + [d_scores]

    def gradients_flash(self, d_y, y, lse):
        tensors = [*padded_columns(d_y, self.q, self.k, self.v, y), lse]
        sizes, seed = (None, None, self.q.shape[2], self.k.shape[2]), self.seed()
        with deterministic():
            gradients = attention_operator("flash", "_backward")(
                *tensors, *sizes, 0.0, self.is_causal, seed, seed, scale=self.factor()
            )
        return [x[..., : of.shape[-1]] for x, of in zip(gradients, (self.q, self.k, self.v))]

    def gradients_cpu(self, d_y, y, lse):
        tensors, mask = [d_y, self.q, *self.repeated(), y], self.added_mask()
        if self.q.shape[1] != self.k.shape[1]:
            # The sum over the heads that share one is rounded once. Kernels of GPUs round the
            # gradient of each head before it is added, as in eager: they give no wider type.
            tensors = [x.to(lse.dtype) for x in tensors]
            mask = None if mask is None else mask.to(lse.dtype)
        return attention_operator("cpu", "_backward")(
            *tensors, lse, 0.0, self.is_causal, attn_mask=mask, scale=self.scale
        )

    def gradients_efficient(self, d_y, y, lse, wants_mask):
        if self.has_added_mask():
            # Where scores are so low that float32 has no digits for products beside them, the
            # kernel gives each key that the query sees a weight of 1, and they share the gradient.
            _, top, shares = self.bounded
            far = (lse < VANISHING) & (lse > float("-inf"))
            lse = torch.where(far, top, lse)
            d_y = d_y * torch.where(far, shares, 1.0)[..., None].to(d_y.dtype)
        if torch.version.hip is None:
            lse = torch.nn.functional.pad(lse, (0, -lse.shape[-1] % 32), value=float("inf"))
        # The kernel assumes that `y` lies in memory as the forward stores it, batch x rows x heads,
        # whatever its strides say; any other layout gives wrong gradients.
        y = y.transpose(1, 2).contiguous().transpose(1, 2)
        tensors = (d_y, self.q, *self.repeated(), self.added_mask(), y, lse)
        seed, wanted = self.seed(), [True, True, True, wants_mask]
        with deterministic():
            return attention_operator("efficient", "_backward")(
                *tensors, seed, seed, 0.0, wanted, self.is_causal, scale=self.scale
            )

    def factor(self):
        """The number that products of queries and keys are multiplied by."""
        return self.q.shape[-1] ** -0.5 if self.scale is None else self.scale

    def repeated(self):
        """k and v with a head for each of q."""
        shared = self.q.shape[1] // self.k.shape[1]
        return [x.repeat_interleave(shared, 1) for x in (self.k, self.v)]

    def seed(self):
        """The numbers that dropout starts with, which no kernel reads without dropout."""
        return torch.empty((), dtype=torch.int64, device=self.q.device)

    def added_mask(self, hidden=float("-inf")):
        """`mask` as numbers that are added to the scores, in rows that the kernel can read; for
        kernels of GPUs `hidden` for keys that do not count.
        """
        mask, keys = self.mask, self.k.shape[2]
        if mask is None:
            return None
        if self.kernel == "efficient":
            is_known = hidden == float("-inf")
            mask, *_ = self.bounded if is_known else bounded_mask(mask, keys, self.q.dtype, hidden)
        elif mask.dtype == torch.bool:
            mask = self.q.new_zeros(()).masked_fill(~mask, hidden)
        mask = mask.expand(*mask.shape[:-1], keys).contiguous()
        if self.kernel == "efficient" and keys % 16:
            mask = torch.nn.functional.pad(mask, (0, -keys % 16))[..., :keys]
        return mask.expand(*self.q.shape[:3], keys)


def summed_heads(x, heads):
    """The sums over the heads that share one of `heads`."""
    return x if x.shape[1] == heads else x.unflatten(1, (heads, -1)).sum(2)


def attention_kernel(q, k, v, causal, window, softcap, mask):
    """The kernel of PyTorch that computes attention of heads and its derivative, whether that
    hides the keys behind a query, and the mask of what else is hidden. The kernel is "cpu",
    "flash" or "efficient"; where it is None, there is none and the mask is complete.
    """
    queries, keys = q.shape[2], k.shape[2]
    is_square = queries == keys and (window is None or window >= keys)
    if causal and is_square and mask is None:
        kernel = available_kernel(q, k, v, softcap, None, True)
        if kernel is not None:
            return kernel, True, None
    mask = attention_mask(mask, queries, keys, causal, window, q.device)
    return available_kernel(q, k, v, softcap, mask, False), False, mask


ATTENTION_OPERATORS = {
    "cpu": "flash_attention_for_cpu",
    "flash": "flash_attention",
    "cudnn": "cudnn_attention",
    "efficient": "efficient_attention",
}


def attention_operator(kernel, suffix=""):
    """An operator by its name in PyTorch's schema, where PyTorch has it."""
    return getattr(torch.ops.aten, f"_scaled_dot_product_{ATTENTION_OPERATORS[kernel]}{suffix}")


def has_attention(kernel):
    """Return whether PyTorch has the forward and the backward of a kernel."""
    try:
        return bool(attention_operator(kernel)) and bool(attention_operator(kernel, "_backward"))
    except AttributeError:
        return False


def settings_of_attention():
    """The settings of PyTorch that decide which kernels it may use."""
    cuda = torch.backends.cuda
    enabled = (cuda.flash_sdp_enabled, cuda.mem_efficient_sdp_enabled, cuda.cudnn_sdp_enabled)
    return *[is_on() for is_on in enabled], torch.are_deterministic_algorithms_enabled()


def layout(x):
    """The properties of an argument that a choice may depend on: a tensor's elements are none."""
    is_tensor = isinstance(x, torch.Tensor)
    return (x.shape, x.stride(), x.dtype, x.device) if is_tensor else x


def once_for_layouts(choose):
    """A function that makes a choice once for the layouts of its arguments: asking PyTorch takes
    tens of microseconds.
    """
    choices = {}

    def choice(*arguments):
        key = (settings_of_attention(), *map(layout, arguments))
        if key not in choices:
            if len(choices) >= MAX_CHOICES:
                choices.clear()
            choices[key] = choose(*arguments)
        return choices[key]

    return choice


MAX_CHOICES = 4096


@once_for_layouts
def available_kernel(q, k, v, softcap, mask, is_causal):
    is_other_type = mask is not None and mask.dtype not in (torch.bool, q.dtype)
    if softcap is not None or is_other_type or not q.numel() or not k.numel():
        return None
    cuda = torch.backends.cuda
    if q.device.type == "cpu":
        has_kernel = cuda.flash_sdp_enabled() and q.shape[-1] == v.shape[-1]
        return "cpu" if has_kernel and has_attention("cpu") else None
    if not q.is_cuda:
        return None
    with torch.enable_grad():
        # Some kernels have no derivative on some GPUs.
        q = q.detach().requires_grad_()
        # Values with fewer columns than keys are padded to have as many.
        v_like = k if v.shape[-1] < k.shape[-1] else v
        params = cuda.SDPAParams(q, k, v_like, mask, 0.0, is_causal, q.shape[1] != k.shape[1])
        if cuda.can_use_flash_attention(params) and has_attention("flash"):
            return "flash"
        k, v = (x[:, :1].expand(-1, q.shape[1], -1, -1) for x in (k, v))
        params = cuda.SDPAParams(q, k, v, mask, 0.0, is_causal, False)
        has_kernel = cuda.can_use_efficient_attention(params) and has_attention("efficient")
        return "efficient" if has_kernel else None


@once_for_layouts
def cudnn_attends(q, k, v, mask, is_causal):
    """Return whether cuDNN has the forward. On Hopper it is the fastest, and gives the same bits
    each time; its gradients do not.
    """
    cuda = torch.backends.cuda
    if not q.is_cuda or torch.version.hip or torch.cuda.get_device_capability(q.device) < (9, 0):
        return False
    if mask is not None:
        if q.dtype == torch.float16:
            return False  # scores may be below the least number, which would not hide a key
        mask = mask.expand(*q.shape[:3], k.shape[2])
    params = cuda.SDPAParams(q, k, v, mask, 0.0, is_causal, q.shape[1] != k.shape[1])
    return cuda.can_use_cudnn_attention(params) and has_attention("cudnn")


def padded_columns(*tensors):
    """The tensors with zeros up to a multiple of 8 columns, the same for all."""
    columns = -(-max(x.shape[-1] for x in tensors) // 8) * 8
    pads = [columns - x.shape[-1] for x in tensors]
    return [torch.nn.functional.pad(x, (0, n)) if n else x for x, n in zip(tensors, pads)]
