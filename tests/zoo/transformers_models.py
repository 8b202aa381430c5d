"""Models of Hugging Face transformers."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from zoo.architecture import Architecture
from zoo.configurations import (
    CLIP,
    IMAGE,
    architecture,
    features,
    image,
    image_and_text,
    padded_pair,
    padded_text,
    pair,
    spectrogram,
    text,
    wave,
    whisper,
)

CAUSAL, BASE, SEQ2SEQ = "AutoModelForCausalLM", "AutoModel", "AutoModelForSeq2SeqLM"

_decoder = partial(architecture, "text decoder", kind=CAUSAL, inputs=text)
_experts = partial(architecture, "mixture of experts", kind=CAUSAL, inputs=text)
_state = partial(architecture, "state space", kind=CAUSAL, inputs=text)
_encoder = partial(architecture, "text encoder", kind=BASE, inputs=text)
_translator = partial(architecture, "encoder-decoder", kind=SEQ2SEQ, inputs=pair)
_vision = partial(architecture, "vision", kind=BASE, inputs=image)
_speech = partial(architecture, "speech", kind=BASE, inputs=wave)
_multimodal_text = partial(architecture, "multimodal", kind=CAUSAL, inputs=text)


def _all_global(layers: int) -> list[Any]:
    return [[["global"], layers]]


def _at_least_two(layers: int) -> int:
    return max(2, layers)


DECODERS = """
    llama mistral qwen2 qwen3 gemma gemma2 gemma3_text phi phi3 olmo olmo2 olmo3 gpt2
    gpt_neox gpt_bigcode opt falcon bloom mpt starcoder2 stablelm cohere cohere2 granite
    helium glm glm4 nemotron persimmon biogpt xglm ctrl openai-gpt smollm3 seed_oss exaone4
    ernie4_5 hunyuan_v1_dense arcee apertus bitnet diffllama ministral nanochat
    modernbert-decoder vaultgemma cwm
"""
EXPERTS = """
    mixtral qwen2_moe qwen3_moe phimoe olmoe gpt_oss granitemoe granitemoeshared glm4_moe
    ernie4_5_moe jetmoe aria_text llama4_text
"""
STATE_SPACES = """
    mamba falcon_mamba jamba recurrent_gemma lfm2 xlstm minimax
"""
ENCODERS = """
    bert roberta albert distilbert electra mobilebert deberta deberta-v2 xlm-roberta
    xlm-roberta-xl camembert ernie megatron-bert mpnet squeezebert convbert fnet
    nystromformer roformer rembert roberta-prelayernorm modernbert nomic_bert eurobert esm
    xlnet xlm data2vec-text ibert splinter layoutlm longformer big_bird canine
    jina_embeddings_v3
"""
TRANSLATORS = """
    t5 mt5 bart mbart pegasus pegasus_x marian blenderbot
    blenderbot-small m2m_100 prophetnet plbart nllb-moe mvp bigbird_pegasus
"""
VISION = """
    vit deit beit dinov2 dinov2_with_registers dinov3_vit vit_msn data2vec-vision
    siglip_vision_model clip_vision_model dpt ijepa aimv2_vision_model pixtral
    mlcd_vision_model
"""
SPEECH = """
    wav2vec2 hubert wavlm unispeech unispeech-sat data2vec-audio wav2vec2-conformer
"""

LATENT: Mapping[str, Any] = {
    "num_key_value_heads": 4,
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 16,
    "v_head_dim": 16,
    "head_dim": 8,
}
"""Multi-head latent attention."""
GROUPED: Mapping[str, Any] = {
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "n_shared_experts": 1,
}
CONVOLUTIONS: Mapping[str, Any] = {
    "conv_dim": (32, 32),
    "conv_kernel": (10, 3),
    "conv_stride": (5, 2),
}
FOUR_STAGES: Mapping[str, Any] = {
    "num_attention_heads": [2, 2, 4, 4],
    "hidden_sizes": [16, 16, 32, 32],
    "depths": [1, 1, 1, 1],
}

TRANSFORMERS: tuple[Architecture, ...] = (
    *map(_decoder, DECODERS.split()),
    _decoder("gpt_neo", attention_types=_all_global),
    _decoder("gptj", rotary_dim=8),
    _decoder("codegen", rotary_dim=8),
    _decoder("minicpm3", **LATENT),
    architecture("text decoder", "doge", CAUSAL, padded_text),
    *map(_experts, EXPERTS.split()),
    _experts("flex_olmo"),
    _experts("deepseek_v2", **LATENT, **GROUPED),
    _experts("deepseek_v3", **LATENT, **GROUPED),
    _experts("dots1", **GROUPED),
    *map(_state, STATE_SPACES.split()),
    _state("rwkv", num_hidden_layers=_at_least_two, rescale_every=0),
    _state("qwen3_next", seed=1, linear_num_key_heads=2, linear_num_value_heads=4,
           linear_key_head_dim=16, linear_value_head_dim=16),
    _state("mamba2", num_heads=8, head_dim=16, expand=2, state_size=16, n_groups=1, chunk_size=8),
    *map(_encoder, ENCODERS.split()),
    *map(_translator, TRANSLATORS.split()),
    *(
        architecture("encoder-decoder", name, SEQ2SEQ, padded_pair)
        for name in ("umt5", "longt5", "switch_transformers")
    ),
    *map(_vision, VISION.split()),
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
        for name in SPEECH.split()
    ),
    _multimodal_text("moshi"),
    architecture("multimodal", "clip_text_model", BASE, text),
    architecture(
        "speech", "whisper", "WhisperForConditionalGeneration", whisper,
        num_mel_bins=16, max_source_positions=16,
    ),
    architecture(
        "speech", "audio-spectrogram-transformer", BASE, spectrogram,
        max_length=32, num_mel_bins=16, patch_size=8, frequency_stride=8, time_stride=8,
    ),
    architecture(
        "speech", "speech_to_text", "Speech2TextModel", features,
        input_feat_per_channel=16, conv_channels=32, input_channels=1,
    ),
    *(
        architecture("multimodal", name, BASE, image_and_text, **CLIP)
        for name in ("clip", "siglip", "metaclip_2", "chinese_clip", "clipseg", "owlvit")
    ),
    architecture(
        "multimodal", "vilt", BASE, image_and_text,
        image_size=IMAGE, modality_type_vocab_size=2, max_image_length=-1,
    ),
)  # fmt: skip
