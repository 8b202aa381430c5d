"""Published models in one table: eager PyTorch, torch.compile, coda, both in CUDA graphs, and XLA.

    python benchmarks/rows.py --json rows.json --rows 'llama-7b*'
    python benchmarks/rows.py --json rows.json --rows '*' --budget 1200

Batch 1, bf16, random weights. LLaMA: the logits of a prompt of 2048 tokens, in float8, too, and a
token after 511 in a cache, with weights of 8 and 4 bits, too. Stable Diffusion 3: a step for
512 x 512 pixels with guidance. Mamba: a prompt of 8192 tokens, and a token from the states of a
cache. A row says how many layers it has; `all layers` is its time times the work of the whole model
over that of these layers. Percent are of the peak rate of bf16 products (prefill, images) or of
memory (decoding) that the vendor states; products are those of weights and of attention. Errors are
those against the same model in float64, of the first 512 tokens. A quantized model is compared with
itself: its weights stay rounded, and in the float8 prompt both sides round the inputs of products.
Millijoules come from the GPU's counter, where `pynvml` is installed.

Variants that are in the JSON file are not measured again: the same command continues a run,
on the same device.
torch.compile has the kernels of this package for Mamba's scans, whose loop it would unroll. XLA
runs LLaMA in bf16, written in JAX, if JAX is installed.
`--profile 12` prints the longest kernels of each variant. `--budget` is in seconds; a variant is
not compiled when it is spent. Needs transformers, diffusers.
"""

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import harness
import torch
from fleet.measure import CODA, CODA_GRAPHS, COMPILED, COMPILED_GRAPHS, EAGER, compilers
from fleet.models import Setting
from rich.console import Console
from row_cases import (
    ROWS,
    Case,
    KeysAndValues,
    RecurrentStates,
    Row,
    StartOfPrompt,
    Step,
    Tensors,
    in_float64,
)
from xla_llama import XlaStep

import coda_ir
from coda_ir.cost_model import DEVICES
from coda_ir.cost_model.devices import Device
from coda_ir.devices import architecture_name
from coda_ir.float64 import relative_error
from coda_ir.tuning.measurer import Deadline

PRODUCTS = "products alone"
"""Those with the weights of linear maps, by cuBLAS, of a prompt: what variants are held against."""
XLA = "xla"
VARIANTS = (PRODUCTS, EAGER, COMPILED, COMPILED_GRAPHS, CODA, CODA_GRAPHS, XLA)
"""XLA is last: the others start processes, which is unsafe once JAX has started threads."""
CAPTURED = {COMPILED_GRAPHS: COMPILED, CODA_GRAPHS: CODA}
"""Variants that replay a CUDA graph of another one."""
SLOW_S = 0.4
"""Seconds of a call of which three are timed, and no more."""
ENERGY_S = 1.0
"""Seconds of calls over which energy is counted."""


@dataclass
class Record:
    """The measurements of a row, by variant. A variant that failed has a note."""

    row: str
    layers: int
    all_layers: int
    bound: str
    work: Mapping[str, float] = field(default_factory=dict[str, float])
    whole_work: float = 1.0
    """The work of the whole model over that of these layers."""
    milliseconds: dict[str, float] = field(default_factory=dict[str, float])
    first_call_s: dict[str, float] = field(default_factory=dict[str, float])
    errors: dict[str, float] = field(default_factory=dict[str, float])
    millijoules: dict[str, float] = field(default_factory=dict[str, float])
    """Energy of a call."""
    notes: dict[str, str] = field(default_factory=dict[str, str])

    def missing(self, names: Sequence[str]) -> list[str]:
        """Return the names that were neither measured nor failed."""
        return [n for n in names if n not in self.milliseconds and n not in self.notes]


def measure(
    record: Record,
    row: Row,
    setting: Setting,
    names: Sequence[str],
    end: Deadline,
    kernels: int = 0,
) -> None:
    """Add times, errors and energy to a record. Print the `kernels` longest kernels of each."""
    harness.seed()
    case = row.make(setting)
    record.work, record.whole_work = asdict(case.work()), whole_work(case, record)
    harness.reset_compilers()
    steps = prepare(record, case, setting, names, end)
    results: dict[str, Tensors] = {}
    for name, step in steps.items():
        if isinstance(case, RecurrentStates):
            case.restart()
        results[name] = {key: value.clone() for key, value in step().items()}
        if kernels:
            print_kernels(f"{row.name}, {name}", step, kernels)
    record.milliseconds |= times(steps)
    for name, step in steps.items():
        joules = energy(step, record.milliseconds[name])
        if joules is not None:
            record.millijoules[name] = 1000 * joules
    steps.clear()
    harness.reset_compilers()
    compare(record, case, results)


def prepare(
    record: Record, case: Case, setting: Setting, names: Sequence[str], end: Deadline
) -> dict[str, Step]:
    """Compile the steps of variants while there is time. Failures are noted."""
    compile_by_name = compilers(setting)
    steps: dict[str, Step] = {}
    for name in VARIANTS:
        base = CAPTURED.get(name, name)
        if name not in names and name not in {CAPTURED.get(wanted) for wanted in names}:
            continue
        if end.is_over:
            break
        try:
            if name == PRODUCTS and isinstance(case, StartOfPrompt):
                step = case.products()
                _, record.first_call_s[name] = harness.timed(step)
            elif name == XLA and isinstance(case, StartOfPrompt | KeysAndValues):
                step, record.first_call_s[name] = harness.timed(case.xla)
            elif base not in steps and name in CAPTURED:
                record.notes[name] = f"{base} failed"
                continue
            elif name in CAPTURED:
                step, record.first_call_s[name] = harness.timed(
                    lambda base=base: captured(steps[base])
                )
            else:
                step = case.step(compile_by_name[name](case.model))
                _, record.first_call_s[name] = harness.timed(step)
            step()
            steps[name] = step
        except Exception as error:
            record.notes[name] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        if torch.cuda.is_available():
            torch.cuda.empty_cache()  # of what a first call needs
    return {name: step for name, step in steps.items() if name in names}


@dataclass(frozen=True)
class Replay:
    """A captured step. It keeps the step, whose tensors the graph reads at their addresses."""

    graph: Any
    step: Step
    results: Tensors

    def __call__(self) -> Tensors:
        self.graph.replay()
        return self.results


def captured(step: Step) -> Step:
    """Capture the step as one CUDA graph. Raises RuntimeError without a GPU."""
    if not torch.cuda.is_available():
        raise RuntimeError("CUDA graphs need a GPU")
    stream: Any = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = step()
    return Replay(graph, step, results)


def times(steps: Mapping[str, Step]) -> dict[str, float]:
    """Return median milliseconds, measured in turn; of slow steps the fastest of three."""
    slow = {name: harness.timed(step)[1] > SLOW_S for name, step in steps.items()}
    fast: dict[str, harness.Candidate] = {
        name: step.queued if isinstance(step, XlaStep) else step
        for name, step in steps.items()
        if not slow[name]
    }
    found = {name: timing.median for name, timing in harness.time_interleaved(fast).items()}
    for name, step in steps.items():
        if slow[name]:
            found[name] = 1000 * min(harness.timed(step)[1] for _ in range(3))
    return found


def energy(step: Step, milliseconds: float) -> float | None:
    """Return the joules of a call, by the counter of the GPU; None without `pynvml` or a GPU."""
    if not torch.cuda.is_available() or find_spec("pynvml") is None:
        return None
    nvml: Any = import_module("pynvml")
    nvml.nvmlInit()
    cuda: Any = torch.cuda  # its properties have no types
    uuid = cuda.get_device_properties(cuda.current_device()).uuid
    handle = nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
    count = max(1, round(1000 * ENERGY_S / milliseconds))
    harness.synchronize()
    before = nvml.nvmlDeviceGetTotalEnergyConsumption(handle)
    for _ in range(count):
        step()
    harness.synchronize()
    return (nvml.nvmlDeviceGetTotalEnergyConsumption(handle) - before) / 1000 / count


def compare(record: Record, case: Case, results: Mapping[str, Tensors]) -> None:
    """Add the errors; the model is left in float64."""
    try:
        with in_float64(case.model):
            exact = case.exact()
    except RuntimeError as error:
        record.notes["exact"] = str(error).splitlines()[0][:200]
        return
    for name, found in results.items():
        if found:
            record.errors[name] = max(relative_error(found[key], exact[key]) for key in exact)


def print_kernels(title: str, step: Step, count: int) -> None:
    """Print the kernels that take longest in a step, with their calls and shares."""
    profiler: Any = import_module("torch.profiler")
    with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as profile:
        step()
        harness.synchronize()
    found: list[Any] = [e for e in profile.key_averages() if e.self_device_time_total > 0]
    whole = sum(event.self_device_time_total for event in found)
    table = harness.table_of(
        f"{title}: {whole / 1000:.3f} ms of kernels", "kernel", "calls", "ms", "%"
    )
    for event in sorted(found, key=lambda e: -e.self_device_time_total)[:count]:
        us = event.self_device_time_total
        row = (event.key[:80], str(event.count), f"{us / 1000:.3f}", f"{100 * us / whole:.1f}")
        table.add_row(*row)
    Console(width=130).print(table)


def whole_work(case: Case, record: Record) -> float:
    """Return the work of the whole model over that of the measured layers, by parameter counts."""
    sizes = {name: p.numel() for name, p in case.model.named_parameters()}
    repeated = sum(n for name, n in sizes.items() if any(map(str.isdigit, name.split("."))))
    output = getattr(case.model, "lm_head", None)
    ends = 0 if output is None else output.weight.numel()
    return (repeated * record.all_layers / record.layers + ends) / (repeated + ends)


def share_of_peak(record: Record, name: str, device: Device | None) -> float | None:
    """Return the share of the peak rate of products or of memory; None for an unknown device."""
    if device is None:
        return None
    seconds = record.milliseconds[name] / 1000
    if record.bound == "flops":
        return record.work["flops"] / seconds / (1e12 * device.matrix_tflops)
    return record.work["bytes"] / seconds / (1e9 * device.memory_gb_per_s)


def gpu() -> Device | None:
    """Return the vendor's figures for the GPU."""
    if not torch.cuda.is_available():
        return None
    words = torch.cuda.get_device_name().lower().split()
    known = [word for word in words if word in DEVICES]
    return DEVICES.get(known[0] if known else architecture_name(torch.device("cuda")))


def print_records(records: Sequence[Record]) -> None:
    """Print one line for each variant of each row."""
    columns = ("row", "variant", "ms", "x eager", "all layers, ms", "% of peak", "mJ / token")
    table = harness.table_of("", *columns, "error", "first call, s", texts=2)
    device = gpu()
    for record in records:
        title = f"{record.row}, {record.layers} of {record.all_layers} layers"
        found = [name for name in VARIANTS if name in {**record.milliseconds, **record.notes}]
        for number, name in enumerate(found):
            is_timed = name in record.milliseconds
            cells = _cells(record, name, device) if is_timed else ["see below"]
            table.add_row("" if number else title, name, *cells)
        table.add_section()
    console = Console(width=150)
    console.print(table)
    for record in records:
        for name, note in record.notes.items():
            console.print(f"{record.row}, {name}: {note}", markup=False)


def _cells(record: Record, name: str, device: Device | None) -> list[str]:
    ms = record.milliseconds[name]
    share = share_of_peak(record, name, device)
    joules, error = record.millijoules.get(name), record.errors.get(name)
    tokens = record.work["tokens"]
    return [
        f"{ms:.3f}",
        f"{ms / record.milliseconds[EAGER]:.3f}" if EAGER in record.milliseconds else "",
        f"{ms * record.whole_work:.2f}",
        "" if share is None else f"{100 * share:.1f} {record.bound}",
        "" if joules is None else f"{joules / tokens:.3g}",
        "" if error is None else f"{error:.2e}",
        f"{record.first_call_s[name]:.1f}",
    ]


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = harness.make_parser(__doc__)
    names = ", ".join(row.name for row in ROWS)
    parser.add_argument("--rows", default="*", metavar="PATTERN,...", help=f"of {names}")
    parser.add_argument("--variants", default="all", help=f"of {', '.join(VARIANTS)}")
    parser.add_argument("--layers", type=int, help="of each model (default: see the row)")
    parser.add_argument("--tokens", type=int, help="of a prompt or a cache (default: see above)")
    parser.add_argument("--profile", type=int, default=0, help="so many kernels of each variant")
    parser.add_argument("--budget", type=float, default=240.0, help="seconds (default: 240)")
    parser.add_argument("--json", type=Path, default=Path("rows.json"))
    return harness.read_options(parser, arguments)


def read(path: Path, device: str | None = None) -> list[Record]:
    """Read the records of a file. Raises SystemExit if they are from another device."""
    if not path.exists():
        return []
    facts = json.loads(path.read_text())
    if device not in (None, facts["device"]):
        raise SystemExit(f"{path} has rows of {facts['device']}: choose another file with --json")
    return [Record(**data) for data in facts["rows"]]


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    if options.profile and options.device == "cpu":
        raise SystemExit("--profile needs a GPU")
    coda_ir.keep_scans()
    machine = harness.with_machine({"device": "cpu"} if options.device == "cpu" else {})
    records = read(options.json, machine["device"])
    end = Deadline(time.monotonic() + options.budget)
    patterns, names = options.rows.split(","), harness.chosen(options.variants, VARIANTS)
    for row in ROWS:
        if not any(fnmatchcase(row.name, pattern) for pattern in patterns):
            continue
        layers = options.layers or row.layers
        record = next((r for r in records if (r.row, r.layers) == (row.name, layers)), None)
        if record is None:
            record = Record(row.name, layers, row.all_layers, row.bound)
            records.append(record)
        is_prompt = row.tokens > 0 and row.bound == "flops"
        lacks = {PRODUCTS: not is_prompt, XLA: not row.is_in_jax}
        missing = record.missing([name for name in names if not lacks.get(name)])
        if missing and not end.is_over:
            setting = _setting(options, row, layers)
            measure(record, row, setting, missing, end, options.profile)
            facts = {**machine, "rows": [asdict(each) for each in records]}
            options.json.write_text(json.dumps(facts, indent=1) + "\n")
            harness.reset_compilers()
    print_records(records)


def _setting(options: argparse.Namespace, row: Row, layers: int) -> Setting:
    tokens = options.tokens or row.tokens
    dtype = torch.bfloat16 if options.device == "cuda" else torch.float32
    return Setting(options.device, dtype, layers, 1, tokens, small=options.device == "cpu")


if __name__ == "__main__":
    main()
