"""Patterns in the PTX of kernels for Hopper that ptxas 12.8 compiles wrongly."""

import re
from collections import defaultdict


def ambiguous_places(ptx: str) -> dict[str, set[str]]:
    """The registers with a place in shared memory from which products of groups of warps read tiles
    in a way that ptxas 12.8 assembles wrongly, and the numbers added for these tiles' descriptors.

    Either the upper halves of descriptors differ: they state the lengths of the tiles' rows (see
    NARROW in `delta_rule_kernel.py`). Or a descriptor is computed twice, by branches of which none
    is always executed (see `_shared_products` of warp-specialized kernels).
    """
    sums = defaultdict[str, list[str]](list)
    for place, number in re.findall(r"(?:or\.b|add\.s)64\s+%rd\d+, (%rd\d+), (-?\d{10,});", ptx):
        sums[place].append(number)
    return {place: set(found) for place, found in sums.items() if _is_ambiguous(found)}


def _is_ambiguous(numbers: list[str]) -> bool:
    halves = {int(number) >> 32 for number in numbers}
    return len(halves) > 1 or len(set(numbers)) < len(numbers)
