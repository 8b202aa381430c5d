"""The models of the fleet: real widths, few layers, random weights in bfloat16."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
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
    "mamba_n_heads": 8,
    "mamba_d_head": 16,
    "mamba_d_ssm": 128,
    "mamba_d_state": 16,
    "n_mamba_heads": 8,
    "mamba_headdim": 16,
}


def _config(kind: str, setting: Setting, settings: Mapping[str, Any]) -> Any:
    transformers: Any = import_module("transformers")
    config = transformers.AutoConfig.for_model(kind)
    chosen = {"num_hidden_layers": setting.layers, "use_cache": False, **settings}
    if setting.small:
        chosen |= _small(config)
    for name, value in chosen.items():
        if hasattr(config, name):
            setattr(config, name, value)
    if "layer_types" in vars(config):  # of some models it follows from others
        config.layer_types = (config.layer_types or [])[: config.num_hidden_layers] or None
    return config


def _small(config: Any) -> Mapping[str, int]:
    chosen: dict[str, int] = {}
    for name, value in SMALL.items():
        # Some have a number of heads for each stage, or sizes for each layer.
        with suppress(AttributeError, RuntimeError):
            if isinstance(getattr(config, name), int):
                chosen[name] = value
    if hasattr(config, "kv_lora_rank"):  # one key for each query
        del chosen["num_key_value_heads"]
    return chosen


def transformer(
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


def few_tokens(model: Any, setting: Setting) -> Mapping[str, Any]:
    """Return 256 tokens at most: eager PyTorch stores a state for each pair of positions."""
    return _tokens(model, replace(setting, tokens=min(setting.tokens, 256)))


def _images(size: int, count: int, model: Any, setting: Setting) -> Mapping[str, Any]:
    shape = (1 if setting.small else count, 3, size, size)
    return {"pixel_values": torch.randn(shape, device=setting.device, dtype=setting.dtype)}


def patches(model: Any, setting: Setting) -> Mapping[str, Any]:
    """Return 16 x 16 patches of images, each with its number of rows and columns of patches."""
    batch = 1 if setting.small else 32
    return {
        "pixel_values": _random(setting, batch, 256, 768),
        "pixel_attention_mask": torch.ones(batch, 256, device=setting.device, dtype=torch.long),
        "spatial_shapes": torch.full((batch, 2), 16, device=setting.device),
    }


def videos(model: Any, setting: Setting) -> Mapping[str, Any]:
    """Return videos of 16 images."""
    batch = 1 if setting.small else 8
    return {"pixel_values": _random(setting, batch, 16, 3, 224, 224)}


def packed_patches(model: Any, setting: Setting) -> Mapping[str, Any]:
    """Return patches of images, one after the other, and their number of rows and columns."""
    images, side = (1, 8) if setting.small else (4, 32)
    grid = torch.tensor([[1, side, side]] * images, device=setting.device)
    patch = 3 * model.config.temporal_patch_size * model.config.patch_size**2
    return {"hidden_states": _random(setting, images * side * side, patch), "grid_thw": grid}


def qwen2_5_vl_vision(setting: Setting) -> torch.nn.Module:
    """Build the vision tower of Qwen2.5-VL; its second layer attends to whole images."""
    modeling: Any = import_module("transformers.models.qwen2_5_vl.modeling_qwen2_5_vl")
    config = _config("qwen2_5_vl", setting, {}).vision_config
    config.hidden_size, config.depth, config.fullatt_block_indexes = 1280, setting.layers, [1]
    if setting.small:
        config.hidden_size, config.num_heads, config.intermediate_size = 64, 4, 96
    with torch.device(setting.device):
        model = modeling.Qwen2_5_VisionTransformerPretrainedModel(config)
    return model.to(setting.dtype).eval()


def decoder(name: str, **settings: Any) -> Member:
    build = partial(transformer, name, "AutoModelForCausalLM", settings)
    return Member(name, "decoder", build, _tokens)


def encoder(name: str, **settings: Any) -> Member:
    def inputs(model: Any, setting: Setting) -> Mapping[str, Any]:
        shape = (8 * setting.batch, 512)
        return {"input_ids": torch.randint(0, 96, shape, device=setting.device)}

    return Member(name, "encoder", partial(transformer, name, "AutoModel", settings), inputs)


def vision(name: str, size: int, count: int, **settings: Any) -> Member:
    build = partial(transformer, name, "AutoModel", settings)
    return Member(name, "vision", build, partial(_images, size, count))


def pairs_of_texts(name: str, **settings: Any) -> Member:
    """A model with an encoder and a decoder."""

    def inputs(model: Any, setting: Setting) -> Mapping[str, Any]:
        shape = (4 * setting.batch, 16 if setting.small else 512)
        ids = torch.randint(0, 96, shape, device=setting.device)
        return {"input_ids": ids, "decoder_input_ids": ids.clone(), "use_cache": False}

    return Member(name, "seq2seq", partial(transformer, name, "AutoModel", settings), inputs)


def whisper(model: Any, setting: Setting) -> Mapping[str, Any]:
    batch = 4 * setting.batch
    ids = torch.randint(0, 96, (batch, 16 if setting.small else 448), device=setting.device)
    mel = _random(setting, batch, 80, 3000)
    return {"input_features": mel, "decoder_input_ids": ids, "use_cache": False}


def mel(model: Any, setting: Setting) -> Mapping[str, Any]:
    """Return 8 s of frames of 80 channels; some models choose at random which layers to skip."""
    return {"input_features": _random(setting, 4 * setting.batch, 800, 80)}


def features(model: Any, setting: Setting) -> Mapping[str, Any]:
    return {"input_features": _random(setting, 4 * setting.batch, 500, 160)}


def spectrograms(model: Any, setting: Setting) -> Mapping[str, Any]:
    return {"input_values": _random(setting, 2 if setting.small else 16, 1024, 128)}


def waves(model: Any, setting: Setting) -> Mapping[str, Any]:
    return {"input_values": _random(setting, 4 * setting.batch, 80000)}


def waves_and_tokens(model: Any, setting: Setting) -> Mapping[str, Any]:
    ids = torch.randint(0, 96, (4 * setting.batch, 16 if setting.small else 194))
    return {
        **waves(model, setting),
        "decoder_input_ids": ids.to(setting.device),
        "use_cache": False,
    }


def speech(name: str, inputs: Inputs, **settings: Any) -> Member:
    return Member(name, "speech", partial(transformer, name, "AutoModel", settings), inputs)


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
    "chroma": {"approximator_hidden_dim": 64},
    "lumina2": {"hidden_size": 192, "num_kv_heads": 1},
    "ltx": {"cross_attention_dim": 128},
    "unet": {"block_out_channels": (32, 32, 64, 64), "attention_head_dim": 8},
}
"""Settings of tiny models, in addition to their two heads."""


def diffusion(
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


def latents(
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


def positions(model: Any, setting: Setting) -> Mapping[str, Any]:
    """The positions of the parts of an image and of words in Flux."""
    counts = {"img_ids": 1024, "txt_ids": 512}
    return {name: torch.zeros(n, 3, device=setting.device) for name, n in counts.items()}


def chroma_positions(model: Any, setting: Setting) -> Mapping[str, Any]:
    ones = torch.ones(setting.batch, 1536, device=setting.device, dtype=torch.bool)
    return {**positions(model, setting), "attention_mask": ones}


def flux2_positions(model: Any, setting: Setting) -> Mapping[str, Any]:
    counts = {"img_ids": 1024, "txt_ids": 512}
    found = {name: torch.zeros(n, 4, device=setting.device) for name, n in counts.items()}
    return {**found, "guidance": _steps(setting, setting.batch, 4.0)}


def image_shapes(model: Any, setting: Setting) -> Mapping[str, Any]:
    """The sizes of the images of Qwen-Image in patches, and the mask of words."""
    ones = torch.ones(setting.batch, 128, device=setting.device, dtype=torch.bool)
    return {"img_shapes": [[(1, 32, 32)]] * setting.batch, "encoder_hidden_states_mask": ones}


def text_mask(model: Any, setting: Setting) -> Mapping[str, Any]:
    ones = torch.ones(setting.batch, 128, device=setting.device, dtype=torch.bool)
    return {"encoder_attention_mask": ones}


def coordinates(model: Any, setting: Setting) -> Mapping[str, Any]:
    size = torch.full((setting.batch, 2), 512.0, device=setting.device, dtype=setting.dtype)
    return {"original_size": size, "target_size": size, "crop_coords": 0 * size}


def hunyuan_video(model: Any, setting: Setting) -> Mapping[str, Any]:
    """Latents of 17 images, words of which all count, and the guidance."""
    batch = 1
    return {
        "hidden_states": _random(setting, batch, 16, 5, 40, 64),
        "encoder_hidden_states": _random(setting, batch, 128, 4096),
        "encoder_attention_mask": torch.ones(batch, 128, device=setting.device, dtype=torch.bool),
        "pooled_projections": _random(setting, batch, 768),
        "timestep": _steps(setting, batch),
        "guidance": _steps(setting, batch, 6000.0),
        "return_dict": False,
    }


def resolutions(model: Any, setting: Setting) -> Mapping[str, Any]:
    return {"added_cond_kwargs": {"resolution": None, "aspect_ratio": None}}


def labels(model: Any, setting: Setting) -> Mapping[str, Any]:
    labels = torch.zeros(4 * setting.batch, device=setting.device, dtype=torch.long)
    return {"class_labels": labels}


def video(sizes: Sequence[int], words: int, model: Any, setting: Setting) -> Mapping[str, Any]:
    return latents(sizes, (words, 4096))(model, replace(setting, batch=1))


def ltx(model: Any, setting: Setting) -> Mapping[str, Any]:
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


def hunyuan_dit(model: Any, setting: Setting) -> Mapping[str, Any]:
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
    inputs = latents((16, 64, 64), (333, 4096), batch=2, pooled=2048)
    return diffusion("sd3", "SD3Transformer2DModel", inputs, {"num_layers": layers}, **SD3)
