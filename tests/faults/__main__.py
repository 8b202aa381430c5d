"""`python -m faults [NAME ...]`: plant every fault, or those whose name has a text, and print how
many were seen. What saw them is stored, to be tried first the next time.
"""

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from faults.runner import Verdict

WIDTH = 200

os.environ.setdefault("TRITON_INTERPRET", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
# What a faulty compiler makes must neither be found nor kept.
os.environ["CODA_CACHE_LIMIT"] = "0"


def main(names: list[str]) -> int:
    from faults.registry import FAULTS
    from faults.runner import check_fault, doubted, remember

    chosen = [fault for fault in FAULTS if not names or any(name in fault.name for name in names)]
    verdicts = [show(doubted(check_fault(fault))) for fault in chosen]
    remember(verdicts, FAULTS)
    killed = sum(verdict.seen_by is not None for verdict in verdicts)
    print(f"{killed} of {len(chosen)} faults seen: {killed / max(1, len(chosen)):.1%}")
    return 0 if killed == len(chosen) else 1


def show(verdict: "Verdict") -> "Verdict":
    """Print one line."""
    found = f"seen by {verdict.seen_by}: {verdict.reason}"
    text = found if verdict.seen_by else f"SURVIVES {verdict.reason}"
    print(f"{verdict.fault.name}: {text}"[:WIDTH], flush=True)
    return verdict


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
