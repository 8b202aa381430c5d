"""Prefill of a Hugging Face Llama: eager, torch.compile, and torch.compile with the backend coda.

    python benchmarks/hf_prefill.py --layers 32 --tokens 2048 --json prefill.json

7B shape, random weights, bf16, batch 1, no cache. The logits of each variant are compared with the
same model in float32 in the same run. Needs transformers and a GPU (--small tries it on a CPU).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from harness import Timing, print_timings, time_interleaved, write_json

from coda_ir.float64 import relative_error
from coda_ir.frontends.torch.dynamo import coda

# Neither transformers nor torch.compile has complete types.
transformers: Any = import_module("transformers")
torch_compile: Any = import_module("torch").compile

SEVEN_B = {
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_attention_heads": 32,
    "vocab_size": 32000,
    "max_position_embeddings": 4096,
}
SMALL = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "vocab_size": 128,
}

BACKENDS: dict[str, dict[str, Any] | None] = {
    "PyTorch eager": None,
    "torch.compile": {},
    "coda": {"backend": coda},
}


def make_model(shape: dict[str, int], layers: int, device: str) -> Any:
    config = transformers.LlamaConfig(num_hidden_layers=layers, **shape)
    with torch.device(device):
        model = transformers.LlamaForCausalLM(config)
    return model.to(torch.bfloat16).eval()


def first_calls(model: Any, ids: torch.Tensor) -> tuple[dict[str, Callable[[], Any]], Any, Any]:
    """What to time, the logits of each variant, and the seconds of its first call."""
    candidates: dict[str, Callable[[], Any]] = {}
    logits: dict[str, torch.Tensor] = {}
    seconds: dict[str, float] = {}
    for name, options in BACKENDS.items():
        function = model if options is None else torch_compile(model, **options)

        def call(function: Any = function) -> Any:
            return function(ids, use_cache=False).logits

        start = time.perf_counter()
        logits[name] = call().float().cpu()
        seconds[name] = time.perf_counter() - start
        candidates[name] = call
    return candidates, logits, seconds


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--layers", type=int, default=32)
    arguments.add_argument("--tokens", type=int, default=2048)
    arguments.add_argument("--json", type=Path, help="write the figures to a file")
    arguments.add_argument("--small", action="store_true", help="a tiny model, not timed")
    options = arguments.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = make_model(SMALL if options.small else SEVEN_B, options.layers, device)
    ids = torch.randint(0, 100, (1, options.tokens), device=device)
    with torch.no_grad():
        candidates, logits, seconds = first_calls(model, ids)
        timings: dict[str, Timing] = {} if options.small else time_interleaved(candidates)
        exact = model.float()(ids, use_cache=False).logits.cpu()
    errors = {name: relative_error(value, exact) for name, value in logits.items()}
    if timings:
        print_timings(f"Prefill of {options.tokens} tokens", timings, "PyTorch eager")
    for name, error in errors.items():
        print(f"{name}: error {error:.2e}, first call {seconds[name]:.1f} s")
    if options.json:
        write_json(options.json, {"prefill": timings}, errors=errors, first_call=seconds)


if __name__ == "__main__":
    main()
