"""Decoding with the caches of transformers: eager's tokens, few graphs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import transformers
from support.torch_compile import compiled, graphs, reset
from torch import nn

library: Any = transformers  # without types
CONFIG: Any = library.LlamaConfig(
    hidden_size=16,
    intermediate_size=24,
    num_hidden_layers=1,
    num_attention_heads=2,
    num_key_value_heads=1,
    vocab_size=32,
    max_position_embeddings=64,
)


@pytest.fixture(autouse=True)
def no_gradients() -> Iterator[None]:
    reset()
    torch.default_generator.manual_seed(0)
    with torch.no_grad():
        yield


def test_llama_with_a_static_cache():
    model: Any = library.LlamaForCausalLM(CONFIG).eval()
    fast, prompt = compiled(model), torch.randint(0, 32, (2, 7))

    def decode(function: Any) -> list[int]:
        cache = library.StaticCache(config=CONFIG, max_cache_len=20)
        current, found = prompt, list[int]()
        for _ in range(5):
            output = function(input_ids=current, past_key_values=cache, use_cache=True)
            current = output.logits[:, -1].argmax(-1, keepdim=True)
            found += current.flatten().tolist()
        return found

    assert decode(fast) == decode(model)
    assert graphs() == 2


class Layer(nn.Module):
    """Attention over a cache that grows."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x: torch.Tensor, cache: Any) -> torch.Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
        k, v = cache.update(k, v, 0)
        heads = F.scaled_dot_product_attention(q, k, v)
        return x + self.out(heads.transpose(1, 2).flatten(2))


def test_a_cache_that_grows():
    model = Layer()
    fast = compiled(model, dynamic=True)
    inputs = [torch.randn(2, length, 16) for length in (7, 1, 1, 1, 3, 1, 1, 5, 1, 1)]
    results: list[list[torch.Tensor]] = []
    for function in (fast, model):
        cache = library.DynamicCache(config=CONFIG)
        results.append([function(x, cache) for x in inputs])
        assert cache.get_seq_length() == 22
    torch.testing.assert_close(*results)
    assert graphs() <= 3
