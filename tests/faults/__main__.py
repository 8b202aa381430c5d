"""Plant every fault, or those whose name has a text, and print how many are seen, and how.

The command stores what sees each fault, and tries that first the next time.
"""

import argparse
import ast
import os
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from difflib import ndiff
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from faults.runner import Verdict

WIDTH = 200

os.environ.setdefault("TRITON_INTERPRET", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
# What a faulty compiler makes must neither be found nor kept.
os.environ["CODA_CACHE_LIMIT"] = "0"


def main(names: list[str], jobs: int) -> int:
    from faults.registry import FAULTS
    from faults.runner import check_fault, doubted, remember

    chosen = [fault for fault in FAULTS if not names or any(name in fault.name for name in names)]
    with ThreadPoolExecutor(jobs) as pool:
        # Programs without faults run in this thread: Triton's interpreter knows one at a time.
        verdicts = [show(doubted(verdict)) for verdict in pool.map(check_fault, chosen)]
    remember(verdicts, FAULTS)
    killed = [verdict for verdict in verdicts if verdict.seen_by is not None]
    print(f"{len(killed)} of {len(chosen)} faults seen: {len(killed) / max(1, len(chosen)):.1%}")
    for kind, count in Counter(verdict.kind for verdict in killed).most_common():
        print(f"  by {kind}: {count}")
    return 0 if len(killed) == len(chosen) else 1


def list_mutations(where: str) -> None:
    """Print the mutations of a function: what `Nth` takes, and the lines that change."""
    from faults.fault import Place
    from faults.mutations import mutants

    tree = Place.at(where).tree()
    before, counts = ast.unparse(tree).splitlines(), Counter[tuple[str, str]]()
    for kind, label, changed in mutants(tree):
        after = ast.unparse(ast.fix_missing_locations(changed)).splitlines()
        print(f'Nth("{kind}", "{label}", {counts[kind, label]})')
        print(*(f"    {line}" for line in ndiff(before, after) if line[0] in "+-"), sep="\n")
        counts[kind, label] += 1


def show(verdict: "Verdict") -> "Verdict":
    """Print one line."""
    found = f"seen by {verdict.seen_by}: {verdict.reason}"
    text = found if verdict.seen_by else f"SURVIVES {verdict.reason}"
    print(f"{verdict.fault.name}: {text}"[:WIDTH], flush=True)
    return verdict


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m faults", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a part of the names of faults")
    parser.add_argument("--jobs", type=int, default=1, help="faults at a time (1)")
    parser.add_argument("--list", metavar="MODULE:FUNCTION", help="print a function's mutations")
    given = parser.parse_args()
    if given.list:
        list_mutations(given.list)
        sys.exit()
    sys.exit(main(given.names, given.jobs))
