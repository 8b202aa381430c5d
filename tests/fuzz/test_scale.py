"""Large programs are read in time and memory that are linear in their size."""

import tracemalloc
from collections.abc import Callable

import pytest
from xdsl.dialects.builtin import ModuleOp

from coda_ir.frontends.coda_text import format_text, parse_text
from coda_ir.mlir.reader import read_module
from fuzz.oracle import bounded


def coda_lines(count: int) -> str:
    lines = "".join(f"    y{i} = silu(y{i - 1})\n" for i in range(1, count))
    return f"fn f(y0: bf16[M, 64]) {{\n{lines}    return y{count - 1}\n}}\n"


def mlir_lines(count: int) -> str:
    tensor = "tensor<?x64xbf16>"
    lines = "".join(
        f"  %y{i} = coda.silu %y{i - 1} : ({tensor}) -> {tensor}\n" for i in range(1, count)
    )
    return f"func.func @f(%y0: {tensor}) {{\n{lines}  func.return\n}}\n"


def coda_functions(count: int) -> str:
    return "".join(f"fn g{i}(x: bf16[M, 64]) {{\n    return silu(x)\n}}\n" for i in range(count))


def mlir_functions(count: int) -> str:
    return "".join(f"func.func @g{i}(%x: f32) {{\n  func.return\n}}\n" for i in range(count))


def read_coda(text: str) -> ModuleOp:
    return parse_text(text, "a.coda")


def read_mlir(text: str) -> ModuleOp:
    return read_module(text, "a.mlir")


def check_coda(text: str) -> None:
    read_coda(text).verify()


def check_mlir(text: str) -> None:
    read_mlir(text)


def check_format(text: str) -> None:
    format_text(text, "a.coda")


SUM = " + ".join(["silu(gelu(silu(x)))"] * 1_000)

LARGE: list[tuple[str, Callable[[str], None], str]] = [
    ("coda_lines", check_coda, coda_lines(4_000)),
    ("mlir_lines", check_mlir, mlir_lines(5_000)),
    ("format_lines", check_format, coda_lines(2_000)),
    ("coda_functions", check_coda, coda_functions(2_000)),
    ("mlir_functions", check_mlir, mlir_functions(2_000)),
    ("coda_line", check_coda, f"fn f(x: bf16[M]) {{ return x{' + x' * 10_000} }}"),
    ("mlir_line", check_mlir, mlir_lines(1_500).replace("\n", " ")),
    ("format_line", check_format, f"fn f(x: bf16[M]) {{ return {SUM} }}"),
    ("format_list", check_format, f"fn f(x: bf16[M]) {{ return concat({'x, ' * 20_000}x) }}"),
    ("coda_nested", check_format, f"fn f(x: f32[8]) {{ return {'(' * 60}x{')' * 60} }}"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("check", "text"), [case[1:] for case in LARGE], ids=[case[0] for case in LARGE]
)
def test_large_programs_are_read(check: Callable[[str], None], text: str):
    # 100,000 characters may take some minutes: this is for what is not linear.
    bounded(check, text)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("read", "lines"), [(read_coda, coda_lines), (read_mlir, mlir_lines)], ids=["coda", "mlir"]
)
def test_memory_is_linear(read: Callable[[str], ModuleOp], lines: Callable[[int], str]):
    read(lines(10))
    small, large = peak(read, lines(150)), peak(read, lines(600))
    assert large < 6 * small


def peak(read: Callable[[str], ModuleOp], text: str) -> int:
    """The bytes that are allocated at most while `text` is read."""
    tracemalloc.start()
    try:
        read(text)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
