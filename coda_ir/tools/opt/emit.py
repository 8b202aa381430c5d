"""`--emit`: the program at a level, from the block level to machine code, or a picture of it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp

from coda_ir.diagnostics import CodaError, OptionError, closest
from coda_ir.functions import find_entry
from coda_ir.pipeline import Pipeline
from coda_ir.tools.opt.arguments import ARCH, one_of
from coda_ir.tools.opt.errors import UsageError, error_diagnostics
from coda_ir.tools.opt.feature import Session
from coda_ir.tools.opt.source import syntax_of

if TYPE_CHECKING:
    from coda_ir.backends.triton.aot import CompiledKernel, MachineLevel
    from coda_ir.backends.triton.kernel import EmittedKernel
    from coda_ir.passes.pipelines.lower_to import LowerToPass

# The names are written out here, since every start of the tool reads them; a test compares them.
IR = ("block", "gemm", "scheduled")
MACHINE = ("ttir", "ttgir", "llvm", "ptx", "sass", "amdgcn")
RESOURCES = ("resources", "resources-json")
DRAWINGS = ("dot", "svg")
PICTURES = (*DRAWINGS, "html")
LEVELS = (*IR, "triton", *MACHINE, *RESOURCES, *PICTURES)

COMMENTS = {"llvm": ";", "amdgcn": ";"}
"""The beginning of a comment, where that is not `//`."""


def register_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "emission", "After the passes of -p, --emit runs those that lead to its level."
    )
    group.add_argument(
        "--emit",
        type=one_of("level", LEVELS),
        choices=LEVELS,
        metavar="LEVEL",
        help="print the program as IR (block, gemm, scheduled), as a Triton module (triton), or "
        "compiled for --arch (ttir, ttgir, llvm, ptx, sass, amdgcn); or print the resources of "
        "its kernels on a GPU (resources, resources-json), a picture of the kernels (dot, svg), "
        "or an interactive page (html)",
    )
    group.add_argument(
        "--arch",
        **ARCH,
        help="architecture to schedule and compile for, such as sm_80, sm_90, sm_100, gfx942 or "
        "gfx950; no GPU is needed; with html, the page shows machine code",
    )
    group.add_argument("--kernel", metavar="NAME", help="emit only this kernel")


def prepare(session: Session) -> None:
    """Check the options and add the passes that lead to the level. Raises UsageError."""
    options = session.options
    if options.emit is None:
        return
    if options.target is not None or options.run:
        other = "--run" if options.run else "-t/--target"
        raise UsageError(f"argument --emit: not allowed with {other}", "choose one of them")
    _check_applies(options)
    if options.emit not in PICTURES:
        is_source = not options.passes and syntax_of(options) == "coda"
        step = replace(_lowering(options), first="block" if is_source else None)
        session.pipeline = Pipeline((*session.pipeline.steps, step), session.pipeline.anchor)


def _check_applies(options: argparse.Namespace) -> None:
    """Raise UsageError for an option that the level requires, or does not use."""
    level: str = options.emit
    arch: str | None = options.arch
    compiled = level in (*MACHINE, *RESOURCES)
    if compiled and arch is None:
        raise UsageError(f"argument --emit: {level} needs an architecture", "add --arch sm_90")
    if options.kernel is not None and not compiled:
        raise UsageError(
            f"argument --kernel: {level} contains the whole program",
            f"use it with one of {', '.join((*MACHINE, *RESOURCES))}",
        )
    if options.dim and level != "html" and not options.check_equivalence:
        raise UsageError(f"argument --dim: {level} is the same for every size", "use it with html")
    if arch is not None and level in (*DRAWINGS, "block", "gemm"):
        raise UsageError(f"argument --arch: {level} is the same for every architecture")
    if compiled and arch is not None:
        from coda_ir.backends.triton.aot import check_level, find_architecture

        try:
            check_level(find_architecture(arch), _machine_level(level))
        except CodaError as error:
            raise UsageError(f"argument --emit: {error.message}", error.remedy) from error


def _machine_level(level: str) -> MachineLevel | None:
    return level if level in MACHINE else None


def _lowering(options: argparse.Namespace) -> LowerToPass:
    from coda_ir.backends.triton.aot import find_architecture
    from coda_ir.passes.pipelines.lower_to import LowerToPass

    level = options.emit if options.emit in IR else "scheduled"
    if options.arch is None:
        return LowerToPass(level)
    return LowerToPass(level, **find_architecture(options.arch).schedule_options)


def write(session: Session, module: ModuleOp) -> str | None:
    """Return the program at the requested level."""
    options = session.options
    match options.emit:
        case None:
            return None
        case "block" | "gemm" | "scheduled":
            if options.entry is not None:
                find_entry(module, options.entry)
            return session.print_module(module)
        case "triton":
            from coda_ir.backends.triton import emit_module

            return emit_module(module, options.entry)
        case "dot" | "svg":
            return _picture(options, module)
        case "html":
            return _page(session, module)
        case _:
            return _compiled(session, module)


def _page(session: Session, module: ModuleOp) -> str:
    from coda_ir.backends.explorer import explore_module
    from coda_ir.pages import check_sizes, page_options

    options = session.options
    check_sizes(module, dict(options.dim))
    chosen = page_options(options.arch, dict(options.dim))
    return explore_module(module, options.entry, session.sources, chosen)


def _picture(options: argparse.Namespace, module: ModuleOp) -> str:
    from coda_ir.backends.graphviz import draw_module, render_svg

    text = draw_module(module, options.entry)
    return render_svg(text) if options.emit == "svg" else text


def _compiled(session: Session, module: ModuleOp) -> str:
    """Return the kernels in machine code, or their resources; fail if one exceeds the GPU's."""
    from coda_ir.backends.triton import emit_program
    from coda_ir.backends.triton.aot import (
        check_fits,
        compile_kernels,
        find_architecture,
        resources_table,
    )

    options = session.options
    kernels = _selected(emit_program(module, options.entry).kernels, options.kernel)
    compiled = compile_kernels(kernels, options.arch, _machine_level(options.emit))
    resources = [kernel.resources for kernel in compiled]
    try:
        check_fits(resources)
    except CodaError as error:
        session.fail(*error_diagnostics(error))
    if options.emit == "resources":
        return resources_table(find_architecture(options.arch), resources)
    if options.emit == "resources-json":
        return json.dumps([kernel.to_dict() for kernel in resources], indent=2) + "\n"
    return "\n".join(_section(kernel, options.emit) for kernel in compiled)


def _selected(kernels: Sequence[EmittedKernel], name: str | None) -> Sequence[EmittedKernel]:
    """Return the kernel of that name, or all of them. Raises CodaError for an unknown one."""
    if name is None:
        return kernels
    found = [kernel for kernel in kernels if kernel.name == name]
    if not found:
        names = [kernel.name for kernel in kernels]
        every = f"the kernels are {', '.join(names)}" if names else "the program has no kernels"
        raise OptionError(f"unknown kernel '{name}'", closest(name, names, every))
    return found


def _section(kernel: CompiledKernel, level: str) -> str:
    used = kernel.resources
    facts = (
        f"{used.arch}: {used.registers} registers, {used.spills} bytes spilled, "
        f"{used.shared_memory} bytes of shared memory, {used.warps} warps, {used.stages} stages"
    )
    mark = COMMENTS.get(level, "//")
    return f"{mark} kernel: {kernel.name}\n{mark} {facts}\n{kernel.text.rstrip()}\n"
