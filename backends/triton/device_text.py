"""The shared text of the kernels in a module: imports, constants and device functions."""

from collections.abc import Iterable, Sequence

from coda_ir.backends.triton.kernel import EmittedKernel
from coda_ir.backends.triton.prelude import render_prelude
from coda_ir.backends.triton.warp_specialized.gluon import render_gluon_prelude


def import_lines(kernels: Iterable[EmittedKernel]) -> list[str]:
    """Return the import statements of kernels, then the constants that need them."""
    imports = sorted({line for kernel in kernels for line in kernel.imports})
    constants = sorted({line for kernel in kernels for line in kernel.constants})
    return [*imports, *(["", *constants] if constants else [])]


def device_functions(kernels: Sequence[EmittedKernel]) -> list[str]:
    """Return the helpers that kernels call, once in each of their languages."""
    triton, gluon = (
        "\n".join(kernel.source for kernel in kernels if kernel.language == language)
        for language in ("triton", "gluon")
    )
    sections = (render_prelude(triton), render_gluon_prelude(gluon))
    return [section.rstrip() for section in sections if section]
