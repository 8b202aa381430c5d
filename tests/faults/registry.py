"""All faults, and the programs that are to see them."""

from collections.abc import Mapping

from faults.absorption_faults import ABSORPTION_FAULTS
from faults.attention_faults import ATTENTION_FAULTS
from faults.fault import Check, Corpus, Fault
from faults.hopper_faults import HOPPER_FAULTS
from faults.kernel_cases import kernel_checks
from faults.kernel_faults import KERNEL_FAULTS
from faults.legality_faults import LEGALITY_FAULTS
from faults.one_query_faults import ONE_QUERY_FAULTS
from faults.pass_cases import pass_checks
from faults.pass_faults import PASS_FAULTS
from faults.scale_faults import SCALE_FAULTS
from faults.split_faults import SPLIT_FAULTS
from faults.unfusing_faults import UNFUSING_FAULTS

FAULTS: tuple[Fault, ...] = (
    *PASS_FAULTS,
    *LEGALITY_FAULTS,
    *KERNEL_FAULTS,
    *ONE_QUERY_FAULTS,
    *SPLIT_FAULTS,
    *UNFUSING_FAULTS,
    *HOPPER_FAULTS,
    *SCALE_FAULTS,
    *ABSORPTION_FAULTS,
    *ATTENTION_FAULTS,
)


CHECKS: Mapping[Corpus, Mapping[str, Check]] = {
    "passes": pass_checks(),
    "kernels": kernel_checks(),
}
"""The programs of each corpus, by name."""
