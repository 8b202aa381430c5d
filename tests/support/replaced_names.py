"""Names in other packages that tests replace."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from operator import attrgetter


def are_present(names: Mapping[str, Sequence[str]]) -> bool:
    """Return whether there are modules of these names, each with these attributes."""
    try:
        for module, attributes in names.items():
            attrgetter(*attributes)(import_module(module))
    except (ImportError, AttributeError):
        return False
    return True
