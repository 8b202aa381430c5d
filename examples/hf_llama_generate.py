"""A Llama of Hugging Face generates greedily with and without coda: the same tokens in float32.

    python examples/hf_llama_generate.py                              tiny, random weights
    python examples/hf_llama_generate.py --model FOLDER --dtype bf16  a checkpoint, on a GPU
    python examples/hf_llama_generate.py --through export             one program, without a cache

By default `model.forward` goes through torch.compile(backend="coda") and generates with the
cache of keys and values: one graph for the prompt and one for all that follows. The tables are
those of the exported model. Without a GPU programs run through the reference backend.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from rich.console import Console

import coda_ir
from coda_ir.devices import default_device
from coda_ir.exported import CompiledModel
from coda_ir.tools.model_report import error_table, exact_result, fusion_tables

try:
    import transformers
except ImportError:
    sys.exit("this example needs transformers: pip install transformers")

TINY: Any = {
    "vocab_size": 1000,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "eos_token_id": None,
}
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
LARGEST_EXACT = 2 * 10**9
"""Parameters of the largest model of which a copy in float64 is made."""


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", help="a checkpoint: a name or a folder (default: random)")
    parser.add_argument("--prompt", default="The capital of France is", help="of a checkpoint")
    parser.add_argument("--tokens", type=int, default=20, help="to generate (default: 20)")
    parser.add_argument("--through", choices=("compile", "export"), default="compile")
    parser.add_argument("--dtype", choices=DTYPES, default="f32")
    parser.add_argument("--layers", type=int, default=2, help="of the random model (default: 2)")
    return parser.parse_args(arguments)


def make_model(options: argparse.Namespace) -> tuple[Any, torch.Tensor, Any]:
    """The model, the tokens of the prompt, and what makes text of tokens, if there is anything."""
    if options.model is not None:
        kind: Any = transformers.AutoModelForCausalLM
        tokenizers: Any = transformers.AutoTokenizer
        tokenizer: Any = tokenizers.from_pretrained(options.model)
        ids: torch.Tensor = tokenizer(options.prompt, return_tensors="pt").input_ids
        return kind.from_pretrained(options.model), ids, tokenizer
    torch.manual_seed(0)  # pyright: ignore
    config = transformers.LlamaConfig(**TINY, num_hidden_layers=options.layers)
    model: Any = transformers.LlamaForCausalLM(config)
    return model, torch.randint(1, TINY["vocab_size"], (2, 7)), None


def compile_exported(model: Any, ids: torch.Tensor) -> tuple[Any, CompiledModel]:
    """The model without a cache as one program, for any batch and length."""
    # A batch of 1 would be taken for a constant.
    example = {"input_ids": ids.repeat(2, 1), "use_cache": False}
    shapes = {"input_ids": dict.fromkeys((0, 1), torch.export.Dim.DYNAMIC), "use_cache": None}
    exported = coda_ir.export(model, (), example, dynamic_shapes=shapes)
    target = "reference" if ids.device.type == "cpu" else "triton"
    return exported, exported.compile(target=target)


def generate(model: Any, ids: torch.Tensor, count: int) -> torch.Tensor:
    return model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=count,
        min_new_tokens=count,
        do_sample=False,
    )


def generate_without_cache(model: CompiledModel, ids: torch.Tensor, count: int) -> torch.Tensor:
    for _ in range(count):
        logits = model(input_ids=ids, use_cache=False).logits[:, -1]
        ids = torch.cat([ids, logits.argmax(-1, keepdim=True)], -1)
    return ids


def compile_forward(model: Any) -> None:
    """Compile as a user would, but for the target without a GPU."""
    torch_compile: Any = getattr(torch, "compile")  # noqa: B009 (partly without types)
    options = {"target": "reference"} if model.device.type == "cpu" else {}
    model.forward = torch_compile(model.forward, backend="coda", dynamic=True, options=options)


def timed(function: Callable[..., torch.Tensor], *args: Any) -> tuple[torch.Tensor, float]:
    """The result, and the seconds that a call takes when everything is compiled."""
    function(*args)
    start = time.perf_counter()
    result = function(*args).cpu()
    return result, time.perf_counter() - start


def main(arguments: Sequence[str] | None = None) -> None:
    options, device = parse(arguments), default_device()
    model, ids, tokenizer = make_model(options)
    model, ids = model.eval().to(device, DTYPES[options.dtype]), ids.to(device)
    console = Console(width=None if sys.stdout.isatty() else 140)

    with torch.no_grad():
        exported, program = compile_exported(model, ids)
        console.print(*fusion_tables(program, exported.remarks), sep="\n")
        if sum(parameter.numel() for parameter in model.parameters()) <= LARGEST_EXACT:
            ours = program(input_ids=ids, use_cache=False).logits
            exact = exact_result(model, lambda wide: wide(ids).logits)
            console.print(error_table({"logits": (ours, model(ids).logits, exact)}))

        expected, eager_time = timed(generate, model, ids, options.tokens)
        if options.through == "export":
            tokens, fast_time = timed(generate_without_cache, program, ids, options.tokens)
        else:
            compile_forward(model)
            tokens, fast_time = timed(generate, model, ids, options.tokens)
    same = torch.equal(tokens, expected)
    console.print(f"{options.tokens} tokens: eager {eager_time:.2f} s, coda {fast_time:.2f} s")
    console.print("tokens: equal" if same else "tokens: DIFFERENT")
    for row in tokens:
        console.print(str(row) if tokenizer is None else tokenizer.decode(row))


if __name__ == "__main__":
    main()
