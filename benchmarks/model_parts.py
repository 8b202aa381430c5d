"""Models of published sizes, and a step of decoding, for the rows of `rows.py`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import torch

from coda_ir.float64 import computing_in_float64

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


def make_model(name: str, device: str, layers: int | None, *, small: bool) -> Any:
    """A model with random weights in bf16; `layers` of it, where that is given."""
    configuration, shape = MODELS[name]
    fields: dict[str, Any] = {**(SMALLER.get(configuration, SMALL) if small else shape)}
    fields |= {} if layers is None else {"num_hidden_layers": layers}
    # Tokens that end a sentence mean nothing here, and have to be in the vocabulary.
    fields |= {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    config = getattr(transformers, configuration)(**fields)
    with torch.device(device):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    return model.eval()


class Part(ABC):
    """One thing that a model does, of which each variant has its own step."""

    def __init__(self, model: Any, tokens: int):
        self.model = model.eval()
        shape = (1, tokens)
        high = model.config.vocab_size
        self.ids = torch.randint(3, high, shape, device=model.device)

    @abstractmethod
    def step(self, function: Any) -> Step:
        """A step with `function`, the model or what a compiler made of it."""

    @abstractmethod
    def exact(self) -> Tensors:
        """Return what a step should give, when the model has become one in float64."""


class Decode(Part):
    """The next token after a prompt, which a static cache holds."""

    def __init__(self, model: Any, tokens: int):
        super().__init__(model, tokens)
        self.known = self.filled()
        self.read_bytes = bytes_read(model)

    def step(self, function: Any) -> Step:
        return self._step(function, self.filled())

    def exact(self) -> Tensors:
        """From the keys and values of the model in bf16, which all steps start from."""
        self.model.eval()
        cache = self.filled()
        for layer, known in zip(cache.layers, self.known.layers, strict=True):
            layer.keys.copy_(known.keys)
            layer.values.copy_(known.values)
        return self._step(self.model, cache)()

    def filled(self) -> Any:
        """A cache with all tokens but the last, as eager PyTorch fills it."""
        cache = transformers.StaticCache(config=self.model.config, max_cache_len=self.ids.shape[1])
        with torch.no_grad():
            self.model(self.ids[:, :-1], past_key_values=cache, use_cache=True)
        return cache

    def _step(self, function: Any, cache: Any) -> Step:
        lengths = [layer.cumulative_length for layer in cache.layers]
        before = [length.clone() for length in lengths]
        last = self.ids[:, -1:]
        foreach_copy: Callable[[Any, Any], None] = getattr(torch, "_foreach_copy_")  # noqa: B009

        def decode() -> Tensors:
            foreach_copy(lengths, before)  # so that every step is the same
            with torch.no_grad():
                logits = function(last, past_key_values=cache, use_cache=True).logits
            return {"logits": logits}

        return decode


def bytes_read(model: Any) -> int:
    """Bytes of the weights that a token needs: the embedding only where it is the last map, too."""
    table = model.get_input_embeddings().weight
    unread = () if table is model.get_output_embeddings().weight else (table,)
    return sum(p.nbytes for p in model.parameters() if all(p is not each for each in unread))


@contextmanager
def in_float64(model: Any) -> Generator[None]:
    """The model computes in float64, and stays so: a copy might not fit."""
    model.zero_grad(set_to_none=True)
    model.double()
    with computing_in_float64():
        yield
