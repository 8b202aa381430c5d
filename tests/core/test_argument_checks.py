"""The generated check of a call says yes exactly where the general one finds nothing to say."""

from collections.abc import Sequence
from itertools import product

import pytest
import torch

import coda_ir
from coda_ir.argument_checks import check_source, make_check
from coda_ir.arguments import ArgumentError, Signature, TensorSpec, UnknownArgumentError

CPU = torch.device("cpu")
SIGNATURE = Signature(
    "f",
    (
        TensorSpec("x", ("B", "T", 8), torch.bfloat16),
        TensorSpec("square", ("N", "N"), torch.float32),
        TensorSpec("any", (None, "T"), torch.float32),
        TensorSpec("w.0", (8, 8), torch.bfloat16, is_weight=True),
        TensorSpec("scale", (), torch.float32),
        TensorSpec("ids", ("T",), torch.int64),
    ),
    (),
)

ONE = """
func.func @one() -> tensor<f32> {
  %x = coda.constant {value = 1.0} : tensor<f32>
  func.return %x : tensor<f32>
}
"""


def arguments() -> list[object]:
    return [
        torch.zeros(2, 3, 8, dtype=torch.bfloat16),
        torch.zeros(5, 5),
        torch.zeros(7, 3),
        torch.zeros(8, 8, dtype=torch.bfloat16),
        torch.zeros(()),
        torch.zeros(3, dtype=torch.int64),
    ]


def check_passes(values: Sequence[object], device: torch.device) -> bool:
    """Whether the general check raises nothing and no symbol is 0."""
    try:
        _, sizes = SIGNATURE.check(values, device)
    except ArgumentError:
        return False
    return 0 not in sizes.values()


def variants(value: object) -> list[object]:
    """What may be passed instead of an argument, right and wrong."""
    assert isinstance(value, torch.Tensor)
    shapes = [(*value.shape[:-1], 3), (*value.shape, 1), (0, *value.shape[1:]), (), (3, 3), (5, 3)]
    changed: list[object] = [torch.zeros(shape, dtype=value.dtype) for shape in shapes]
    changed += [value.double(), value.bool(), value.to("meta"), value.to_sparse(), None, 1.0]
    changed += [value.clone(), [value], value.mT if value.dim() > 1 else value[None]]
    if value.is_floating_point():
        changed += [value.clone().requires_grad_(), torch.nn.Parameter(value)]
    return changed


@pytest.mark.parametrize("device", [CPU, torch.device("cpu:0"), torch.device("meta")], ids=str)
@pytest.mark.parametrize("with_gradient", [True, False])
def test_agrees_with_the_general_check(device: torch.device, with_gradient: bool):
    fits = make_check(SIGNATURE, device)
    seen = set[bool]()
    with torch.set_grad_enabled(with_gradient):
        for index in range(len(SIGNATURE.arguments)):
            for value in variants(arguments()[index]):
                values = arguments()
                values[index] = value
                expected = check_passes(values, device)
                assert fits(*values) is expected, (index, value)
                seen.add(expected)
    assert seen == ({True, False} if device == CPU else {False})


def test_sizes_that_several_arguments_share():
    fits = make_check(SIGNATURE, CPU)
    for t, again, ids in product((0, 1, 3), repeat=3):
        values = arguments()
        values[0] = torch.zeros(2, t, 8, dtype=torch.bfloat16)
        values[2] = torch.zeros(7, again)
        values[5] = torch.zeros(ids, dtype=torch.int64)
        assert fits(*values) is (t == again == ids != 0)


def test_no_arguments():
    assert make_check(Signature("f", (), ()), CPU)()


def test_the_source_names_what_is_expected():
    source = check_source(SIGNATURE, CPU)
    assert "x3.shape == (8, 8)" in source
    assert "x5.dtype is int64" in source and "x5.shape == (size1,)" in source


def test_a_function_without_arguments_has_no_names():
    one = coda_ir.compile(ONE, target="reference", device="cpu")
    assert one() == 1
    with pytest.raises(UnknownArgumentError, match="no argument 'x'"):
        one(x=torch.zeros(()))
