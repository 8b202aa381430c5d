"""The shared text of the kernels in a module: imports, constants and device functions."""

import re
from collections.abc import Iterable, Sequence

from coda_ir.backends.triton.definitions import with_uses
from coda_ir.backends.triton.kernel import EmittedKernel
from coda_ir.backends.triton.prelude import device_definitions, render_prelude
from coda_ir.backends.triton.warp_specialized.gluon import gluon_definitions, render_gluon_prelude


def import_lines(kernels: Iterable[EmittedKernel]) -> list[str]:
    """Return the import statements of kernels, then the constants that need them."""
    imports = sorted({line for kernel in kernels for line in kernel.imports})
    constants = sorted({line for kernel in kernels for line in kernel.constants})
    return [*imports, *(["", *constants] if constants else [])]


def length_with_helpers(kernel: EmittedKernel) -> int:
    """Return the length of a kernel and of the helpers that it calls, as an estimate of how long
    Triton compiles it.
    """
    helpers = device_definitions() if kernel.language == "triton" else gluon_definitions()
    called = helpers.keys() & re.findall(r"\w+", kernel.source)
    return len(kernel.source) + sum(len(each.source) for each in with_uses(helpers, called))


def device_functions(kernels: Sequence[EmittedKernel]) -> list[str]:
    """Return the helpers that kernels call, once in each of their languages."""
    triton, gluon = (
        "\n".join(kernel.source for kernel in kernels if kernel.language == language)
        for language in ("triton", "gluon")
    )
    sections = (render_prelude(triton), render_gluon_prelude(gluon))
    return [section.rstrip() for section in sections if section]
