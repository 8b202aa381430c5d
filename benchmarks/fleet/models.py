"""The models of the fleet: real widths, few layers, random weights in bfloat16."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any

import torch

Inputs = Callable[[Any, "Setting"], Mapping[str, Any]]


@dataclass(frozen=True)
class Setting:
    """The device, type and size with which a model is built."""

    device: str = "cuda"
    dtype: torch.dtype = torch.bfloat16
    layers: int = 2
    batch: int = 2
    tokens: int = 2048
    autocast: bool = False
    """Weights in float32, products in bfloat16."""
    small: bool = False
    """Tiny widths, for tests on a CPU."""


@dataclass(frozen=True)
class Member:
    """A model of the fleet."""

    name: str
    family: str
    build: Callable[[Setting], torch.nn.Module]
    inputs: Inputs


SMALL: Mapping[str, int] = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "qk_rope_head_dim": 16,
}


def _config(kind: str, setting: Setting, settings: Mapping[str, Any]) -> Any:
    transformers: Any = import_module("transformers")
    config = transformers.AutoConfig.for_model(kind)
    chosen = {"num_hidden_layers": setting.layers, "use_cache": False, **settings}
    if setting.small:
        # Some have a number of heads for each stage.
        chosen |= {k: v for k, v in SMALL.items() if isinstance(getattr(config, k, None), int)}
    for name, value in chosen.items():
        if hasattr(config, name):
            setattr(config, name, value)
    if "layer_types" in vars(config):  # of some models it follows from others
        config.layer_types = (config.layer_types or [])[: config.num_hidden_layers] or None
    return config


def _transformer(
    kind: str, automatic: str, settings: Mapping[str, Any], setting: Setting
) -> torch.nn.Module:
    transformers: Any = import_module("transformers")
    config = _config(kind, setting, settings)
    with torch.device(setting.device):
        model = getattr(transformers, automatic).from_config(config, dtype=setting.dtype)
    return model.eval()


def _tokens(model: Any, setting: Setting) -> Mapping[str, Any]:
    shape = (setting.batch, setting.tokens)
    ids = torch.randint(0, model.config.vocab_size, shape, device=setting.device)
    return {"input_ids": ids}


def _few_tokens(model: Any, setting: Setting) -> Mapping[str, Any]:
    """Return 256 tokens at most: eager PyTorch stores a state for each pair of positions."""
    return _tokens(model, replace(setting, tokens=min(setting.tokens, 256)))


def _images(size: int, count: int, model: Any, setting: Setting) -> Mapping[str, Any]:
    shape = (1 if setting.small else count, 3, size, size)
    return {"pixel_values": torch.randn(shape, device=setting.device, dtype=setting.dtype)}


def _patches(model: Any, setting: Setting) -> Mapping[str, Any]:
    """Return 16 x 16 patches of images, each with its number of rows and columns of patches."""
    batch = 1 if setting.small else 32
    return {
        "pixel_values": _random(setting, batch, 256, 768),
        "pixel_attention_mask": torch.ones(batch, 256, device=setting.device, dtype=torch.long),
        "spatial_shapes": torch.full((batch, 2), 16, device=setting.device),
    }


def _decoder(name: str, **settings: Any) -> Member:
    build = partial(_transformer, name, "AutoModelForCausalLM", settings)
    return Member(name, "decoder", build, _tokens)


def _encoder(name: str, **settings: Any) -> Member:
    def inputs(model: Any, setting: Setting) -> Mapping[str, Any]:
        shape = (8 * setting.batch, 512)
        return {"input_ids": torch.randint(0, 96, shape, device=setting.device)}

    return Member(name, "encoder", partial(_transformer, name, "AutoModel", settings), inputs)


def _vision(name: str, size: int, count: int, **settings: Any) -> Member:
    build = partial(_transformer, name, "AutoModel", settings)
    return Member(name, "vision", build, partial(_images, size, count))


def _pairs_of_texts(name: str, **settings: Any) -> Member:
    """A model with an encoder and a decoder."""

    def inputs(model: Any, setting: Setting) -> Mapping[str, Any]:
        shape = (4 * setting.batch, 16 if setting.small else 512)
        ids = torch.randint(0, 96, shape, device=setting.device)
        return {"input_ids": ids, "decoder_input_ids": ids.clone(), "use_cache": False}

    return Member(name, "seq2seq", partial(_transformer, name, "AutoModel", settings), inputs)


def _whisper(model: Any, setting: Setting) -> Mapping[str, Any]:
    batch = 4 * setting.batch
    ids = torch.randint(0, 96, (batch, 16 if setting.small else 448), device=setting.device)
    mel = _random(setting, batch, 80, 3000)
    return {"input_features": mel, "decoder_input_ids": ids, "use_cache": False}


def _waves(model: Any, setting: Setting) -> Mapping[str, Any]:
    return {"input_values": _random(setting, 4 * setting.batch, 80000)}


def _waves_and_tokens(model: Any, setting: Setting) -> Mapping[str, Any]:
    ids = torch.randint(0, 96, (4 * setting.batch, 16 if setting.small else 194))
    return {
        **_waves(model, setting),
        "decoder_input_ids": ids.to(setting.device),
        "use_cache": False,
    }


def _speech(name: str, inputs: Inputs, **settings: Any) -> Member:
    return Member(name, "speech", partial(_transformer, name, "AutoModel", settings), inputs)


SMALL_DIFFUSION: Mapping[str, Mapping[str, Any]] = {
    "sd3": {"caption_projection_dim": 128},
    "pixart": {"cross_attention_dim": 144},
    "sana": {
        "attention_head_dim": 32,
        "num_cross_attention_heads": 2,
        "cross_attention_head_dim": 32,
        "cross_attention_dim": 64,
    },
    "auraflow": {"attention_head_dim": 32, "caption_projection_dim": 64},
    "ltx": {"cross_attention_dim": 128},
    "unet": {"block_out_channels": (32, 32, 64, 64), "attention_head_dim": 8},
}
"""Settings of tiny models, in addition to their two heads."""


def _diffusion(
    name: str, kind: str, inputs: Inputs, layers: Mapping[str, int], **settings: Any
) -> Member:
    def build(setting: Setting) -> torch.nn.Module:
        diffusers: Any = import_module("diffusers")
        chosen = {**settings, **layers}
        if setting.small:
            heads = {} if name == "unet" else {"num_attention_heads": 2}
            chosen |= {**dict.fromkeys(layers, 1), **heads, **SMALL_DIFFUSION.get(name, {})}
        with torch.device(setting.device):
            model = getattr(diffusers, kind)(**chosen)
        return model.to(setting.dtype).eval()

    return Member(name, "diffusion", build, inputs)


def _random(setting: Setting, *shape: int) -> torch.Tensor:
    return torch.randn(shape, device=setting.device, dtype=setting.dtype)


def _steps(setting: Setting, count: int, noise: float = 500) -> torch.Tensor:
    dtype = setting.dtype if isinstance(noise, float) else torch.long
    return torch.full((count,), noise, device=setting.device, dtype=dtype)


def _latents(
    sizes: Sequence[int],
    text: Sequence[int] = (),
    *,
    batch: int = 1,
    noise: float = 500,
    pooled: int = 0,
    name: str = "hidden_states",
    more: Inputs = lambda model, setting: {},
) -> Inputs:
    """Latents of `sizes`, words by channels of `text`, and the step of the `noise`: a number of
    the stated type, unless it counts. There are `batch` times as many as the setting has.
    """

    def inputs(model: Any, setting: Setting) -> Mapping[str, Any]:
        count = batch * setting.batch
        return {
            name: _random(setting, count, *sizes),
            **({"encoder_hidden_states": _random(setting, count, *text)} if text else {}),
            **({"pooled_projections": _random(setting, count, pooled)} if pooled else {}),
            "timestep": _steps(setting, count, noise),
            **more(model, setting),
            "return_dict": False,
        }

    return inputs


def _positions(model: Any, setting: Setting) -> Mapping[str, Any]:
    """The positions of the parts of an image and of words in Flux."""
    counts = {"img_ids": 1024, "txt_ids": 512}
    return {name: torch.zeros(n, 3, device=setting.device) for name, n in counts.items()}


def _resolutions(model: Any, setting: Setting) -> Mapping[str, Any]:
    return {"added_cond_kwargs": {"resolution": None, "aspect_ratio": None}}


def _labels(model: Any, setting: Setting) -> Mapping[str, Any]:
    labels = torch.zeros(4 * setting.batch, device=setting.device, dtype=torch.long)
    return {"class_labels": labels}


def _video(latents: Sequence[int], words: int, model: Any, setting: Setting) -> Mapping[str, Any]:
    return _latents(latents, (words, 4096))(model, replace(setting, batch=1))


def _ltx(model: Any, setting: Setting) -> Mapping[str, Any]:
    batch, words = setting.batch, 128
    return {
        "hidden_states": _random(setting, batch, 2048, 128),
        "encoder_hidden_states": _random(setting, batch, words, 4096),
        "encoder_attention_mask": torch.ones(batch, words, device=setting.device),
        "timestep": _steps(setting, batch),
        "num_frames": 8,
        "height": 16,
        "width": 16,
        "return_dict": False,
    }


def _hunyuan_dit(model: Any, setting: Setting) -> Mapping[str, Any]:
    batch, width = setting.batch, model.config.attention_head_dim

    def ones(tokens: int) -> torch.Tensor:
        return torch.ones(batch, tokens, device=setting.device, dtype=torch.long)

    return {
        "hidden_states": _random(setting, batch, 4, 64, 64),
        "encoder_hidden_states": _random(setting, batch, 77, 1024),
        "text_embedding_mask": ones(77),
        "encoder_hidden_states_t5": _random(setting, batch, 256, 2048),
        "text_embedding_mask_t5": ones(256),
        "image_meta_size": 1024 * ones(6).to(setting.dtype),
        "style": torch.zeros(batch, device=setting.device, dtype=torch.long),
        "image_rotary_emb": tuple(torch.randn(2, 1024, width, device=setting.device)),
        "timestep": _steps(setting, batch).to(setting.dtype),  # the type of embeddings
        "return_dict": False,
    }


SD3: Mapping[str, int] = {
    "sample_size": 64,
    "num_attention_heads": 24,
    "caption_projection_dim": 1536,
    "pos_embed_max_size": 192,
}


def sd3(layers: int) -> Member:
    """The transformer of Stable Diffusion 3 for 512 x 512 pixels; the medium model has 24
    layers.
    """
    inputs = _latents((16, 64, 64), (333, 4096), batch=2, pooled=2048)
    return _diffusion("sd3", "SD3Transformer2DModel", inputs, {"num_layers": layers}, **SD3)


FLEET: tuple[Member, ...] = (
    _decoder("llama"),
    _decoder("mistral"),
    _decoder("qwen2"),
    _decoder("qwen3"),
    _decoder("gemma"),
    _decoder("gemma2"),
    _decoder("gemma3_text"),
    _decoder("cohere"),
    _decoder("cohere2"),
    _decoder("phi"),
    _decoder("phi3"),
    _decoder("olmo2"),
    _decoder("olmo3"),
    _decoder("exaone4"),
    _decoder("glm4"),
    _decoder("granite"),
    _decoder("nemotron", num_key_value_heads=48),
    _decoder("gpt_neox"),
    _decoder("gptj", n_layer=2),
    _decoder("gpt2", n_layer=2, n_positions=2048),
    _decoder("opt"),
    _decoder("falcon"),
    _decoder("stablelm"),
    _decoder("starcoder2"),
    _decoder("smollm3", pad_token_id=0),
    _decoder("arcee"),
    _decoder("apertus"),
    _decoder("seed_oss"),
    _decoder("ernie4_5"),
    _decoder("lfm2"),
    _decoder("diffllama"),
    _decoder("helium"),
    _decoder("hunyuan_v1_dense", head_dim=128),
    _decoder("persimmon"),
    _decoder("olmo"),
    _decoder("bloom", n_layer=2, hidden_size=4096, n_head=32),
    _decoder("mpt", n_layers=2, d_model=4096, n_heads=32),
    _decoder("codegen", n_layer=2, n_embd=4096, n_head=16, rotary_dim=64, n_positions=2048),
    _decoder("ctrl", n_layer=2, n_positions=2048),
    _decoder("minicpm3"),
    _decoder("gpt_oss", num_local_experts=16),
    _decoder("granitemoe", num_local_experts=16),
    _decoder("olmoe"),
    _decoder("mixtral"),
    _decoder("qwen3_moe", num_experts=32, num_experts_per_tok=4),
    _decoder("deepseek_v3", n_routed_experts=16, n_group=4, topk_group=2, first_k_dense_replace=1),
    _decoder("mamba", use_associative_scan=True),
    replace(_decoder("mamba2"), inputs=_few_tokens),
    replace(_decoder("nemotron_h"), inputs=_few_tokens),
    *map(_decoder, ("afmoe", "cwm", "doge", "ernie4_5_moe", "granite_swa", "jais2", "nanochat")),
    *map(_decoder, ("modernbert-decoder", "vaultgemma", "xglm")),
    _decoder("biogpt", max_position_embeddings=2048),
    _decoder("gpt_bigcode", n_positions=2048, n_layer=2),
    _decoder("gpt_neo", num_layers=2),
    *map(_decoder, ("falcon_h1", "laguna", "ministral3", "qwen3_5_text")),
    _encoder("bert"),
    _encoder("roberta"),
    _encoder("modernbert"),
    _encoder("deberta-v2"),
    _encoder("xlm-roberta-xl"),
    *map(_encoder, ("albert", "big_bird", "convbert", "distilbert", "electra", "eurobert")),
    _encoder("esm", vocab_size=96, pad_token_id=0),
    *map(_encoder, ("layoutlm", "mpnet", "nomic_bert", "rembert", "roformer")),
    _vision("vit", 224, 64),
    _vision("swin", 224, 64, depths=[2, 2]),
    _vision("siglip_vision_model", 224, 64),
    _vision("dinov2", 224, 32),
    _vision("clip_vision_model", 224, 64),
    _vision("beit", 224, 64),
    _vision("deit", 224, 64),
    _vision("convnextv2", 224, 32),
    _vision("dinov3_vit", 224, 32),
    _vision("sam_vision_model", 1024, 1),
    *(
        _vision(name, 224, 32)
        for name in (
            *("aimv2_vision_model", "convnext", "cvt", "dinov2_with_registers", "focalnet"),
            *("hiera", "ijepa", "pvt_v2", "segformer", "swinv2", "vit_mae"),
        )
    ),
    Member(
        "siglip2_vision_model",
        "vision",
        partial(_transformer, "siglip2_vision_model", "AutoModel", {}),
        _patches,
    ),
    _pairs_of_texts("t5", num_decoder_layers=2, d_model=1024, d_ff=4096, num_heads=16),
    *(
        _pairs_of_texts(name, encoder_layers=2, decoder_layers=2, pad_token_id=0)
        for name in ("bart", "led", "m2m_100", "marian")
    ),
    *map(_pairs_of_texts, ("mt5", "pegasus")),
    _speech(
        "whisper",
        _whisper,
        pad_token_id=0,
        d_model=1024,
        encoder_layers=2,
        encoder_attention_heads=16,
        encoder_ffn_dim=4096,
        decoder_layers=2,
        decoder_attention_heads=16,
        decoder_ffn_dim=4096,
    ),
    *(_speech(name, _waves) for name in ("wav2vec2", "hubert", "wavlm")),
    _speech(
        "moonshine",
        _waves_and_tokens,
        encoder_num_hidden_layers=2,
        decoder_num_hidden_layers=2,
    ),
    sd3(6),
    _diffusion(
        "flux",
        "FluxTransformer2DModel",
        _latents((1024, 64), (512, 4096), noise=0.5, pooled=768, more=_positions),
        {"num_layers": 2, "num_single_layers": 2},
    ),
    _diffusion(
        "pixart",
        "PixArtTransformer2DModel",
        _latents((4, 64, 64), (120, 4096), batch=2, more=_resolutions),
        {"num_layers": 4},
        sample_size=64,
        cross_attention_dim=1152,
        caption_channels=4096,
        in_channels=4,
        out_channels=8,
    ),
    _diffusion(
        "dit",
        "DiTTransformer2DModel",
        _latents((4, 32, 32), batch=4, more=_labels),
        {"num_layers": 4},
        sample_size=32,
        in_channels=4,
        out_channels=8,
    ),
    _diffusion(
        "sana",
        "SanaTransformer2DModel",
        _latents((32, 32, 32), (300, 2304)),
        {"num_layers": 3},
    ),
    _diffusion(
        "auraflow",
        "AuraFlowTransformer2DModel",
        _latents((4, 64, 64), (256, 2048), noise=0.5),
        {"num_mmdit_layers": 2, "num_single_dit_layers": 2},
    ),
    _diffusion(
        "cogvideox",
        "CogVideoXTransformer3DModel",
        partial(_video, (5, 16, 60, 90), 226),
        {"num_layers": 2},
        sample_width=90,
        sample_height=60,
        sample_frames=17,
    ),
    _diffusion(
        "wan",
        "WanTransformer3DModel",
        partial(_video, (16, 5, 60, 104), 512),
        {"num_layers": 2},
        num_attention_heads=12,
        ffn_dim=8960,
    ),
    _diffusion(
        "hunyuan_dit",
        "HunyuanDiT2DModel",
        _hunyuan_dit,
        {"num_layers": 4},
        attention_head_dim=88,
        hidden_size=1408,
        sample_size=64,
        patch_size=2,
        in_channels=4,
        mlp_ratio=4.3637,
        text_len=77,
        text_len_t5=256,
    ),
    _diffusion("ltx", "LTXVideoTransformer3DModel", _ltx, {"num_layers": 2}),
    _diffusion(
        "unet",
        "UNet2DConditionModel",
        _latents((4, 64, 64), (77, 768), name="sample"),
        {},
        sample_size=64,
        cross_attention_dim=768,
    ),
)
