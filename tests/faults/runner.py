"""Checking a fault in a process of its own: what sees it, and how."""

import json
import multiprocessing
import os
import traceback
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path

from faults.fault import Corpus, Fault
from faults.registry import CHECKS

FIRST_CASES = Path(__file__).with_name("first_cases.json")

TIMEOUT_S = 120.0
"""The seconds that a case may run. One that does not end detects nothing: the harness may be what
waits."""

SERVER = multiprocessing.get_context("forkserver")
"""A child has everything imported already, and what it changes dies with it."""


@dataclass(frozen=True)
class Verdict:
    """The outcome of a fault."""

    fault: Fault
    seen_by: str | None
    """The case that failed; None for a survivor, and for a fault that cannot be planted."""
    reason: str = ""
    cases: int = 0

    @property
    def kind(self) -> str:
        """Return how it was seen; no check compares the text of a golden."""
        if "OutOfBoundsError" in self.reason or self.reason.startswith("StrayWriteError"):
            return "accesses outside of tensors"
        if self.reason.startswith(("AssertionError", "NotEquivalentError")):
            return "wrong numbers"
        return "errors of verification or of the run"


def check_first(fault: Fault) -> Verdict:
    """`check_fault` with only the case that saw `fault` in the last complete run."""
    name = first_cases().get(fault.name, "")
    if name not in CHECKS[fault.corpus]:
        return Verdict(fault, None, f"no program is known to see it: run `make faults` ({name=})")
    return check_fault(fault, [name])


def check_fault(fault: Fault, names: Sequence[str] | None = None) -> Verdict:
    """Plant `fault` in a new process and run cases there until one fails.

    Args:
        fault: What to plant.
        names: The cases of its corpus; left out, all of them, the likeliest first.
    """
    start_server()
    receiver, sender = SERVER.Pipe(duplex=False)
    chosen = _ordered(fault) if names is None else names
    process = SERVER.Process(target=_run, args=(fault, chosen, sender), daemon=True)
    process.start()
    sender.close()
    last, count = "", 0
    while receiver.poll(TIMEOUT_S):
        try:
            kind, name, reason = receiver.recv()
        except EOFError:
            process.join()
            return Verdict(fault, last, f"the process ended with {process.exitcode}", count)
        if kind == "start":
            last, count = name, count + 1
            continue
        process.join()
        return Verdict(fault, name or None, reason, count)
    process.kill()
    return Verdict(fault, None, f"{last or 'the process'} did not end in {TIMEOUT_S:g} s", count)


def start_server() -> None:
    """Start the process that faults are planted in copies of, unless it runs."""
    SERVER.set_forkserver_preload(["faults.server"])
    with _python_path(Path(__file__).parents[1]):
        forkserver.ensure_running()


@contextmanager
def _python_path(folder: Path) -> Generator[None]:
    """Processes that are started find modules in `folder` too."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), *([before] if before else [])])
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def doubted(verdict: Verdict) -> Verdict:
    """The verdict, unless the program that saw the fault fails without it too."""
    reason = None if verdict.seen_by is None else _failure(verdict.fault.corpus, verdict.seen_by)
    return verdict if reason is None else Verdict(verdict.fault, None, reason, verdict.cases)


@lru_cache
def _failure(corpus: Corpus, name: str) -> str | None:
    """Return what is wrong with a program without any fault."""
    try:
        CHECKS[corpus][name]()
    except Exception as error:
        return f"{name} fails without the fault: {type(error).__name__}: {error}"
    return None


def _run(fault: Fault, names: Sequence[str], sender: Connection) -> None:
    """In the child: tells what it begins, and how it ends."""
    try:
        fault.plant()
    except Exception:
        sender.send(("stale", "", traceback.format_exc()))
        return
    for name in names:
        sender.send(("start", name, ""))
        try:
            CHECKS[fault.corpus][name]()
        # The fault may break the product in any way, which is to see it.
        except Exception as error:
            sender.send(("seen", name, f"{type(error).__name__}: {error}".splitlines()[0]))
            return
    sender.send(("survived", "", ""))


def _ordered(fault: Fault) -> Sequence[str]:
    """All cases of its corpus, those first that are most likely to see the fault."""
    stem = fault.where.partition(":")[0].rpartition(".")[2]
    known = first_cases().get(fault.name)

    def rank(name: str) -> int:
        return 0 if name == known else 1 if name.startswith(stem) else 2

    return sorted(CHECKS[fault.corpus], key=rank)


@lru_cache
def first_cases() -> dict[str, str]:
    """Return the case that detected each fault in the last complete run."""
    return json.loads(FIRST_CASES.read_text()) if FIRST_CASES.exists() else {}


def remember(verdicts: Iterable[Verdict], faults: Iterable[Fault]) -> None:
    """Store which case saw which fault, and forget what is not one of `faults`."""
    seen = {verdict.fault.name: verdict.seen_by for verdict in verdicts if verdict.seen_by}
    known = first_cases() | seen
    kept = {fault.name: known[fault.name] for fault in faults if fault.name in known}
    FIRST_CASES.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
