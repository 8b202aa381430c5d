"""Random epilogues of `.coda` programs: ports and results of every kind, code of a few lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from generator.coda_programs import TextBuilder

ACTIVATIONS = ("silu", "gelu", "gelu_tanh", "relu", "relu2", "sigmoid", "tanh", "abs")

PARTIALS: Sequence[str] = (
    "partial_row<max>",
    "partial_row<add>",
    "partial_row<lse>",
    "partial_col<max>",
    "partial_col<add>",
)

JOINS: Sequence[str] = (
    "{a} + {b}",
    "{b} - {a}",
    "{a} * {b}",
    "maximum({a}, {b})",
    "minimum({a}, {b})",
    "{b} - ({a} - {b} * 0.5)",
    "{a} / (1 + abs({b}))",
)

PORTS: Mapping[str, Callable[[TextBuilder, int], str]] = {
    "row": lambda b, n: b.parameter(n, weight=True),
    "tile": lambda b, n: _tile(b, n),
    "col": lambda b, n: b.parameter(*b.rows, 1) if b.choices.chance(50) else b.parameter(*b.rows),
    "scalar": lambda b, n: b.parameter(element="f32"),
    "table": lambda b, n: b.parameter(b.rows[-1], n // 2 if n % 2 == 0 else n),
    "group": lambda b, n: b.parameter(*b.rows, n // 2 if n % 2 == 0 else 1),
}
"""Tensors of a program for the ports of an epilogue over n columns."""


def _tile(b: TextBuilder, n: int) -> str:
    """A tile of n columns: one that there is, a parameter, or a range of a wider one."""
    known = [name for name, columns in b.tiles if columns == n]
    if known and b.choices.chance(40):
        return b.choices.recent(known)
    if b.choices.chance(50):
        return b.parameter(*b.rows, n)
    start = b.choices.pick((0, 8, n))
    wide = b.parameter(*b.rows, start + n + b.choices.pick((0, 8, n)))
    return f"slice({wide}, dim={len(b.rows)}, start={start}, stop={start + n})"


def epilogue_on(b: TextBuilder, x: str, k: int) -> tuple[str, int]:
    """A drawn epilogue on a linear map of x, on a pair of them, or on x itself."""
    n = b.choices.pick(b.columns)

    def gemm(columns: int) -> str:
        return f"linear({x}, {b.parameter(columns, k, weight=True)})"

    match b.choices.pick(("gemm", "two gemms", "pairs", "tile")):
        case "two gemms":
            return _drawn(b, [gemm(n), gemm(n)], ["g", "u"], n)
        case "pairs":
            return _drawn(b, [f"pairs({gemm(2 * n)})"], ["g", "u"], n)
        case "tile":
            return _drawn(b, [x], ["acc: tile"], k)
        case _:
            return _drawn(b, [gemm(n)], ["acc"], n)


def _drawn(b: TextBuilder, operands: list[str], inputs: list[str], n: int) -> tuple[str, int]:
    """A new epilogue of `inputs`, and its call: an expression, of n columns."""
    is_pair = len(inputs) == 2
    # A pair of columns has one element of these; of other ports it has two.
    kinds = ("half_row", "half_tile", "half_group", "col", "scalar") if is_pair else tuple(PORTS)
    ports = [b.choices.pick(kinds) for _ in range(b.choices.below(4))]
    declared = [*inputs, *(f"q{index}: {kind}" for index, kind in enumerate(ports))]
    operands += [PORTS[kind.removeprefix("half_")](b, n) for kind in ports]
    columns = 1 if is_pair else n
    lines, value = _joined(b, [name.partition(":")[0] for name in declared], columns)
    results = {"y": "half" if is_pair else "tile"}
    lines.append(f"y = {_code(b, value, columns)}")
    if not is_pair and b.choices.chance(60):
        results["total"] = b.choices.pick(PARTIALS)
        lines.append(f"total = {b.choices.pick(('-abs(A) - 1', 'A * A', 'A')).replace('A', value)}")
    if not is_pair and columns % 2 == 0 and b.choices.chance(25):
        results["largest"] = "group<2>"
        lines.append(f"largest = group_max({value}, group=2) * 0.5")
    return _call(b, operands, declared, results, lines), n


def _joined(b: TextBuilder, names: Sequence[str], columns: int) -> tuple[list[str], str]:
    """Statements that use every name, and what they compute."""
    lines: list[str] = []
    value = names[0]
    for index, name in enumerate(names[1:]):
        lines.append(f"z{index} = {b.choices.pick(JOINS).format(a=value, b=name)}")
        value = f"z{index}"
        if b.choices.chance(40):
            lines.append(f"s{index} = {_code(b, value, columns)}")
            value = f"s{index}"
    return lines, value


def _code(b: TextBuilder, value: str, columns: int) -> str:
    """A function of one element; with several columns, perhaps of its group."""
    groups = [size for size in (4, 2) if columns % size == 0]
    if groups and b.choices.chance(15):
        name = b.choices.pick(("group_max", "group_sum"))
        return f"{value} - {name}({value}, group={b.choices.pick(groups)})"
    casts = (f"cast({value}, bf16)", f"cast({value}, f8e4m3)")
    other = (f"softcap({value}, 2.0)", *casts, f"{value} * 0.5", value)
    if b.choices.chance(40):
        return b.choices.pick(other)
    return f"{b.choices.pick(ACTIVATIONS)}({value})"


def _call(
    b: TextBuilder,
    operands: Sequence[str],
    declared: Sequence[str],
    results: Mapping[str, str],
    lines: Sequence[str],
) -> str:
    """Define the epilogue and call it; gives its tile, with what becomes of its other results."""
    name = f"drawn{len(b.definitions)}"
    types = ", ".join(f"{result}: {type}" for result, type in results.items())
    body = "\n".join(f"    {line}" for line in lines)
    b.definitions.append(f"epilogue {name}({', '.join(declared)}) -> ({types}) {{\n{body}\n}}\n")
    call = f"{name}({', '.join(operands)})"
    if len(results) == 1:
        return call
    b.statements.append(f"{', '.join(f'{name}_{result}' for result in results)} = {call}")
    terms = {
        "y": f"{name}_y",
        "total": f"cast(finalize({name}_total), {b.element})",
        "largest": f"cast(sum({name}_largest), {b.element})",
    }
    return " + ".join(terms[result] for result in results)
