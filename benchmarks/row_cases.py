"""The rows of `rows.py`: models of published sizes, a step of each, and the work of a step."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import torch
from fleet.models import Setting, sd3
from torch.utils.flop_counter import FlopCounterMode
from xla_llama import XlaStep

import coda_ir
from coda_ir.float64 import computing_in_float64
from coda_ir.frontends.torch.graph_runner import foreach_copy

# transformers has no complete types.
transformers: Any = import_module("transformers")

Tensors = dict[str, torch.Tensor]
Step = Callable[[], Tensors]
"""A call that is timed; gives what is compared with float64, by name."""

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
    "num_hidden_layers": 2,
    "vocab_size": 128,
    "max_position_embeddings": 256,
}
SMALL_MAMBA = {"hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 128}
SMALL_MAMBA2 = {**SMALL_MAMBA, "num_heads": 4, "head_dim": 32, "n_groups": 1, "state_size": 16}
MODELS = {
    "llama": ("LlamaConfig", LLAMA_7B),
    "llama-13b": ("LlamaConfig", LLAMA_13B),
    "mamba-2.8b": ("MambaConfig", MAMBA_3B),
    "mamba2-2.7b": ("Mamba2Config", MAMBA2_3B),
}
SMALLER = {"MambaConfig": SMALL_MAMBA, "Mamba2Config": SMALL_MAMBA2}
"""Tiny sizes of configurations, where they are not `SMALL`."""


def make_model(name: str, setting: Setting) -> Any:
    """A model of `setting.layers` layers with random weights.

    Its parameters have the element type of the setting. The frequencies of rotary embeddings stay
    in float32, as in a model that transformers loads; `Module.to` would round them.
    """
    configuration, shape = MODELS[name]
    fields: dict[str, Any] = {**(SMALLER.get(configuration, SMALL) if setting.small else shape)}
    fields["num_hidden_layers"] = setting.layers
    # Tokens that end a sentence mean nothing here, and have to be in the vocabulary.
    fields |= {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    config = getattr(transformers, configuration)(**fields)
    with torch.device(setting.device):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=setting.dtype)
    return model.eval()


class Part(ABC):
    """One step of a model; each variant has its own copy of the step."""

    def __init__(self, model: Any, tokens: int):
        self.model = model.eval()
        shape = (1, tokens)
        high = model.config.vocab_size
        self.ids = torch.randint(3, high, shape, device=model.device)

    @abstractmethod
    def step(self, function: Any) -> Step:
        """Return a step with `function`: the model, or its compiled form."""

    @abstractmethod
    def exact(self) -> Tensors:
        """Return the exact result of a step; the model has been converted to float64."""


class KeysAndValues(Part):
    """The next token after a prompt, with keys and values in a static cache."""

    def __init__(self, model: Any, tokens: int):
        super().__init__(model, tokens)
        self.known = self._filled()

    def step(self, function: Any) -> Step:
        return self._step(function, self._filled())

    def xla(self) -> XlaStep:
        """Return the step of LLaMA by XLA. Raises ImportError without JAX for the device."""
        return XlaStep(self.model, self.ids, self.known)

    def exact(self) -> Tensors:
        """Return the exact result from the model's keys and values in bf16, like all steps."""
        self.model.eval()
        cache = self._filled()
        for layer, known in zip(cache.layers, self.known.layers, strict=True):
            layer.keys.copy_(known.keys)
            layer.values.copy_(known.values)
        return self._step(self.model, cache)()

    def work(self) -> Work:
        keys = sum(layer.keys.nbytes + layer.values.nbytes for layer in self.known.layers)
        return Work(2 * _weights(self.model), bytes_read(self.model) + keys, 1)

    def _filled(self) -> Any:
        """Return a cache with all tokens but the last, filled by eager PyTorch."""
        cache = transformers.StaticCache(config=self.model.config, max_cache_len=self.ids.shape[1])
        with torch.no_grad():
            self.model(self.ids[:, :-1], past_key_values=cache, use_cache=True)
        return cache

    def _step(self, function: Any, cache: Any) -> Step:
        lengths = [layer.cumulative_length for layer in cache.layers]
        before = [length.clone() for length in lengths]
        last = self.ids[:, -1:]

        def decode() -> Tensors:
            foreach_copy(lengths, before)  # so that every step is the same
            with torch.no_grad():
                logits = function(last, past_key_values=cache, use_cache=True).logits
            return {"logits": logits}

        return decode


def bytes_read(model: Any) -> int:
    """Return the bytes of weights per token: the embedding only if it is also the output layer."""
    table = model.get_input_embeddings().weight
    unread = () if table is model.get_output_embeddings().weight else (table,)
    return sum(p.nbytes for p in model.parameters() if all(p is not each for each in unread))


@contextmanager
def in_float64(model: Any) -> Generator[None]:
    """Compute in float64 with the model, a layer at a time: a whole copy might not fit."""
    model.zero_grad(set_to_none=True)
    for layers in _stacks(model):
        for name, layer in list(layers.named_children()):
            layers.register_module(name, _InFloat64(layer))
    model.double()
    with computing_in_float64():
        yield


class _InFloat64(torch.nn.Module):
    """A layer that is a copy in float64 while it is called."""

    def __init__(self, layer: torch.nn.Module):
        super().__init__()
        self.narrow = (layer,)
        """Kept in a tuple, so that conversions of the model do not reach it."""

    def forward(self, *arguments: Any, **options: Any) -> Any:
        """Call the copy."""
        return copy.deepcopy(self.narrow[0]).double()(*arguments, **options)


def _stacks(module: torch.nn.Module) -> Sequence[torch.nn.ModuleList]:
    """Return the lists of layers, but for those in layers."""
    if isinstance(module, torch.nn.ModuleList):
        return [module]
    return [stack for child in module.children() for stack in _stacks(child)]


CHECKED = 512
"""Tokens at the start of a prompt whose logits are compared: later tokens do not change them."""


@dataclass(frozen=True)
class Work:
    """The work of a step: floating-point operations of its products, bytes read, tokens."""

    flops: float
    bytes: float
    tokens: int
    """Images for a model of images."""


class StartOfPrompt(Part):
    """The logits of all tokens of a prompt, without a cache; the first ones are compared."""

    def step(self, function: Any) -> Step:
        return partial(self._logits, function, self.ids)

    def xla(self) -> XlaStep:
        """Return the step of LLaMA by XLA. Raises ImportError without JAX for the device."""
        return XlaStep(self.model, self.ids, shown=CHECKED)

    def exact(self) -> Tensors:
        return self._logits(self.model, self.ids[:, :CHECKED])

    def work(self) -> Work:
        tokens = self.ids.shape[1]
        # Causal attention: half of the products of scores, and of those with values.
        attention = 2 * tokens**2 * _attention_columns(self.model)
        products = 2 * tokens * _weights(self.model) + attention
        return Work(products, bytes_read(self.model), tokens)

    def products(self) -> Step:
        """Return the bare products of all linear layers in the model's type, by cuBLAS."""
        like, tokens = self.model.lm_head.weight, self.ids.shape[1]
        # Quantized layers have no weight of that type: random ones stand in for theirs.
        weights = [
            m.weight if isinstance(m, torch.nn.Linear) else like.new_empty(shape).normal_()
            for m, shape in _linear_maps(self.model)
        ]
        inputs = {k: like.new_empty(tokens, k).normal_() for k in {w.shape[1] for w in weights}}

        def multiply() -> Tensors:
            with torch.no_grad():
                for weight in weights:
                    torch.nn.functional.linear(inputs[weight.shape[1]], weight)
            return {}

        return multiply

    def _logits(self, function: Any, ids: torch.Tensor) -> Tensors:
        with torch.no_grad():
            return {"logits": function(ids, use_cache=False).logits[:, :CHECKED]}


class RecurrentStates(Part):
    """One token after a prompt, from states in a cache, which a step updates.

    Every step computes the same token again from other states; `restart` returns to the first ones.
    """

    PROMPT = 33
    """Tokens: the time of a step does not depend on it."""

    def __init__(self, model: Any, tokens: int):
        super().__init__(model, min(tokens, self.PROMPT))
        self._known = self._filled()
        self._caches: list[Any] = []

    def step(self, function: Any) -> Step:
        cache = self._filled()
        self._caches.append(cache)

        def decode() -> Tensors:
            with torch.no_grad():
                logits = function(self.ids[:, -1:], cache_params=cache, use_cache=True).logits
            return {"logits": logits}

        return decode

    def restart(self) -> None:
        """Reset the states, so that the next step of each variant starts from the same ones."""
        for cache in self._caches:
            for state, known in zip(_states(cache), _states(self._known), strict=True):
                state.copy_(known)

    def exact(self) -> Tensors:
        step = self.step(self.model)
        self.restart()
        return step()

    def work(self) -> Work:
        states = sum(state.nbytes for state in _states(self._known))
        return Work(2 * _weights(self.model), bytes_read(self.model) + 2 * states, 1)

    def _filled(self) -> Any:
        with torch.no_grad():
            return self.model(self.ids[:, :-1], use_cache=True).cache_params


class ImageStep:
    """One step of a diffusion transformer for an image, with and without its text (guidance)."""

    def __init__(self, setting: Setting):
        member = sd3(setting.layers)
        self.model: Any = member.build(setting)
        self.inputs = member.inputs(self.model, setting)

    def step(self, function: Any) -> Step:
        return partial(self._predicted, function, self.inputs)

    def exact(self) -> Tensors:
        dtype = self.model.dtype
        wide = {
            name: x.to(dtype) if isinstance(x, torch.Tensor) and x.is_floating_point() else x
            for name, x in self.inputs.items()
        }
        return self._predicted(self.model, wide)

    def work(self) -> Work:
        with FlopCounterMode(display=False) as counter:
            self.step(self.model)()
        return Work(counter.get_total_flops(), sum(p.nbytes for p in self.model.parameters()), 1)

    def _predicted(self, function: Any, inputs: Mapping[str, Any]) -> Tensors:
        with torch.no_grad():
            return {"prediction": function(**inputs)[0]}


LanguagePart = StartOfPrompt | KeysAndValues | RecurrentStates
Case = LanguagePart | ImageStep


@dataclass(frozen=True)
class Row:
    """A row of the table: a model, the number of layers that are measured, and one of its steps."""

    name: str
    bound: str
    """The peak that it is compared with: `flops` or `bytes`."""
    all_layers: int
    layers: int
    tokens: int
    make: Callable[[Setting], Case]
    """The model with random weights, and the inputs of its step."""
    is_in_jax: bool = False
    """True if the model is written in JAX, too."""


def _of(
    model: str, part: type[LanguagePart], recipe: str | None = None
) -> Callable[[Setting], Case]:
    def make(setting: Setting) -> Case:
        found = make_model(model, setting)
        if recipe is not None:
            coda_ir.quantize(found, recipe)
        return part(found, setting.tokens)

    return make


ROWS = (
    Row("llama-7b prefill", "flops", 32, 32, 2048, _of("llama", StartOfPrompt), is_in_jax=True),
    Row("llama-7b prefill float8", "flops", 32, 32, 2048, _of("llama", StartOfPrompt, "rowwise")),
    Row("llama-7b decode", "bytes", 32, 32, 512, _of("llama", KeysAndValues), is_in_jax=True),
    *(
        Row(f"llama-7b decode {r}", "bytes", 32, 32, 512, _of("llama", KeysAndValues, r))
        for r in ("int8", "float8", "int4")
    ),
    Row(
        "llama-13b prefill", "flops", 40, 40, 2048, _of("llama-13b", StartOfPrompt), is_in_jax=True
    ),
    Row("llama-13b decode", "bytes", 40, 40, 512, _of("llama-13b", KeysAndValues), is_in_jax=True),
    Row("sd3 step", "flops", 24, 24, 0, ImageStep),
    Row("mamba-2.8b prefill", "flops", 64, 8, 8192, _of("mamba-2.8b", StartOfPrompt)),
    Row("mamba-2.8b decode", "bytes", 64, 64, 512, _of("mamba-2.8b", RecurrentStates)),
    Row("mamba2-2.7b prefill", "flops", 64, 8, 8192, _of("mamba2-2.7b", StartOfPrompt)),
    Row("mamba2-2.7b prefill 2048", "flops", 64, 8, 2048, _of("mamba2-2.7b", StartOfPrompt)),
    Row("mamba2-2.7b decode", "bytes", 64, 64, 512, _of("mamba2-2.7b", RecurrentStates)),
)
"""Prefill of Mamba has 8 of 64 layers: eager PyTorch takes a step of the host for each token. For
8192 tokens of Mamba 2 it asks for 80 GiB at a time, for 2048 for 20.
"""


def _weights(model: Any) -> int:
    """Return the number of elements in the matrices of all linear layers."""
    return sum(rows * columns for _, (rows, columns) in _linear_maps(model))


def _linear_maps(model: Any) -> Sequence[tuple[Any, tuple[int, int]]]:
    """Return the linear layers, including quantized ones, each with the shape of its matrix."""
    return [
        (m, (m.out_features, m.in_features))
        for m in model.modules()
        if hasattr(m, "out_features") and hasattr(m, "in_features")
    ]


def _attention_columns(model: Any) -> int:
    """Return the columns of all heads of all layers; 0 without attention."""
    config = model.config
    heads = getattr(config, "num_attention_heads", 0)
    return config.num_hidden_layers * heads * getattr(config, "head_dim", 0)


def _states(cache: Any) -> list[torch.Tensor]:
    return [
        state
        for layer in cache.layers
        for states in (layer.conv_states, layer.recurrent_states)
        for state in states.values()
    ]
