"""A BERT of Hugging Face with padded sentences, with and without coda: what was fused, errors.

    python examples/bert.py                                             tiny, random weights
    python examples/bert.py --model textattack/bert-base-uncased-SST-2  a checkpoint

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
    "vocab_size": 1000,
    "hidden_size": 48,
    "num_attention_heads": 4,
    "intermediate_size": 96,
    "max_position_embeddings": 64,
    "num_labels": 3,
}
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
LENGTHS = (23, 17, 5)
"""The words of each sentence; the rest is padding."""


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", help="a checkpoint: a name or a folder (default: random)")
    parser.add_argument("--dtype", choices=DTYPES, default="f32")
    parser.add_argument("--layers", type=int, default=2, help="of the random model (default: 2)")
    return parser.parse_args(arguments)


def make_model(options: argparse.Namespace) -> Any:
    kind: Any = transformers.BertForSequenceClassification
    if options.model is not None:
        return kind.from_pretrained(options.model)
    torch.manual_seed(0)  # pyright: ignore
    return kind(transformers.BertConfig(**TINY, num_hidden_layers=options.layers))


def sentences(vocabulary: int, device: torch.device) -> dict[str, torch.Tensor]:
    """Random words, and the mask of what is no padding."""
    longest = max(LENGTHS)
    ids = torch.randint(1, vocabulary, (len(LENGTHS), longest), generator=torch.Generator())
    mask = torch.arange(longest) < torch.tensor(LENGTHS)[:, None]
    return {"input_ids": (ids * mask).to(device), "attention_mask": mask.long().to(device)}


def main(arguments: Sequence[str] | None = None) -> None:
    options, device = parse(arguments), default_device()
    model = make_model(options).eval().to(device, DTYPES[options.dtype])
    inputs = sentences(model.config.vocab_size, device)

    batch, time = torch.export.Dim("batch"), torch.export.Dim("time", max=512)
    if options.model is None:
        time = torch.export.Dim("time", max=TINY["max_position_embeddings"])
    shapes = {name: {0: batch, 1: time} for name in inputs}
    exported = coda_ir.export(model, (), inputs, dynamic_shapes=shapes)
    fast = exported.compile(target="reference" if device.type == "cpu" else "triton")
    with torch.no_grad():
        ours, eager = fast(**inputs).logits, model(**inputs).logits
    exact = exact_result(model, lambda wide: wide(**inputs).logits)

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
