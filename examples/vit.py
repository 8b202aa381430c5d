"""A ViT of Hugging Face classifies images with and without coda: labels, what was fused, errors.

    python examples/vit.py                                        tiny, random weights
    python examples/vit.py --model google/vit-base-patch16-224    a checkpoint (a GPU is advised)

Without a GPU the program runs through the reference backend.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import torch
from rich.console import Console

import coda_ir
from coda_ir.devices import default_device
from coda_ir.tools.model_report import (
    error_table,
    exact_result,
    fused_table,
    kernel_table,
    refused_table,
)

try:
    import transformers
except ImportError:
    sys.exit("this example needs transformers: pip install transformers")

TINY: Any = {
    "hidden_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 96,
    "image_size": 32,
    "patch_size": 8,
    "num_labels": 10,
}
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", help="a checkpoint: a name or a folder (default: random)")
    parser.add_argument("--dtype", choices=DTYPES, default="f32")
    parser.add_argument("--layers", type=int, default=2, help="of the random model (default: 2)")
    parser.add_argument("--images", type=int, default=4, help="in a batch (default: 4)")
    return parser.parse_args(arguments)


def make_model(options: argparse.Namespace) -> Any:
    kind: Any = transformers.ViTForImageClassification
    if options.model is not None:
        return kind.from_pretrained(options.model)
    torch.manual_seed(0)  # pyright: ignore
    return kind(transformers.ViTConfig(**{**TINY, "num_hidden_layers": options.layers}))


def main(arguments: Sequence[str] | None = None) -> None:
    options, device = parse(arguments), default_device()
    model = make_model(options).eval().to(device, DTYPES[options.dtype])
    size = model.config.image_size
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(options.images, 3, size, size, generator=generator)
    images = images.to(device, DTYPES[options.dtype])

    shapes = {"pixel_values": {0: torch.export.Dim("images")}}
    exported = coda_ir.export(model, (), {"pixel_values": images}, dynamic_shapes=shapes)
    fast = exported.compile(target="reference" if device.type == "cpu" else "triton")
    with torch.no_grad():
        ours, eager = fast(pixel_values=images).logits, model(images).logits
    exact = exact_result(model, lambda wide: wide(images.double()).logits)

    console = Console(width=None if sys.stdout.isatty() else 140)
    remarks = [*exported.remarks, *fast.remarks]
    for table in (kernel_table(fast), fused_table(remarks), refused_table(remarks)):
        console.print(table)
    console.print(error_table({"logits": (ours, eager, exact)}))
    labels, expected = ours.argmax(-1).tolist(), eager.argmax(-1).tolist()
    console.print(
        f"labels: {labels}, {'as' if labels == expected else 'NOT as'} eager's {expected}"
    )


if __name__ == "__main__":
    main()
