"""A small Llama learns Python from the standard library, by PyTorch eager and by coda.

    python examples/train_llama.py                                  tiny on a CPU, small on a GPU
    python examples/train_llama.py --dtype bf16 --layers 8 --width 1024 --steps 500
    python examples/train_llama.py --rate 1e-3 --reordered          what rounding grows to
    python examples/train_llama.py --dtype bf16 --width 384 --float8 rowwise --baseline coda

Two equal models see the same batches: one is trained as it is, the other one through
torch.compile(backend="coda"). The loss curves go to train_llama.png (which needs matplotlib) and
train_llama.json. In float32 they are equal up to rounding, in bf16 (autocast) up to its noise.

A learning rate that is large for a model makes its training chaotic: rounding then grows until two
runs of PyTorch differ as well. `--reordered` shows this with a third model, which is trained by
eager with the sequences of each batch in reversed order. `--float8` adds a model for each recipe,
whose linear layers multiply in float8, but for the projection to the vocabulary; with `--baseline
coda` the others are compared with coda, and eager is left out. Without a GPU programs run through
the reference backend.
"""

import argparse
import copy
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

import coda_ir
from coda_ir.devices import default_device

try:
    import transformers
except ImportError:
    sys.exit("this example needs transformers: pip install transformers")

BYTES = 256
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
SIZES = {
    "cpu": {"width": 64, "layers": 2, "length": 64, "batch": 8, "steps": 200, "rate": 1e-3},
    "cuda": {"width": 512, "layers": 6, "length": 512, "batch": 16, "steps": 500, "rate": 3e-4},
}
"""The default sizes, by device."""

# These have no complete types.
torch_compile: Any = import_module("torch").compile
functional: Any = torch.nn.functional


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    device = default_device()
    sizes = SIZES[device.type]
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--width", type=int, default=sizes["width"], help="of the model")
    parser.add_argument("--layers", type=int, default=sizes["layers"])
    parser.add_argument("--length", type=int, default=sizes["length"], help="tokens of a sequence")
    parser.add_argument("--batch", type=int, default=sizes["batch"], help="sequences of a batch")
    parser.add_argument("--steps", type=int, default=sizes["steps"])
    parser.add_argument(
        "--rate", type=float, default=sizes["rate"], help="the largest learning rate"
    )
    parser.add_argument("--dtype", choices=DTYPES, default="f32")
    parser.add_argument("--checkpointing", action="store_true", help="recompute the layers")
    parser.add_argument(
        "--reordered", action="store_true", help="also train eager on reordered batches"
    )
    parser.add_argument(
        "--float8", nargs="*", default=[], help="also train coda in float8, by these recipes"
    )
    parser.add_argument("--baseline", choices=("eager", "coda"), default="eager")
    parser.add_argument("--bytes", type=int, default=2_000_000, help="of text")
    parser.add_argument("--output", type=Path, default=Path(), help="folder of the curves")
    parser.add_argument("--device", type=torch.device, default=device)
    return parser.parse_args(arguments)


def read_text(size: int) -> torch.Tensor:
    """The first `size` bytes of the standard library's modules, as tokens."""
    text = bytearray()
    for path in sorted(Path(argparse.__file__).parent.glob("*.py")):
        text += path.read_bytes()
        if len(text) >= size:
            break
    return torch.frombuffer(text[:size], dtype=torch.uint8)


def batches(text: torch.Tensor, options: argparse.Namespace) -> Iterator[torch.Tensor]:
    """Random pieces of the text, `batch` x `length` tokens each time, the same in every run."""
    generator = torch.Generator().manual_seed(1)
    offsets = torch.arange(options.length)
    for _ in range(options.steps):
        starts = torch.randint(len(text) - options.length, (options.batch, 1), generator=generator)
        yield text[starts + offsets].long().to(options.device)


def make_model(options: argparse.Namespace) -> Any:
    torch.manual_seed(0)  # pyright: ignore
    heads = max(1, options.width // 64)
    config = transformers.LlamaConfig(
        vocab_size=BYTES,
        hidden_size=options.width,
        intermediate_size=options.width * 8 // 3 // 32 * 32,
        num_hidden_layers=options.layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        max_position_embeddings=options.length,
        tie_word_embeddings=True,
        use_cache=False,
    )
    model: Any = transformers.LlamaForCausalLM(config)
    if options.checkpointing:
        model.gradient_checkpointing_enable()
    return model.to(options.device).train()


@dataclass
class Trainer:
    """A model in training: `forward` is the model, or what it was compiled to."""

    model: Any
    forward: Callable[..., Any]
    options: argparse.Namespace
    losses: list[float] = field(default_factory=list[float])
    seconds: list[float] = field(default_factory=list[float])

    def __post_init__(self) -> None:
        optimizers: Any = torch.optim
        parameters = self.model.parameters()
        self.optimizer = optimizers.AdamW(parameters, betas=(0.9, 0.95), weight_decay=0.1)

    def step(self, tokens: torch.Tensor) -> None:
        """Learn to tell each byte from those before it."""
        start = time.perf_counter()
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(len(self.losses), self.options)
        with autocast(self.options):
            loss = self.forward(input_ids=tokens, labels=tokens).loss
        loss.backward()
        clip: Any = torch.nn.utils.clip_grad_norm_
        clip(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.losses.append(loss.item())
        self.seconds.append(time.perf_counter() - start)

    @property
    def speed(self) -> float:
        """Tokens per second, the median of the steps after the first ones, which compile."""
        times = sorted(self.seconds[2:] or self.seconds)
        return self.options.batch * self.options.length / times[len(times) // 2]


def learning_rate(step: int, options: argparse.Namespace) -> float:
    """A linear rise in a tenth of the steps, then a cosine down to a tenth of the rate."""
    warmup = max(1, options.steps // 10)
    if step < warmup:
        return options.rate * (step + 1) / warmup
    progress = (step - warmup) / max(1, options.steps - warmup)
    return options.rate * (0.55 + 0.45 * math.cos(math.pi * progress))


def autocast(options: argparse.Namespace) -> AbstractContextManager[object]:
    dtype = DTYPES[options.dtype]
    if dtype == torch.float32:
        return nullcontext()
    return torch.autocast(options.device.type, dtype=dtype)


def reordered(model: Any) -> Callable[..., Any]:
    """`model` on the sequences of a batch in reversed order: the same loss, summed up otherwise."""

    def forward(input_ids: torch.Tensor, labels: torch.Tensor) -> Any:
        backwards = torch.arange(len(input_ids) - 1, -1, -1, device=input_ids.device)
        return model(input_ids=input_ids[backwards], labels=labels[backwards])

    return forward


def compiled_trainer(model: Any, options: argparse.Namespace) -> Trainer:
    target = "auto" if options.device.type == "cuda" else "reference"
    compiled = torch_compile(model, backend="coda", options={"target": target})
    return Trainer(model, compiled, options)


def train(options: argparse.Namespace, console: Console) -> dict[str, Trainer]:
    """All models, one step each in turn."""
    model = make_model(options)
    third = copy.deepcopy(model)
    trainers = {"coda": compiled_trainer(copy.deepcopy(model), options)}
    if options.baseline == "eager":
        trainers = {"eager": Trainer(model, model, options)} | trainers
    for recipe in options.float8:
        narrow = coda_ir.quantize(copy.deepcopy(model), recipe, training=True)
        trainers[f"coda, float8 {recipe}"] = compiled_trainer(narrow, options)
    if options.reordered:
        trainers["reordered"] = Trainer(third, reordered(third), options)
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[losses]}"),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("steps", total=options.steps, losses="")
        for tokens in batches(read_text(options.bytes), options):
            for trainer in trainers.values():
                trainer.step(tokens)
            losses = ", ".join(f"{name} {t.losses[-1]:.4f}" for name, t in trainers.items())
            progress.update(task, advance=1, losses=losses)
    return trainers


def differences(trainers: dict[str, Trainer]) -> dict[str, list[float]]:
    """Return what the losses of the others are above those of the first, step by step."""
    (_, baseline), *others = trainers.items()
    return {
        name: [loss - exact for loss, exact in zip(t.losses, baseline.losses, strict=True)]
        for name, t in others
    }


def draw_curves(trainers: dict[str, Trainer], path: Path) -> None:
    """The losses by step, and below the difference of the two. Raises ImportError where matplotlib
    is not installed.
    """
    matplotlib: Any = import_module("matplotlib")
    matplotlib.use("Agg")
    figure, (top, bottom) = import_module("matplotlib.pyplot").subplots(
        2, sharex=True, height_ratios=(3, 1), figsize=(7, 5), layout="constrained"
    )
    for (name, trainer), style in zip(trainers.items(), ("-", "--", ":", "-."), strict=False):
        top.plot(trainer.losses, style, label=name)
    top.set_ylabel("loss (nats per byte)")
    top.legend()
    for number, (name, above) in enumerate(differences(trainers).items(), 1):
        bottom.plot(above, color=f"C{number}", label=name)
    bottom.set_ylabel(f"above {next(iter(trainers))}")
    bottom.set_xlabel("step")
    figure.savefig(path, dpi=150)


def report(trainers: dict[str, Trainer], console: Console) -> None:
    table = Table("", "first loss", "last loss", "tokens/s", title="Training", title_justify="left")
    for name, t in trainers.items():
        table.add_row(name, f"{t.losses[0]:.5f}", f"{t.losses[-1]:.5f}", f"{t.speed:,.0f}")
    console.print(table)
    for name, above in differences(trainers).items():
        largest = max(map(abs, above))
        first = next(iter(trainers))
        console.print(f"largest difference of the losses of {first} and {name}: {largest:.1e}")


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    console = Console()
    trainers = train(options, console)
    report(trainers, console)
    options.output.mkdir(parents=True, exist_ok=True)
    losses = {name: trainer.losses for name, trainer in trainers.items()}
    (options.output / "train_llama.json").write_text(json.dumps(losses) + "\n")
    curves = options.output / "train_llama.png"
    try:
        draw_curves(trainers, curves)
    except ImportError:
        console.print("no curve was drawn: pip install matplotlib")
    else:
        console.print(f"curves: {curves}")


if __name__ == "__main__":
    main()
