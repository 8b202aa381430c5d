"""Names allocated during emission, which do not collide with other names in the text.

    LocalNames().fresh("rows")          # "𐙲ows" while the function is written
    tile = tl.arange(0, 16) + 𐙲ows      # the emitter's own names are plain
    final_names(source)                 # {"𐙲ows": "rows"}, or "rows_1" where the source has `rows`

The program of the user names values, and the emitter does not know all words that it is going to
write: its own variables, helpers, builtins. A name is therefore *provisional* at first. It begins
with a letter of another alphabet, which no word of the emitter has, and is as long as the final
name, so that the layout is the same. When the function is complete, Python's symbol table has all
other names of it, and provisional names become those plain ones that are still free.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from keyword import iskeyword, issoftkeyword
from string import ascii_letters
from symtable import SymbolTable, symtable

# Letters to Python in every version, and their own normal form.
_LINEAR_A = 0x10600
_PROVISIONAL = {ord(letter): _LINEAR_A + ord(letter) for letter in f"{ascii_letters}_"}
_PLAIN = {provisional: letter for letter, provisional in _PROVISIONAL.items()}
_WORD = re.compile(r"[^\W\d]\w*")


class NameAllocator:
    """Allocates Python identifiers, each one once.

    `fresh("x")` is `x`, then `x_1`, `x_2`, ...; a hint that is no identifier is made one.
    """

    def __init__(self, reserved: Iterable[str] = ()):
        self._taken = set(reserved)

    def reserve(self, *names: str) -> None:
        self._taken.update(names)

    def fresh(self, hint: str | None, default: str = "value") -> str:
        base = identifier(hint) if hint else default
        name, count = base, 0
        while self.is_taken(name):
            count += 1
            name = f"{base}_{count}"
        self._taken.add(name)
        return name

    def is_taken(self, name: str) -> bool:
        return name in self._taken

    def copy(self) -> NameAllocator:
        """Return another allocator, whose names this one may allocate, too."""
        return NameAllocator(self._taken)


class LocalNames(NameAllocator):
    """Allocates provisional names, for a function in which the user's program names values."""

    def __init__(self, around: LocalNames | None = None):
        super().__init__()
        self._around = around
        self._branches: list[LocalNames] = []

    def fresh(self, hint: str | None, default: str = "value") -> str:
        name = super().fresh(hint, default)
        return name[0].translate(_PROVISIONAL) + name[1:]

    def branch(self) -> LocalNames:
        """Return an allocator for a branch of the function; others may use the same names."""
        self._branches.append(LocalNames(self))
        return self._branches[-1]

    def is_taken(self, name: str) -> bool:
        around = self._around
        while around is not None:
            if name in around._taken:
                return True
            around = around._around
        return self._is_taken_within(name)

    def _is_taken_within(self, name: str) -> bool:
        return name in self._taken or any(each._is_taken_within(name) for each in self._branches)


def identifier(hint: str) -> str:
    """Return `hint` as a plain Python identifier that is no keyword."""
    name = re.sub(r"\W", "_", plain(hint), flags=re.ASCII).strip("_") or "value"
    if name[0].isdigit():
        name = f"v{name}"
    return f"{name}_" if iskeyword(name) or issoftkeyword(name) else name


def plain(text: str) -> str:
    """Return `text` with the preferred form of provisional names."""
    return text.translate(_PLAIN)


def final_names(source: str) -> dict[str, str]:
    """Return the final name of each provisional one in the text of complete functions."""
    symbols = set(symbols_of(source))
    words = dict.fromkeys(_WORD.findall(source))
    provisional = [word for word in words if word in symbols and plain(word) != word]
    taken = symbols.difference(provisional)
    kept = {name: plain(name) for name in provisional if plain(name) not in taken}
    others = NameAllocator({*taken, *kept.values()})
    return {name: kept.get(name) or others.fresh(name) for name in provisional}


def renamed(text: str, names: Mapping[str, str]) -> str:
    """Return `text` with the words in `names` replaced, also in comments and strings."""
    return _WORD.sub(lambda word: names.get(word[0], word[0]), text)


def finished(source: str) -> str:
    """Return the text of functions with final names."""
    return renamed(source, final_names(source))


def symbols_of(source: str) -> Iterator[str]:
    """Yield all names that a text binds or uses, in any of its scopes."""
    tables: list[SymbolTable] = [symtable(source, "<emitted>", "exec")]
    while tables:
        table = tables.pop()
        yield from table.get_identifiers()
        tables += table.get_children()
