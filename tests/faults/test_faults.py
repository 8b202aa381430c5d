"""Planted faults are seen: by verification, translation validation or the kernels' results."""

import pytest
from support.daily import daily

from faults.fault import Fault, Nth, StaleFaultError, Text
from faults.kernel_cases import KERNEL_CASES
from faults.registry import CHECKS, FAULTS
from faults.runner import check_fault, check_first, first_cases

SAMPLE = FAULTS[:: -(-len(FAULTS) // 12)]
"""Faults of every table; `make faults` plants all of them."""


@pytest.mark.slow
@pytest.mark.parametrize("fault", SAMPLE, ids=[fault.name for fault in SAMPLE])
def test_fault_is_seen(fault: Fault):
    verdict = check_first(fault)
    assert verdict.seen_by is not None, verdict.reason or "its program does not see it any more"


def test_every_fault_fits_the_source():
    for fault in FAULTS:
        fault.changed()


def test_every_fault_has_a_program_that_sees_it():
    known = first_cases()
    assert [f.name for f in FAULTS if known.get(f.name) not in CHECKS[f.corpus]] == []


SEEING = {first_cases().get(fault.name) for fault in SAMPLE}


@daily(lambda name: name in SEEING)
@pytest.mark.parametrize("name", KERNEL_CASES)
def test_kernels_without_a_fault(name: str):
    """The programs for passes are those of passes/test_equivalence.py, and the kernels of these
    programs are those of backends/triton.
    """
    KERNEL_CASES[name].check()


def test_names_are_unique():
    names = [fault.name for fault in FAULTS]
    assert len(set(names)) == len(names) > 40


def test_a_fault_that_is_none_survives():
    """A program that is right is not held for wrong."""
    where = "coda_ir.passes.algebra.defer_norms:_corrected_product"
    same = Fault("same", where, Text("bias is None", "bias is None and True"))
    verdict = check_fault(same, [next(iter(CHECKS[same.corpus]))])
    assert (verdict.seen_by, verdict.reason, verdict.cases) == (None, "", 1)


@pytest.mark.parametrize(
    "change", [Text("no such text", ""), Text("insert", ""), Nth("keep", "nothing")]
)
def test_a_fault_that_does_not_fit_cannot_be_planted(change: Text | Nth):
    where = "coda_ir.passes.algebra.defer_norms:_defer"
    with pytest.raises(StaleFaultError):
        Fault("stale", where, change).plant()
