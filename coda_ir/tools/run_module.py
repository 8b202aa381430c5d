"""Execution of a module for `coda-opt --run`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from xdsl.dialects.builtin import ModuleOp

from coda_ir.calls.arguments import Signature, TensorSpec, format_dims, short_name
from coda_ir.devices import require_triton_for, resolve_device
from coda_ir.diagnostics import ArgumentError, FileError
from coda_ir.equivalence.rounding import Rounding, describe_excess
from coda_ir.float64 import comparable, relative_error
from coda_ir.functions import find_entry
from coda_ir.random_inputs import random_inputs
from coda_ir.signatures import signature_of
from coda_ir.tensor_files import check_suffix, read_tensors, write_tensors

SHOWN_ELEMENTS = 4

OTHER_SEED = 7919
"""The distance of the seed of other data, from which the bound of errors is taken."""


SHOWN_NAMES = 8
"""Names of tensors in a message."""


@dataclass(frozen=True)
class RunOptions:
    """The function to execute, its backend, and its inputs."""

    target: Literal["reference", "triton"]
    entry: str | None
    sizes: Mapping[str, int]
    seed: int
    inputs: str | None
    device: str
    save_outputs: str | None = None

    @staticmethod
    def from_args(args: argparse.Namespace) -> RunOptions:
        return RunOptions(
            target=args.run_target or "reference",
            entry=args.entry,
            sizes=dict(args.dim),
            seed=args.seed or 0,
            inputs=args.inputs,
            device=args.device or "cpu",
            save_outputs=args.save_outputs,
        )


@dataclass(frozen=True)
class Outcome:
    """The outcome of an execution."""

    text: str
    """A line for each result."""
    overflows: Sequence[str] = ()
    """Faults of results whose types do not hold the values on the way."""
    defects: Sequence[str] = ()
    """Faults of results for another reason: the backend is wrong."""


def run_module(module: ModuleOp, options: RunOptions) -> Outcome:
    """Execute one function, and compare its results with float64.

    A line of the text has the type of a result, the Frobenius norm, the first elements, and the
    largest difference from float64 over the largest value. Where nothing is wrong, the results are
    also written to the file `save_outputs`.
    """
    if options.save_outputs is not None:
        check_suffix(Path(options.save_outputs))
    func = find_entry(module, options.entry)
    signature, device = signature_of(func), resolve_device(options.device)
    if options.inputs is None:
        named = random_inputs(func, options.sizes, seed=options.seed, device=device)
        tensors, _ = signature.check(signature.collect((), named), device)
    else:
        tensors = load_inputs(Path(options.inputs), signature, device, options.sizes)
    # The emitted module may write to what its caller donates.
    rounding = Rounding(func, [tensor.cpu().clone() for tensor in tensors])
    results: Sequence[torch.Tensor] = rounding.stated
    if options.target == "triton":
        results = [r.cpu() for r in run_triton(module, signature.name, tensors, device)]
    if options.inputs is None:
        other = random_inputs(func, options.sizes, seed=options.seed + OTHER_SEED)
        rounding.others = [list(other.values())]
    outcome = compare_results(signature, results, rounding)
    if options.save_outputs is not None and not (outcome.overflows or outcome.defects):
        write_tensors(Path(options.save_outputs), name_results(signature, results))
    return outcome


def compare_results(
    signature: Signature, results: Sequence[torch.Tensor], rounding: Rounding
) -> Outcome:
    """Return the results as text, and the problems found."""
    lines: list[str] = []
    overflows: list[str] = []
    defects: list[str] = []
    for index, (spec, result) in enumerate(zip(signature.results, results, strict=True)):
        what, exact = f"{spec.name} of {signature.name}", rounding.exact[index]
        lines.append(describe_result(spec, result, exact) + "\n")
        excess, lost = rounding.excess(index, result), lost_elements(result, exact)
        if excess is not None:
            defects.append(f"{what} {describe_excess(excess)}")
        elif lost:
            overflows.append(f"{what} is {lost} where float64 has a number")
    return Outcome("".join(lines), overflows, defects)


def lost_elements(result: torch.Tensor, exact: torch.Tensor) -> str | None:
    """Describe the first element that is NaN or infinite where `exact` is in the type's range."""
    if not result.is_floating_point():
        return None
    in_range = exact.abs() <= torch.finfo(result.dtype).max
    result = comparable(result)
    lost = (result.isnan() & ~exact.isnan()) | (result.isinf() & in_range)
    if not lost.any():
        return None
    index = [int(i) for i in lost.nonzero()[0]]
    return f"{result[tuple(index)].item()} at {index}"


def name_results(signature: Signature, results: Sequence[torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the results by name; of several with one name, all but the first get a number."""
    named: dict[str, torch.Tensor] = {}
    for index, (spec, result) in enumerate(zip(signature.results, results, strict=True)):
        named[f"{spec.name}_{index}" if spec.name in named else spec.name] = result
    return named


def run_triton(
    module: ModuleOp, entry: str, tensors: list[torch.Tensor], device: torch.device
) -> tuple[torch.Tensor, ...]:
    """Return the results of the Triton code of a function."""
    from coda_ir.backends.triton import emit_module
    from coda_ir.cache import load_source

    require_triton_for(device)
    generated = load_source(emit_module(module, entry), entry)
    results: torch.Tensor | tuple[torch.Tensor, ...] = generated.run(*tensors)
    return results if isinstance(results, tuple) else (results,)


def _few(names: Sequence[str]) -> str:
    """Return the first of many names, and the number of others."""
    more = len(names) - SHOWN_NAMES
    return ", ".join(names[:SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "")


def load_inputs(
    path: Path, signature: Signature, device: torch.device, sizes: Mapping[str, int]
) -> list[torch.Tensor]:
    """Read the arguments in a `.safetensors` file; other tensors in it are ignored.

    Floats are rounded to the element type of the argument, since NumPy has no bfloat16. Raises
    CodaError for a file of another kind, with damaged content, or without a tensor that fits an
    argument, and for sizes of symbols that the tensors do not have.
    """
    stored = read_tensors(path)
    missing = [spec for spec in signature.arguments if spec.name not in stored]
    if missing:
        raise FileError(
            f"{path}: lacks {', '.join(map(str, missing))}",
            f"the file has {_few(list(stored)) or 'no tensors'}; {signature.name} takes "
            + _few([spec.name for spec in signature.arguments]),
        )
    values = [_as_argument(stored[s.name], s).to(device) for s in signature.arguments]
    try:
        tensors, bindings = signature.check(values, device)
    except ArgumentError as error:
        raise FileError(
            f"{path}: {error.message}", "store a tensor of the expected shape and element type"
        ) from error
    for symbol, size in sizes.items():
        if bindings.get(symbol) != size:
            found = bindings.get(symbol, "unknown")
            raise FileError(f"{path}: {symbol} is {found}, not {size}", "leave out --dim")
    return tensors


def _as_argument(tensor: torch.Tensor, spec: TensorSpec) -> torch.Tensor:
    both_float = tensor.is_floating_point() and spec.dtype.is_floating_point
    return tensor.to(spec.dtype) if both_float else tensor


def describe_result(spec: TensorSpec, result: torch.Tensor, exact: torch.Tensor) -> str:
    """Describe a result in one line, beside the float64 result."""
    values = result.detach().to("cpu", torch.float64)
    shown = values.flatten()[:SHOWN_ELEMENTS]
    first = ", ".join(f"{value.item():.6g}" for value in shown)
    norm = values.square().sum().sqrt().item()
    more = ", ..." if values.numel() > SHOWN_ELEMENTS else ""
    return (
        f"{spec.name}: {short_name(result.dtype)}{format_dims(tuple(result.shape))} "
        f"norm {norm:.6g} first [{first}{more}] "
        f"error {relative_error(values, exact.cpu()):.2g}"
    )
