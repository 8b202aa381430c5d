"""Tiny configurations of models of Hugging Face transformers."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from zoo.architecture import Architecture, Example

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

    kind: Any = type(transformers.AutoConfig.for_model(model_type))
    known = set(inspect.signature(kind.__init__).parameters)
    if dataclasses.is_dataclass(kind):
        known |= {entry.name for entry in dataclasses.fields(kind)}
    values = {name: value for name, value in SMALL.items() if name in known}
    values |= {name: layers for name in LAYERS if name in known}
    return kind(**(values | settings))


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
    factory: Any = getattr(transformers, kind)
    make = getattr(factory, "_from_config", None) or factory.from_config
    if kind.startswith("Auto"):
        make = factory.from_config
    model: Any = make(configuration)
    return inputs(model)


def _ids() -> torch.Tensor:
    return torch.randint(3, VOCABULARY, (BATCH, LENGTH))


def _text(model: Any) -> Example:
    flags: dict[str, Any] = {}
    if "use_cache" in inspect.signature(model.forward).parameters:
        flags = {"use_cache": False}
    return Example(model, {"input_ids": _ids(), **flags}, {"input_ids": (0, 1)})


def _pair(model: Any) -> Example:
    inputs = {"input_ids": _ids(), "decoder_input_ids": _ids()[:, :5].contiguous()}
    flags: dict[str, Any] = {"use_cache": False}
    if "use_cache" not in inspect.signature(model.forward).parameters:
        flags = {}
    return Example(model, inputs | flags, dict.fromkeys(inputs, (0, 1)))


def _image(model: Any, size: int = IMAGE) -> Example:
    channels = getattr(model.config, "num_channels", 3) or 3
    pixels = torch.randn(BATCH, channels, size, size)
    return Example(model, {"pixel_values": pixels}, {"pixel_values": (0,)})


def _wave(model: Any, length: int = 800) -> Example:
    return Example(model, {"input_values": torch.randn(BATCH, length)}, {"input_values": (0,)})


def architecture(
    family: str,
    model_type: str,
    kind: str,
    inputs: Callable[[Any], Example],
    name: str | None = None,
    **settings: Any,
) -> Architecture:
    """A model of class `kind` by the configuration of `model_type`."""
    build = partial(_build, model_type, kind, inputs, settings)
    return Architecture(name or model_type, family, "transformers", build)


CAUSAL, BASE, SEQ2SEQ = "AutoModelForCausalLM", "AutoModel", "AutoModelForSeq2SeqLM"

_decoder = partial(architecture, "text decoder", kind=CAUSAL, inputs=_text)
_experts = partial(architecture, "mixture of experts", kind=CAUSAL, inputs=_text)
_state = partial(architecture, "state space", kind=CAUSAL, inputs=_text)
_encoder = partial(architecture, "text encoder", kind=BASE, inputs=_text)
_translator = partial(architecture, "encoder-decoder", kind=SEQ2SEQ, inputs=_pair)
_vision = partial(architecture, "vision", kind=BASE, inputs=_image)
_speech = partial(architecture, "speech", kind=BASE, inputs=_wave)
_multimodal_text = partial(architecture, "multimodal", kind=CAUSAL, inputs=_text)


def _per_layer(value: str) -> Callable[[int], list[str]]:
    """A list with `value` for each layer."""
    return lambda layers: [value] * layers


LATENT = {
    "num_key_value_heads": 4,
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 16,
    "v_head_dim": 16,
    "head_dim": 8,
}
"""Multi-head latent attention."""
GROUPED = {"n_group": 1, "topk_group": 1, "first_k_dense_replace": 1, "n_shared_experts": 1}
CONVOLUTIONS = {"conv_dim": (32, 32), "conv_kernel": (10, 3), "conv_stride": (5, 2)}
FOUR_STAGES = {
    "num_attention_heads": [2, 2, 4, 4],
    "hidden_sizes": [16, 16, 32, 32],
    "depths": [1, 1, 1, 1],
}

TRANSFORMERS: tuple[Architecture, ...] = (
    *map(
        _decoder,
        ["llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "phi", "phi3", "olmo", "olmo2", "olmo3", "gpt2", "gpt_neox", "gpt_bigcode", "opt", "falcon", "bloom", "mpt", "starcoder2", "stablelm", "cohere", "cohere2", "granite", "helium", "glm", "glm4", "nemotron", "persimmon", "biogpt", "xglm", "ctrl", "openai-gpt", "smollm3", "seed_oss", "exaone4", "ernie4_5", "hunyuan_v1_dense", "arcee", "apertus", "bitnet", "diffllama", "doge", "ministral", "nanochat", "modernbert-decoder", "vaultgemma", "cwm"],
    ),
    _decoder("gpt_neo", attention_types=[[["global"], 2]], num_layers=2, hidden_size=64),
    _decoder("gptj", rotary_dim=8),
    _decoder("codegen", rotary_dim=8),
    _decoder("minicpm3", **LATENT),
    *map(
        _experts,
        ["mixtral", "qwen2_moe", "qwen3_moe", "phimoe", "olmoe", "gpt_oss", "granitemoe", "granitemoeshared", "glm4_moe", "ernie4_5_moe", "jetmoe", "flex_olmo", "aria_text", "llama4_text"],
    ),
    _experts("deepseek_v2", **(LATENT | GROUPED)),
    _experts("deepseek_v3", **(LATENT | GROUPED)),
    _experts("dots1", **GROUPED),
    *map(_state, ["mamba", "falcon_mamba", "jamba", "rwkv", "recurrent_gemma", "lfm2", "xlstm", "minimax"]),
    _state("qwen3_next", linear_num_key_heads=2, linear_num_value_heads=4,
           linear_key_head_dim=16, linear_value_head_dim=16),
    _state("mamba2", num_heads=8, head_dim=16, expand=2, state_size=16, n_groups=1, chunk_size=8),
    *map(
        _encoder,
        ["bert", "roberta", "albert", "distilbert", "electra", "mobilebert", "deberta", "deberta-v2", "xlm-roberta", "xlm-roberta-xl", "camembert", "ernie", "megatron-bert", "mpnet", "squeezebert", "convbert", "fnet", "nystromformer", "roformer", "rembert", "roberta-prelayernorm", "modernbert", "nomic_bert", "eurobert", "esm", "xlnet", "xlm", "data2vec-text", "ibert", "splinter", "layoutlm", "longformer", "big_bird", "canine", "jina_embeddings_v3"],
    ),
    *map(
        _translator,
        ["t5", "mt5", "umt5", "longt5", "switch_transformers", "bart", "mbart", "pegasus", "pegasus_x", "marian", "blenderbot", "blenderbot-small", "m2m_100", "prophetnet", "plbart", "nllb-moe", "mvp", "bigbird_pegasus"],
    ),
    *map(
        _vision,
        ["vit", "deit", "beit", "dinov2", "dinov2_with_registers", "dinov3_vit", "vit_msn", "data2vec-vision", "siglip_vision_model", "clip_vision_model", "dpt", "ijepa", "aimv2_vision_model", "pixtral", "mlcd_vision_model"],
    ),
    _vision("sam_vision_model", num_attention_heads=4, output_channels=32, mlp_ratio=2.0),
    _vision("resnet", embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1]),
    _vision("regnet", embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], groups_width=8),
    _vision("poolformer", hidden_sizes=[16, 16, 32, 32], depths=[1, 1, 1, 1]),
    _vision("segformer", **FOUR_STAGES),
    _vision("swin", num_heads=[2, 4], depths=[1, 1], embed_dim=32, window_size=4, patch_size=2),
    _vision("swinv2", num_heads=[2, 4], depths=[1, 1], embed_dim=32, window_size=4, patch_size=2),
    _vision("convnext", hidden_sizes=[16, 32], depths=[1, 1], num_stages=2, patch_size=4),
    _vision("convnextv2", hidden_sizes=[16, 32], depths=[1, 1], num_stages=2, patch_size=4),
    _vision("focalnet", embed_dim=32, depths=[1, 1], hidden_sizes=[32, 64], focal_levels=[1, 1],
            focal_windows=[3, 3], patch_size=4),
    *(
        _speech(name, **CONVOLUTIONS)
        for name in ["wav2vec2", "hubert", "wavlm", "unispeech", "unispeech-sat", "data2vec-audio", "wav2vec2-conformer"]
    ),
    _multimodal_text("moshi"),
    architecture("multimodal", "clip_text_model", BASE, _text),
)  # fmt: skip


def _whisper(model: Any) -> Example:
    inputs = {"input_features": torch.randn(BATCH, 16, 32), "decoder_input_ids": _ids()}
    dynamic = {"input_features": (0,), "decoder_input_ids": (0, 1)}
    return Example(model, inputs | {"use_cache": False}, dynamic)


def _spectrogram(model: Any) -> Example:
    values = torch.randn(BATCH, 32, 16)
    return Example(model, {"input_values": values}, {"input_values": (0,)})


def _features(model: Any) -> Example:
    inputs = {"input_features": torch.randn(BATCH, 24, 16), "decoder_input_ids": _ids()}
    dynamic = dict.fromkeys(inputs, (0,))
    return Example(model, inputs | {"use_cache": False}, dynamic)


def _image_and_text(model: Any) -> Example:
    inputs = {"input_ids": _ids(), "pixel_values": torch.randn(BATCH, 3, IMAGE, IMAGE)}
    return Example(model, inputs, dict.fromkeys(inputs, (0,)))


_CLIP = {
    "text_config": lambda layers: _tower(layers) | {"vocab_size": VOCABULARY},  # pyright: ignore
    "vision_config": lambda layers: _tower(layers) | {"image_size": IMAGE, "patch_size": 8},  # pyright: ignore
    "projection_dim": 32,
}


def _tower(layers: int) -> dict[str, Any]:
    return {
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "max_position_embeddings": 64,
        "eos_token_id": 2,
        "bos_token_id": 1,
        "pad_token_id": 0,
    }


TRANSFORMERS += (
    architecture(
        "speech", "whisper", "WhisperForConditionalGeneration", _whisper,
        num_mel_bins=16, max_source_positions=16,
    ),
    architecture(
        "speech", "audio-spectrogram-transformer", BASE, _spectrogram,
        max_length=32, num_mel_bins=16, patch_size=8, frequency_stride=8, time_stride=8,
    ),
    architecture(
        "speech", "speech_to_text", "Speech2TextModel", _features,
        input_feat_per_channel=16, conv_channels=32, input_channels=1,
    ),
    *(
        architecture("multimodal", name, BASE, _image_and_text, **_CLIP)
        for name in ("clip", "siglip", "metaclip_2", "chinese_clip", "clipseg", "owlvit")
    ),
    architecture(
        "multimodal", "vilt", BASE, _image_and_text,
        image_size=IMAGE, modality_type_vocab_size=2, max_image_length=-1,
    ),
)  # fmt: skip
