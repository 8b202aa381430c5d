"""The seeds of the fuzzer: the goldens, the examples, the snippets of the documents."""

import re
from collections.abc import Iterator
from functools import cache
from io import StringIO
from pathlib import Path

from xdsl.ir import Operation
from xdsl.printer import Printer

from coda_ir.frontends.coda_text.operators import OPERATORS
from coda_ir.mlir.reader import read_module

ROOT = Path(__file__).parents[2]
CORPUS = Path(__file__).parent / "corpus"
_SNIPPET = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

LARGEST = 8_000
LANGUAGES = ("coda", "mlir", "pipeline", "expectations")


@cache
def seeds(language: str) -> tuple[str, ...]:
    """The texts of a language, each once, in a fixed order."""
    texts = dict.fromkeys((*_files(language), *_snippets(language), *_generic(language)))
    return tuple(text for text in texts if text.strip())


def _files(language: str) -> Iterator[str]:
    if language == "pipeline":
        yield from _pipelines()
        return
    if language == "expectations":
        yield from _expectations()
        return
    folders = (ROOT / "examples", ROOT / "tests" / "filecheck", CORPUS / language)
    for path in (path for folder in folders for path in sorted(folder.rglob(f"*.{language}"))):
        text = path.read_bytes().decode("utf-8")
        comment = "#" if language == "coda" else "//"
        pieces = re.split(rf"^{comment} -----\n", text, flags=re.MULTILINE)
        yield from (piece for piece in pieces if len(piece) <= LARGEST)


def _generic(language: str) -> Iterator[str]:
    """The operators of our dialects in the generic syntax."""
    if language != "mlir":
        return
    for path in sorted((ROOT / "tests" / "filecheck" / "dialects").rglob("ops_*.mlir")):
        module = read_module(path.read_text(encoding="utf-8"), str(path))
        for op in module.ops:
            yield printed(op, generic=True)


def printed(op: Operation, *, generic: bool) -> str:
    """An operator in its own or in the generic syntax."""
    stream = StringIO()
    Printer(stream, print_generic_format=generic).print_op(op)
    return stream.getvalue()


def _pipelines() -> Iterator[str]:
    """The pass pipelines of the RUN lines."""
    yield "builtin.module(func.func(defer-norms,cse),schedule{target=sm_90 tile=128,128,64})"
    for path in sorted((ROOT / "tests" / "filecheck").rglob("*.*")):
        if path.suffix in (".mlir", ".coda"):
            for found in re.findall(r"(?:-p|--passes)[ =](\S+)", path.read_text(encoding="utf-8")):
                yield found.strip("'\"")


def _expectations() -> Iterator[str]:
    yield "%x = f   // expected-error@+1 {{has {{2}} blocks}} expected-remark {{a}}"
    for text in (*seeds("coda"), *seeds("mlir")):
        if "expected-" in text:
            yield "\n".join(line for line in text.split("\n") if "expected-" in line)


def _snippets(language: str) -> Iterator[str]:
    for path in sorted([*(ROOT / "docs").glob("*.md"), ROOT / "README.md"]):
        for kind, body in _SNIPPET.findall(path.read_text(encoding="utf-8")):
            if kind == language or (language == "coda" and kind in ("", "text") and "fn " in body):
                yield body


def _several(words: str) -> list[str]:
    return words.split(" ")


COMMON_WORDS = ("0", "1", "-1", "4096", "9" * 25, "1e400", "-0.0", '"', "\\", "\0", "\r\n", "\t")
CODA_WORDS = (
    *_several("( ) [ ] { } < > -> : , = - + * / // @ # ;"),
    *_several("import const fn epilogue return weight bf16 f16 f32 f64 i32 i64 true false _ M"),
    *_several(
        "tile row col scalar table group half_tile half_row half_table half partial_row<add>"
    ),
    *_several("partial_col<max> select<t> lse 1_0 1. 1e9 ß \u2028 \ufeff"),
)
MLIR_WORDS = (
    *_several('( ) [ ] { } < > -> : , = - + * ? ^bb0 ^epilogue @f @"a\\00" %0 %x#1 %x:2 #a !a'),
    *_several("tensor<?x8xbf16> tensor<*xf32> tensor<0xf32> f32 i1 i64 index none memref<2xf32>"),
    *_several('dense<1.0> dense<> dense<"0x00"> array<i64:1> affine_map<(d0)->(d0)> loc("a":1:2)'),
    *_several("columns pair<halves> pair<adjacent> pair<halves,8> kn nk schedule attributes over"),
    *_several(
        "tile row col scalar table group half_tile half_row half_table half partial_row<add>"
    ),
    *["partial_col<max>", "select<0>", "lse", "add", "max", "unit", "true0x7FC00000", "0x", "1.0"],
    *_several("func.func func.return builtin.module gemm.fused gemm.map gemm.finalize gemm.yield"),
    *_several("gemm.group_reduce gemm.pack_weight gemm.scale_weight arith.constant arith.addf"),
    *_several("arith.mulf math.exp private public"),
)
PIPELINE_WORDS = (
    *_several("( ) { } , = \" ' builtin.module func.func cse canonicalize dce"),
    *_several("coda-to-gemm schedule plan-buffers target=sm_90 mainloop=tma warps=8 true"),
)
EXPECTATION_WORDS = (
    *_several("expected-error expected-warning expected-note expected-remark expected-error-re"),
    *_several("@+1 @-1 @below @above @unknown @+99999999999999999999 {{ }} {{[}} // # ( [ *"),
)


@cache
def words(language: str) -> tuple[str, ...]:
    """Keywords, punctuation, names of operators, and tokens that have been trouble elsewhere."""
    if language == "coda":
        return (*COMMON_WORDS, *CODA_WORDS, *OPERATORS)
    if language == "mlir":
        found = re.findall(r"\bcoda\.\w+", "\n".join(seeds("mlir")))
        return (*COMMON_WORDS, *MLIR_WORDS, *sorted(set(found)))
    return (*COMMON_WORDS, *(PIPELINE_WORDS if language == "pipeline" else EXPECTATION_WORDS))
