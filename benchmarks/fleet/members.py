"""The list of the fleet, and lists that users write."""

import sys
from collections.abc import Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import torch

from fleet.models import (
    Inputs,
    Member,
    Setting,
    Tensor,
    decoder,
    diffusion,
    each,
    encoder,
    few,
    few_tokens,
    filled,
    given,
    latents,
    normal,
    packed_patches,
    pairs_of_texts,
    qwen2_5_vl_vision,
    sd3,
    speech,
    transformer,
    vision,
    words,
)

_DECODERS = (
    *map(decoder, ("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text")),
    *map(decoder, ("cohere", "cohere2", "phi", "phi3", "olmo2", "olmo3", "exaone4", "glm4")),
    *map(decoder, ("granite", "gpt_neox", "opt", "falcon", "stablelm", "starcoder2", "arcee")),
    *map(decoder, ("apertus", "seed_oss", "ernie4_5", "lfm2", "diffllama", "helium", "persimmon")),
    *map(decoder, ("olmo", "minicpm3", "olmoe", "mixtral", "mamba", "afmoe", "cwm", "doge")),
    *map(decoder, ("ernie4_5_moe", "granite_swa", "jais2", "nanochat", "modernbert-decoder")),
    *map(decoder, ("vaultgemma", "xglm", "laguna", "ministral3", "qwen3_5_text", "gemma4_text")),
    decoder("nemotron", num_key_value_heads=48),
    decoder("gptj", n_layer=2),
    decoder("gpt2", n_layer=2, n_positions=2048),
    decoder("smollm3", pad_token_id=0),
    decoder("hunyuan_v1_dense", head_dim=128),
    decoder("bloom", n_layer=2, hidden_size=4096, n_head=32),
    decoder("mpt", n_layers=2, d_model=4096, n_heads=32),
    decoder("codegen", n_layer=2, n_embd=4096, n_head=16, rotary_dim=64, n_positions=2048),
    decoder("ctrl", n_layer=2, n_positions=2048),
    decoder("gpt_oss", num_local_experts=16),
    decoder("granitemoe", num_local_experts=16),
    decoder("qwen3_moe", num_experts=32, num_experts_per_tok=4),
    decoder("deepseek_v3", n_routed_experts=16, n_group=4, topk_group=2, first_k_dense_replace=1),
    decoder("mamba2", few_tokens),
    decoder("nemotron_h", few_tokens),
    decoder("biogpt", max_position_embeddings=2048),
    decoder("gpt_bigcode", n_positions=2048, n_layer=2),
    decoder("gpt_neo", num_layers=2),
    decoder("cohere2_moe", num_experts=4, num_hidden_layers=1),
    decoder("glm", pad_token_id=0),
    decoder("glm4_moe", n_routed_experts=16),
    decoder("dots1", n_routed_experts=16, n_shared_experts=1, num_experts_per_tok=4),
    decoder("qwen2_moe", num_experts=16),
    decoder("llama4_text", num_local_experts=8, moe_layers=[0, 1]),
    decoder("minimax_m2", num_experts=16, num_local_experts=16),
    decoder("phimoe", num_local_experts=8),
    decoder("lfm2_moe", num_experts=16, layer_types=["conv", "full_attention"]),
    decoder("deepseek_v2", n_routed_experts=16, moe_intermediate_size=1408, num_experts_per_tok=4),
    decoder("qwen3_next", num_experts=16, num_experts_per_tok=4, num_hidden_layers=4),
    decoder("olmo_hybrid", num_hidden_layers=4, pad_token_id=0),
    decoder("kimi_linear", num_experts=16, num_hidden_layers=4, pad_token_id=0),
    decoder("falcon_h1", few_tokens, mamba_chunk_size=64),
    decoder("bamba", few_tokens, attn_layer_indices=[1], mamba_chunk_size=64),
    decoder("zamba2", few_tokens, hybrid_layer_ids=[1]),
    decoder("jamba", num_experts=4, attn_layer_period=2, attn_layer_offset=1),
    decoder(
        "granitemoehybrid",
        few_tokens,
        num_local_experts=8,
        layer_types=["linear_attention", "full_attention"],
        mamba_chunk_size=64,
    ),
)

_ENCODERS = (
    *map(encoder, ("bert", "roberta", "modernbert", "deberta-v2", "xlm-roberta-xl", "albert")),
    *map(encoder, ("big_bird", "convbert", "distilbert", "electra", "eurobert", "layoutlm")),
    *map(encoder, ("mpnet", "nomic_bert", "rembert", "roformer")),
    encoder("esm", vocab_size=96, pad_token_id=0),
    encoder("xlm-roberta", pad_token_id=0),
    encoder("longformer", pad_token_id=0, max_position_embeddings=514),
    encoder("jina_embeddings_v3", pad_token_id=0),
    pairs_of_texts("t5", num_decoder_layers=2, d_model=1024, d_ff=4096, num_heads=16),
    *(
        pairs_of_texts(name, encoder_layers=2, decoder_layers=2, pad_token_id=0)
        for name in ("bart", "led", "m2m_100", "marian")
    ),
    *map(pairs_of_texts, ("mt5", "pegasus")),
)

_PATCHES = given(
    few(32),
    pixel_values=normal(256, 768),
    pixel_attention_mask=filled(1, 256),
    spatial_shapes=filled(16, 2),
)
"""16 x 16 patches of images, each with its number of rows and columns of patches."""

_VISION = (
    vision("vit", 224, 64),
    vision("swin", 224, 64, depths=[2, 2]),
    *(vision(name, 224, 64) for name in ("siglip_vision_model", "clip_vision_model")),
    *(vision(name, 224, 64) for name in ("beit", "deit")),
    *(vision(name, 224, 32) for name in ("dinov2", "convnextv2", "dinov3_vit", "convnext")),
    *(vision(name, 224, 32) for name in ("aimv2_vision_model", "cvt", "dinov2_with_registers")),
    *(vision(name, 224, 32) for name in ("focalnet", "hiera", "ijepa", "pvt_v2", "segformer")),
    *(vision(name, 224, 32) for name in ("swinv2", "vit_mae")),
    *(vision(name, 1024, 1) for name in ("sam_vision_model", "sam2_vision_model")),
    vision("yolos", 512, 16, image_size=[512, 512]),
    vision("dpt", 384, 16, image_size=384),
    vision("pixtral", 512, 4),
    vision("internvl_vision", 448, 16),
    vision("rt_detr", 640, 8, decoder_layers=2),
    transformer("vision", "videomae", given(few(8), pixel_values=normal(16, 3, 224, 224))),
    Member("qwen2_5_vl_vision", "vision", qwen2_5_vl_vision, packed_patches),
    transformer("vision", "siglip2_vision_model", _PATCHES),
)

_WAVES = given(each(4), input_values=normal(80000))

_SPEECH = (
    speech(
        "whisper",
        given(
            each(4), input_features=normal(80, 3000), decoder_input_ids=words(448), use_cache=False
        ),
        pad_token_id=0,
        d_model=1024,
        encoder_layers=2,
        encoder_attention_heads=16,
        encoder_ffn_dim=4096,
        decoder_layers=2,
        decoder_attention_heads=16,
        decoder_ffn_dim=4096,
    ),
    # 8 s of frames of 80 channels; some models choose at random which layers to skip.
    speech("parakeet_encoder", given(each(4), input_features=normal(800, 80))),
    speech("wav2vec2-bert", given(each(4), input_features=normal(500, 160))),
    speech("audio-spectrogram-transformer", given(few(16, 2), input_values=normal(1024, 128))),
    *(speech(name, _WAVES) for name in ("wav2vec2", "hubert", "wavlm")),
    speech(
        "moonshine",
        given(each(4), _WAVES, decoder_input_ids=words(194), use_cache=False),
        encoder_num_hidden_layers=2,
        decoder_num_hidden_layers=2,
    ),
)


def _places(columns: int, **values: Tensor) -> Inputs:
    """The positions of the parts of an image and of words in Flux, and other inputs."""
    parts = {"img_ids": 1024, "txt_ids": 512}
    zeros = {n: filled(0.0, columns, count=c, dtype=torch.float32) for n, c in parts.items()}
    return given(each(), None, **{**zeros, **values})


def _image_shapes(setting: Setting, count: int) -> list[list[tuple[int, int, int]]]:
    """The sizes of the images of Qwen-Image in patches."""
    return [[(1, 32, 32)]] * count


def _rotations(setting: Setting, count: int) -> tuple[torch.Tensor, ...]:
    """The cosines and sines of Hunyuan DiT."""
    return tuple(torch.randn(2, 1024, 88, device=setting.device))


_FLUX = {"num_layers": 2, "num_single_layers": 2}

_DIFFUSION = (
    sd3(6),
    diffusion(
        "flux",
        "FluxTransformer2DModel",
        latents((1024, 64), (512, 4096), noise=0.5, pooled=768, more=_places(3)),
        **_FLUX,
    ),
    diffusion(
        "pixart",
        "PixArtTransformer2DModel",
        latents(
            (4, 64, 64),
            (120, 4096),
            count=each(2),
            more=given(added_cond_kwargs={"resolution": None, "aspect_ratio": None}),
        ),
        num_layers=4,
        sample_size=64,
        cross_attention_dim=1152,
        caption_channels=4096,
        in_channels=4,
        out_channels=8,
    ),
    diffusion(
        "dit",
        "DiTTransformer2DModel",
        latents((4, 32, 32), count=each(4), more=given(each(4), class_labels=filled(0))),
        num_layers=4,
        sample_size=32,
        in_channels=4,
        out_channels=8,
    ),
    diffusion("sana", "SanaTransformer2DModel", latents((32, 32, 32), (300, 2304)), num_layers=3),
    diffusion(
        "auraflow",
        "AuraFlowTransformer2DModel",
        latents((4, 64, 64), (256, 2048), noise=0.5),
        num_mmdit_layers=2,
        num_single_dit_layers=2,
    ),
    diffusion(
        "cogvideox",
        "CogVideoXTransformer3DModel",
        latents((5, 16, 60, 90), (226, 4096), count=few(1)),
        num_layers=2,
        sample_width=90,
        sample_height=60,
        sample_frames=17,
    ),
    diffusion(
        "wan",
        "WanTransformer3DModel",
        latents((16, 5, 60, 104), (512, 4096), count=few(1)),
        num_layers=2,
        num_attention_heads=12,
        ffn_dim=8960,
    ),
    diffusion(
        "hunyuan_dit",
        "HunyuanDiT2DModel",
        # The step has the type of embeddings.
        latents(
            (4, 64, 64),
            (77, 1024),
            noise=500.0,
            more=given(
                text_embedding_mask=filled(1, 77),
                encoder_hidden_states_t5=normal(256, 2048),
                text_embedding_mask_t5=filled(1, 256),
                image_meta_size=filled(1024.0, 6),
                style=filled(0),
                image_rotary_emb=_rotations,
            ),
        ),
        num_layers=4,
        attention_head_dim=88,
        hidden_size=1408,
        sample_size=64,
        patch_size=2,
        in_channels=4,
        mlp_ratio=4.3637,
        text_len=77,
        text_len_t5=256,
    ),
    diffusion(
        "ltx",
        "LTXVideoTransformer3DModel",
        latents(
            (2048, 128),
            (128, 4096),
            more=given(
                encoder_attention_mask=filled(1.0, 128, dtype=torch.float32),
                num_frames=8,
                height=16,
                width=16,
            ),
        ),
        num_layers=2,
    ),
    diffusion(
        "chroma",
        "ChromaTransformer2DModel",
        latents(
            (1024, 64), (512, 4096), noise=0.5, more=_places(3, attention_mask=filled(True, 1536))
        ),
        **_FLUX,
    ),
    diffusion(
        "qwen_image",
        "QwenImageTransformer2DModel",
        latents(
            (1024, 64),
            (128, 3584),
            noise=0.5,
            more=given(img_shapes=_image_shapes, encoder_hidden_states_mask=filled(True, 128)),
        ),
        num_layers=2,
    ),
    diffusion(
        "flux2",
        "Flux2Transformer2DModel",
        latents((1024, 128), (512, 15360), noise=0.5, more=_places(4, guidance=filled(4.0))),
        num_layers=1,
        num_single_layers=2,
    ),
    diffusion(
        "hunyuan_video",
        "HunyuanVideoTransformer3DModel",
        # 17 images, words of which all count, and the guidance.
        latents(
            (16, 5, 40, 64),
            (128, 4096),
            count=few(1),
            pooled=768,
            more=given(few(1), encoder_attention_mask=filled(True, 128), guidance=filled(6000.0)),
        ),
        num_layers=2,
        num_single_layers=2,
        num_refiner_layers=1,
    ),
    diffusion(
        "lumina2",
        "Lumina2Transformer2DModel",
        latents(
            (16, 64, 64),
            (128, 1024),
            noise=0.5,
            more=given(encoder_attention_mask=filled(True, 128)),
        ),
        num_layers=2,
        num_refiner_layers=1,
    ),
    diffusion(
        "cogview4",
        "CogView4Transformer2DModel",
        latents(
            (16, 64, 64),
            (128, 4096),
            more=given(
                original_size=filled(512.0, 2),
                target_size=filled(512.0, 2),
                crop_coords=filled(0.0, 2),
            ),
        ),
        num_layers=2,
    ),
    diffusion(
        "unet",
        "UNet2DConditionModel",
        latents((4, 64, 64), (77, 768), name="sample"),
        sample_size=64,
        cross_attention_dim=768,
    ),
)

FLEET: tuple[Member, ...] = (*_DECODERS, *_ENCODERS, *_VISION, *_SPEECH, *_DIFFUSION)


def members_of(file: str | None) -> Sequence[Member]:
    """Return the fleet, or the `MEMBERS` of a Python file.

    Raises:
        SystemExit: There is no such file, it has no `MEMBERS`, or two of them have the same name.
    """
    if file is None:
        return FLEET
    if not Path(file).exists():
        raise SystemExit(f"{file}: no such file")
    spec = spec_from_file_location(f"members_{Path(file).stem}", file)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # Dynamo imports the modules of classes by their names
    spec.loader.exec_module(module)
    members: Sequence[Member] = getattr(module, "MEMBERS", ())
    if not members or len({member.name for member in members}) != len(members):
        raise SystemExit(
            f"{file}: expected MEMBERS, fleet.models.Member objects of different names"
        )
    return members
