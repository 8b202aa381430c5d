"""Fixtures of the tests of the frontend for PyTorch."""

from collections.abc import Iterator

import pytest
import torch
from support.torch_compile import reset


@pytest.fixture
def fresh_dynamo() -> None:
    """Nothing is compiled yet, and random numbers are those of a new process."""
    reset()
    torch.default_generator.manual_seed(0)


@pytest.fixture
def no_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield
