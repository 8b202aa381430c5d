"""docs/architecture.md names the functions that a program goes through, in order."""

import re
import sys
import threading
from importlib import import_module
from pathlib import Path
from types import CodeType, FrameType

import pytest
import torch

import coda_ir

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "architecture.md").read_text()
NAMED = re.findall(r"^\d+\. `(coda_ir\.[\w.]+)`", DOCUMENT, re.MULTILINE)
SIZES = {"D": 32, "F": 64}
SHAPES = ((1, 2, 32), (32,), (64, 32), (64, 32), (32, 64))


def code_of(name: str) -> CodeType:
    """The code of a function or method. Raises AttributeError where there is none."""
    parts = name.split(".")
    modules = [count for count in range(2, len(parts)) if is_module(".".join(parts[:count]))]
    found = import_module(".".join(parts[: modules[-1]]))
    for part in parts[modules[-1] :]:
        found = getattr(found, part)
    return getattr(found, "__wrapped__", found).__code__


def is_module(name: str) -> bool:
    path = ROOT / name.replace(".", "/")
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def test_the_walk_is_short():
    assert 10 <= len(NAMED) <= 15


@pytest.mark.parametrize("name", NAMED)
def test_each_function_exists(name: str):
    assert code_of(name).co_name == name.rpartition(".")[2]


def test_an_unknown_function_is_noticed():
    with pytest.raises(AttributeError):
        code_of("coda_ir.api.interpret")


def test_the_walk_calls_each():
    codes = {code_of(name): name for name in NAMED}
    called: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code in codes and codes[frame.f_code] not in called:
            called.append(codes[frame.f_code])

    for module in (sys, threading):
        module.setprofile(note)
    try:
        function = coda_ir.compile(ROOT / "examples/llama_mlp.coda", constants=SIZES, device="cpu")
        function(*(torch.zeros(shape, dtype=torch.bfloat16) for shape in SHAPES))
    finally:
        for module in (sys, threading):
            module.setprofile(None)
    assert called == NAMED
