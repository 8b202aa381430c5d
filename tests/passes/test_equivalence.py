"""Every pass preserves meaning: before and after agree in float64, on every golden and program."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from support.equivalence import assert_equivalent, assert_results_close, functions_of
from support.inputs import random_inputs
from support.programs import parse_mlir
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass, PassPipeline
from xdsl.utils.arg_spec import parse_pipeline

from coda_ir.api import parse
from coda_ir.backends.reference import run_function
from coda_ir.context import make_context
from coda_ir.passes import PASS_CLASSES, get_all_passes
from coda_ir.passes.coda_to_gemm import STEPS, CodaToGemmPass

ROOT = Path(__file__).parents[2]
GOLDENS = ROOT / "tests/filecheck/passes"
PROGRAMS = Path(__file__).parent / "programs"
EXAMPLES = ROOT / "examples"

SEPARATOR = "// -----"
"""Between the inputs of one file, as for `coda-opt --split-input-file`."""

OWN_INPUT = re.compile(r'^// RUN: coda-opt %s -p "?([^" ]+)"?', re.MULTILINE)
"""A RUN line that applies passes to the golden itself."""

NOT_TESTED_HERE = {"plan-buffers", "schedule"}
"""Passes behind coda-to-gemm, which have tests of their own."""

SMALL = {"D": 32, "F": 48, "HEAD": 8, "HEADS": 4, "KV_HEADS": 2, "K": 24, "N": 40, "V": 300}
"""Sizes for the constants of the examples, in as far as they have them."""

RTOL = 1e-9

ROWS = {"B": 2, "T": 3, "M": 5}
"""Sizes for their symbols."""


def inputs_of(path: Path) -> list[str]:
    return path.read_text().split(SEPARATOR)


def name_of(text: str) -> str:
    match = re.search(r"func\.func @(\w+)", text)
    assert match is not None, text
    return match[1]


def apply(passes: Sequence[ModulePass], module: ModuleOp) -> ModuleOp:
    """A copy of `module` with `passes` applied; it verifies and reads back from its own text."""
    after = module.clone()
    PassPipeline(tuple(passes)).apply(make_context(), after)
    after.verify()
    parse_mlir(str(after)).verify()
    return after


def passes_of(pipeline: str) -> list[ModulePass]:
    """The passes that the option -p of coda-opt names."""
    load = get_all_passes()
    return [load[spec.name]().from_spec(spec) for spec in parse_pipeline(pipeline)]


def golden_cases() -> list[object]:
    cases: list[object] = []
    for path in sorted(GOLDENS.glob("*.mlir")):
        pipelines = sorted(set(OWN_INPUT.findall(path.read_text())))
        known = [p for p in pipelines if not any(name in p for name in NOT_TESTED_HERE)]
        for pipeline in known:
            for text in inputs_of(path):
                cases.append(pytest.param(pipeline, text, id=f"{path.stem}-{name_of(text)}"))
    return cases


@pytest.mark.parametrize(("pipeline", "text"), golden_cases())
def test_golden(pipeline: str, text: str):
    before = parse_mlir(text)
    assert_equivalent(before, apply(passes_of(pipeline), before))


def test_every_pass_has_a_golden():
    covered = {
        name
        for path in GOLDENS.glob("*.mlir")
        for pipeline in re.findall(r"^// RUN: coda-opt \S+ -p \"?([^\" ]+)", path.read_text(), re.M)
        for name in re.findall(r"[a-z][a-z-]+", pipeline)
    }
    assert set(PASS_CLASSES) - NOT_TESTED_HERE <= covered


def program_cases() -> list[object]:
    return [
        pytest.param(text, id=f"{path.stem}-{name_of(text)}")
        for path in sorted(PROGRAMS.glob("*.mlir"))
        for text in inputs_of(path)
    ]


def example_cases() -> list[object]:
    return [pytest.param(path, id=path.stem) for path in sorted(EXAMPLES.glob("*.coda"))]


def small_example(path: Path) -> ModuleOp:
    declared = set(re.findall(r"^const (\w+)", path.read_text(), re.MULTILINE))
    return parse(path, constants={name: SMALL[name] for name in declared & set(SMALL)})


def assert_every_step_equivalent(module: ModuleOp) -> None:
    """coda-to-gemm keeps the meaning of `module` with each of its passes, which change it."""
    arguments = {
        name: random_inputs(function, ROWS, torch.float64, spread=True)
        for name, function in functions_of(module).items()
    }
    expected = {name: run_function(f, arguments[name]) for name, f in functions_of(module).items()}
    text = str(module)
    for step in STEPS:
        step.apply(make_context(), module)
        module.verify()
        before, text = text, str(module)
        if text == before:
            continue
        for name, function in functions_of(module).items():
            try:
                actual = run_function(function, arguments[name])
                assert_results_close(actual, expected[name], RTOL)
            except AssertionError as error:
                error.add_note(f"after the pass {step.name}:\n{module}")
                raise
    parse_mlir(text).verify()


@pytest.mark.parametrize("text", program_cases())
def test_steps_of_coda_to_gemm(text: str):
    assert_every_step_equivalent(parse_mlir(text))


@pytest.mark.parametrize("text", program_cases())
def test_folded_weights(text: str):
    before = parse_mlir(text)
    assert_equivalent(before, apply([CodaToGemmPass(fold_weights=True)], before))


@pytest.mark.parametrize("path", example_cases())
def test_steps_on_example(path: Path):
    assert_every_step_equivalent(small_example(path))


@pytest.mark.parametrize("path", example_cases())
def test_example_with_folded_weights(path: Path):
    before = small_example(path)
    after = apply([CodaToGemmPass(fold_weights=True)], before)
    assert_equivalent(before, after, dims=ROWS)
