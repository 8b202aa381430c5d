"""Every planted fault is seen: by verification, translation validation or the kernels' results."""

import pytest

from faults.fault import Fault, StaleFaultError
from faults.kernel_cases import KERNEL_CASES
from faults.registry import FAULTS, checks_of
from faults.runner import check_fault


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_fault_is_seen(fault: Fault):
    verdict = check_fault(fault, checks_of(fault))
    assert verdict.seen_by is not None, verdict.reason or f"{verdict.cases} programs do not see it"


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
