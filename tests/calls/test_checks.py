"""The generated check of a call says yes exactly where the general one finds nothing to say."""

import operator
from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest
import torch
from torch._subclasses import FakeTensorMode

import coda_ir
from coda_ir.calls.arguments import Signature, TensorSpec
from coda_ir.calls.checks import CallCheck, check_source, make_check
from coda_ir.diagnostics import ArgumentError

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
        TensorSpec("twice", ("2*T", "3*H"), torch.float32),
    ),
    (),
    ("N >= 5", "max(B, N) % N == 0", "H / B > 1"),
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
        torch.zeros(6, 9),
    ]


def check_passes(
    values: Sequence[object], device: torch.device, *, trainable: bool = False
) -> bool:
    """Return whether the general check raises nothing, and all tensors have elements."""
    try:
        tensors, _ = SIGNATURE.check(values, device, trainable=trainable)
    except ArgumentError:
        return False
    return all(tensor.numel() for tensor in tensors)


def variants(value: object) -> list[object]:
    """Return what may be passed instead of an argument, right and wrong."""
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
@pytest.mark.parametrize("trainable", [True, False])
def test_agrees_with_the_general_check(device: torch.device, with_gradient: bool, trainable: bool):
    fits = make_check(SIGNATURE, device, trainable=trainable)
    seen = set[bool]()
    with torch.set_grad_enabled(with_gradient):
        for index in range(len(SIGNATURE.arguments)):
            for value in variants(arguments()[index]):
                values = arguments()
                values[index] = value
                expected = check_passes(values, device, trainable=trainable)
                assert fits(*values) is expected, (index, value)
                seen.add(expected)
    assert seen == ({True, False} if device == CPU else {False})


def test_a_gradient_that_was_not_recorded_before():
    values = arguments()
    values[3] = torch.nn.Parameter(torch.zeros(8, 8, dtype=torch.bfloat16))
    fits = make_check(SIGNATURE, CPU)
    with torch.no_grad():
        assert fits(*values)
    assert not fits(*values)


def test_negative_views_are_copied():
    values = arguments()
    values[1] = torch.ones(5, 5, 2).view(torch.complex64)[..., 0].conj().imag
    assert not make_check(SIGNATURE, CPU)(*values)
    tensors, _ = SIGNATURE.check(values, CPU)
    assert not tensors[1].is_neg() and (tensors[1] == -1).all()


def test_tensors_without_elements_in_memory():
    """Those of transforms, of tracing and of other layouts are left to the general check."""
    one = Signature("f", (TensorSpec("x", (2, 3), torch.float32),), ())
    fits, x, found = make_check(one, CPU), torch.zeros(2, 3), list[bool]()

    def note(tensor: torch.Tensor) -> torch.Tensor:
        found.append(fits(tensor))
        return tensor.sum()

    transforms: Any = torch.func
    transforms.grad(note)(x)
    transforms.vmap(note)(x[None])
    transforms.functionalize(note)(x)
    with FakeTensorMode():
        note(torch.zeros(2, 3))
    for other in (x.to_sparse(), x.to_sparse_csr(), x.to("meta")):
        note(other)
    assert found == [False] * 7 and fits(x) and fits(torch.nn.Buffer(x))


def test_arguments_by_name():
    call = CallCheck(SIGNATURE, CPU)
    values = arguments()
    names = [spec.name for spec in SIGNATURE.arguments]
    found = None
    for count in range(len(values) + 1):
        named = dict(reversed(list(zip(names[count:], values[count:], strict=True))))
        found = call.find(values[:count], named)
        assert found is not None and all(map(operator.is_, found, values))
    assert found is not None and call.sizes(found) == SIGNATURE.check(values, CPU)[1]


@pytest.mark.parametrize("count", [0, 2, 6])
def test_names_that_are_not_the_right_ones(count: int):
    call = CallCheck(SIGNATURE, CPU)
    values = arguments()
    named = dict(zip((s.name for s in SIGNATURE.arguments[count:]), values[count:], strict=True))
    wrong = [named | {"other": values[0]}, named | {SIGNATURE.arguments[count - 1].name: values[0]}]
    if named:
        first, *_ = named
        renamed = {("other" if name == first else name): x for name, x in named.items()}
        wrong = [*wrong[: 1 if count == 0 else 2], renamed, dict(list(named.items())[1:])]
    for names in wrong:
        assert call.find(values[:count], names) is None


def test_the_general_check_is_asked_only_once(monkeypatch: pytest.MonkeyPatch):
    """This includes functions that are trained, and the sizes of symbols."""
    text = "fn f(x: f32[B, 4], weight w: f32[4]) -> f32[B, 4] {\n    return x * w\n}\n"
    x, w = torch.randn(3, 4), torch.nn.Parameter(torch.randn(4))
    trained = coda_ir.compile(text, training=True, target="reference", device="cpu")
    plain = coda_ir.compile(text, target="reference", device="cpu")
    monkeypatch.delattr(Signature, "check")
    for batch in (3, 2, 2):
        result = trained(x[:batch], w=w)
        (gradient,) = torch.autograd.grad(result.sum(), w)
        assert torch.allclose(gradient, x[:batch].sum(0)) and result.shape == (batch, 4)
        assert plain.sizes(x[:batch], w.detach()) == {"B": batch}
    with pytest.raises(AttributeError, match="check"):
        trained(x.double(), w=w)


def test_sizes_that_several_arguments_share():
    fits = make_check(SIGNATURE, CPU)
    for t, again, ids in product((0, 1, 3), repeat=3):
        values = arguments()
        values[0] = torch.zeros(2, t, 8, dtype=torch.bfloat16)
        values[2] = torch.zeros(7, again)
        values[5] = torch.zeros(ids, dtype=torch.int64)
        values[6] = torch.zeros(2 * t, 9)
        assert fits(*values) is (t == again == ids != 0)


def test_sizes_that_are_multiples():
    values = arguments()
    tensors, sizes = SIGNATURE.check(values, CPU)
    assert sizes == CallCheck(SIGNATURE, CPU).sizes(tensors) == {"B": 2, "T": 3, "N": 5, "H": 3}
    for shape, message in (((8, 9), r"expected 2\*T, where T = 3"), ((6, 8), r"expected 3\*H")):
        values[6] = torch.zeros(shape)
        assert not make_check(SIGNATURE, CPU)(*values)
        with pytest.raises(ArgumentError, match=message):
            SIGNATURE.check(values, CPU)


def test_no_arguments():
    assert make_check(Signature("f", (), ()), CPU)()


def test_the_source_names_what_is_expected():
    source = check_source(SIGNATURE, CPU)
    assert "x3.shape == (8, 8)" in source
    assert "x5.dtype is int64" in source and "x5.shape == (size1,)" in source


def test_a_function_without_arguments_has_no_names():
    one = coda_ir.compile(ONE, target="reference", device="cpu")
    assert one() == 1
    with pytest.raises(ArgumentError, match="no argument 'x'"):
        one(x=torch.zeros(()))
