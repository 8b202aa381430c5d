"""Structure-aware mutation: of tokens, lines, bracketed parts, and between texts."""

import re
from collections.abc import Callable, Sequence
from random import Random

_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*+"?|[%@^#!]?[\w.$]+|->|//[^\n]*|#[^\n]*|\s+|.', re.DOTALL)
_NUMBER = re.compile(r"\d+(?:\.\d*)?")
_BRACKETS = {"(": ")", "[": "]", "{": "}", "<": ">"}
NUMBERS = (
    *("0", "1", "2", "3", "7", "8", "16", "31", "63", "64", "4096", "00", "0x10", "1_000"),
    *(str(2**32), str(2**63 - 1), str(2**63), str(2**64 - 1), "9" * 18, "9" * 40),
    *("1.5", "0.0", "1e400", "1e-400"),
)
CHARACTERS = ("", "x", "0", "\0", "\n", "é", "\u2028", "\t", "\U0001f600")
LARGEST = 20_000

Mutation = Callable[["Mutator", list[str]], list[str]]


class Mutator:
    """Makes new texts of a language from old ones; the same seed gives the same texts."""

    def __init__(self, seeds: Sequence[str], words: Sequence[str], generator: Random):
        self.seeds = seeds
        self.words = words
        self.random = generator

    def mutated(self, text: str, steps: int | None = None) -> str:
        """`text` after one to six mutations, or after `steps`."""
        tokens = tokenize(text)
        for _ in range(self.random.choice((1, 1, 2, 2, 3, 6)) if steps is None else steps):
            tokens = self.random.choice(_MUTATIONS)(self, tokens)
        return "".join(tokens)[:LARGEST]

    def crossed(self, first: str, second: str) -> str:
        """The beginning of one text and the end of another, cut between lines."""
        head, tail = first.splitlines(keepends=True), second.splitlines(keepends=True)
        at, to = self.random.randint(0, len(head)), self.random.randint(0, len(tail))
        return "".join(head[:at] + tail[to:])[:LARGEST]

    def _position(self, tokens: list[str]) -> int:
        return self.random.randrange(len(tokens)) if tokens else 0

    def _range(self, tokens: list[str]) -> slice:
        start = self._position(tokens)
        return slice(start, start + self.random.choice((1, 1, 2, 4, 10, 40)))

    # Mutations.

    def delete(self, tokens: list[str]) -> list[str]:
        part = self._range(tokens)
        return tokens[: part.start] + tokens[part.stop :]

    def duplicate(self, tokens: list[str]) -> list[str]:
        part = self._range(tokens)
        times = self.random.choice((2, 2, 3, 20))
        return tokens[: part.start] + tokens[part] * times + tokens[part.stop :]

    def move(self, tokens: list[str]) -> list[str]:
        part = self._range(tokens)
        taken, rest = tokens[part], tokens[: part.start] + tokens[part.stop :]
        at = self._position(rest)
        return rest[:at] + taken + rest[at:]

    def exchange(self, tokens: list[str]) -> list[str]:
        """Two tokens trade places."""
        if len(tokens) > 1:
            a, b = self._position(tokens), self._position(tokens)
            tokens[a], tokens[b] = tokens[b], tokens[a]
        return tokens

    def same_kind(self, tokens: list[str]) -> list[str]:
        """A token becomes another of its kind from the same text."""
        at = self._position(tokens)
        similar = [token for token in tokens if tokens and _kind(token) == _kind(tokens[at])]
        return [*tokens[:at], self.random.choice(similar), *tokens[at + 1 :]] if similar else tokens

    def insert_word(self, tokens: list[str]) -> list[str]:
        at = self._position(tokens)
        return [*tokens[:at], self.random.choice(self.words), *tokens[at:]]

    def replace_by_word(self, tokens: list[str]) -> list[str]:
        at = self._position(tokens)
        return [*tokens[:at], self.random.choice(self.words), *tokens[at + 1 :]]

    def change_number(self, tokens: list[str]) -> list[str]:
        places = [at for at, token in enumerate(tokens) if _NUMBER.search(token)]
        if places:
            at = self.random.choice(places)
            number = self.random.choice(NUMBERS)
            tokens[at] = _NUMBER.sub(number, tokens[at], count=1)
        return tokens

    def change_character(self, tokens: list[str]) -> list[str]:
        at = self._position(tokens)
        if tokens and tokens[at]:
            token, inside = tokens[at], self.random.randrange(len(tokens[at]))
            character = self.random.choice(CHARACTERS)
            tokens[at] = token[:inside] + character + token[inside + 1 :]
        return tokens

    def wrap(self, tokens: list[str]) -> list[str]:
        """Brackets around a token, once or many times."""
        at = self._position(tokens)
        opening = self.random.choice(list(_BRACKETS))
        times = self.random.choice((1, 1, 2, 30, 200))
        inside = tokens[at : at + 1]
        wrapped = [opening] * times + inside + [_BRACKETS[opening]] * times
        return tokens[:at] + wrapped + tokens[at + 1 :]

    def splice(self, tokens: list[str]) -> list[str]:
        """Tokens of another text."""
        other = tokenize(self.random.choice(self.seeds))
        at = self._position(tokens)
        return tokens[:at] + other[self._range(other)] + tokens[at:]

    def splice_lines(self, tokens: list[str]) -> list[str]:
        """Lines of another text, at the end of a line."""
        other = self.random.choice(self.seeds).splitlines(keepends=True)
        start = self.random.randrange(len(other))
        lines = other[start : start + self.random.choice((1, 2, 5))]
        ends = [at for at, token in enumerate(tokens) if "\n" in token]
        at = self.random.choice(ends) + 1 if ends else len(tokens)
        return tokens[:at] + lines + tokens[at:]

    def copy_brackets(self, tokens: list[str]) -> list[str]:
        """A bracketed part takes the place of another, or goes into it."""
        opening = [at for at, token in enumerate(tokens) if token in _BRACKETS]
        if len(opening) < 2:
            return tokens
        source, target = self.random.choice(opening), self.random.choice(opening)
        part = tokens[source : _closing(tokens, source) + 1]
        end = target + 1 if self.random.random() < 0.3 else _closing(tokens, target) + 1
        return tokens[:target] + part + tokens[end:]

    def cut(self, tokens: list[str]) -> list[str]:
        return tokens[: self._position(tokens)] if self.random.random() < 0.3 else tokens


_MUTATIONS: tuple[Mutation, ...] = (
    Mutator.delete,
    Mutator.duplicate,
    Mutator.move,
    Mutator.exchange,
    Mutator.same_kind,
    Mutator.same_kind,
    Mutator.same_kind,
    Mutator.insert_word,
    Mutator.replace_by_word,
    Mutator.change_number,
    Mutator.change_character,
    Mutator.wrap,
    Mutator.splice,
    Mutator.splice_lines,
    Mutator.copy_brackets,
    Mutator.cut,
)


def tokenize(text: str) -> list[str]:
    """Tokens and the white space between them; joined they are `text`."""
    return _TOKEN.findall(text)


def _kind(token: str) -> str:
    first = token[:1]
    return "word" if first.isalpha() else "number" if first.isdigit() else first


def _closing(tokens: list[str], start: int) -> int:
    """The index of the bracket that closes the one at `start`, or the last index."""
    opening, closing = tokens[start], _BRACKETS[tokens[start]]
    depth = 0
    for at in range(start, len(tokens)):
        depth += (tokens[at] == opening) - (tokens[at] == closing)
        if depth == 0:
            return at
    return len(tokens) - 1
