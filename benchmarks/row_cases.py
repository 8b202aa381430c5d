"""The rows of `rows.py`: models of published sizes, a step of each, and the work of that step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from fleet.models import Setting, sd3
from model_parts import Decode, Part, Step, Tensors, bytes_read, make_model
from torch.utils.flop_counter import FlopCounterMode

import coda_ir

CHECKED = 512
"""Tokens at the start of a prompt whose logits are compared: later tokens do not change them."""


@dataclass(frozen=True)
class Work:
    """Floating-point operations of the products of a step, bytes that it reads, its tokens."""

    flops: float
    bytes: float
    tokens: int
    """Images for a model of images."""


class StartOfPrompt(Part):
    """The logits of all tokens of a prompt, without a cache; the first ones are compared."""

    def step(self, function: Any) -> Step:
        return partial(self._logits, function, self.ids)

    def exact(self) -> Tensors:
        return self._logits(self.model, self.ids[:, :CHECKED])

    def work(self) -> Work:
        tokens = self.ids.shape[1]
        # Causal attention: half of the products of scores, and of those with values.
        attention = 2 * tokens**2 * _attention_columns(self.model)
        products = 2 * tokens * _weights(self.model) + attention
        return Work(products, bytes_read(self.model), tokens)

    def products(self) -> Step:
        """The products with all weights of linear maps alone, as cuBLAS runs them."""
        weights = [m.weight for m in self.model.modules() if isinstance(m, torch.nn.Linear)]
        rows = {
            columns: torch.randn(self.ids.shape[1], columns, device=weights[0].device)
            for columns in {weight.shape[1] for weight in weights}
        }
        inputs = {columns: x.to(weights[0].dtype) for columns, x in rows.items()}

        def multiply() -> Tensors:
            with torch.no_grad():
                for weight in weights:
                    torch.nn.functional.linear(inputs[weight.shape[1]], weight)
            return {}

        return multiply

    def _logits(self, function: Any, ids: torch.Tensor) -> Tensors:
        with torch.no_grad():
            return {"logits": function(ids, use_cache=False).logits[:, :CHECKED]}


class KeysAndValues(Decode):
    """One token after a prompt whose keys and values are in a static cache."""

    def work(self) -> Work:
        keys = sum(layer.keys.nbytes + layer.values.nbytes for layer in self.known.layers)
        return Work(2 * _weights(self.model), self.read_bytes + keys, 1)


class RecurrentStates(Part):
    """One token after a prompt, from the states in a cache, which a step also changes.

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
        """Make the next step of each variant start from the same states."""
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
    """A row of the table: a model of which so many layers are measured, and one step of it."""

    name: str
    bound: str
    """The peak that it is compared with: `flops` or `bytes`."""
    all_layers: int
    layers: int
    tokens: int
    make: Callable[[Setting], Case]
    """The model with random weights, and the inputs of its step."""


def _of(
    model: str, part: type[LanguagePart], recipe: str | None = None
) -> Callable[[Setting], Case]:
    def make(setting: Setting) -> Case:
        found = make_model(model, setting.device, setting.layers, small=setting.small)
        found = found.to(setting.dtype)
        if recipe is not None:
            coda_ir.quantize(found, recipe, skip=("lm_head",))
        return part(found, setting.tokens)

    return make


ROWS = (
    Row("llama-7b prefill", "flops", 32, 32, 2048, _of("llama", StartOfPrompt)),
    Row("llama-7b decode", "bytes", 32, 32, 512, _of("llama", KeysAndValues)),
    *(
        Row(f"llama-7b decode {r}", "bytes", 32, 32, 512, _of("llama", KeysAndValues, r))
        for r in ("int8", "float8", "int4")
    ),
    Row("llama-13b prefill", "flops", 40, 40, 2048, _of("llama-13b", StartOfPrompt)),
    Row("llama-13b decode", "bytes", 40, 40, 512, _of("llama-13b", KeysAndValues)),
    Row("sd3 step", "flops", 24, 24, 0, ImageStep),
    Row("mamba-2.8b prefill", "flops", 64, 8, 8192, _of("mamba-2.8b", StartOfPrompt)),
    Row("mamba-2.8b decode", "bytes", 64, 64, 512, _of("mamba-2.8b", RecurrentStates)),
    Row("mamba2-2.7b prefill", "flops", 64, 8, 8192, _of("mamba2-2.7b", StartOfPrompt)),
    Row("mamba2-2.7b decode", "bytes", 64, 64, 512, _of("mamba2-2.7b", RecurrentStates)),
)
"""Prefill of Mamba has 8 of 64 layers: eager PyTorch takes a step of the host for each token."""


def _weights(model: Any) -> int:
    """The elements of all matrices of linear maps."""
    linears = [m for m in model.modules() if isinstance(m, torch.nn.Linear)]
    return sum(linear.weight.numel() for linear in linears)


def _attention_columns(model: Any) -> int:
    """The columns of all heads of all layers; 0 without attention."""
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
