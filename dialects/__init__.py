"""The IR definitions: block level (`coda`), GEMM level (`gemm`), calls of PyTorch (`torch`).

Dialects know nothing of passes, frontends or backends.
"""

from collections.abc import Callable

from xdsl.ir import Dialect


def get_all_dialects() -> dict[str, Callable[[], Dialect]]:
    """Map each dialect name to a function that imports the dialect when it is needed."""

    def get_coda() -> Dialect:
        from coda_ir.dialects.coda import Coda

        return Coda

    def get_gemm() -> Dialect:
        from coda_ir.dialects.gemm import Gemm

        return Gemm

    def get_torch() -> Dialect:
        from coda_ir.dialects.torch import Torch

        return Torch

    return {"coda": get_coda, "gemm": get_gemm, "torch": get_torch}
