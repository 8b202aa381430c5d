"""The IR definitions: the block level (`coda`) and the GEMM level (`gemm`).

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

    return {"coda": get_coda, "gemm": get_gemm}
