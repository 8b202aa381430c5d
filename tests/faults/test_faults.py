"""Every planted fault is seen: by verification, translation validation or the kernels' results."""

import pytest

from faults.fault import Fault, StaleFaultError
from faults.kernel_cases import KERNEL_CASES
from faults.registry import CHECKS, FAULTS
from faults.runner import check_fault, check_first


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_fault_is_seen(fault: Fault):
    verdict = check_first(fault)
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
    verdict = check_fault(same, [next(iter(CHECKS[same.corpus]))])
    assert (verdict.seen_by, verdict.reason, verdict.cases) == (None, "", 1)


def test_a_fault_without_its_text_cannot_be_planted():
    where = "coda_ir.passes.defer_rms_norm:_defer"
    for old in ("no such text", "insert"):
        with pytest.raises(StaleFaultError):
            Fault("stale", where, old, "").plant()
