"""Remedies for names that .coda lacks: counterparts of names of PyTorch, and misspelled names."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches

from coda_ir.diagnostics import closest
from coda_ir.dialects.coda import REAL_FUNCTIONS
from coda_ir.frontends.coda_text.counterpart_fields import Given, fields_of, fill
from coda_ir.frontends.coda_text.counterparts import (
    CHOICES,
    ELEMENT_NAMES,
    FUNCTIONS,
    KEYWORDS,
    NOTES,
    OTHERS,
    PARAMETERS,
    VALUES,
)
from coda_ir.frontends.coda_text.values import TensorValue

SIMILAR = 0.7
"""How similar a misspelled name is to the right one; names of other functions are less similar."""

TORCH_CALL = 'torch("namespace.operator.overload({0})", x, dtype=f32, shape=[M, 64])'

_OTHERWISE = f"docs/language.md lists the operators; PyTorch has more: {TORCH_CALL}"


def _plain(name: str) -> str:
    """A name as it is compared with others: LayerNorm, layernorm and layer_norm are one."""
    return name.lower().replace("_", "")


_PLAIN_FUNCTIONS = {_plain(name): name for name in [*FUNCTIONS, *OTHERS]}


_FUNCTIONS_OF_ONE = frozenset({*REAL_FUNCTIONS, "elu"})
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
    names = list(known)
    same = [each for each in names if _plain(each) == _plain(name)]
    if same:
        return f"did you mean '{same[0]}'?"
    counterpart = next((each for each in counterparts if _plain(each) == _plain(name)), "")
    tensors = sum(isinstance(each.value, TensorValue) for each in given)
    text = counterparts.get(f"{counterpart}/{tensors}") or counterparts.get(counterpart)
    if text is not None:
        return f"write {fill(text, fields_of(given))}{NOTES.get(text, '')}"
    is_other = _plain(name) in _PLAIN_FUNCTIONS
    similar = [] if is_other else get_close_matches(name, names, n=1, cutoff=SIMILAR)
    return f"did you mean '{similar[0]}'?" if similar else otherwise


def choice_remedy(parameter: str, value: str, choices: Sequence[str]) -> str:
    """The remedy for a string that is not one of the choices of a parameter."""
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
        gate = fill(text, {"x": "a", "X": "a"})
        return f"write a, b = split(x, [F, F]) with half of the columns each, then {gate} * b"
    return "write one of these"


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
    synonym = synonyms.get(name)
    return f"did you mean '{synonym}'?" if synonym in known else closest(name, known, otherwise)


def value_remedy(name: str, known: Iterable[str], otherwise: str) -> str:
    """The remedy for a name that is not defined."""
    word = VALUES.get(name) or ELEMENT_NAMES.get(name)
    if word is not None:
        return word if " " in word else f"did you mean '{word}'?"
    return closest(name, known, otherwise)
