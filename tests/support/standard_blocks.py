"""Blocks of the standard library of .coda in small sizes, beside their references."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from support.block_references import (
    HEAD,
    Values,
    alibi_attention,
    channel_mix,
    cohere_block,
    convnext_block,
    convolution,
    cross_attention,
    differential_attention,
    dit_block,
    dora,
    film_block,
    float8_block_mlp,
    float8_mlp,
    float8_row_mlp,
    gated_attention,
    gated_norm_output,
    gated_output,
    gemma2_block,
    gpt2_block,
    gpt_oss_expert,
    gptj_block,
    group_norm_attention,
    hyper_connection,
    in_float8,
    in_heads,
    in_int8,
    llama_block,
    mixture,
    mla_attention,
    multi_token_head,
    neox_block,
    olmo2_block,
    pointwise_resnet_block,
    post_norm_block,
    qk_norm_attention,
    retention_output,
    routed,
    scaled,
    selective_block,
    sigmoid_top_k,
    softmax_top_k,
    state_space_block,
    t5_block,
    top_k,
    window_attention,
)

SIZES = {"B": 2, "T": 24, "S": 20}


@dataclass(frozen=True)
class Block:
    """A call of a function of `file`: `parameters` are its arguments with their dimensions.

    Names that begin with `w` are weights. `call` is the call where arguments are no parameters,
    `statements` come before it.
    """

    file: str
    parameters: dict[str, str]
    reference: Callable[[Values], Tensor]
    options: str = ""
    call: str = ""
    statements: str = ""
    wide: Mapping[str, str] = field(default_factory=dict[str, str])
    """Dimensions in `widened` that do not follow from its rule."""


X = {"x": "B, T, 64"}
X8 = {"x8": "B, T, 64", "x_scale": "B, T, 1"}
MLP8 = {
    **X8,
    **{"w_gate8": "96, 64", "w_gate_scale": "96", "w_up8": "96, 64", "w_up_scale": "96"},
    **{"w_down8": "64, 96", "w_down_scale": "64"},
}
ROTARY = {"cos": f"T, {HEAD // 2}", "sin": f"T, {HEAD // 2}"}
QKV = {"wq": "64, 64", "wk": "32, 64", "wv": "32, 64"}
FULL = {"wq": "64, 64", "wk": "64, 64", "wv": "64, 64"}
MLP = {"w_gate": "96, 64", "w_up": "96, 64", "w_down": "64, 96"}
BRANCH = {**X, "y": "B, T, 64", "w": "64, 64"}
NETWORK = {"w_in": "96, 64", "w_bin": "96", "w_out": "64, 96", "w_bout": "64"}
NORM1, NORM2 = {"w_n1": "64", "w_b1": "64"}, {"w_n2": "64", "w_b2": "64"}
POST_NORM = {
    **X,
    **{name: "64, 64" if name[1] != "_" else "64" for n in "qkv" for name in (f"w{n}", f"w_b{n}")},
    "wo": "64, 64",
    "w_bo": "64",
    **NORM1,
    **NETWORK,
    **NORM2,
}
BLOCKS_OF_128 = (
    "reshape(reshape(cast(q, f32), [B, T, 2, 128]) * reshape(scale, [B, T, 2, 1]), [B, T, 256])"
)
"""`q` times the scales of its blocks."""

BLOCKS: dict[str, Block] = {
    "llama.llama_block": Block(
        "llama",
        {**X, **ROTARY, "w_n1": "64", **QKV, "wo": "64, 64", "w_n2": "64", **MLP},
        llama_block,
        "head=16",
    ),
    "llama.window_attention": Block(
        "llama", {**X, **ROTARY, **QKV}, window_attention, "head=16, window=5"
    ),
    "llama.qk_norm_attention": Block(
        "llama",
        {**X, **ROTARY, **QKV, "w_q_norm": "16", "w_k_norm": "16"},
        qk_norm_attention,
        "head=16",
    ),
    "llama.olmo2_block": Block(
        "llama",
        {**X, **ROTARY, **QKV, "wo": "64, 64", "w_n1": "64", **MLP, "w_n2": "64"},
        olmo2_block,
        "head=16",
    ),
    "llama.gated_attention": Block(
        "llama",
        {**X, **ROTARY, "w_n1": "64", **QKV, "w_gate": "64, 64", "wo": "64, 64"},
        gated_attention,
        "head=16",
    ),
    "llama.differential_attention": Block(
        "llama",
        {**X, **ROTARY, **{f"w{n}": "64, 64" for n in ("q1", "k1", "q2", "k2")}}
        | {"wv": "128, 64", "w_share": "1", "w_n1": "32", "wo": "64, 128"},
        differential_attention,
        "heads=4, head=16",
    ),
    "gpt.gpt2_block": Block(
        "gpt",
        {
            **X,
            **NORM1,
            "w_qkv": "64, 192",
            "w_bqkv": "192",
            "wo": "64, 64",
            "w_bo": "64",
            **NORM2,
            "w_in": "64, 96",
            "w_bin": "96",
            "w_out": "96, 64",
            "w_bout": "64",
        },
        gpt2_block,
        "width=64, head=16",
    ),
    "gpt.gptj_block": Block(
        "gpt", {**X, **ROTARY, **NORM1, **FULL, "wo": "64, 64", **NETWORK}, gptj_block, "head=16"
    ),
    "gpt.neox_block": Block(
        "gpt",
        {**X, "cos": "T, 4", "sin": "T, 4", **NORM1, **FULL, "wo": "64, 64", **NORM2, **NETWORK},
        neox_block,
        "heads=4, head=16, rotary=8",
    ),
    "gpt.cohere_block": Block(
        "gpt",
        {**X, **ROTARY, "w_n1": "64", **QKV, "wo": "64, 64", **MLP},
        cohere_block,
        "head=16",
    ),
    "bert.post_norm_block": Block("bert", POST_NORM, post_norm_block(1.0), "head=16"),
    "bert.post_norm_block (DeepNorm)": Block(
        "bert", POST_NORM, post_norm_block(1.5), "head=16, alpha=1.5"
    ),
    "bert.cross_attention": Block(
        "bert",
        {**X, "memory": "B, S, 48", **NORM1, "wq": "64, 64", "wk": "64, 48", "wv": "64, 48"}
        | {"wo": "64, 64"},
        cross_attention,
        "head=16",
    ),
    "bert.alibi_attention": Block(
        "bert", {**X, "slopes": "4, 1, T", **FULL}, alibi_attention, "heads=4, head=16"
    ),
    "residual.rezero": Block(
        "residual",
        {**BRANCH, "alpha": "1"},
        lambda v: v["x"] + v["alpha"] * F.linear(v["y"], v["w"]),
        call="rezero(x, linear(y, w), alpha)",
    ),
    "residual.layer_scale": Block(
        "residual",
        {**BRANCH, "gamma": "64"},
        lambda v: v["x"] + v["gamma"] * F.linear(v["y"], v["w"]),
        call="layer_scale(x, linear(y, w), gamma)",
    ),
    "residual.value_residual": Block(
        "residual",
        {**BRANCH, "mix": "1"},
        lambda v: v["mix"] * F.linear(v["y"], v["w"]) + (1 - v["mix"]) * v["x"],
        call="value_residual(linear(y, w), x, mix)",
    ),
    "residual.mean_of_positions": Block("residual", {**X}, lambda v: v["x"].mean(1, keepdim=True)),
    "residual.lora": Block(
        "residual",
        {**X, "w_0": "96, 64", "w_a": "8, 64", "w_b": "96, 8"},
        lambda v: F.linear(v["x"], v["w_0"]) + 0.5 * F.linear(F.linear(v["x"], v["w_a"]), v["w_b"]),
        "scale=0.5",
    ),
    "residual.dora": Block(
        "residual",
        {**X, "w_0": "96, 64", "w_a": "8, 64", "w_b": "96, 8", "w_magnitude": "96"},
        dora,
        "scale=0.5",
    ),
    "residual.hyper_connection": Block(
        "residual",
        {"streams": "B, T, 4, 64", "w_share": "4", "w": "64, 64", "w_mix": "4, 4", "w_spread": "4"},
        hyper_connection,
        statements="y = linear(hyper_input(streams, w_share), w)",
        call="hyper_connection(streams, y, w_mix, w_spread)",
    ),
    "gemma.gemma2_block": Block(
        "gemma",
        {**X, **ROTARY, "w_n1": "64", **QKV, "wo": "64, 64", "w_n2": "64", "w_n3": "64"}
        | {**MLP, "w_n4": "64"},
        gemma2_block,
        "head=16",
    ),
    "gemma.capped_logits": Block(
        "gemma",
        {**X, "w_table": "120, 64"},
        lambda v: 3 * torch.tanh(F.linear(v["x"], v["w_table"]) / 3),
        "cap=3.0",
    ),
    "dit.dit_block": Block(
        "dit",
        {**X, "condition": "B, 48", "w_condition": "384, 48", "w_bias": "384", **FULL}
        | {"wo": "64, 64", "w_bo": "64", **NETWORK},
        dit_block,
        "width=64, head=16",
    ),
    "t5.t5_block": Block(
        "t5",
        {**X, "position_bias": "1, 4, T, T", "w_n1": "64", **FULL, "wo": "64, 64", "w_n2": "64"}
        | MLP,
        t5_block,
        "heads=4, head=16",
    ),
    "moe.top_k_gates": Block(
        "moe",
        {**X, "w_router": "4, 64"},
        top_k,
        "experts=4, k=2",
    ),
    "moe.softmax_gates": Block(
        "moe", {**X, "w_router": "12, 64"}, softmax_top_k, "experts=12, k=2"
    ),
    "moe.sigmoid_gates": Block(
        "moe", {**X, "w_router": "8, 64", "balance": "8"}, sigmoid_top_k, "experts=8, k=3"
    ),
    "moe.dense_experts": Block(
        "moe",
        {**X, "gates": "B, T, 4", "w_gate": "128, 64", "w_up": "128, 64", "w_down": "64, 128"},
        mixture,
        "experts=4, hidden=32",
    ),
    "moe.grouped_experts": Block(
        "moe",
        {
            **X,
            "w_router": "4, 64",
            "w_gate": "4, 96, 64",
            "w_up": "4, 96, 64",
            "w_down": "4, 64, 96",
        },
        routed,
        "experts=4, hidden=96, k=2",
    ),
    "moe.gpt_oss_expert": Block(
        "moe",
        {**X, "w_in": "192, 64", "w_bin": "192", "w_out": "64, 96", "w_bout": "64"},
        gpt_oss_expert,
        "hidden=96",
    ),
    "mla.mla_attention": Block(
        "mla",
        {
            **X,
            "cos": "T, 4",
            "sin": "T, 4",
            "wq": "64, 64",
            "wq_rotary": "32, 64",
            "w_latent": "32, 64",
            "w_norm": "32",
            "wk": "64, 32",
            "wk_rotary": "8, 64",
            "wv": "64, 32",
        },
        mla_attention,
        "heads=4, size=16, rotary=8",
        wide={"wq_rotary": "32, 512"},
    ),
    "unet.group_norm_attention": Block(
        "unet",
        {
            **X,
            **NORM1,
            **{f"w{b}{n}": "64" if b else "64, 64" for n in "qkv" for b in ("", "_b")},
            "wo": "64, 64",
            "w_bo": "64",
        },
        group_norm_attention,
        "groups=8, head=16",
    ),
    "unet.pointwise_resnet_block": Block(
        "unet",
        {
            **X,
            "time": "B, 48",
            **{"w_n1": "64", "w_b1": "64", "w1": "64, 64", "w_bias1": "64"},
            **{"w_time": "64, 48", "w_time_b": "64"},
            **{"w_n2": "64", "w_b2": "64", "w2": "64, 64", "w_bias2": "64"},
        },
        pointwise_resnet_block,
        "groups=8",
    ),
    "unet.film_block": Block(
        "unet",
        {
            **X,
            "condition": "B, 48",
            **{"w_film": "128, 48", "w_b_film": "128", "w1": "64, 64", "w_bias1": "64"},
            "w2": "64, 64",
        },
        film_block,
        "width=64",
    ),
    "unet.convnext_block": Block(
        "unet",
        {
            **X,
            **{"w_taps": "64, 7", "w_b_taps": "64", **NORM1, "w_in": "96, 64", "w_bin": "96"},
            **{"w_gamma": "96", "w_beta": "96", "w_out": "64, 96", "w_bout": "64"},
        },
        convnext_block,
    ),
    "mla.multi_token_head": Block(
        "mla",
        {
            "hidden": "B, T, 64",
            "ids": "B, T",
            "w_table": "120, 64",
            **{"w_n1": "64", "w_n2": "64", "w": "64, 128", "w_n3": "64"},
        },
        multi_token_head,
        "width=64",
    ),
    "mamba.channel_mix": Block(
        "mamba",
        {
            **X,
            **{"w_mu_k": "64", "w_mu_r": "64"},
            **{"w_k": "96, 64", "w_r": "64, 64", "w_v": "64, 96"},
        },
        channel_mix,
    ),
    "mamba.causal_convolution": Block(
        "mamba",
        {**X, "w_taps": "64, 4", "w_bias": "64"},
        convolution,
    ),
    "mamba.selective_block": Block(
        "mamba",
        {
            **X,
            **{f"w_{name}": "96, 64" for name in "uz"},
            "w_taps": "96, 4",
            "w_b_taps": "96",
            "w_x": "20, 96",
            "w_dt": "96, 4",
            "w_b_dt": "96",
            "w_a_log": "96, 8",
            "w_skip": "96",
            "w_out": "64, 96",
        },
        selective_block,
        "rank=4, states=8",
    ),
    "mamba.state_space_block": Block(
        "mamba",
        {
            **X,
            "w_z": "96, 64",
            "w_xbc": "128, 64",
            "w_dt": "4, 64",
            "w_taps": "128, 4",
            "w_b_taps": "128",
            "w_b_dt": "4",
            "w_a_log": "4",
            "w_skip": "96",
            "w_n1": "96",
            "w_out": "64, 96",
        },
        state_space_block,
        "heads=4, head=24, groups=2, states=8",
        wide={"w_xbc": "800, 512", "w_taps": "800, 4", "w_b_taps": "800"},
    ),
    "mamba.gated_output": Block(
        "mamba", {"y": "B, T, 64", **X, "w_z": "64, 64", "w_out": "64, 64"}, gated_output
    ),
    "mamba.gated_norm_output": Block(
        "mamba",
        {"y": "B, T, 64", **X, "w_z": "64, 64", "w_n1": "64", "w_out": "64, 64"},
        gated_norm_output,
    ),
    "mamba.retention_output": Block(
        "mamba",
        {"y": "B, T, 64", **X, "w_gate": "64, 64", "wo": "64, 64"},
        retention_output,
        "heads=4, head=16",
    ),
    "quantize.int8_block_linear": Block(
        "quantize",
        {**X, "w_in": "256, 64"},
        lambda v: in_int8(in_heads(F.linear(v["x"], v["w_in"]), 128)).flatten(-2),
        statements="q, scale = int8_block_linear(x, w_in, blocks=2)",
        call=BLOCKS_OF_128,
        wide={"w_in": "256, 512"},
    ),
    "quantize.float8_block_swiglu": Block(
        "quantize",
        {**X, "w_gate": "256, 64", "w_up": "256, 64"},
        lambda v: in_float8(
            in_heads(F.silu(F.linear(v["x"], v["w_gate"])) * F.linear(v["x"], v["w_up"]), 128)
        ).flatten(-2),
        statements="q, scale = float8_block_swiglu(x, w_gate, w_up, blocks=2)",
        call=BLOCKS_OF_128,
        wide={"w_gate": "256, 512", "w_up": "256, 512"},
    ),
    "quantize.int8_row_linear": Block(
        "quantize",
        {**X, "w_in": "96, 64"},
        lambda v: in_int8(F.linear(v["x"], v["w_in"])),
        statements="q, scale = int8_row_linear(x, w_in)",
        call="cast(q, f32) * scale",
    ),
    "quantize.float8_linear": Block(
        "quantize",
        {**X8, "w8": "96, 64", "w_scale": "96"},
        lambda v: scaled(v["x8"], v["w8"], v["x_scale"], v["w_scale"]),
    ),
    "quantize.float8_mlp": Block("quantize", {**MLP8, "w_hidden_scale": "1"}, float8_mlp),
    "quantize.float8_block_mlp": Block(
        "quantize",
        {
            **{"x8": "B, T, 160", "x_scale": "B, T, 2"},
            **{"w_gate8": "256, 160", "w_gate_scale": "2, 2"},
            **{"w_up8": "256, 160", "w_up_scale": "2, 2"},
            **{"w_down8": "64, 256", "w_down_scale": "1, 2"},
        },
        float8_block_mlp,
        "blocks=2",
        wide={
            **{"x8": "B, T, 512", "x_scale": "B, T, 4"},
            **{"w_gate8": "256, 512", "w_gate_scale": "2, 4"},
            **{"w_up8": "256, 512", "w_up_scale": "2, 4"},
            **{"w_down8": "512, 256", "w_down_scale": "4, 2"},
        },
    ),
    "quantize.float8_row_mlp": Block("quantize", MLP8, float8_row_mlp),
}
