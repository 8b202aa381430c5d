"""A BERT or a ViT of Hugging Face with and without coda: labels, what was fused, errors.

    python examples/hf_classify.py                                  padded sentences, tiny model
    python examples/hf_classify.py --kind images --model google/vit-base-patch16-224
    python examples/hf_classify.py --model textattack/bert-base-uncased-SST-2

Without `--model`, weights are random. Without a GPU the program runs through the reference backend.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import torch
from rich.console import Console

import coda_ir
from coda_ir.devices import default_device
from coda_ir.tools.model_report import error_table, exact_result, fusion_tables

try:
    import transformers
except ImportError:
    sys.exit("this example needs transformers: pip install transformers")

TINY: Any = {"hidden_size": 48, "num_attention_heads": 4, "intermediate_size": 96}
TEXT: Any = {**TINY, "vocab_size": 1000, "max_position_embeddings": 64, "num_labels": 3}
IMAGES: Any = {**TINY, "image_size": 32, "patch_size": 8, "num_labels": 10}
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
LENGTHS = (23, 17, 5)
"""The words of each sentence; the rest is padding."""


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kind", choices=("text", "images"), default="text")
    parser.add_argument("--model", help="a checkpoint: a name or a folder (default: random)")
    parser.add_argument("--dtype", choices=DTYPES, default="f32")
    parser.add_argument("--layers", type=int, default=2, help="of the random model (default: 2)")
    parser.add_argument("--images", type=int, default=4, help="in a batch (default: 4)")
    return parser.parse_args(arguments)


def make_model(options: argparse.Namespace) -> Any:
    library: Any = transformers
    is_text = options.kind == "text"
    name = "BertForSequenceClassification" if is_text else "ViTForImageClassification"
    kind = getattr(library, name)
    if options.model is not None:
        return kind.from_pretrained(options.model)
    torch.manual_seed(0)  # pyright: ignore
    make_config = library.BertConfig if is_text else library.ViTConfig
    sizes = TEXT if is_text else IMAGES
    return kind(make_config(**sizes, num_hidden_layers=options.layers))


def sentences(vocabulary: int) -> dict[str, torch.Tensor]:
    """Random words, and the mask of what is no padding."""
    longest = max(LENGTHS)
    ids = torch.randint(1, vocabulary, (len(LENGTHS), longest), generator=torch.Generator())
    mask = torch.arange(longest) < torch.tensor(LENGTHS)[:, None]
    return {"input_ids": ids * mask, "attention_mask": mask.long()}


def inputs_and_shapes(
    model: Any, options: argparse.Namespace
) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """The inputs of the model, and their dynamic dimensions."""
    batch = torch.export.Dim("batch")
    if options.kind == "images":
        size = (options.images, 3, model.config.image_size, model.config.image_size)
        images = torch.randn(size, generator=torch.Generator().manual_seed(1))
        return {"pixel_values": images.to(DTYPES[options.dtype])}, {"pixel_values": {0: batch}}
    inputs = sentences(model.config.vocab_size)
    time = torch.export.Dim("time", max=min(512, model.config.max_position_embeddings))
    return inputs, {name: {0: batch, 1: time} for name in inputs}


def widened(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: x.double() if x.is_floating_point() else x for name, x in inputs.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    options, device = parse(arguments), default_device()
    model = make_model(options).eval().to(device, DTYPES[options.dtype])
    drawn, shapes = inputs_and_shapes(model, options)
    inputs = {name: tensor.to(device) for name, tensor in drawn.items()}

    exported = coda_ir.export(model, (), inputs, dynamic_shapes=shapes)
    fast = exported.compile(target="reference" if device.type == "cpu" else "triton")
    with torch.no_grad():
        ours, eager = fast(**inputs).logits, model(**inputs).logits
    exact = exact_result(model, lambda wide: wide(**widened(inputs)).logits)

    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(*fusion_tables(fast, exported.remarks), sep="\n")
    console.print(error_table({"logits": (ours, eager, exact)}))
    labels, expected = ours.argmax(-1).tolist(), eager.argmax(-1).tolist()
    console.print(
        f"labels: {labels}, {'as' if labels == expected else 'NOT as'} eager's {expected}"
    )


if __name__ == "__main__":
    main()
