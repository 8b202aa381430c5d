"""Steps of published models, as members of the fleet: LLaMA, Stable Diffusion 3 and Mamba.

    python -m fleet --members rows.py --models 'llama-7b*' --batch 1 --energy --json rows.json
    python -m fleet --members rows.py --models 'sd3*' --batch 1 --variants \
        eager,torch.compile,torch.compile-captured,coda,coda-captured

Run in benchmarks/. LLaMA: the logits of a prompt of 2048 tokens, in float8, too, and a token after
511 in a cache, with weights of 8 and 4 bits, too. Stable Diffusion 3: a step for 512 x 512 pixels
with guidance. Mamba: a prompt of 8192 tokens in 8 of 64 layers, and a token from the states of a
cache. Products are those of weights and of attention; `products alone` are those with the weights
of linear layers, by cuBLAS. A quantized model is compared with itself: its weights stay rounded,
and in the float8 prompt both sides round the inputs of products. torch.compile has the kernels of
this package for Mamba's scans, whose loop it would unroll. XLA runs LLaMA in bf16, written in JAX,
if JAX is installed. Needs transformers and diffusers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from fleet.models import Member, Setting, Work, sd3
from harness import Candidate
from torch.utils.flop_counter import FlopCounterMode
from xla_llama import XlaStep

import coda_ir
from coda_ir.frontends.torch.graph_runner import foreach_copy

LLAMA_7B = {
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "vocab_size": 32000,
    "max_position_embeddings": 4096,
}
LLAMA_13B = {
    **LLAMA_7B,
    "hidden_size": 5120,
    "intermediate_size": 13824,
    "num_attention_heads": 40,
    "num_hidden_layers": 40,
}
MAMBA_3B = {"hidden_size": 2560, "num_hidden_layers": 64, "vocab_size": 50280}
MAMBA2_3B = {
    **MAMBA_3B,
    "num_heads": 80,
    "n_groups": 1,
    "vocab_size": 50288,
    "tie_word_embeddings": True,
}
SMALL = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 128,
    "max_position_embeddings": 256,
}
SMALL_MAMBA = {"hidden_size": 64, "vocab_size": 128}
SMALL_MAMBA2 = {**SMALL_MAMBA, "num_heads": 4, "head_dim": 32, "n_groups": 1, "state_size": 16}
MODELS: Mapping[str, tuple[str, Mapping[str, Any], Mapping[str, Any]]] = {
    "llama-7b": ("LlamaConfig", LLAMA_7B, SMALL),
    "llama-13b": ("LlamaConfig", LLAMA_13B, SMALL),
    "mamba-2.8b": ("MambaConfig", MAMBA_3B, SMALL_MAMBA),
    "mamba2-2.7b": ("Mamba2Config", MAMBA2_3B, SMALL_MAMBA2),
}
"""Configurations, and their sizes on a GPU and on a CPU."""
STATES = 33
"""The tokens before one of Mamba: the time of a step does not depend on their number."""


def build(name: str, layers: int | None, recipe: str | None, setting: Setting) -> Any:
    """Build a model with random weights, quantized by the recipe, if any.

    Its parameters have the element type of the setting. The frequencies of rotary embeddings stay
    in float32, as in a model that transformers loads; `Module.to` would round them.
    """
    coda_ir.keep_scans()
    transformers: Any = import_module("transformers")
    configuration, shape, small = MODELS[name]
    fields = dict(small if setting.small else shape)
    if setting.small or layers is not None:
        fields["num_hidden_layers"] = setting.layers if setting.small else layers
    # Tokens that end a sentence mean nothing here, and have to be in the vocabulary.
    fields |= {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    config = getattr(transformers, configuration)(**fields)
    with torch.device(setting.device):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=setting.dtype).eval()
    return model if recipe is None else coda_ir.quantize(model, recipe)


def _words(model: Any, setting: Setting, count: int) -> torch.Tensor:
    shape = (setting.batch, count)
    return torch.randint(3, model.config.vocab_size, shape, device=setting.device)


class NextToken(torch.nn.Module):
    """The next token after others, with keys and values or states in a cache."""

    def __init__(self, model: Any, setting: Setting, tokens: int):
        super().__init__()
        self.model, self.config = model, model.config
        known: dict[str, Any] = {}
        if hasattr(model.config, "num_attention_heads"):
            cache: Any = import_module("transformers").StaticCache
            known["past_key_values"] = cache(config=model.config, max_cache_len=tokens)
        with torch.no_grad():
            results = model(_words(model, setting, tokens - 1), **known, use_cache=True)
        self.name = "past_key_values" if known else "cache_params"
        self.cache = results[self.name]
        self.before = [state.clone() for state in self._changed()]

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Return the logits of B x 1 tokens."""
        return self.model(input_ids, **{self.name: self.cache}, use_cache=True).logits

    def restore(self) -> None:
        """Restore the cache, so that every step is the same."""
        foreach_copy(self._changed(), self.before)

    def to(self, *to: Any, **options: Any) -> NextToken:
        """Convert the cache, too."""
        super().to(*to, **options)
        self.before = [state.to(*to, **options) for state in self.before]
        for layer in self.cache.layers:
            if hasattr(layer, "keys"):
                layer.keys = layer.keys.to(*to, **options)
                layer.values = layer.values.to(*to, **options)
            else:
                for states in (layer.conv_states, layer.recurrent_states):
                    states.update({name: x.to(*to, **options) for name, x in states.items()})
        return self

    def bytes_known(self) -> int:
        """Return the bytes of the cache that a step reads and writes."""
        layers = [layer for layer in self.cache.layers if hasattr(layer, "keys")]
        keys = sum(layer.keys.nbytes + layer.values.nbytes for layer in layers)
        return keys or 2 * sum(state.nbytes for state in self.before)

    def _changed(self) -> list[torch.Tensor]:
        """Return the lengths of keys, whose last one each step overwrites, or the states."""
        if self.name == "past_key_values":
            return [layer.cumulative_length for layer in self.cache.layers]
        return [
            state
            for layer in self.cache.layers
            for states in (layer.conv_states, layer.recurrent_states)
            for state in states.values()
        ]


def bytes_read(model: Any) -> int:
    """Return the bytes of weights per token: the embedding only if it is also the output layer."""
    table = model.get_input_embeddings().weight
    unread = () if table is model.get_output_embeddings().weight else (table,)
    return sum(p.nbytes for p in model.parameters() if all(p is not each for each in unread))


def _linear_maps(model: Any) -> list[tuple[Any, tuple[int, int]]]:
    """Return the linear layers, including quantized ones, each with the shape of its matrix."""
    return [
        (m, (m.out_features, m.in_features))
        for m in model.modules()
        if hasattr(m, "out_features") and hasattr(m, "in_features")
    ]


def _weights(model: Any) -> int:
    """Return the number of elements in the matrices of all linear layers."""
    return sum(rows * columns for _, (rows, columns) in _linear_maps(model))


def _prompt_work(model: Any, inputs: Mapping[str, Any]) -> Work:
    tokens, config = inputs["input_ids"].numel(), model.config
    heads = getattr(config, "num_attention_heads", 0)
    columns = config.num_hidden_layers * heads * getattr(config, "head_dim", 0)
    # Causal attention: half of the products of scores, and of those with values.
    attention = 2 * tokens * inputs["input_ids"].shape[1] * columns
    return Work(2 * tokens * _weights(model) + attention, bytes_read(model), tokens)


def _token_work(step: NextToken, inputs: Mapping[str, Any]) -> Work:
    tokens = inputs["input_ids"].numel()
    bytes_moved = bytes_read(step.model) + step.bytes_known()
    return Work(2 * tokens * _weights(step.model), bytes_moved, tokens)


def _image_work(model: Any, inputs: Mapping[str, Any]) -> Work:
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(**inputs)
    weights = sum(p.nbytes for p in model.parameters())
    return Work(counter.get_total_flops(), weights, inputs["hidden_states"].shape[0] // 2)


def _products(model: Any, inputs: Mapping[str, Any], part: str) -> Mapping[str, Candidate]:
    """Return the bare products of all linear layers in the model's type, by cuBLAS."""
    like, tokens = model.lm_head.weight, inputs["input_ids"].numel()
    # Quantized layers have no weight of that type: random ones replace theirs.
    weights = [
        m.weight.detach() if isinstance(m, torch.nn.Linear) else like.new_empty(shape).normal_()
        for m, shape in _linear_maps(model)
    ]
    rows = {k: like.new_empty(tokens, k).normal_() for k in {w.shape[1] for w in weights}}
    linear = torch.nn.functional.linear
    return {"products alone": lambda: [linear(rows[w.shape[1]], w) for w in weights]}


def _others(name: str, recipe: str | None) -> Mapping[str, Callable[[Any], Callable[..., Any]]]:
    is_written_in_jax = name.startswith("llama") and recipe is None
    return {"xla": XlaStep} if is_written_in_jax and find_spec("jax") is not None else {}


def _prompt(name: str, tokens: int, layers: int | None = None, recipe: str | None = None) -> Member:
    """Return a member for the logits of all tokens of a prompt, without a cache."""

    def inputs(model: Any, setting: Setting) -> Mapping[str, Any]:
        words = _words(model, setting, setting.tokens if setting.small else tokens)
        return {"input_ids": words, "use_cache": False}

    return Member(
        f"{name} prefill {tokens}" + (f" {recipe}" if recipe else ""),
        "published",
        partial(build, name, layers, recipe),
        inputs,
        _others(name, recipe),
        _products,
        _prompt_work,
    )


def _token(name: str, tokens: int, recipe: str | None = None) -> Member:
    """Return a member for the last of so many tokens."""

    def make(setting: Setting) -> torch.nn.Module:
        count = setting.tokens if setting.small else tokens
        return NextToken(build(name, None, recipe, setting), setting, count)

    return Member(
        f"{name} decode" + (f" {recipe}" if recipe else ""),
        "published",
        make,
        lambda model, setting: {"input_ids": _words(model, setting, 1)},
        _others(name, recipe),
        work=_token_work,
    )


MEMBERS = [
    _prompt("llama-7b", 2048),
    _prompt("llama-7b", 2048, recipe="rowwise"),
    *(_token("llama-7b", 512, recipe) for recipe in (None, "int8", "float8", "int4")),
    _prompt("llama-13b", 2048),
    _token("llama-13b", 512),
    replace(sd3(24), name="sd3 step", work=_image_work),
    _prompt("mamba-2.8b", 8192, layers=8),
    _token("mamba-2.8b", STATES),
    _prompt("mamba2-2.7b", 8192, layers=8),
    _prompt("mamba2-2.7b", 2048, layers=8),
    _token("mamba2-2.7b", STATES),
]
"""Prompts of Mamba have 8 of 64 layers: eager PyTorch takes a step of the host for each token. For
8192 tokens of Mamba 2 it asks for 80 GiB at a time, for 2048 for 20.
"""
