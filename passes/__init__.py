"""The passes, one per file: convert_a_to_b.py is the pass convert-a-to-b, ConvertAToBPass."""

from collections.abc import Callable

from xdsl.passes import ModulePass


def get_all_passes() -> dict[str, Callable[[], type[ModulePass]]]:
    """Map each pass name to a function that imports the pass when it is needed."""
    return {}
