"""A pattern in the PTX of kernels for Hopper that ptxas 12.8 compiles wrongly."""

import re
from collections import defaultdict


def ambiguous_places(ptx: str) -> dict[str, set[int]]:
    """The registers with a place in shared memory from which products of groups of warps read tiles
    with rows of different lengths, and the upper halves of their descriptors, which state these.

    ptxas 12.8 assembles such products wrongly; see NARROW in `delta_rule_kernel.py`.
    """
    halves = defaultdict[str, set[int]](set)
    for place, number in re.findall(r"(?:or\.b|add\.s)64\s+%rd\d+, (%rd\d+), (-?\d{10,});", ptx):
        halves[place].add(int(number) >> 32)
    return {place: found for place, found in halves.items() if len(found) > 1}
