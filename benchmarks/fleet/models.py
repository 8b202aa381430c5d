"""The models of the fleet: real widths, few layers, random weights in bfloat16."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from importlib import import_module
from itertools import chain
from typing import Any

import torch

Inputs = Callable[[Any, "Setting"], Mapping[str, Any]]
Baselines = Callable[[Any, Mapping[str, Any], str], Mapping[str, Callable[[], object]]]


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
class Work:
    """The work of a call: floating-point operations of its products, bytes that it moves."""

    flops: float
    bytes: float
    tokens: int
    """Images for a model of images."""


@dataclass(frozen=True, eq=False)
class Member:
    """A model of the fleet."""

    name: str
    family: str
    build: Callable[[Setting], torch.nn.Module]
    inputs: Inputs
    others: Mapping[str, Callable[[Any], Callable[..., Any]]] = field(
        default_factory=dict[str, Any]
    )
    """Other implementations: each makes a function that is called like the model."""
    baselines: Baselines | None = None
    """Functions that are timed beside a part, given the model and its inputs."""
    work: Callable[[Any, Mapping[str, Any]], Work] | None = None
    """The work of a forward of the model on its inputs."""


def sharing_copy(model: Any) -> Any:
    """Return a copy of a model that shares the parameters and buffers."""
    tensors = chain(model.parameters(), model.buffers())
    return deepcopy(model, {id(tensor): tensor for tensor in tensors})


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


# Inputs

Count = Callable[[Setting], int]
"""The number of samples."""
Tensor = Callable[[Setting, int], Any]
"""A function that makes an input from a setting and a number of samples."""


def each(times: int = 1) -> Count:
    """Return a count of so many samples for each of the batch of a setting."""
    return lambda setting: times * setting.batch


_ONE = each()


def few(count: int, small: int = 1) -> Count:
    """Return a count that is the same for all settings, but for tiny models."""
    return lambda setting: small if setting.small else count


def given(count: Count = _ONE, more: Inputs | None = None, **values: Any) -> Inputs:
    """Return inputs by name: tensors of `count` samples, and what stays as it is."""

    def inputs(model: Any, setting: Setting) -> Mapping[str, Any]:
        samples = count(setting)
        made = {n: v(setting, samples) if callable(v) else v for n, v in values.items()}
        return made if more is None else {**made, **more(model, setting)}

    return inputs


def normal(*shape: int) -> Tensor:
    """Return random numbers; a sample has the extents `shape`."""
    return lambda setting, count: torch.randn(
        (count, *shape), device=setting.device, dtype=setting.dtype
    )


def filled(
    number: float, *shape: int, count: int | None = None, dtype: torch.dtype | None = None
) -> Tensor:
    """Return `number` in all elements, by default of its own type, for `count` or all samples."""
    own = {"bool": torch.bool, "int": torch.long}.get(type(number).__name__)

    def make(setting: Setting, samples: int) -> torch.Tensor:
        size = (samples if count is None else count, *shape)
        return torch.full(size, number, device=setting.device, dtype=dtype or own or setting.dtype)

    return make


def words(number: int, small: int = 16) -> Tensor:
    """Return the ids of so many words, 16 for tiny models."""
    return lambda setting, count: torch.randint(
        0, 96, (count, small if setting.small else number), device=setting.device
    )


def _tokens(model: Any, setting: Setting) -> Mapping[str, Any]:
    shape = (setting.batch, setting.tokens)
    ids = torch.randint(0, model.config.vocab_size, shape, device=setting.device)
    return {"input_ids": ids}


def few_tokens(model: Any, setting: Setting) -> Mapping[str, Any]:
    """Return 256 tokens at most: eager PyTorch stores a state for each pair of positions."""
    return _tokens(model, replace(setting, tokens=min(setting.tokens, 256)))


def packed_patches(model: Any, setting: Setting) -> Mapping[str, Any]:
    """Return patches of images, one after the other, and their number of rows and columns."""
    images, side = (1, 8) if setting.small else (4, 32)
    grid = torch.tensor([[1, side, side]] * images, device=setting.device)
    patch = 3 * model.config.temporal_patch_size * model.config.patch_size**2
    return {"hidden_states": normal(patch)(setting, images * side * side), "grid_thw": grid}


def latents(
    sizes: Sequence[int],
    text: Sequence[int] = (),
    *,
    count: Count = _ONE,
    noise: float = 500,
    pooled: int = 0,
    name: str = "hidden_states",
    more: Inputs | None = None,
) -> Inputs:
    """Return latents of `sizes`, words by channels of `text`, and the step of the `noise`: a number
    of the stated type, unless it counts.
    """
    states: dict[str, Any] = {name: normal(*sizes), "timestep": filled(noise)}
    if text:
        states["encoder_hidden_states"] = normal(*text)
    if pooled:
        states["pooled_projections"] = normal(pooled)
    return given(count, more, **states, return_dict=False)


# Models


def transformer(family: str, name: str, inputs: Inputs, **settings: Any) -> Member:
    """Return a model of transformers; decoders predict the next token."""
    automatic = "AutoModelForCausalLM" if family == "decoder" else "AutoModel"

    def build(setting: Setting) -> torch.nn.Module:
        transformers: Any = import_module("transformers")
        config = _config(name, setting, settings)
        with torch.device(setting.device):
            model = getattr(transformers, automatic).from_config(config, dtype=setting.dtype)
        return model.eval()

    return Member(name, family, build, inputs)


def decoder(name: str, inputs: Inputs = _tokens, **settings: Any) -> Member:
    return transformer("decoder", name, inputs, **settings)


def encoder(name: str, **settings: Any) -> Member:
    return transformer("encoder", name, given(each(8), input_ids=words(512, small=512)), **settings)


def vision(name: str, size: int, count: int, **settings: Any) -> Member:
    return transformer(
        "vision", name, given(few(count), pixel_values=normal(3, size, size)), **settings
    )


def pairs_of_texts(name: str, **settings: Any) -> Member:
    """A model with an encoder and a decoder."""
    texts = words(512)
    inputs = given(each(4), input_ids=texts, decoder_input_ids=texts, use_cache=False)
    return transformer("seq2seq", name, inputs, **settings)


def speech(name: str, inputs: Inputs, **settings: Any) -> Member:
    return transformer("speech", name, inputs, **settings)


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


def diffusion(name: str, kind: str, inputs: Inputs, **settings: Any) -> Member:
    """Return a model of diffusers; tiny ones have one of each kind of layers."""

    def build(setting: Setting) -> torch.nn.Module:
        diffusers: Any = import_module("diffusers")
        chosen = dict(settings)
        if setting.small:
            layers = {each: 1 for each in settings if each.endswith("layers")}
            heads = {} if name == "unet" else {"num_attention_heads": 2}
            chosen |= {**layers, **heads, **SMALL_DIFFUSION.get(name, {})}
        with torch.device(setting.device):
            model = getattr(diffusers, kind)(**chosen)
        return model.to(setting.dtype).eval()

    return Member(name, "diffusion", build, inputs)


SD3: Mapping[str, int] = {
    "sample_size": 64,
    "num_attention_heads": 24,
    "caption_projection_dim": 1536,
    "pos_embed_max_size": 192,
}


def sd3(layers: int) -> Member:
    """The transformer of Stable Diffusion 3 for 512 x 512 pixels; medium has 24 layers."""
    inputs = latents((16, 64, 64), (333, 4096), count=each(2), pooled=2048)
    return diffusion("sd3", "SD3Transformer2DModel", inputs, num_layers=layers, **SD3)
