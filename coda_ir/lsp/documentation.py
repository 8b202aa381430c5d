"""Documentation of the operators and the other terms of the language."""

from inspect import getdoc

from coda_ir.dialects import coda, gemm
from coda_ir.frontends.coda_text.arguments import Signature
from coda_ir.frontends.coda_text.elementwise import BINARY, ROUNDINGS, SIGNS
from coda_ir.frontends.coda_text.epilogue import PAIRS
from coda_ir.frontends.coda_text.epilogue_body import (
    GROUP_REDUCTIONS,
    SIGNATURES as ELEMENT_SIGNATURES,
)
from coda_ir.frontends.coda_text.operators import NAMED_BY, OPERATORS
from coda_ir.lsp.symbols import NEGATION

SIGNATURES: dict[str, Signature] = {
    **ELEMENT_SIGNATURES,
    **{name: operator.signature for name, operator in OPERATORS.items()},
    PAIRS.name: PAIRS,
}
"""The signatures of all built-in operators that are called by name."""

INFIX = {
    "+": "a + b",
    "-": "a - b",
    "*": "a * b",
    "/": "a / b",
    "//": "a // b",
    "@": "x @ w",
    **{sign: f"a {sign} b" for sign in SIGNS},
    NEGATION: NEGATION,
}

CLASSES: dict[str, type] = {
    **{op.name.removeprefix("coda."): op for op in coda.Coda.operations},
    **BINARY,
    **{name: op for op, (_, names) in NAMED_BY.items() for name in names.values()},
    **dict.fromkeys(SIGNS, coda.CompareOp),
    NEGATION: coda.NegOp,
    "@": coda.MatmulOp,
    "arange": coda.PositionsOp,
    "argsort": coda.SortOp,
    "finalize": gemm.FinalizeOp,
    **dict.fromkeys(GROUP_REDUCTIONS, gemm.GroupReduceOp),
}
"""The operators of the IR for those of the language."""

_TEXTS = {
    "clamp": "x, but at least `min` and at most `max`; NaN propagates.",
    "pow": "x to a constant power other than 0. Multiples of 1/2 up to 16 are products, a root and "
    "a reciprocal.",
    "//": "Quotient, rounded down; of sizes with symbols, exact.",
    "split": "A tuple of consecutive slices that fill the dimension.",
    "torch": "A tensor that PyTorch computes, for what the language lacks: "
    '`torch("aten.cumsum.default({0}, -1)", x, dtype=f32, shape=[M, 8])`. `{0}` is the first '
    "tensor; `dtype` and `shape` state the type of the result.",
    "chunk": "A tuple of `n` equal parts of a dimension.",
    "broadcast": "x repeated along the dimensions that it lacks or that have extent 1.",
    "pad": "`value` before and after the elements of a dimension.",
    "conv1d": "Products of windows over the positions of x (B x T x C) with w: O x C / groups x K, "
    "or C x K for each column separately. With `causal`, a window ends at its position.",
    "activate": "An activation function by its name.",
    "pairs": "The columns of one GEMM in pairs, for an epilogue with two accumulators: "
    "(j, j + N/2), with `group` (j, j + G/2) in each group of G columns, and with "
    "`adjacent=true` (2j, 2j + 1).",
}

CHOICES: dict[tuple[str, str], tuple[str, ...]] = {
    **{(name, "activation"): tuple(coda.ACTIVATIONS) for name in ("glu", "activate")},
    ("rope", "layout"): tuple(coda.ROPE_LAYOUTS),
    ("cast", "rounding"): ROUNDINGS,
    ("cross_entropy", "reduction"): tuple(coda.LOSS_REDUCTIONS),
}
"""The strings that an argument of an operator takes."""

PORT_KINDS = {
    "tile": "one element per row and column (M x N)",
    "row": "one element per column (N), such as a bias",
    "col": "one element per row (M), such as a scale of the rows",
    "scalar": "one element",
    "table": "R x C, repeated over rows and columns: rotary tables, or a row for each sample",
    "group": "R x N/G: one element for each group of G columns, with the rows of a table",
    "half_tile": "one element per row and pair of columns (M x N/2)",
    "half_row": "one element per pair of columns (N/2)",
    "half_table": "a table with one column per pair",
    "half_group": "one element for the pairs of each group of G columns",
}

RESULT_KINDS = {
    "tile": "M x N, in the element type of x; `tile<f32>` in another one",
    "half": "M x N/2: one element per pair of columns",
    "partial_row": "combined over the columns; `finalize` gives [..., 1] in f32",
    "partial_col": "combined over the rows; `finalize` gives [N] in f32",
    "select": "the element in the column that an integer `col` port names",
    "group": "M x N/G in f32: one element for each group of G columns, `group<128>`",
}

COMBINERS = {
    "add": "sum",
    "max": "maximum",
    "lse": "log of the sum of exponentials",
}

KEYWORDS = {
    "import": "the functions, epilogues and consts of another file",
    "const": "an integer or a float",
    "fn": "a function over tensors",
    "epilogue": "what happens to each element of a GEMM's accumulator",
    "return": "the results of the function",
    "weight": "a parameter that does not change between calls",
}


def usage(name: str) -> str:
    """Return the signature of an operator, with its parameters."""
    return INFIX[name] if name in INFIX else SIGNATURES[name].text


def description(name: str) -> str:
    """Return a description of an operator, in Markdown."""
    if name in _TEXTS:
        return _TEXTS[name]
    return getdoc(CLASSES[name]) or ""


def summary(name: str) -> str:
    """Return the first sentence of the description, on one line."""
    paragraph = description(name).partition("\n\n")[0].replace("\n", " ")
    return paragraph.partition(": `")[0]
