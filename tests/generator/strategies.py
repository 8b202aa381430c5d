"""The generators as hypothesis strategies: `@given(programs("block"))`."""

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from generator.case import Case
from generator.choices import Choices, DrawnChoices
from generator.properties import make_case


@st.composite
def choices(draw: DrawFn) -> Choices:
    """A source of decisions, to be used by the test that draws it."""
    return DrawnChoices(lambda count: draw(st.integers(0, count - 1)))


@st.composite
def cases(draw: DrawFn, kind: str) -> Case:
    """A verified program of a kind (see `properties.KINDS`) with its arguments."""
    source = DrawnChoices(lambda count: draw(st.integers(0, count - 1)))
    return make_case(source, kind, draw(st.integers(0, 1000)))


def block_cases() -> SearchStrategy[Case]:
    return cases("block")


def gemm_cases() -> SearchStrategy[Case]:
    return cases("gemm")
