"""Messages about properties that a program does not have."""

import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class Violation(Exception):
    """A program, and maybe a pass or a level, for which a property does not hold."""

    rule: str
    """The property."""
    where: str
    """The pass, the pipeline or the level at fault."""
    message: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.where}: {self.message}"

    @property
    def signature(self) -> str:
        """The same for violations that most likely have one cause: no names, no numbers."""
        lines = self.message.splitlines() or [""]
        text = re.sub(r"%?\b\w*\d[\w.+-]*", "#", lines[0])
        return f"{self.rule}: {self.where}: {text[:120]}"


@contextmanager
def expected_to_work(rule: str, where: str) -> Generator[None]:
    """Whatever is raised inside, but a violation itself, is a violation: nothing may crash."""
    try:
        yield
    except Violation:
        raise
    except Exception as error:
        kind = type(error).__name__
        raise Violation(rule, where, f"{kind}: {error}") from error
