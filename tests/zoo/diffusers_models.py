"""Tiny configurations of models of Hugging Face diffusers."""

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any

import torch

from zoo.architecture import Architecture, Example

BATCH, SIZE, TOKENS, TEXT = 2, 8, 5, 32


def _build(
    kind: str,
    settings: Mapping[str, Any],
    inputs: Callable[[], Mapping[str, torch.Tensor]],
    layers: int,
) -> Example:
    resolved = {name: layers if value == "layers" else value for name, value in settings.items()}
    model: Any = getattr(import_module("diffusers"), kind)(**resolved)
    tensors = inputs()
    dynamic = {name: (0,) for name, value in tensors.items() if value.ndim and len(value) == BATCH}
    return Example(model, {**tensors, "return_dict": False}, dynamic)


def _architecture(
    name: str, kind: str, inputs: Callable[[], Mapping[str, torch.Tensor]], **settings: Any
) -> Architecture:
    return Architecture(name, "diffusion", "diffusers", partial(_build, kind, settings, inputs))


def _steps() -> torch.Tensor:
    return torch.tensor([3, 500])


def _image(channels: int = 4) -> torch.Tensor:
    return torch.randn(BATCH, channels, SIZE, SIZE)


def _text() -> torch.Tensor:
    return torch.randn(BATCH, TOKENS, TEXT)


def _unet() -> dict[str, torch.Tensor]:
    return {"sample": _image(), "timestep": _steps(), "encoder_hidden_states": _text()}


def _dit() -> dict[str, torch.Tensor]:
    labels = torch.tensor([1, 2])
    return {"hidden_states": _image(), "timestep": _steps(), "class_labels": labels}


def _stable_diffusion_3() -> dict[str, torch.Tensor]:
    return {
        "hidden_states": _image(),
        "encoder_hidden_states": _text(),
        "pooled_projections": torch.randn(BATCH, 24),
        "timestep": _steps(),
    }


def _flux() -> dict[str, torch.Tensor]:
    return {
        "hidden_states": torch.randn(BATCH, 16, 8),
        "encoder_hidden_states": _text(),
        "pooled_projections": torch.randn(BATCH, 24),
        "timestep": torch.rand(BATCH),
        "img_ids": torch.randint(0, 4, (16, 3)).float(),
        "txt_ids": torch.zeros(TOKENS, 3),
    }


def _cross() -> dict[str, torch.Tensor]:
    return {"hidden_states": _image(), "encoder_hidden_states": _text(), "timestep": _steps()}


def _prior() -> dict[str, torch.Tensor]:
    return {
        "hidden_states": torch.randn(BATCH, 16),
        "timestep": _steps(),
        "proj_embedding": torch.randn(BATCH, 16),
        "encoder_hidden_states": torch.randn(BATCH, TOKENS, 16),
    }


DIFFUSERS: tuple[Architecture, ...] = (
    _architecture(
        "unet-2d", "UNet2DModel", lambda: {"sample": _image(), "timestep": _steps()},
        sample_size=SIZE, in_channels=4, out_channels=4, block_out_channels=(16, 32),
        layers_per_block=1, down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"), norm_num_groups=4, attention_head_dim=8,
    ),
    _architecture(
        "unet-2d-condition", "UNet2DConditionModel", _unet,
        sample_size=SIZE, block_out_channels=(16, 32), layers_per_block=1,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"), norm_num_groups=4,
        cross_attention_dim=TEXT, attention_head_dim=8,
    ),
    _architecture(
        "dit", "DiTTransformer2DModel", _dit, num_layers="layers",
        num_attention_heads=4, attention_head_dim=16, in_channels=4, sample_size=SIZE,
        patch_size=2, norm_num_groups=4,
    ),
    _architecture(
        "pixart", "PixArtTransformer2DModel", _cross, num_layers="layers",
        num_attention_heads=4, attention_head_dim=16, in_channels=4, out_channels=4,
        cross_attention_dim=64, caption_channels=TEXT, sample_size=SIZE, norm_num_groups=4,
    ),
    _architecture(
        "sd3", "SD3Transformer2DModel", _stable_diffusion_3, num_layers="layers",
        sample_size=SIZE, in_channels=4, attention_head_dim=16, num_attention_heads=4,
        joint_attention_dim=TEXT, caption_projection_dim=64, pooled_projection_dim=24,
        out_channels=4, pos_embed_max_size=16,
    ),
    _architecture(
        "flux", "FluxTransformer2DModel", _flux, num_layers="layers",
        num_single_layers="layers", in_channels=8, attention_head_dim=16, num_attention_heads=4,
        joint_attention_dim=TEXT, pooled_projection_dim=24, guidance_embeds=False,
        axes_dims_rope=(4, 4, 8),
    ),
    _architecture(
        "aura-flow", "AuraFlowTransformer2DModel", _cross, num_mmdit_layers="layers",
        num_single_dit_layers="layers", sample_size=SIZE, in_channels=4, attention_head_dim=16,
        num_attention_heads=4, joint_attention_dim=TEXT, caption_projection_dim=64, out_channels=4,
        pos_embed_max_size=64,
    ),
    _architecture(
        "sana", "SanaTransformer2DModel", _cross, num_layers="layers", in_channels=4,
        out_channels=4, num_attention_heads=4, attention_head_dim=16,
        num_cross_attention_heads=4, cross_attention_head_dim=16, cross_attention_dim=64,
        caption_channels=TEXT, sample_size=SIZE,
    ),
    _architecture(
        "prior", "PriorTransformer", _prior, num_layers="layers", num_attention_heads=4,
        attention_head_dim=8, embedding_dim=16, num_embeddings=TOKENS,
    ),
    _architecture(
        "transformer-2d", "Transformer2DModel",
        lambda: {"hidden_states": _image(16), "encoder_hidden_states": _text()},
        num_layers="layers", num_attention_heads=4, attention_head_dim=8, in_channels=16,
        norm_num_groups=4, cross_attention_dim=TEXT,
    ),
    _architecture(
        "autoencoder-kl", "AutoencoderKL", lambda: {"sample": _image(3)},
        block_out_channels=(16, 32), norm_num_groups=4, latent_channels=4,
        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
    ),
)  # fmt: skip
