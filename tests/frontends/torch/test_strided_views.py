"""Views by strides read the elements of eager PyTorch, though programs store other layouts."""

from collections.abc import Callable

import pytest
import torch
from support.torch_compile import compiled, gradients
from torch import Tensor, nn

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

OPERANDS: dict[str, Callable[[Tensor], Tensor]] = {
    "a copy of transposed dimensions": lambda y: y.transpose(1, 2).contiguous(),
    "transposed dimensions": lambda y: y.transpose(1, 2),
    "a copy of columns": lambda y: y[..., :8].contiguous(),
    "columns": lambda y: y[..., :8],
    "later rows": lambda y: y[1:],
    "a copy of repeated elements": lambda y: y[:, :1].expand(-1, 6, -1).contiguous(),
}


class Windows(nn.Module):
    def __init__(self, operand: Callable[[Tensor], Tensor]):
        super().__init__()
        self.linear, self.operand = nn.Linear(16, 16), operand

    def forward(self, x: Tensor) -> Tensor:
        y = self.operand(self.linear(x))
        (a, b, c), (i, j, k) = y.shape, y.stride()
        windows = y.as_strided((a, 2, b // 2 + 1, c), (i, j, j, k))
        return windows.square() + self.linear(x).mean()


class Unfolded(nn.Module):
    """Windows of rows as matrices, such as those of local attention."""

    def __init__(self, size: int, step: int):
        super().__init__()
        self.linear, self.size, self.step = nn.Linear(16, 16), size, step

    def forward(self, x: Tensor) -> Tensor:
        windows = self.linear(x).unfold(1, self.size, self.step)
        return windows.transpose(-1, -2).square()


class Written(nn.Module):
    """Writes to what it reads by strides."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x).transpose(1, 2).contiguous()
        y.as_strided((2, 6), (96, 7)).add_(1.0)
        return y


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERANDS)
def test_values_and_gradients_are_those_of_eager(name: str):
    model, x = Windows(OPERANDS[name]), torch.randn(2, 6, 16, requires_grad=True)
    program = compiled(model, target="triton", compare=False)
    torch.testing.assert_close(program(x), model(x))
    for gradient, expected in zip(
        gradients(program, model, x), gradients(model, model, x), strict=True
    ):
        torch.testing.assert_close(gradient, expected)


@pytest.mark.parametrize(("size", "step"), [(4, 2), (3, 3), (3, 2)])
def test_windows_of_rows_and_their_gradients_are_those_of_eager(size: int, step: int):
    model, x = Unfolded(size, step), torch.randn(2, 9, 16, requires_grad=True)
    program = compiled(model, target="triton", compare=False)
    torch.testing.assert_close(program(x), model(x))
    for gradient, expected in zip(
        gradients(program, model, x), gradients(model, model, x), strict=True
    ):
        torch.testing.assert_close(gradient, expected)


@pytest.mark.slow
@pytest.mark.parametrize("is_trained", [False, True])
def test_writing_by_strides(is_trained: bool, caplog: pytest.LogCaptureFixture):
    model, x = Written(), torch.randn(2, 6, 16, requires_grad=is_trained)
    program = compiled(model, compare=False)
    torch.testing.assert_close(program(x), model(x))
    if is_trained:
        for gradient, expected in zip(
            gradients(program, model, x), gradients(model, model, x), strict=True
        ):
            torch.testing.assert_close(gradient, expected)
    assert not caplog.records


def test_strided_views_of_inputs_are_views():
    def windows(x: Tensor) -> Tensor:
        (a, b, c), (i, j, k) = x.shape, x.stride()
        return x.as_strided((a, 2, b // 2 + 1, c), (i, j, j, k))

    _check_views(windows)


def test_absolute_places_in_the_memory_of_inputs():
    _check_views(lambda x: x.as_strided((x.shape[0], 2), (x.shape[2], 1), 1))


def test_real_parts_of_inputs_are_views():
    _check_views(lambda x: torch.view_as_complex(x.reshape(*x.shape[:2], 4, 2)).real)


def test_copies_of_absolute_places():
    _check_views(lambda x: torch.as_strided_copy(x, (x.shape[0], 2), (x.shape[2], 1), 1))


def test_expanded_inputs_that_change_in_place(caplog: pytest.LogCaptureFixture):
    """PyTorch runs the graph, which AOTAutograd refuses."""
    linear = nn.Linear(8, 8)

    def model(x: Tensor) -> Tensor:
        x[0].mul_(2)
        return linear(x)

    row, same_row = torch.ones(1, 8), torch.ones(1, 8)
    expected = model(row.expand(3, 8))
    torch.testing.assert_close(compiled(model)(same_row.expand(3, 8)), expected)
    torch.testing.assert_close(same_row, row)
    assert "runs in eager PyTorch: an expanded input" in caplog.text


def _check_views(view: Callable[[Tensor], Tensor]) -> None:
    """Compare a view of an input that begins anywhere in its memory, or a copy of one, beside a
    linear map.
    """
    linear = nn.Linear(8, 24).requires_grad_(False)

    def model(x: Tensor) -> tuple[Tensor, Tensor]:
        return view(x), linear(x)

    program = compiled(model, dynamic=True)
    for x in (torch.randn(3, 6, 8), torch.randn(6, 5, 8)[1:]):
        for result, expected in zip(program(x), model(x), strict=True):
            torch.testing.assert_close(result, expected)
            assert result.stride() == expected.stride()
        (result, _), expected = program(x), view(x)
        is_view = expected.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
        assert (result.data_ptr() == expected.data_ptr()) == is_view
