"""Decoding with the caches of transformers: eager's tokens, few graphs."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
import transformers
from support.torch_compile import compiled, graphs, spectrum
from torch import nn

pytestmark = pytest.mark.usefixtures("fresh_dynamo", "no_gradients")

library: Any = transformers  # without types
CONFIG: Any = library.LlamaConfig(
    hidden_size=16,
    intermediate_size=24,
    num_hidden_layers=1,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=4,
    vocab_size=32,
    max_position_embeddings=64,
)


@pytest.mark.slow
def test_llama_with_a_static_cache(caplog: pytest.LogCaptureFixture):
    """One graph reads the prompt and one each token; caches are updated in place."""
    model: Any = library.LlamaForCausalLM(CONFIG).eval()
    fast = compiled(model, target="triton", remarks="passed")
    prompt = torch.randint(0, 32, (2, 7))

    def decode(function: Any, cache: Any) -> list[int]:
        current, found = prompt, list[int]()
        for _ in range(3):
            output = function(input_ids=current, past_key_values=cache, use_cache=True)
            current = output.logits[:, -1].argmax(-1, keepdim=True)
            found += current.flatten().tolist()
        return found

    caches = [library.StaticCache(config=CONFIG, max_cache_len=20) for _ in range(2)]
    with caplog.at_level("INFO", logger="coda_ir"):
        assert decode(fast, caches[0]) == decode(model, caches[1])
    assert graphs() == 2
    (got,), (wanted,) = (cache.layers for cache in caches)
    torch.testing.assert_close([got.keys, got.values], [wanted.keys, wanted.values])
    assert got.cumulative_length == wanted.cumulative_length == 9
    assert "index_copy.default: stores its result in the memory of" in caplog.text
    # Two heads of queries share one of keys, which a step does not copy for each of them.
    assert "query heads share one copy of their keys" in caplog.text


class Counter(nn.Module):
    """A buffer that is read before it changes, and is returned, and of which a view is read."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4, bias=False)
        self.total = nn.Buffer(torch.zeros(4, 4))

    def forward(
        self, x: torch.Tensor, state: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        y = self.linear(x)
        put = state.index_put((torch.tensor([1]),), y[:1])
        before = state + 0
        state.copy_(put.T if self.training else put)
        self.total.add_(y)
        return put, before, self.total + y


@pytest.mark.slow
@pytest.mark.parametrize("training", [False, True], ids=["same", "transposed"])
@pytest.mark.parametrize("fallback", [False, True], ids=["compiled", "regions"])
@pytest.mark.parametrize("target", ["reference", "triton"])
def test_inputs_that_are_updated(target: str, training: bool, fallback: bool):
    class Model(Counter):
        def forward(self, x: torch.Tensor, state: torch.Tensor) -> Any:
            results = super().forward(x, state)
            # No type of the IR has complex numbers, so that regions around are compiled.
            return (*results, spectrum(x)) if fallback else results

    models = [Model().train(training) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    states = [torch.zeros(4, 4) for _ in models]
    fast = compiled(models[1], target=target)
    for _ in range(3):
        x = torch.randn(4, 4)
        wanted, got = models[0](x, states[0]), fast(x, states[1])
        torch.testing.assert_close(got, wanted)
        torch.testing.assert_close(states[1], states[0])
        torch.testing.assert_close(models[1].total, models[0].total)
        kept = [tensor.clone() for tensor in got]
        for model, state in ((models[0], states[0]), (fast, states[1])):
            model(x, state)
        torch.testing.assert_close(list(got), kept)  # a later call changes no result


class Exchange(nn.Module):
    """Each state becomes what is computed from the other one, in the epilogue of one GEMM."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 16, bias=False)

    def forward(self, x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        first, second = y + b, y * 2 - a
        a.copy_(first)
        b.copy_(second)
        return y


@pytest.mark.slow
@pytest.mark.parametrize("target", ["reference", "triton"])
def test_states_that_are_computed_from_each_other(target: str):
    model = Exchange()
    fast = compiled(model, target=target)
    wanted = [torch.randn(16, 16) for _ in range(2)]
    states = [state.clone() for state in wanted]
    for _ in range(3):
        x = torch.randn(16, 16)
        torch.testing.assert_close(fast(x, *states), model(x, *wanted))
        torch.testing.assert_close(states, wanted)


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


@pytest.mark.slow
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
