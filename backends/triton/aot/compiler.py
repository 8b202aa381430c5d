"""Ahead-of-time compilation of emitted kernels for a named architecture: no GPU is needed."""

import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from coda_ir.backends.triton.aot.resources import KernelResources
from coda_ir.backends.triton.architectures import Architecture, find_architecture
from coda_ir.backends.triton.device_text import device_functions, import_lines
from coda_ir.backends.triton.kernel import EmittedKernel
from coda_ir.backends.triton.prelude import MODULE_HEADER
from coda_ir.diagnostics import LoweringError, OptionError
from coda_ir.launching.compile_jobs import compile_jobs
from coda_ir.launching.forked import Answer, Request, run_forked

MachineLevel: TypeAlias = Literal["ttir", "ttgir", "llvm", "ptx", "sass", "amdgcn"]
MACHINE_LEVELS: tuple[MachineLevel, ...] = get_args(MachineLevel)
"""From Triton's IR to assembly."""

ONLY_NVIDIA = ("ptx", "sass")
ONLY_AMD = ("amdgcn",)

WORKER = Path(__file__).with_name("worker.py")


class KernelCompilationError(LoweringError):
    """An error of Triton while it compiles a kernel."""


@dataclass(frozen=True)
class CompiledKernel:
    """A kernel, compiled for an architecture."""

    name: str
    resources: KernelResources
    text: str
    """The kernel at the level that was asked for; empty where none was."""


def compile_kernels(
    kernels: Sequence[EmittedKernel],
    arch: str,
    level: MachineLevel | None = None,
    *,
    jobs: int | None = None,
) -> list[CompiledKernel]:
    """Compile each kernel for `arch` (such as `sm_90` or `gfx942`), at most `jobs` at a time.

    Pointers are taken for multiples of 16 bytes, as PyTorch allocates. For `jobs` see
    `compile_jobs`. Raises CodaError for an unknown architecture and for a level that it or a
    kernel does not have, and KernelCompilationError where Triton fails.
    """
    architecture = find_architecture(arch)
    check_level(architecture, level)
    _check_kernels(kernels, level)
    if not kernels:
        return []
    with tempfile.TemporaryDirectory(prefix="coda_aot_") as name:
        path = Path(name) / f"{kernels[0].name}.py"
        path.write_text(device_source(kernels), encoding="utf-8")
        # -P keeps the worker's folder off the module path.
        command = [sys.executable, "-P", str(WORKER)]
        requests = [_request(kernel, path, architecture, level) for kernel in kernels]
        answers = list(run_forked(command, requests, compile_jobs(jobs)))
    answers.sort(key=lambda answer: answer.index)
    return [
        _compiled(kernel.name, answer, architecture)
        for kernel, answer in zip(kernels, answers, strict=True)
    ]


def check_level(arch: Architecture, level: MachineLevel | None) -> None:
    """Raise CodaError for the assembly of the other vendor."""
    if arch.is_amd and level in ONLY_NVIDIA:
        raise OptionError(f"{arch.name} has no {level}", "use amdgcn, or an NVIDIA architecture")
    if not arch.is_amd and level in ONLY_AMD:
        raise OptionError(f"{arch.name} has no {level}", "use ptx or sass, or an AMD architecture")


def _check_kernels(kernels: Sequence[EmittedKernel], level: MachineLevel | None) -> None:
    """Raise CodaError for a level above that of a kernel's text."""
    in_gluon = [kernel.name for kernel in kernels if kernel.language == "gluon"]
    if level != "ttir" or not in_gluon:
        return
    others = [kernel.name for kernel in kernels if kernel.name not in in_gluon]
    raise OptionError(
        f"kernel {in_gluon[0]} has no ttir: it is warp-specialized, in Gluon, which begins with "
        "ttgir",
        "use ttgir, or schedule with mainloop=tma or mainloop=pointer"
        + (f"; --kernel {others[0]} has ttir" if others else ""),
    )


def device_source(kernels: Sequence[EmittedKernel]) -> str:
    """Return a module of the kernels and their helpers, without the host program."""
    imports, sources = "\n".join(import_lines(kernels)), [kernel.source for kernel in kernels]
    sections = (MODULE_HEADER, imports, *device_functions(kernels), *sources)
    return "\n\n".join(section for section in sections if section)


def _request(
    kernel: EmittedKernel, module: Path, arch: Architecture, level: MachineLevel | None
) -> Request:
    """Return a request to the worker."""
    return {
        "module": str(module),
        "name": kernel.name,
        "target": arch.triton_target,
        "arguments": [(argument.name, argument.type) for argument in kernel.arguments],
        "options": {
            "num_warps": kernel.num_warps,
            "num_stages": kernel.num_stages,
            "maxnreg": kernel.registers,
            **({"debug": True, "sanitize_overflow": False} if kernel.asserts else {}),
        },
        "level": level,
    }


def _compiled(name: str, answer: Answer, arch: Architecture) -> CompiledKernel:
    if answer.code:
        reason = "\n".join(_last_lines(answer.errors)) or f"the process ended with {answer.code}"
        raise KernelCompilationError(
            f"kernel {name} does not compile for {arch.name}:\n{reason}",
            "another schedule may compile, such as smaller tiles or the pointer main loop",
        )
    found: dict[str, Any] = dict(answer.value)
    text = found.pop("text")
    return CompiledKernel(name, KernelResources(name, arch.name, **found), text)


def _last_lines(text: str) -> Iterator[str]:
    """Yield the last lines of a long report, which contain the error itself."""
    yield from text.rstrip().splitlines()[-12:]
