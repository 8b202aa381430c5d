"""Takes the pictures of the explorer in the documents: `make screenshots`.

The models have the widths of published ones, and few layers; their weights have no data.
"""

import sys
import tempfile
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

import coda_ir
from coda_ir.api import parse
from coda_ir.pages import page_of
from support.browser import run_browser, with_script

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
SIZE = (1300, 800)
COLOURS = 256
LAYERS = 4
TOKENS = 2048

FIRST_FOLD = """
byId("kernels").scrollTop = state.columns[0].rows.find(row => row.inside).top - 20;
paint();
"""
SILU = """
const ops = state.program.operators.flatMap((op, index) => op.name === "silu" ? [index] : []);
select(ops, true);
"""
NORM = """
const ops = state.program.operators.flatMap((op, index) => op.name === "rms_norm" ? [index] : []);
select([ops[0]], true);
"""


def llama_layer() -> str:
    """The page of a Llama layer in `.coda`."""
    return page_of(parse(ROOT / "examples/llama_layer.coda"), sizes={"B": 1, "T": 8192})


def llama() -> str:
    """Llama 3 8B's widths."""
    config = _configuration("LlamaConfig", hidden_size=4096, intermediate_size=14336)
    return _decoder("LlamaForCausalLM", config)


def mixtral() -> str:
    """Mixtral 8x7B's widths."""
    config = _configuration("MixtralConfig", hidden_size=4096, intermediate_size=14336)
    return _decoder("MixtralForCausalLM", config)


def stable_diffusion_3() -> str:
    """Stable Diffusion 3 Medium's widths, for images of 1024 x 1024."""
    diffusers: Any = import_module("diffusers")
    with torch.device("meta"):
        model = diffusers.SD3Transformer2DModel(
            sample_size=128,
            num_layers=LAYERS + 1,
            attention_head_dim=64,
            num_attention_heads=24,
            joint_attention_dim=4096,
            caption_projection_dim=1536,
            pooled_projection_dim=2048,
            pos_embed_max_size=192,
        )
        inputs = {
            "hidden_states": torch.zeros(1, 16, 128, 128),
            "encoder_hidden_states": torch.zeros(1, 333, 4096),
            "pooled_projections": torch.zeros(1, 2048),
            "timestep": torch.zeros(1),
        }
    inputs = {name: value.bfloat16() for name, value in inputs.items()}
    return _page(model, {**inputs, "return_dict": False})


def _configuration(name: str, **widths: int) -> Any:
    transformers: Any = import_module("transformers")
    return getattr(transformers, name)(
        **widths,
        num_hidden_layers=LAYERS,
        num_attention_heads=32,
        num_key_value_heads=8,
        vocab_size=32000,
        use_cache=False,
    )


def _decoder(name: str, config: Any) -> str:
    transformers: Any = import_module("transformers")
    with torch.device("meta"):
        model = getattr(transformers, name)(config)
        tokens = torch.zeros(1, TOKENS, dtype=torch.int64)
    return _page(model, {"input_ids": tokens})


def _page(model: torch.nn.Module, inputs: Mapping[str, Any]) -> str:
    exported = coda_ir.export(model.bfloat16().eval().requires_grad_(False), (), dict(inputs))
    return page_of(exported.module)


PICTURES: Mapping[str, tuple[Callable[[], str], str]] = {
    "explorer": (llama_layer, NORM),
    "explorer_llama": (llama, FIRST_FOLD + SILU),
    "explorer_sd3": (stable_diffusion_3, FIRST_FOLD),
    "explorer_mixtral": (mixtral, FIRST_FOLD + 'setTheme("dark");'),
}
"""The page of each file, and what happens to it before the picture is taken."""


def take(name: str) -> None:
    """Take one picture, as a PNG with few colours."""
    from PIL import Image

    page, script = PICTURES[name]
    file = IMAGES / f"{name}.png"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "picture.png"
        options = (f"--screenshot={path}", "--virtual-time-budget=5000")
        run_browser(with_script(page(), script), Path(folder), *options, size=SIZE)
        picture = Image.open(path).convert("RGB").quantize(COLOURS, kmeans=1)
    picture.save(file, optimize=True)
    print(f"{file.relative_to(ROOT)}: {file.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    for picture in sys.argv[1:] or PICTURES:
        take(picture)
