"""The shared text of the kernels in a module: imports, constants and device functions."""

import re
from collections.abc import Iterable, Sequence

from coda_ir.backends.triton.definitions import render, used_by, with_uses
from coda_ir.backends.triton.kernel import EmittedKernel
from coda_ir.backends.triton.prelude import device_definitions
from coda_ir.backends.triton.warp_specialized.gluon import gluon_definitions

HELPERS = {"triton": device_definitions, "gluon": gluon_definitions}
"""The device functions that kernels of a language may call."""


def import_lines(kernels: Iterable[EmittedKernel]) -> list[str]:
    """Return the import statements of kernels, then the constants that need them."""
    imports = sorted({line for kernel in kernels for line in kernel.imports})
    constants = sorted({line for kernel in kernels for line in kernel.constants})
    return [*imports, *(["", *constants] if constants else [])]


def length_with_helpers(kernel: EmittedKernel) -> int:
    """Return the length of a kernel and its helpers, an estimate of its time of compilation."""
    helpers = HELPERS[kernel.language]()
    called = helpers.keys() & re.findall(r"\w+", kernel.source)
    return len(kernel.source) + sum(len(each.source) for each in with_uses(helpers, called))


def device_functions(kernels: Sequence[EmittedKernel]) -> list[str]:
    """Return the helpers of kernels and their dependences, once for each language, in order."""
    sections: list[str] = []
    for language, helpers in HELPERS.items():
        sources = [kernel.source for kernel in kernels if kernel.language == language]
        sections.append(render(used_by("\n".join(sources), helpers())).rstrip())
    return [section for section in sections if section]
