"""Every operator of the dialect in every part of the project, or the reason why it is not there.

A part is asked for the operators that it has: the registry in which they are, or the files that
name them. The second table asks the same for each name that is called in `.coda`, several of which
may be one operator. `test_machinery.py` draws programs until they have called every name.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from inspect import getdoc
from pathlib import Path
from typing import TypeAlias, get_args

import pytest
from support.operator_models import MODELS
from xdsl.ir import Operation

from coda_ir.backends.reference.interpreter import HANDLERS
from coda_ir.backends.triton.operators.emit import WRITERS
from coda_ir.dialects import coda
from coda_ir.dialects.coda import elementwise
from coda_ir.dialects.gemm.scalar_code import computes_elements
from coda_ir.frontends.coda_text import parse_text
from coda_ir.frontends.coda_text.elementwise import BINARY, UNARY
from coda_ir.frontends.coda_text.formatter import format_text
from coda_ir.lsp.documentation import (
    CLASSES,
    INFIX,
    SIGNATURES,
    description,
    summary,
    usage,
)
from coda_ir.passes.gradient.derivatives import NOT_DIFFERENTIATED, RULES
from coda_ir.passes.support.legality import LinearMap

Operators: TypeAlias = set[type[Operation]]

TESTS = Path(__file__).parents[2]
DOCS = TESTS.parent / "docs"
ALL: Operators = set(coda.Coda.operations)


@cache
def text_of(folder: Path, pattern: str, but: str = "-") -> str:
    """Return the text of the files that match a pattern, and not `but`, in one string."""
    paths = sorted(path for path in folder.rglob(pattern) if path.is_file())
    return "\n".join(path.read_text() for path in paths if not path.match(but))


def named_in(text: str) -> Operators:
    """Return the operators whose names in IR are in a text."""
    words = set(re.findall(r"\bcoda\.\w+", text))
    return {op for op in ALL if op.name in words}


def calls_in(text: str) -> set[str]:
    """Return the names of `.coda` that are called in a text."""
    return set(re.findall(r"\b(\w+)\(", text)) & SIGNATURES.keys()


def called_in(text: str) -> Operators:
    """Return the operators whose names in `.coda` are called in a text."""
    return {CLASSES[name] for name in calls_in(text) & CLASSES.keys()}


@cache
def snippets() -> list[str]:
    text = (DOCS / "language.md").read_text()
    return re.findall(r"^```coda\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@cache
def in_snippets() -> Operators:
    """Return what the formatted snippets of the language reference are lowered to.

    `test_language_reference.py` formats, writes, computes, emits and differentiates each of them.
    """
    path = str(DOCS / "example.coda")  # imports are relative to it
    modules = [parse_text(format_text(snippet), path) for snippet in snippets()]
    return {type(op) for module in modules for op in module.walk()} & ALL


def described() -> set[str]:
    """Return the names that the language server completes, and describes in a hover."""
    names = {*SIGNATURES, *INFIX}
    return {name for name in names if usage(name) and description(name) and summary(name)}


def in_the_editor() -> Operators:
    return {CLASSES[name] for name in described() & CLASSES.keys()}


def in_random_programs() -> Operators:
    """Return what the generator makes: classes that it names, and calls in texts."""
    text = text_of(TESTS / "generator", "*.py")
    words = set(re.findall(r"\w+", text))
    named = {op for op in ALL if op.__name__ in words}
    return named | called_in(text) | {*UNARY.values(), *BINARY.values()}


def in_goldens() -> Operators:
    text = text_of(TESTS / "filecheck", "*.*", but="*_refused.*")
    return named_in("\n".join(line for line in text.splitlines() if "CHECK" in line))


@cache
def refusals() -> str:
    """Return the remarks of goldens, with the lines of the program at which they are."""
    of_passes = text_of(TESTS / "filecheck", "*_refused.*")
    others = text_of(TESTS / "filecheck", "*.*", but="*_refused.*").splitlines()
    return "\n".join([of_passes, *(line for line in others if line.startswith("# REFUSED"))])


def in_refusal_goldens() -> Operators:
    return named_in(refusals()) | called_in(refusals())


def in_messages() -> set[str]:
    """Return the names at which an error golden or a remark of a golden points."""
    errors = text_of(TESTS / "frontends" / "coda_text" / "errors", "*.txt")
    messages = re.findall(r"^--- gives\n(.*?)(?=^## |\Z)", errors, re.MULTILINE | re.DOTALL)
    remarks = [line for line in refusals().splitlines() if re.match(r"# (CHECK|REFUSED)", line)]
    return calls_in("\n".join([*messages, *remarks]))


PARTS: Mapping[str, Callable[[], Iterable[type]]] = {
    "language": in_snippets,
    "formatter": in_snippets,
    "language server": in_the_editor,
    "exporter": lambda: MODELS,
    "reference": lambda: (op for op in ALL if {op, *op.__mro__} & {*HANDLERS, *LIKE_CALLS}),
    "Triton": lambda: (
        op
        for op in ALL
        if {*op.__mro__} & {*WRITERS, *get_args(LinearMap)} or computes_elements(op)
    ),
    "derivative": lambda: RULES,
    "random programs": in_random_programs,
    "documentation": lambda: (op for op in ALL if getdoc(op)),
    "golden": in_goldens,
    "refusal golden": in_refusal_goldens,
    "golden of the verifier": lambda: named_in(text_of(TESTS / "filecheck", "invalid_*.mlir")),
}
"""The operators of each part."""

LIKE_CALLS = (coda.LibraryCallOp, coda.ReshapeOp)
"""Operators that the reference runs as the call of PyTorch that their class states."""

Reasons: TypeAlias = Mapping[type, str]

BACKWARD: Reasons = dict.fromkeys(
    (
        *(op for op in coda.Coda.operations if op.__module__.endswith(".gradients")),
        coda.BarrierOp,
        *(coda.AttentionGradOp, coda.SelectiveScanGradOp, coda.SSDGradOp, coda.DeltaRuleGradOp),
    ),
    "derive-gradient and the passes after it make it",
)
MADE: Reasons = {
    **BACKWARD,
    coda.GroupOrderOp: "order-groups makes it of a sort",
    coda.NormStatsOp: "passes split norms",
    coda.StoredOp: "store-operands makes it",
}
DERIVED: Reasons = dict.fromkeys(
    BACKWARD.keys() - {coda.SumToOp, coda.WeightGradientOp, coda.GroupedWeightGradientOp},
    "random programs are differentiated, which makes it",
)

EMPTY: Mapping[str, Reasons] = {
    "language": MADE,
    "formatter": MADE,
    "language server": {
        **MADE,
        coda.ConstantOp: "a number, whose hover shows its type",
        coda.ExtentOp: "the symbol of a size, whose hover shows where it is from",
    },
    "exporter": {
        **MADE,
        coda.BroadcastOp: "an expansion is a view, and stays one",
        coda.GroupedLinearOp: "experts have it, as test_experts.py tests",
        coda.GroupedMatmulOp: "experts have it, as test_experts.py tests",
        coda.LowBitLinearOp: "layers of coda_ir.quantize have it, as test_quantize.py tests",
        coda.QuantizedLinearOp: "layers trained in float8 have it, as test_trained_layers.py tests",
        coda.ScaledLinearOp: "torch._scaled_mm has it, as test_scaled_products.py tests",
        coda.ExtentOp: "a size that a model computes with, as in the golden of raise-elementwise",
        coda.GluOp: "the halves are slices, of which passes make pairs of columns",
        coda.OneHotOp: "PyTorch exports a comparison with positions",
        coda.SelectiveScanOp: "`coda_ir::state_space` in graphs, as test_state_spaces.py tests",
        coda.SSDOp: "`coda_ir::state_space` in graphs, as test_mamba2.py tests",
        coda.DeltaRuleOp: "`coda_ir::state_space` in graphs, as test_delta_rule.py tests",
    },
    "Triton": {
        coda.ConstantOp: "kernels have the number in their code",
        coda.ExtentOp: "kernels get the size as an argument",
        coda.PositionsOp: "kernels compute the positions",
        coda.QuantizedLinearOp: "expand-quantized-linear makes products of float8",
    },
    "derivative": {**NOT_DIFFERENTIATED, coda.ConstantOp: "it has no operand"},
    "random programs": {
        **DERIVED,
        coda.NormStatsOp: "split-reductions makes it of norms",
        coda.StoredOp: "store-operands makes it of what comes before comparisons",
    },
    "golden of the verifier": dict.fromkeys(
        coda.ELEMENTWISE_OPS, "test_new_operators.py has one error of each kind for all of them"
    ),
}
"""The reasons why a part lacks an operator."""


@pytest.mark.parametrize("part", PARTS)
def test_every_operator_has_a_place_or_a_reason(part: str):
    present, reasons = ALL & {*PARTS[part]()}, ALL & EMPTY.get(part, {}).keys()
    assert {op.name for op in ALL - present - reasons} == set(), "neither a place nor a reason"
    if part != "golden of the verifier":
        assert {op.name for op in present & reasons} == set(), (
            "a place, so that no reason is needed"
        )


RULES_OF_FUNCTIONS = (
    "dialects/coda/elementwise.py",
    "dialects/gemm/scalar_code.py",
    "passes/gradient/derivatives/elementwise.py",
)
"""The files with tables of elementwise operators. A new one takes at most these, the documentation
and a golden. `dialects/gemm/scalars.py` is in place of the last two for functions of gates.
"""

SIMPLIFICATIONS = (
    "dialects/coda/canonicalization.py",
    "dialects/coda/truth_folding.py",
    "passes/block/skip_zero_rows.py",
    "passes/support/editing.py",
)
"""Files with tables of some operators that become simpler, or give 0. No operator has to be there.
"""

IN_MORE_FILES: Reasons = {
    **dict.fromkeys(
        (coda.AddOp, coda.SubOp, coda.MulOp, coda.DivOp, coda.NegOp, elementwise.FloorDivideOp),
        "a symbol in `.coda`; passes regroup sums and products",
    ),
    **dict.fromkeys((coda.MaximumOp, coda.MinimumOp), "a number may be a bound, as in `clamp`"),
    coda.CompareOp: "one operator for six names in `.coda` and in PyTorch",
    coda.DetachOp: "it computes nothing",
    coda.LogicalNotOp: "the only function of one truth value",
    coda.StoredOp: "a rounding, which is not a function of numbers",
}
"""The reasons why an elementwise operator is in tables of further files."""


TABLE = re.compile(
    r"^\w+(?:: .+?)? = (?:[^\n]*[\[({]\n.*?^[\])}]|[^\n]*)", re.MULTILINE | re.DOTALL
)
IMPORT = re.compile(r"^from coda_ir\.dialects\.coda\S* import (\([^)]*\)|.*)", re.MULTILINE)
OPERATOR = re.compile(r"(?:\b(?:coda|elementwise)\.|(?<![\w.]))(\w+Op)\b")


@cache
def tables() -> dict[str, set[str]]:
    """Return the elementwise operators that the tables of a source file name, by file."""
    folders = ("dialects", "passes", "frontends", "backends", "coda_ir")
    paths = [path for each in folders for path in (TESTS.parent / each).rglob("*.py")]
    texts = {str(path.relative_to(TESTS.parent)): path.read_text() for path in paths}
    return {
        file: {*OPERATOR.findall("\n".join(TABLE.findall(text)))}
        for file, text in texts.items()
        if "import coda\n" in text or IMPORT.search(text)
    }


@pytest.mark.parametrize("operator", coda.ELEMENTWISE_OPS, ids=lambda operator: operator.name)
def test_an_elementwise_operator_takes_five_files(operator: type[coda.ElementwiseOp]):
    files = {file for file, names in tables().items() if operator.__name__ in names}
    more = files - {*RULES_OF_FUNCTIONS, *SIMPLIFICATIONS}
    assert (operator in IN_MORE_FILES) == bool(more), more


CALLS: Mapping[str, Callable[[], set[str]]] = {
    "snippet": lambda: calls_in("\n".join(snippets())),
    "table": lambda: set(re.findall(r"`(\w+)[`(]", (DOCS / "language.md").read_text())),
    "language server": described,
    "golden": lambda: calls_in(text_of(TESTS / "filecheck" / "frontends" / "coda_text", "*.coda")),
    "error or refusal golden": in_messages,
    "operator of the IR": lambda: {*CLASSES},
}
"""The names of each part, except operators of the IR, which are in the table above."""

NOT_THERE: Mapping[str, Mapping[str, str]] = {
    "golden": {"torch": "it becomes the call that it names"},
    "operator of the IR": {
        "activate": "the activation that it names",
        "chunk": "slices",
        "clamp": "a maximum and a minimum",
        "conv1d": "a convolution, or sums of shifts",
        "pairs": "the columns of a GEMM",
        "split": "slices",
        "torch": "the call that it names",
    },
}
"""The reasons why a part lacks a name, or what the name becomes."""


@pytest.mark.parametrize("part", CALLS)
def test_every_call_has_a_place_or_a_reason(part: str):
    reasons = NOT_THERE.get(part, {}).keys()
    assert {*SIGNATURES} - CALLS[part]() == {*reasons}
