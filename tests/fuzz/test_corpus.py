"""Every text that was trouble once is handled now: found by the fuzzer, or thought of."""

from pathlib import Path

import pytest

from fuzz.oracle import bounded
from fuzz.seeds import CORPUS
from fuzz.targets import TARGETS

FILES = sorted(path for path in CORPUS.rglob("*.*"))


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_text_is_explained_or_round_trips(path: Path):
    bounded(TARGETS[path.parent.name].check, path.read_bytes().decode("utf-8"))
