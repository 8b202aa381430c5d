# pyright: basic, reportOptionalMemberAccess=false, reportArgumentType=false
"""Attention with gradients: the forward returns the logsumexp of the scores, so that the backward
kernels do not compute the softmax again.

The operators of PyTorch's forward and backward kernels are called as its autograd calls them. They
differ in what they return for a logsumexp. Here it has one form: batch x heads x queries, natural
logarithm, and inf for a query that sees no key. So a forward and a backward of different kernels
can be combined.
"""

import functools

import torch

from coda_ir.backends.triton.runtime.attention import (
    attention_mask,
    capped_scores,
    decomposed_attention,
    dense_columns,
    hidden_scores,
    joined_heads,
    seen_distances,
    softmax_of_keys,
    split_heads,
    split_qkv,
)
from coda_ir.backends.triton.runtime.attention_masks import (
    LOWEST,
    bounded_mask,
    clear_unseen_launch,
)
from coda_ir.backends.triton.runtime.gradients import deterministic


def attention_with_lse(q, k, v, head_dim, causal, dense=True, **options):
    """Return the result of `attention`, and the logsumexp of the scores, sinks included: batch x
    heads x queries.

    The logsumexp of a query that sees no key is inf, so that all its weights are 0.
    """
    heads = Heads(*split_qkv(q, k, v, head_dim), causal=causal, **options)
    y, lse = heads.attend()
    return joined_heads(y, q, dense), lse.contiguous()


def attention_grad(
    d_out, out, lse, q, k, v, head_dim, causal, sinks=None, mask=None, wrt=(), **options
):
    """Return the gradients of attention for q, k and v, and for "sinks" and "mask" if `wrt`
    contains them.

    `out` and `lse` are the results of `attention_with_lse`.
    """
    heads = split_qkv(q, k, v, head_dim)
    d_y, y = (split_heads(x, heads[2].shape[-1]) for x in (d_out.contiguous(), out))
    heads = Heads(*heads, causal=causal, sinks=sinks, mask=mask, **options)
    *d_heads, d_mask = heads.gradients(d_y, y, lse, "mask" in wrt)
    gradients = [joined_heads(x, z) for x, z in zip(d_heads, (q, k, v))]
    if "sinks" in wrt:
        # The value of a sink is 0, so the gradient of its score is -weight * sum(d_y * y).
        moment = (d_y.to(lse.dtype) * y).sum(-1)
        weights = torch.exp(sinks.to(lse.dtype)[:, None] - lse)
        gradients.append(-(weights * moment).sum((0, 2)).to(sinks.dtype))
    if "mask" in wrt:
        gradients.append(d_mask.sum_to_size(mask.shape).to(mask.dtype).contiguous())
    return gradients


def attention_of_heads(
    q,
    k,
    v,
    mask=None,
    dropout=0.0,
    is_causal=False,
    return_debug_mask=False,
    *,
    scale=None,
    stream=None,
):
    """Return the result and the logsumexp of attention for tensors of batch x heads x rows x
    head_dim. The parameters but `stream` are those of ATen's
    `_scaled_dot_product_fused_attention_overrideable`.
    """
    y, lse = heads_of_aten(q, k, v, mask, is_causal, scale, stream).attend()
    return y, lse.contiguous()


def attention_of_heads_grad(d_y, q, k, v, mask, wanted, y, lse, *rest, scale=None, stream=None):
    """Return gradients of `attention_of_heads` for q, k and v, and the mask if `wanted` has it."""
    wants_mask = mask is not None and wanted[3]
    heads = heads_of_aten(q, k, v, mask, rest[5], scale, stream)
    *gradients, d_mask = heads.gradients(d_y.contiguous(), y, lse, wants_mask)
    if wants_mask:
        gradients.append(d_mask.sum_to_size(mask.shape).to(mask.dtype))
    return [x.contiguous() for x in gradients]


def heads_of_aten(q, k, v, mask, is_causal, scale, stream):
    """Return `Heads` for the arguments of ATen, in whose causal mask query i sees keys 0 to i."""
    if is_causal and q.shape[2] != k.shape[2]:
        mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril()
        is_causal = False
    return Heads(q, k, v, is_causal, scale=scale, mask=mask, stream=stream)


VANISHING = -1e8
"""A score of such magnitude that products of queries and keys, and sums of weights, are lost in
float32 when they are added to it."""


class Heads:
    """Attention of q, k and v: batch x heads x rows x head_dim; v may have another head_dim.

    `kernel`, `is_causal`, `mask` and `distances` are the results of `attention_kernel`. `stream` is
    the one for direct launches of kernels for masks; None if Triton launches them.
    """

    def __init__(
        self,
        q,
        k,
        v,
        causal,
        window=None,
        scale=None,
        softcap=None,
        sinks=None,
        mask=None,
        stream=None,
    ):
        q, k, v = map(dense_columns, (q, k, v))
        self.q, self.k, self.v = q, k, v
        self.scale, self.softcap, self.sinks, self.stream = scale, softcap, sinks, stream
        found = attention_kernel(q, k, v, causal, window, softcap, mask)
        self.kernel, self.is_causal, self.mask, self.distances = found

    def attend(self):
        """Return the result of attention, and the logsumexp of the scores."""
        if self.kernel is None:
            return self.attend_decomposed()
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

    def attend_decomposed(self):
        """Compute attention without a fused kernel."""
        scores = capped_scores(self.q, self.k, self.scale, self.softcap)
        scores = hidden_scores(scores, self.mask)
        lse = torch.logsumexp(scores, -1)
        unseen = (scores == float("-inf")).all(-1)
        if self.sinks is not None:
            lse = torch.logaddexp(lse, self.sinks.to(lse.dtype)[:, None])
        y = decomposed_attention(scores, self.v, self.sinks).to(self.q.dtype)
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
                *padded_columns(q, self.k, self.v), 0.0, self.is_causal, scale=self.factor()
            )
            return y[..., : self.v.shape[-1]], lse
        y, lse, *_ = attention_operator("efficient")(
            q, *self.repeated(), mask, True, 0.0, self.is_causal, scale=self.scale
        )
        # The kernel pads the logsumexp.
        return y, lse[..., : q.shape[2]]

    def attend_by_cudnn(self):
        """Call cuDNN's kernel. A mask of -inf would give NaN for a query that sees no key, so
        hidden keys get a finite number below all others. The logsumexp of such a query is as low.
        """
        mask = self.added_mask(2 * LOWEST)
        y, lse, *_ = attention_operator("cudnn")(
            self.q, self.k, self.v, mask, True, 0.0, self.is_causal, scale=self.factor()
        )
        lse = lse.reshape(self.q.shape[:3])
        if mask is not None:
            launch = clear_unseen_launch(y.dtype, y.shape[-1])
            numbers = *lse.shape[1:], *y.stride()[:3], 1.5 * LOWEST
            launch(self.stream, (lse.numel(), *numbers), y, lse)
        return y, lse

    def gradients(self, d_y, y, lse, wants_mask=False):
        """Return the gradients for q, k, v and the mask."""
        d_y, y = dense_columns(d_y), dense_columns(y)
        if self.kernel is None or (self.kernel == "cpu" and (wants_mask or self.is_far())):
            return self.gradients_decomposed(d_y, lse)
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
        """Return whether the mask is added to the scores instead of selecting keys."""
        return self.mask is not None and self.mask.dtype != torch.bool

    @functools.cached_property
    def bounded(self):
        """The results of `bounded_mask` for the mask."""
        return self.bounded_with(float("-inf"))

    def bounded_with(self, hidden):
        """Return the results of `bounded_mask`, with the number `hidden` for hidden keys."""
        sizes = self.q.shape[2], self.k.shape[2]
        options = self.q.dtype, self.distances, hidden, self.stream
        return bounded_mask(self.mask, *sizes, *options)

    def unseen(self):
        """Return whether the mask hides all keys of a query, for each query."""
        if self.kernel == "efficient":
            _, top, _ = self.bounded
            return top == float("-inf")
        if self.mask.dtype == torch.bool:
            return ~self.mask.any(-1)
        return self.mask.amax(-1) == float("-inf")

    def is_far(self):
        """Return whether all scores of a query have such large magnitudes that their logsumexp
        cannot resolve the sum of the weights, as where padding masks all of its keys with -1e9.
        """
        return self.has_added_mask() and bool((self.mask.amax(-1) < -1e3).any())

    def gradients_decomposed(self, d_y, lse):
        """Compute the gradients without a fused kernel."""
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
            # Round the sum over query heads that share a key head once. Kernels of GPUs return
            # gradients in the type of q, so they round the gradient of each head, as eager does.
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
        """Return the scale of the scores."""
        return self.q.shape[-1] ** -0.5 if self.scale is None else self.scale

    def repeated(self):
        """Return k and v, repeated so that they have as many heads as q."""
        shared = self.q.shape[1] // self.k.shape[1]
        return [x.repeat_interleave(shared, 1) for x in (self.k, self.v)]

    def seed(self):
        """Return a placeholder for the state of random numbers, unread without dropout."""
        return torch.empty((), dtype=torch.int64, device=self.q.device)

    def added_mask(self, hidden=float("-inf")):
        """Return the mask as numbers to add to the scores, with the alignment that the kernel
        requires. On GPUs, hidden keys get the number `hidden`.
        """
        mask, keys = self.mask, self.k.shape[2]
        if mask is None:
            return None
        if self.kernel == "efficient":
            mask, *_ = self.bounded if hidden == float("-inf") else self.bounded_with(hidden)
        elif mask.dtype == torch.bool:
            mask = self.q.new_zeros(()).masked_fill(~mask, hidden)
        mask = mask.expand(*mask.shape[:-1], keys).contiguous()
        if self.kernel == "efficient" and keys % 16:
            mask = torch.nn.functional.pad(mask, (0, -keys % 16))[..., :keys]
        return mask.expand(*self.q.shape[:3], keys)


def summed_heads(x, heads):
    """Return x summed over each group of query heads that share one of `heads` key heads."""
    return x if x.shape[1] == heads else x.unflatten(1, (heads, -1)).sum(2)


def attention_kernel(q, k, v, causal, window, softcap, mask):
    """Return the kernel of PyTorch that computes attention and its gradient, whether that kernel
    applies the causal mask, the mask to pass to it, and the `seen_distances` that `bounded_mask`
    has to add to the mask, or None.

    The kernel is "cpu", "flash" or "efficient". It is None if no kernel supports the arguments; the
    mask then includes the causal mask.
    """
    queries, keys = q.shape[2], k.shape[2]
    is_square = queries == keys and (window is None or window >= keys)
    if causal and is_square and mask is None:
        kernel = available_kernel(q, k, v, softcap, None, True)
        if kernel is not None:
            return kernel, True, None, None
    mask = None if mask is None else dense_columns(mask)
    if mask is not None and available_kernel(q, k, v, softcap, mask, False) == "efficient":
        return "efficient", False, mask, seen_distances(queries, keys, causal, window)
    mask = attention_mask(mask, queries, keys, causal, window, q.device)
    return available_kernel(q, k, v, softcap, mask, False), False, mask, None


ATTENTION_OPERATORS = {
    "cpu": "flash_attention_for_cpu",
    "flash": "flash_attention",
    "cudnn": "cudnn_attention",
    "efficient": "efficient_attention",
}


def attention_operator(kernel, suffix=""):
    """Return the ATen operator of a kernel. Raises AttributeError if PyTorch does not have it."""
    return getattr(torch.ops.aten, f"_scaled_dot_product_{ATTENTION_OPERATORS[kernel]}{suffix}")


def has_attention(kernel):
    """Return whether PyTorch has the forward and the backward operator of a kernel."""
    try:
        return bool(attention_operator(kernel)) and bool(attention_operator(kernel, "_backward"))
    except AttributeError:
        return False


def settings_of_attention():
    """Return PyTorch's settings that decide which kernels may be used."""
    cuda = torch.backends.cuda
    enabled = (cuda.flash_sdp_enabled, cuda.mem_efficient_sdp_enabled, cuda.cudnn_sdp_enabled)
    return *[is_on() for is_on in enabled], torch.are_deterministic_algorithms_enabled()


def layout(x):
    """Return what the choice of a kernel depends on: all of a tensor but its elements."""
    is_tensor = isinstance(x, torch.Tensor)
    return (x.shape, x.stride(), x.dtype, x.device) if is_tensor else x


def once_for_layouts(choose):
    """Cache results of `choose` by argument layouts: asking PyTorch takes tens of microseconds."""
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
    """Return the kernel that supports forward and backward of these arguments, or None."""
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
        # Values with a smaller head_dim than keys are padded to that of keys.
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
    """Return whether to call cuDNN's forward. On Hopper it is the fastest and deterministic; its
    backward is not deterministic, and is not used.
    """
    cuda = torch.backends.cuda
    if not q.is_cuda or torch.version.hip or torch.cuda.get_device_capability(q.device) < (9, 0):
        return False
    if mask is not None:
        if q.dtype == torch.float16:
            return False  # scores may be below the lowest number, which would not hide a key
        mask = mask.expand(*q.shape[:3], k.shape[2])
    params = cuda.SDPAParams(q, k, v, mask, 0.0, is_causal, q.shape[1] != k.shape[1])
    return cuda.can_use_cudnn_attention(params) and has_attention("cudnn")


def padded_columns(*tensors):
    """Return the tensors with their columns padded with zeros to the same multiple of 8."""
    columns = -(-max(x.shape[-1] for x in tensors) // 8) * 8
    pads = [columns - x.shape[-1] for x in tensors]
    return [torch.nn.functional.pad(x, (0, n)) if n else x for x, n in zip(tensors, pads)]
