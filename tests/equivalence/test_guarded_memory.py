"""Tensors between guards, and kernels that access those."""

import pytest
import torch
from support.between_guards import between_guards
from support.checked_accesses import OutOfBoundsError
from support.emitted import load_module, run_guarded

import coda_ir
from coda_ir.api import parse
from coda_ir.backends.triton import emit_module
from coda_ir.cache import load_source
from coda_ir.equivalence.emitted_run import EmittedFaultError
from coda_ir.equivalence.guarded_memory import GuardedMemory, StrayWriteError

NEGATION = """
    func.func @f(%x : tensor<?x24xf32>) -> tensor<?x24xf32> {
      %0 = coda.neg %x : (tensor<?x24xf32>) -> tensor<?x24xf32>
      func.return %0 : tensor<?x24xf32>
    }"""

ARGUMENTS = {
    "dense": torch.randn(3, 4),
    "transposed": torch.randn(4, 3).T,
    "every second": torch.randn(3, 8)[:, ::2],
    "broadcast": torch.randn(3, 1).expand(3, 4),
    "scalar": torch.tensor(2.0),
    "empty": torch.randn(0, 4),
    "integers": torch.arange(6).view(2, 3),
    "half": torch.randn(5).half(),
    "misaligned": torch.randn(13)[1:].view(3, 4),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_copy_has_values_and_strides(name: str):
    memory, tensor = GuardedMemory(), ARGUMENTS[name]
    copy = memory.place(tensor)
    assert torch.equal(copy, tensor)
    assert copy.stride() == tensor.stride()
    assert copy.dtype == tensor.dtype
    assert copy.data_ptr() % 16 == tensor.data_ptr() % 16
    memory.check()


def test_what_a_module_allocates_is_not_a_number():
    memory = GuardedMemory()
    assert memory.empty((2, 3), dtype=torch.bfloat16).isnan().all()
    assert memory.empty(2, 3, dtype=torch.float32).shape == (2, 3)
    strided = memory.empty_strided((2, 3), (1, 2), dtype=torch.float16)
    assert strided.stride() == (1, 2) and strided.isnan().all()


@pytest.mark.parametrize("place", [-1, 12])
def test_a_write_outside_of_a_tensor_is_found(place: int):
    memory = GuardedMemory()
    x = memory.place(torch.randn(3, 4), "x")
    x.as_strided((1,), (1,), x.storage_offset() + place).fill_(0.0)
    with pytest.raises(StrayWriteError, match="outside of x"):
        memory.check()


def test_a_stray_write_of_another_nan_is_found():
    """Such as a kernel computes from guards."""
    memory = GuardedMemory()
    x = memory.place(torch.randn(3, 4), "x")
    bits = x.as_strided((1,), (1,), x.storage_offset() + 12).view(torch.int32)
    bits.fill_(0x7FFFFFFF)
    with pytest.raises(StrayWriteError, match="outside of x"):
        memory.check()


def without_row_mask(source: str) -> str:
    """The module with kernels that store rows past the end, each in its place."""
    changed = source.replace("row = tl.minimum(rows, M - 1).to(tl.int64)", "row = rows")
    changed = changed.replace("row_mask = rows < M", "row_mask = rows < M + 1")
    assert changed != source
    return changed


def test_an_emitted_module_stays_within_its_tensors():
    x, source = torch.randn(5, 24), emit_module(parse(NEGATION))
    (result,) = run_guarded(source, [x])
    assert torch.equal(result, -x)


def test_a_stray_access_is_caught_where_it_happens():
    with pytest.raises(Exception, match=OutOfBoundsError.__name__):
        run_guarded(without_row_mask(emit_module(parse(NEGATION))), [torch.randn(5, 24)])


def test_a_store_that_a_number_masks_is_none():
    """Triton's interpreter computes integers for such a mask."""
    source = emit_module(parse(NEGATION))
    outside = source.replace("tile_ptr + row", "tile_ptr + 4000 + row")
    masked = outside.replace("mask=row_mask", "mask=(tile_m < 0) & row_mask")
    assert len({source, outside, masked}) == 3
    (result,) = run_guarded(masked, [torch.randn(5, 24)])
    assert result.isnan().all()
    with pytest.raises(Exception, match=OutOfBoundsError.__name__):
        run_guarded(outside, [torch.randn(5, 24)])


def test_a_stray_store_changes_a_guard():
    memory = GuardedMemory()
    module = load_module(without_row_mask(emit_module(parse(NEGATION))), memory=memory)
    # Rows past the end are those after the last one of `x`, which are no guards here.
    module.run(memory.place(torch.randn(6, 24))[:5])
    with pytest.raises(StrayWriteError, match="outside of a buffer"):
        memory.check()


def test_a_change_of_an_argument_is_found():
    source = emit_module(parse(NEGATION))
    changed = source.replace("    return out", "    x.add_(1)\n    return out")
    assert changed != source
    with pytest.raises(AssertionError, match="writes to its arguments"):
        run_guarded(changed, [torch.randn(5, 24)])


AFTER_A_CALL = """
    func.func @f(%x : tensor<?x24xf32>) -> tensor<?x24xf32> {
      %0 = torch.call "aten.sin.default"(%x) {arguments = "{0}"}
        : (tensor<?x24xf32>) -> tensor<?x24xf32>
      %1 = coda.neg %0 : (tensor<?x24xf32>) -> tensor<?x24xf32>
      func.return %1 : tensor<?x24xf32>
    }"""


def test_what_pytorch_makes_is_guarded():
    source, x = emit_module(parse(AFTER_A_CALL)), torch.randn(5, 24)
    (result,) = run_guarded(source, [x])
    assert torch.equal(result, -x.sin())
    # The kernel reads rows past the end, and stores none.
    changed = source.replace("row = tl.minimum(rows, M - 1).to(tl.int64)", "row = rows")
    assert changed != source
    with pytest.raises(Exception, match=OutOfBoundsError.__name__):
        run_guarded(changed, [x])


def test_a_compiled_function_between_guards():
    function = coda_ir.compile(parse(NEGATION), device="cpu")
    x = torch.randn(5, 24)
    with between_guards(finite=True) as ran:
        assert torch.equal(function(x), -x)
    assert ran == ["f"]
    source = function.source.replace("tile_ptr + row", "tile_ptr + 24 + row")
    vars(function.executable).update(module=load_source(source, "f"))
    del vars(function.executable)["_run"]
    message = "kernel map_neg wrote outside of a buffer"
    with between_guards(), pytest.raises(EmittedFaultError, match=message):
        function(x)
