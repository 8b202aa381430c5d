"""The backends: `reference` runs any level, `triton` emits a Python module of kernels, `graphviz`
draws pictures, `explorer` makes a page.
"""

from collections.abc import Callable

from xdsl.utils.target import Target


def get_all_targets() -> dict[str, Callable[[], type[Target]]]:
    """Map each target name to a function that imports the target when it is needed."""

    def get_triton() -> type[Target]:
        from coda_ir.backends.triton import TritonTarget

        return TritonTarget

    return {"triton": get_triton}
