"""`python -m fuzz`: every target in turn, for so many seconds in all.

Prints executions, coverage and findings. Crashers go to `build/fuzz/findings`, what libFuzzer
keeps to `build/fuzz/corpus`, and one line about each run to `build/fuzz/log.jsonl`.
"""

import argparse
import json
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fuzz.seeds import ROOT, seeds

BUILD = ROOT / "build" / "fuzz"
TARGETS = ("coda", "mlir", "pipeline", "expectations")
LARGEST = 20_000
MEGABYTES = 2_500


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code is 1 where something was found."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=600, help="time for all targets together")
    parser.add_argument("--target", action="append", choices=TARGETS, help="may be repeated")
    parser.add_argument("--seed", type=int, default=0, help="0: another one each time")
    options = parser.parse_args(arguments)
    targets = options.target or TARGETS
    runs = [run(target, options.seconds // len(targets), options.seed) for target in targets]
    return int(any(entry["findings"] for entry in runs))


def run(target: str, seconds: int, seed: int) -> dict[str, Any]:
    """Fuzz one target; what goes into the log."""
    corpus, findings = BUILD / "corpus" / target, BUILD / "findings"
    write_seeds(target, BUILD / "seeds" / target)
    corpus.mkdir(parents=True, exist_ok=True)
    findings.mkdir(parents=True, exist_ok=True)
    known = set(findings.glob("*"))
    command = [
        *(sys.executable, "-m", "fuzz.engine", target, str(findings)),
        *(str(corpus), str(BUILD / "seeds" / target)),
        *(f"-seed={seed}", f"-max_len={LARGEST}"),
        *(
            f"-rss_limit_mb={MEGABYTES}",
            "-timeout=120",
            "-report_slow_units=1000",
            "-print_final_stats=1",
            "-verbosity=1",
        ),
        f"-artifact_prefix={findings}/{target}-killed-",
    ]
    start = time.monotonic()
    executions = coverage = features = 0
    while (left := start + seconds - time.monotonic()) > 1 or not executions:
        # A process ends early where libFuzzer kills it: then another goes on.
        output = one_process([*command, f"-max_total_time={max(1, round(left))}"], target)
        executions += last_number(r"number_of_executed_units: (\d+)|^#(\d+)\s", output)
        coverage = max(coverage, last_number(r"cov: (\d+)", output))
        features = max(features, last_number(r"ft: (\d+)", output))
        if not executions:
            raise SystemExit(f"{target}: {output[-2000:]}")
    entry = {
        "target": target,
        "executions": executions,
        "seconds": round(time.monotonic() - start),
        "coverage": coverage,
        "features": features,
        "findings": sorted(path.name for path in set(findings.glob("*")) - known),
    }
    with (BUILD / "log.jsonl").open("a", encoding="utf-8") as log:
        log.write(json.dumps(entry) + "\n")
    print(json.dumps(entry), flush=True)
    return entry


def one_process(command: Sequence[str], target: str) -> str:
    """Return what a process writes, which is kept in a file too."""
    with (BUILD / f"{target}.log").open("w+", encoding="utf-8", errors="replace") as log:
        subprocess.run(command, stderr=log, stdout=log, check=False)
        log.seek(0)
        return log.read()


def write_seeds(target: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for index, text in enumerate(seeds(target)):
        (folder / f"{index:04}").write_text(text, encoding="utf-8", newline="")


def last_number(pattern: str, output: str) -> int:
    """The last number that `pattern` finds; 0 where there is none."""
    found = list(re.finditer(pattern, output, re.MULTILINE))
    return int(found[-1][found[-1].lastindex or 0]) if found else 0


if __name__ == "__main__":
    sys.exit(main())
