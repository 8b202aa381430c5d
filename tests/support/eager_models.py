"""The PyTorch code for the operators of an example, one by one, where the model of `support.models`
writes another sequence that rounds elsewhere.
"""

import torch
import torch.nn.functional as F

from support.models import (
    MODELS,
    Model,
    Sizes,
    Tensors,
    capped_attention,
    gelu_tanh,
    layer_norm,
    rms_norm,
    rope,
    sdpa,
)


def gpt2_block(t: Tensors, sizes: Sizes) -> tuple[torch.Tensor, ...]:
    """The products round before their biases are added."""
    x = t["x"]
    h1 = layer_norm(x, t["ln1_w"], t["ln1_b"])
    q, k, v = (h1 @ t["w_qkv"] + t["b_qkv"]).chunk(3, -1)
    x1 = x + (sdpa(q, k, v, sizes["HEAD"]) @ t["w_proj"] + t["b_proj"])
    h2 = layer_norm(x1, t["ln2_w"], t["ln2_b"])
    return (x1 + (gelu_tanh(h2 @ t["w_fc"] + t["b_fc"]) @ t["w_out"] + t["b_out"]),)


def gemma_block(t: Tensors, sizes: Sizes) -> tuple[torch.Tensor, ...]:
    """The weights 1 + w round, and attention is one operator that computes in float32."""
    head, x = sizes["HEAD"], t["x"]

    def norm(value: torch.Tensor, weight: str) -> torch.Tensor:
        return rms_norm(value, 1 + t[weight], 1e-6)

    h1 = norm(x, "norm_in")
    q, k = (rope(F.linear(h1, t[name]), t, head) for name in ("wq", "wk"))
    v = F.linear(h1, t["wv"])
    y = capped_attention(q.float(), k.float(), v.float(), head, 50.0).to(x.dtype)
    x1 = x + norm(F.linear(y, t["wo"]), "norm_attention")
    h2 = norm(x1, "norm_network")
    a = gelu_tanh(F.linear(h2, t["w_gate"])) * F.linear(h2, t["w_up"])
    return (x1 + norm(F.linear(a, t["w_down"]), "norm_out"),)


EAGER_MODELS: dict[str, Model] = MODELS | {"gpt2_block": gpt2_block, "gemma_block": gemma_block}
