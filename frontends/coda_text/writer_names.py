"""Names for the text that the writer makes: short, unique, and valid in .coda."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from coda_ir.frontends.coda_text.operators import OPERATORS
from coda_ir.frontends.coda_text.program import RESERVED

KEYWORDS = frozenset({"import", "const", "fn", "epilogue", "return", "weight"})

_USUAL = {
    "q_proj": "wq",
    "k_proj": "wk",
    "v_proj": "wv",
    "o_proj": "wo",
    "gate_proj": "w_gate",
    "up_proj": "w_up",
    "down_proj": "w_down",
    "lm_head": "w_head",
    "embed_tokens": "table",
    "input_layernorm": "norm_in",
    "post_attention_layernorm": "norm_out",
}
"""What the weights of modules with these names are usually called on paper."""


class NameTable:
    """Gives each thing a name that no other has."""

    def __init__(self, taken: Iterable[str] = ()):
        self._taken = {*taken, *RESERVED, *KEYWORDS, *OPERATORS}
        self._counts = Counter[str]()

    def first_free(self, candidates: Iterable[str]) -> str:
        """The first candidate that is free, else the last one with a number."""
        name = "value"
        for candidate in candidates:
            name = identifier(candidate)
            if name not in self._taken:
                self._taken.add(name)
                return name
        return self.numbered(f"{name}_")

    def numbered(self, base: str) -> str:
        """`base` with the next number that is free, from 1."""
        while True:
            self._counts[base] += 1
            name = f"{base}{self._counts[base]}"
            if name not in self._taken:
                self._taken.add(name)
                return name


def identifier(text: str) -> str:
    """`text` with what names cannot have replaced."""
    name = re.sub(r"\W", "_", text, flags=re.ASCII).strip("_") or "value"
    return f"n{name}" if name[0].isdigit() else name


def short_names(names: Sequence[str], taken: Iterable[str]) -> list[str]:
    """Short names for parameters such as `model.layers.0.mlp.gate_proj.weight`, in order.

    A name that several would have gets the numbers of the path (`w_gate_0`), then its words.
    """
    stems = Counter(map(_stem, names))
    table = NameTable(taken)
    return [table.first_free(_candidates(name, stems)) for name in names]


def _candidates(name: str, stems: Counter[str]) -> list[str]:
    *path, _ = name.split(".")
    stem = _stem(name)
    numbers = "_".join(part for part in path if part.isdigit())
    words = [part for part in path[:-1] if not part.isdigit()]
    short = f"{stem}_{numbers}" if numbers and stems[stem] > 1 else stem
    longer = ["_".join([*words[-count:], short]) for count in range(1, len(words) + 1)]
    return [short, *longer]


def _stem(name: str) -> str:
    """The name without its path: `wq` for `layers.0.attention.q_proj.weight`."""
    *path, last = name.split(".")
    if not path:
        return last
    module = next((part for part in reversed(path) if not part.isdigit()), path[-1])
    usual = _USUAL.get(module)
    match last:
        case "weight" if usual is not None:
            return usual
        case "bias" if usual is not None and usual.startswith("w"):
            return "b" + usual.removeprefix("w")
        case "bias":
            return f"b_{module}"
        case "weight":
            return module if "norm" in module or module.startswith("ln") else f"w_{module}"
        case _:
            return last
