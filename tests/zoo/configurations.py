"""Tiny models of Hugging Face transformers, and their arguments."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from zoo.architecture import SEED, Architecture, Example

BATCH, LENGTH, VOCABULARY, IMAGE = 2, 7, 96, 32

LAYERS = (
    "num_hidden_layers",
    "num_layers",
    "n_layer",
    "n_layers",
    "encoder_layers",
    "decoder_layers",
    "num_encoder_layers",
    "num_decoder_layers",
)

SMALL: Mapping[str, Any] = {
    "vocab_size": VOCABULARY,
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "emb_dim", "embed_dim", "dim"), 64),
    **dict.fromkeys(
        (
            "intermediate_size",
            "ffn_dim",
            "d_ff",
            "encoder_ffn_dim",
            "decoder_ffn_dim",
            "ffn_hidden_size",
            "hidden_dim",
            "n_inner",
        ),
        96,
    ),
    **dict.fromkeys(
        (
            "num_attention_heads",
            "n_head",
            "n_heads",
            "num_heads",
            "encoder_attention_heads",
            "decoder_attention_heads",
            "num_encoder_attention_heads",
            "num_decoder_attention_heads",
        ),
        4,
    ),
    "num_key_value_heads": 2,
    "head_dim": 16,
    "d_kv": 16,
    "word_embed_proj_dim": 64,
    "embedding_size": 64,
    **dict.fromkeys(
        (
            "max_position_embeddings",
            "n_positions",
            "max_seq_len",
            "max_source_positions",
            "max_target_positions",
        ),
        64,
    ),
    **dict.fromkeys(("num_local_experts", "num_experts", "n_routed_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "moe_k"), 2),
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
    "image_size": IMAGE,
    "patch_size": 8,
    **dict.fromkeys(("initializer_range", "init_std"), 0.1),
    **dict.fromkeys(("pad_token_id",), 0),
    **dict.fromkeys(("bos_token_id", "decoder_start_token_id"), 1),
    "eos_token_id": 2,
}
"""Settings by the names that configurations use for them; each takes those that it has."""


def small_configuration(model_type: str, layers: int, **settings: Any) -> Any:
    """A configuration with the settings of `SMALL` that it knows, and `settings`."""
    import transformers

    automatic: Any = transformers.AutoConfig
    kind: Any = automatic.for_model(model_type).__class__
    known = set(inspect.signature(kind.__init__).parameters)
    known |= {entry.name for entry in _fields(kind)}
    values = {name: value for name, value in SMALL.items() if name in known}
    values |= {name: layers for name in LAYERS if name in known}
    return kind(**(values | settings))


def _fields(kind: Any) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()


def _build(
    model_type: str,
    kind: str,
    inputs: Callable[[Any], Example],
    settings: Mapping[str, Any],
    layers: int,
) -> Example:
    import transformers

    resolved = {
        name: value(layers) if callable(value) else value for name, value in settings.items()
    }
    configuration = small_configuration(model_type, layers, **resolved)
    # Some models read this, others the argument of a call.
    configuration.use_cache = False
    factory: Any = getattr(transformers, kind)
    make = getattr(factory, "_from_config", None) or factory.from_config
    if kind.startswith("Auto"):
        make = factory.from_config
    model: Any = make(configuration)
    return inputs(model)


def _ids() -> torch.Tensor:
    return torch.randint(3, VOCABULARY, (BATCH, LENGTH))


def text(model: Any) -> Example:
    """Token ids."""
    flags: dict[str, Any] = {}
    if "use_cache" in inspect.signature(model.forward).parameters:
        flags = {"use_cache": False}
    return Example(model, {"input_ids": _ids(), **flags}, {"input_ids": (0, 1)})


def padded_text(model: Any) -> Example:
    """Token ids, the end of the first sequence masked: for models that, without a mask, attend in
    another way when they are traced.
    """
    example = text(model)
    inputs = {**example.inputs, "attention_mask": _mask(LENGTH)}
    return Example(model, inputs, dict.fromkeys(("input_ids", "attention_mask"), (0, 1)))


def _mask(length: int) -> torch.Tensor:
    mask = torch.ones(BATCH, length, dtype=torch.int64)
    mask[0, -2:] = 0
    return mask


def pair(model: Any) -> Example:
    """Token ids for an encoder and for a decoder."""
    inputs = {"input_ids": _ids(), "decoder_input_ids": _ids()[:, :5].contiguous()}
    flags: dict[str, Any] = {"use_cache": False}
    if "use_cache" not in inspect.signature(model.forward).parameters:
        flags = {}
    return Example(model, inputs | flags, dict.fromkeys(inputs, (0, 1)))


def padded_pair(model: Any) -> Example:
    """The same, the ends of the first sequences masked (see `padded_text`)."""
    example = pair(model)
    masks = {
        "attention_mask": _mask(LENGTH),
        "decoder_attention_mask": _mask(example.inputs["decoder_input_ids"].shape[1]),
    }
    dynamic = dict.fromkeys(("input_ids", "decoder_input_ids", *masks), (0, 1))
    return Example(model, {**example.inputs, **masks}, dynamic)


def image(model: Any, size: int = IMAGE) -> Example:
    """A batch of images."""
    channels = getattr(model.config, "num_channels", 3) or 3
    pixels = torch.randn(BATCH, channels, size, size)
    return Example(model, {"pixel_values": pixels}, {"pixel_values": (0,)})


def wave(model: Any, length: int = 800) -> Example:
    """Raw audio."""
    return Example(model, {"input_values": torch.randn(BATCH, length)}, {"input_values": (0,)})


def architecture(
    family: str,
    model_type: str,
    kind: str,
    inputs: Callable[[Any], Example],
    seed: int = SEED,
    **settings: Any,
) -> Architecture:
    """A model of class `kind` by the configuration of `model_type`."""
    build = partial(_build, model_type, kind, inputs, settings)
    return Architecture(model_type, family, "transformers", build, seed)


def whisper(model: Any) -> Example:
    """A spectrogram (channels first) and token ids."""
    inputs = {"input_features": torch.randn(BATCH, 16, 32), "decoder_input_ids": _ids()}
    dynamic = {"input_features": (0,), "decoder_input_ids": (0, 1)}
    return Example(model, inputs | {"use_cache": False}, dynamic)


def spectrogram(model: Any) -> Example:
    """A spectrogram."""
    values = torch.randn(BATCH, 32, 16)
    return Example(model, {"input_values": values}, {"input_values": (0,)})


def features(model: Any) -> Example:
    """Audio features (time first) and token ids."""
    inputs = {"input_features": torch.randn(BATCH, 24, 16), "decoder_input_ids": _ids()}
    dynamic = dict.fromkeys(inputs, (0,))
    return Example(model, inputs | {"use_cache": False}, dynamic)


def image_and_text(model: Any) -> Example:
    """Token ids and images."""
    inputs = {"input_ids": _ids(), "pixel_values": torch.randn(BATCH, 3, IMAGE, IMAGE)}
    return Example(model, inputs, dict.fromkeys(inputs, (0,)))


def _tower(layers: int) -> dict[str, Any]:
    """One of the two towers of a contrastive model."""
    return {
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "max_position_embeddings": 64,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }


def _text_tower(layers: int) -> dict[str, Any]:
    return _tower(layers) | {"vocab_size": VOCABULARY}


def _image_tower(layers: int) -> dict[str, Any]:
    return _tower(layers) | {"image_size": IMAGE, "patch_size": 8}


CLIP: Mapping[str, Any] = {
    "text_config": _text_tower,
    "vision_config": _image_tower,
    "projection_dim": 32,
}
