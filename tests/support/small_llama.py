"""A small LLaMA of transformers on a GPU."""

from typing import Any

import pytest
import torch

# It has no complete types.
transformers: Any = pytest.importorskip("transformers")

VOCABULARY = 128


def small_llama(dtype: torch.dtype = torch.bfloat16) -> Any:
    """Return a model of two layers in inference mode, with random weights of `dtype`."""
    config = transformers.LlamaConfig(
        hidden_size=256,
        intermediate_size=704,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=VOCABULARY,
        max_position_embeddings=512,
    )
    return transformers.LlamaForCausalLM(config).eval().to("cuda", dtype)
