"""Differences of two tensors that are found, and those that are rounding."""

import pytest
import torch

from coda_ir.equivalence import find_difference

NAN, INF = torch.nan, torch.inf


def normal(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def test_another_order_of_sums_is_rounding():
    x, w = normal(50, 300), normal(300, 40)
    one_by_one = torch.stack([x[:, i, None] * w[i] for i in range(300)]).sum(0)
    assert find_difference(one_by_one, x @ w) is None


def test_a_single_wrong_element_of_a_large_tensor_is_seen():
    expected = normal(1000, 500)
    actual = expected.clone()
    actual[700, 3] += 1e-6
    difference = find_difference(actual, expected)
    assert difference is not None
    assert difference.index == (700, 3)
    assert difference.elements == 1
    assert difference.relative < 1e-6


def test_a_wrong_row_of_small_elements_is_seen():
    expected = normal(10, 20)
    expected[4] *= 1e-6
    actual = expected.clone()
    actual[4] *= 1.001
    difference = find_difference(actual, expected)
    assert difference is not None
    assert difference.index[0] == 4
    assert difference.elements > 15


def test_what_cancels_in_a_row_of_large_terms_is_rounding():
    expected = torch.tensor([[1e6, 0.0]], dtype=torch.float64)
    actual = torch.tensor([[1e6, 1e-5]], dtype=torch.float64)
    assert find_difference(actual, expected) is None
    assert find_difference(actual[:, 1:], expected[:, 1:]) is not None


@pytest.mark.parametrize(
    ("actual", "expected"), [(NAN, 1.0), (1.0, NAN), (INF, -INF), (1e300, INF), (INF, NAN)]
)
def test_special_values_have_to_agree(actual: float, expected: float):
    first, second = (torch.tensor([0, x], dtype=torch.float64) for x in (actual, expected))
    difference = find_difference(first, second)
    assert difference is not None
    assert difference.index == (1,)
    assert difference.relative == INF


def test_equal_special_values():
    x = torch.tensor([NAN, INF, -INF, 0.0])
    assert find_difference(x, x) is None


def test_integers_have_to_be_equal():
    assert find_difference(torch.tensor([3, 5]), torch.tensor([3, 4])) is not None
    assert find_difference(torch.tensor(3), torch.tensor(3)) is None


def test_empty_tensors():
    assert find_difference(torch.zeros(0, 4), torch.zeros(0, 4)) is None


def test_noise_is_allowed_as_well():
    expected = normal(4, 5)
    actual = expected + 1e-7
    noise = torch.full((4, 1), 1e-6, dtype=torch.float64)
    assert find_difference(actual, expected) is not None
    assert find_difference(actual, expected, noise) is None
    noise[2] = 0
    difference = find_difference(actual, expected, noise)
    assert difference is not None
    assert difference.index[0] == 2
