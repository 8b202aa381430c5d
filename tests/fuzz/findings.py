"""Crashers: one file per kind of failure, made as small as it gets."""

import hashlib
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from fuzz.mutator import tokenize
from fuzz.oracle import Finding, TooMuch, bounded
from fuzz.targets import Target

MAX_SECONDS = 40


class Findings:
    """The failures of a run in a folder, each signature once."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    @staticmethod
    def signature(error: BaseException) -> str:
        """Return what two failures with the same reason have in common."""
        if isinstance(error, TooMuch):
            return str(error).rpartition(" ")[2]
        if isinstance(error, Finding):
            cause = error.__cause__
            inner = "" if cause is None else _frames(cause)
            return f"{str(error).split(':')[0]} {inner}"
        return f"{type(error).__name__} {_frames(error)}"

    def record(self, target: Target, text: str, error: BaseException) -> bool:
        """Keep a text that fails, minimized. False for a failure that is known."""
        signature = self.signature(error)
        name = f"{target.name}-{hashlib.sha256(signature.encode()).hexdigest()[:12]}"
        path = self.folder / f"{name}.{target.language}"
        if path.exists():
            return False
        path.write_text(text, encoding="utf-8", newline="")
        small = minimized(target, text, signature)
        path.write_text(small, encoding="utf-8", newline="")
        report = "".join(traceback.format_exception(error))
        path.with_suffix(".txt").write_text(f"{signature}\n{report}", encoding="utf-8")
        return True


def _frames(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    return " ".join(f"{Path(frame.filename).name}:{frame.name}" for frame in frames)


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def minimized(target: Target, text: str, signature: str) -> str:
    """A small text that fails for the same reason: parts are left out, halves first."""
    deadline = time.monotonic() + MAX_SECONDS

    def fails(candidate: str) -> bool:
        try:
            bounded(target.check, candidate)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return Findings.signature(error) == signature
        return False

    splits: tuple[Callable[[str], list[str]], ...] = (_lines, tokenize, list[str])
    for split in splits:
        parts = split(text)
        size = max(1, len(parts) // 2)
        while size and time.monotonic() < deadline:
            start = 0
            while start < len(parts) and time.monotonic() < deadline:
                shorter = parts[:start] + parts[start + size :]
                if fails("".join(shorter)):
                    parts = shorter
                else:
                    start += size
            size //= 2
        text = "".join(parts)
    return text
