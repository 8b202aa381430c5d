"""All faults, and the programs that are to see them."""

from collections.abc import Mapping
from functools import lru_cache

from faults.fault import Check, Corpus, Fault
from faults.kernel_cases import kernel_checks
from faults.kernel_faults import KERNEL_FAULTS
from faults.legality_faults import LEGALITY_FAULTS
from faults.pass_cases import pass_checks
from faults.pass_faults import PASS_FAULTS

FAULTS: tuple[Fault, ...] = (*PASS_FAULTS, *LEGALITY_FAULTS, *KERNEL_FAULTS)


@lru_cache
def _checks(corpus: Corpus) -> Mapping[str, Check]:
    return pass_checks() if corpus == "passes" else kernel_checks()


def checks_of(fault: Fault) -> Mapping[str, Check]:
    """The programs of the fault's corpus, by name."""
    return _checks(fault.corpus)
