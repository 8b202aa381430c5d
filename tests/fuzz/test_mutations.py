"""Mutated goldens and examples: an error with a place, or a program that round-trips.

The same mutations each time; `make fuzz` looks for others.
"""

from random import Random

import pytest

from fuzz.mutator import Mutator, tokenize
from fuzz.oracle import bounded
from fuzz.seeds import seeds, words
from fuzz.targets import TARGETS

SLACK = 10
"""For busy machines: here, it is hangs that have to be found."""

MUTATIONS = {"coda": 5, "mlir": 2, "pipeline": 8, "expectations": 3}
"""For each text; they do not depend on the other texts, so that a new golden changes no others."""

BATCHES = 4


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(BATCHES))
@pytest.mark.parametrize("name", TARGETS)
def test_mutated_texts_are_explained_or_round_trip(name: str, batch: int):
    target = TARGETS[name]
    for seed in seeds(target.language)[batch::BATCHES]:
        mutator = Mutator([seed], words(target.language), Random(seed))
        for _ in range(MUTATIONS[name]):
            text = mutator.mutated(seed)
            try:
                bounded(target.check, text, SLACK)
            except Exception as error:
                error.add_note(text)
                raise


@pytest.mark.parametrize("name", TARGETS)
def test_tokens_of_seeds_make_the_seeds(name: str):
    for text in seeds(TARGETS[name].language):
        assert "".join(tokenize(text)) == text
