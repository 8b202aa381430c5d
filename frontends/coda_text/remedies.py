"""Remedies for names that .coda lacks, such as those of PyTorch, and for refused arguments."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import reduce
from typing import NamedTuple

from coda_ir.diagnostics import closest
from coda_ir.dialects.coda import REAL_FUNCTIONS
from coda_ir.dialects.coda.shapes import broadcast_shapes
from coda_ir.frontends.coda_text.counterparts import (
    CHOICES,
    ELEMENT_NAMES,
    FUNCTIONS,
    KEYWORDS,
    NOTES,
    OTHERS,
    PARAMETERS,
    VALUES,
    WITHOUT_COUNTERPART,
)
from coda_ir.frontends.coda_text.values import (
    Dims,
    Poison,
    TensorType,
    TensorValue,
    Value,
    divided,
    format_dims,
    is_number,
    with_ones,
    without_ones,
)
from coda_ir.symbolic_size import SymbolicSize

LONGEST_ARGUMENT = 40
LONGEST_FIELD = 160
MAX_PARTS = 16
PLACEHOLDERS = {
    "x": "x",
    "y": "y",
    "z": "z",
    "X": "x",
    "Y": "y",
    "Z": "z",
    "dtype": "f32",
    "shape": "M, 64",
    "rows": "M",
    "lead": "M, ",
    "chunks": "32, 32",
    "squeezed": "M, 64",
    "unsqueezed": "1, M, 64",
    "product": "M, 64",
}
"""The fields where the arguments are not known: x is f32[M, 64]."""

HIDDEN = {**dict.fromkeys(PLACEHOLDERS.keys() - set("xyzXYZ"), "..."), "lead": "..., "}
"""The fields that describe results, where an argument has an error."""

UNKNOWN: Dims = (SymbolicSize.of("M"), 64)

_BEFORE_ITEM = ("(", "[", ", ", "=")
_ATOM = re.compile(r"[$\w.]*(\([^()]*\))?")
_FIELD = re.compile(r"\$(?:(\w+)|\{(\w+)(?:\|([^}]*))?\})")


class Given(NamedTuple):
    """An argument of a call: its text, and its value where that is known."""

    text: str
    value: Value | None = None


def fill(text: str, fields: Mapping[str, str]) -> str:
    """A text of `counterparts` with the values of its fields."""

    def value(match: re.Match[str]) -> str:
        name, default = match[1] or match[2], match[3]
        if name not in fields:
            return PLACEHOLDERS[name] if default is None else fill(default, fields)
        is_first = text[: match.start()].endswith(_BEFORE_ITEM) or match.start() == 0
        is_item = is_first and text[match.end() :][:1] in ("", ",", "]", ")")
        is_compound = name in "xyz" and not is_item and not _ATOM.fullmatch(fields[name])
        return f"({fields[name]})" if is_compound else fields[name]

    return _FIELD.sub(value, text)


def fields_of(given: Sequence[Given]) -> dict[str, str]:
    """The fields that follow from the arguments of a call."""
    tensors = [each.value for each in given if isinstance(each.value, TensorValue)]
    fields: dict[str, str] = {}
    element = "f32"
    if any(isinstance(each.value, Poison) for each in given):
        fields |= HIDDEN
    else:
        fields |= _sizes_of(given, [tensor.dims for tensor in tensors] or [UNKNOWN])
    if tensors:
        floats = [tensor for tensor in tensors if tensor.type.is_float]
        element = (floats or tensors)[0].type.element
        fields["dtype"] = element
    if texts := _texts_of_tensors(given):
        fields["all"] = ", ".join(texts)
    for name, each in zip("xyz", given, strict=False):
        fields[name] = each.text if len(each.text) <= LONGEST_ARGUMENT else name
        number = each.value is not None and is_number(each.value)
        fields[name.upper()] = f"cast({each.text}, {element})" if number else fields[name]
    if given:
        fields["items"] = _rest([each.text for each in given])
    if len(given) > 1:
        fields["rest"] = _rest([each.text for each in given[1:]])
    integers = [str(each.value) for each in given if _is_integer(each.value)]
    if integers:
        fields["integer"] = integers[0]
    return {name: text for name, text in fields.items() if len(text) <= LONGEST_FIELD}


def _rest(texts: Sequence[str]) -> str:
    """The arguments after the first one, without the brackets of a list."""
    first = texts[0]
    in_brackets = len(texts) == 1 and (first[:1], first[-1:]) in (("[", "]"), ("(", ")"))
    return first[1:-1] if in_brackets else ", ".join(texts)


def _texts_of_tensors(given: Sequence[Given]) -> list[str]:
    return [each.text for each in given if isinstance(each.value, TensorValue | Poison)]


def _sizes_of(given: Sequence[Given], dims: Sequence[Dims]) -> dict[str, str]:
    first, numbers = dims[0], [each.value if _is_integer(each.value) else None for each in given]
    y, z = (*numbers[1:3], None, None)[:2]
    place = (y if isinstance(y, int) else 0) % (len(first) + 1)
    fields = {
        "shape": _sizes(_broadcast(dims)),
        "rows": _sizes(first[:-1]),
        "lead": "".join(f"{dim}, " for dim in first[:-1]),
        "squeezed": _sizes([dim for dim in first if dim != 1]),
        "unsqueezed": _sizes((*first[:place], 1, *first[place:])),
    }
    if len(dims) > 1:
        fields["product"] = _sizes((*first[:-1], *dims[1][-1:]))
    return fields | _chunks(first, y, z)


def _broadcast(dims: Sequence[Dims]) -> Dims:
    """The extents of the result of an elementwise operator; those of x where there is none."""

    def joined(a: Dims | None, b: Dims) -> Dims | None:
        return None if a is None else broadcast_shapes(a, b)

    none: Dims | None = ()
    return reduce(joined, dims, none) or dims[0]


def _chunks(dims: Dims, count: Value | None, dim: Value | None) -> dict[str, str]:
    axis = dim if isinstance(dim, int) else -1
    if not isinstance(count, int) or not 0 < count <= MAX_PARTS or not _is_axis(axis, dims):
        return {}
    part = divided(dims[axis], count)
    return {"chunks": ", ".join([str(part)] * count)} if isinstance(part, int) else {}


def _is_axis(axis: int, dims: Dims) -> bool:
    return -len(dims) <= axis < len(dims)


def _is_integer(value: Value | None) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _sizes(dims: Sequence[object]) -> str:
    return ", ".join(map(str, dims))


SIMILAR = 0.7
"""Least similarity of a misspelled name and the right one; names of other functions have less."""

TORCH_CALL = 'torch("namespace.operator.overload({0})", x, dtype=f32, shape=[M, 64])'

_OTHERWISE = f"docs/language.md lists the operators; PyTorch has more: {TORCH_CALL}"


def _plain(name: str) -> str:
    """A name as it is compared with others: LayerNorm, layernorm and layer_norm are one."""
    return name.lower().replace("_", "")


_PLAIN_FUNCTIONS = {_plain(name): name for name in [*FUNCTIONS, *OTHERS]}


_FUNCTIONS_OF_ONE = frozenset(
    name for name, op in REAL_FUNCTIONS.items() if None not in op.NUMBERS.values()
)
"""Operators of the language that could be activations."""


def function_remedy(
    name: str,
    known: Iterable[str],
    given: Sequence[Given],
    *,
    counterparts: Mapping[str, str] = FUNCTIONS,
    otherwise: str = _OTHERWISE,
) -> str:
    """The remedy for the name of a function that does not exist, which is called with `given`."""
    if name in ELEMENT_NAMES.values():
        return f"write cast({given[0].text if given else 'x'}, {name})"
    names = list(known)
    same = [each for each in names if _plain(each) == _plain(name)]
    if same:
        return f"did you mean '{same[0]}'?"
    counterpart = next((each for each in counterparts if _plain(each) == _plain(name)), "")
    operands = sum(isinstance(each.value, TensorValue | float) for each in given)
    text = counterparts.get(f"{counterpart}/{operands}") or counterparts.get(counterpart)
    if text is not None:
        return f"write {fill(text, fields_of(given))}{NOTES.get(text, '')}"
    if name in WITHOUT_COUNTERPART:
        return WITHOUT_COUNTERPART[name]
    is_other = _plain(name) in _PLAIN_FUNCTIONS
    similar = [] if is_other else get_close_matches(name, names, n=1, cutoff=SIMILAR)
    return f"did you mean '{similar[0]}'?" if similar else otherwise


def choice_remedy(
    parameter: str,
    value: str,
    choices: Sequence[str],
    operator: str,
    operand: Value | None,
    *,
    adjacent: bool = False,
) -> str:
    """The remedy for a string that is not one of the choices of a parameter; `operand` is the x of
    the call of `operator`, which pairs `adjacent` columns or halves.
    """
    synonym = CHOICES.get(parameter, {}).get(value.lower())
    if synonym in choices:
        return f'write {parameter}="{synonym}"'
    same = [each for each in choices if _plain(each) == _plain(value)]
    is_function = _plain(value) in _PLAIN_FUNCTIONS or _plain(value) in _FUNCTIONS_OF_ONE
    if not same and not is_function:
        same = get_close_matches(value, choices, n=1, cutoff=SIMILAR)
    if same:
        return f"did you mean '{same[0]}'?"
    own = f"{value}($x)" if value in _FUNCTIONS_OF_ONE else None
    text = FUNCTIONS.get(_PLAIN_FUNCTIONS.get(_plain(value), ""), own)
    if parameter == "activation" and text is not None:
        return _activation_remedy(text, operator, operand, adjacent)
    return "write one of these"


def _activation_remedy(text: str, operator: str, operand: Value | None, adjacent: bool) -> str:
    """The remedy for an activation that `text` writes, of x or of one half of its columns."""
    if operator == "activate":
        return f"write {fill(text, fields_of([Given('$x', operand)]))}"
    half = operand
    if isinstance(operand, TensorValue):
        dims = (*operand.dims[:-1], divided(operand.dims[-1], 2) or 1)
        half = replace(operand, type=TensorType(operand.type.element, dims))
    gate = fill(text, fields_of([Given("a", half)]))
    halves = "$x[..., ::2], $x[..., 1::2]" if adjacent else "chunk($x, 2)"
    return f"write a, b = {halves}, then {gate} * b"


def keyword_remedy(operator: str, name: str, known: Collection[str], otherwise: str) -> str:
    """The remedy for a parameter that an operator or a function of the user does not have."""
    synonyms = [each for each in PARAMETERS.get(name, ()) if each in known]
    if synonyms:
        return f"did you mean '{synonyms[0]}'?"
    if (operator, name) in KEYWORDS:
        return KEYWORDS[operator, name]
    return closest(name, known, otherwise)


def element_remedy(name: str, known: Collection[str], otherwise: str) -> str:
    """The remedy for an element type that does not exist."""
    return _synonym_remedy(ELEMENT_NAMES, name, known, otherwise)


def kind_remedy(table: str, name: str, known: Collection[str], otherwise: str) -> str:
    """The remedy for the kind of a port or of a result, or for a combiner, that does not exist."""
    return _synonym_remedy(CHOICES[table], name, known, otherwise)


def _synonym_remedy(
    synonyms: Mapping[str, str], name: str, known: Collection[str], otherwise: str
) -> str:
    plain = name.lower()
    synonym = plain if plain in known else synonyms.get(plain)
    return f"did you mean '{synonym}'?" if synonym in known else closest(name, known, otherwise)


def value_remedy(name: str, known: Iterable[str], otherwise: str) -> str:
    """The remedy for a name that is not defined."""
    word = VALUES.get(name) or ELEMENT_NAMES.get(name.lower())
    if word is not None:
        return word if " " in word else f"did you mean '{word}'?"
    return closest(name, known, otherwise)


def product_remedy(size: object, factor: object) -> str:
    """Return how to declare an extent that is divided by `factor`."""
    return (
        f"declare {size} as a number or a const, or as {factor} * N in a function that another "
        "one calls"
    )


def conversion(a: TensorValue, b: TensorValue) -> str:
    """The cast of the operand with fewer dimensions to the type of the other one."""
    fewer, element = ("$a", b) if len(a.dims) < len(b.dims) else ("$b", a)
    return f"cast({fewer}, {element.type.element})"


def broadcast_remedy(a: TensorValue, b: TensorValue) -> str:
    """The remedy for operands whose shapes do not broadcast."""
    operands = sorted((("$a", a.dims), ("$b", b.dims)), key=lambda operand: len(operand[1]))
    for (name, dims), (_, wider) in (operands, operands[::-1]):
        aligned = with_ones([dim for dim in dims if dim != 1], wider)
        if aligned is not None:
            return f"write reshape({name}, {format_dims(aligned)})"
    if len(a.dims) == len(b.dims) == 1:
        return f"for all pairs of elements, write reshape($b, {format_dims((*b.dims, 1))})"
    pairs = list(zip(reversed(a.dims), reversed(b.dims), strict=False))
    for position, (x, y) in enumerate(pairs, 1):
        if x != y and 1 not in (x, y):
            return (
                f"dimension {-position} is {x} on the left and {y} on the right; "
                "extents must be equal or 1"
            )
    return "extents must be equal or 1"


_TABLES = (
    "write per_column=true if they have an entry for each column of a head, or table_heads=N if "
    "they are those of N heads; heads are side by side in the columns of x"
)
REMEDIES = {
    ("attention", "k"): "k has the batch of q, and heads whose number divides that of q",
    ("attention", "v"): "pass value_dim if a head of v has other columns than one of k",
    ("rope", "cos"): _TABLES,
    ("rope", "sin"): _TABLES,
    ("rms_norm", "w"): "group=G normalizes each run of G columns, if w has G elements",
    ("layer_norm", "w"): "group=G normalizes each run of G columns, if w has G elements",
    ("attention", "mask"): "use 1 for a dimension that does not matter, as in "
    "reshape($mask, [B, 1, 1, S])",
    ("cross_entropy", "target"): "it has the rows of logits, as in reshape($target, [B, T])",
    ("embedding", "padding_idx"): "name the row whose gradient is 0",
    ("selective_scan", "a"): "a is channels x states; give states as a number or a const",
    ("delta_rule", "head_dim"): "it is the number of columns of a head of q and k",
    ("delta_rule", "k"): "k has heads of `head_dim` columns; heads of v share them equally",
    ("ssd", "b"): "give `states`, the states of a group",
    ("ssd", "x"): "a has one rate for each head",
    ("ssd", "a"): "give the heads as a number or a const",
    ("delta_rule", "beta"): "give the heads as a number or a const",
    ("convolution", "w"): "x is B x C x positions, w is O x C / groups x windows",
    ("conv1d", "w"): "w is O x C / groups x K for x of positions x C, which transpose($x) may "
    "give; groups=C convolves each column separately",
    ("gather", "ids"): "index(x, ids) takes whole rows",
    ("group_norm", "w"): "for channels in the last dimension, pass dim=-1",
    ("group_norm", "b"): "for channels in the last dimension, pass dim=-1",
    ("scaled_linear", "x"): "convert it: cast($x, f8e4m3); quantized_linear(x, w) rounds it",
    ("scaled_linear", "w"): "convert it: cast($w, f8e4m3); quantized_linear(x, w) rounds it",
    ("quantized_linear", "x"): "products of float8 are those of linear and scaled_linear",
    ("quantized_linear", "w"): 'w is N x K; recipe="rowwise" takes symbolic sizes',
    ("low_bit_linear", "scales"): "state transposed=true for a weight and scales of K x N",
    ("low_bit_linear", "w"): 'state the packing of 4 bits, such as packing="k01234567"',
    ("topk", "k"): "sort(x) gives all of them in order",
}
"""Remedies for values that a verifier refuses."""


def reshape_remedy(name: str, dims: Dims, shape: str) -> str | None:
    """Return the reshape of an argument with other extents of 1 than `dims`, if there is one."""
    kept = [extent for extent in shape.strip("[]").split(", ") if extent not in ("1", "")]
    is_alike = kept == list(map(str, without_ones(dims)))
    return f"write reshape(${name}, {shape})" if is_alike else None


def rank_remedy(name: str, dims: Dims, rank: int | None) -> str | None:
    """Return the reshape of an argument with the extents `dims` to `rank` dimensions."""
    if name == "x" and rank == 2 and len(dims) > 2:
        return f"rows flatten: reshape($x, [-1, {dims[-1]}])"
    if rank == 3 and len(dims) == 4:
        flat = (*dims[:2], dims[2] * dims[3])
        return f"columns of heads are side by side: reshape(${name}, {format_dims(flat)})"
    if rank == 3 and len(dims) == 2:
        return f"the first dimension is missing: reshape(${name}, {format_dims((1, *dims))})"
    return None
