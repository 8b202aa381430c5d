"""Overlapping launches: programmatic dependent launch on Hopper.

    @triton.jit
    def gemm(...):
        wait_for_earlier_kernels()
        ...                              # the main loop
        start_next_kernel()
        ...                              # the epilogue

The GPU may start such a kernel when all programs of the one before have called
`start_next_kernel` or are done, instead of when its results are in memory. So each of them waits
first: it reads what earlier kernels wrote, and it writes where they may still read. As a kernel
starts the next one only after its own wait, waiting for one kernel is waiting for all before.
Weights that no kernel of the program writes may be read before the wait, but by the first kernel:
when another one begins, the kernel before has waited for whatever ran before the program.

This module handles the differences between versions of Triton: the device functions (since 3.4),
and the option of a launch.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation

from coda_ir.dialects.gemm import AHEAD_ATTRIBUTE, DEPENDENT_ATTRIBUTE

_IMPORT = "from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait"


def start_next_kernel() -> list[str]:
    """Return the statement after which the next kernel may begin."""
    return ["start_next_kernel()"]


@dataclass(frozen=True)
class Launch:
    """The launch of an operator's kernel, and the statements that its text needs for it."""

    is_dependent: bool
    reads_ahead: bool = False
    """True if the kernel may read its weights before it waits."""

    @staticmethod
    def of(op: Operation) -> Launch:
        is_dependent = DEPENDENT_ATTRIBUTE in op.attributes
        return Launch(is_dependent, is_dependent and AHEAD_ATTRIBUTE in op.attributes)

    @property
    def imports(self) -> frozenset[str]:
        return frozenset({_IMPORT} if self.is_dependent else ())

    def wait(self) -> list[str]:
        """Return the statements before the first access to memory."""
        if not self.is_dependent:
            return []
        return ["wait_for_earlier_kernels()"]

    def wait_and_start_next(self) -> list[str]:
        """Return the statements for a short kernel, after which the next one may begin at once."""
        return [*self.wait(), *(start_next_kernel() if self.is_dependent else [])]
