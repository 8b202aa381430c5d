"""Every planted fault is seen: by verification, translation validation or the kernels' results."""

import pytest

from faults.fault import Fault, StaleFaultError
from faults.kernel_cases import KERNEL_CASES
from faults.registry import FAULTS, checks_of
from faults.runner import check_fault, check_first

WARMING = {"passes": "defer_rms_norm-linear defer-rms-norm", "kernels": "packed weights"}


@pytest.fixture(scope="module", autouse=True)
def warm():
    """What the first program of its kind imports and caches, here once and not in every process."""
    for fault in {fault.corpus: fault for fault in FAULTS}.values():
        checks_of(fault)[WARMING[fault.corpus]]()


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_fault_is_seen(fault: Fault):
    verdict = check_first(fault, checks_of(fault))
    assert verdict.seen_by is not None, verdict.reason or "its program does not see it any more"


@pytest.mark.parametrize("name", KERNEL_CASES)
def test_kernels_without_a_fault(name: str):
    """The programs for passes are those of passes/test_equivalence.py."""
    KERNEL_CASES[name].check()


def test_names_are_unique():
    names = [fault.name for fault in FAULTS]
    assert len(set(names)) == len(names) > 40


def test_a_fault_that_is_none_survives():
    """A program that is right is not held for wrong."""
    where = "coda_ir.passes.defer_rms_norm:_defer"
    same = Fault("same", where, "bias is not None", "bias is not None and True")
    name, check = next(iter(checks_of(same).items()))
    assert check_fault(same, {name: check}).seen_by is None


def test_a_fault_without_its_text_cannot_be_planted():
    where = "coda_ir.passes.defer_rms_norm:_defer"
    for old in ("no such text", "insert"):
        with pytest.raises(StaleFaultError):
            Fault("stale", where, old, "").plant()
