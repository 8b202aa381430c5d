"""The GPU resources of compiled kernels, and the number of programs that run at a time."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from coda_ir.backends.triton.architectures import (
    ARCHITECTURES,
    KIB,
    PARTITIONS,
    REGISTER_GRANULE,
    REGISTERS_PER_LANE,
    Architecture,
)
from coda_ir.diagnostics import LoweringError


@dataclass(frozen=True)
class KernelResources:
    """The resources that one program of a kernel uses on an architecture."""

    kernel: str
    arch: str
    registers: int
    """Registers per thread; on CDNA the accumulation registers are among them."""
    spills: int
    """Bytes of stack per thread, which are spills: kernels have no local arrays."""
    shared_memory: int
    """Bytes of shared memory (AMD: LDS)."""
    warps: int
    stages: int

    @property
    def architecture(self) -> Architecture:
        return ARCHITECTURES[self.arch]

    @property
    def fits(self) -> bool:
        """True if the architecture has that much shared memory."""
        return self.shared_memory <= self.architecture.shared_memory

    @property
    def programs(self) -> int:
        """Number of programs that a multiprocessor runs at a time; 0 if the kernel does not fit."""
        return min(self._programs_by_resource().values())

    @property
    def limited_by(self) -> str:
        """The resource that limits the number of programs on a multiprocessor."""
        limits = self._programs_by_resource()
        return min(limits, key=lambda resource: limits[resource])

    @property
    def occupancy(self) -> float:
        """The warps that run at a time, divided by those that a multiprocessor can hold."""
        return self.programs * self.warps / self.architecture.warps

    def _programs_by_resource(self) -> dict[str, int]:
        gpu = self.architecture
        registers = -(-max(self.registers, 1) // REGISTER_GRANULE) * REGISTER_GRANULE
        warps = REGISTERS_PER_LANE // registers * PARTITIONS
        shared = self.shared_memory + gpu.reserved_shared_memory
        by_shared = gpu.shared_memory_of_multiprocessor // shared if shared else gpu.programs
        return {
            "warps": gpu.warps // self.warps,
            "programs": gpu.programs,
            "registers": warps // self.warps,
            "shared memory": by_shared if self.fits else 0,
        }

    def to_dict(self) -> dict[str, str | int | float | bool]:
        """Return plain data for JSON, with the limits."""
        return asdict(self) | {
            "shared_memory_limit": self.architecture.shared_memory,
            "fits": self.fits,
            "programs": self.programs,
            "limited_by": self.limited_by,
            "occupancy": round(self.occupancy, 4),
        }


def check_fits(kernels: Sequence[KernelResources]) -> None:
    """Raise CodaError for kernels that need more shared memory than the architecture has."""
    too_large = [kernel for kernel in kernels if not kernel.fits]
    if not too_large:
        return
    gpu = too_large[0].architecture
    needs = "; ".join(f"{k.kernel} needs {k.shared_memory} bytes" for k in too_large)
    raise LoweringError(
        f"too much shared memory for {gpu.name}, which has {gpu.shared_memory} bytes for a "
        f"program: {needs}",
        "use smaller tiles or fewer stages in the pass schedule, such as "
        f"schedule{{{gpu.schedule} stages=2}}",
    )


def resources_table(arch: Architecture, kernels: Sequence[KernelResources]) -> str:
    """Return a table of the resources: a line per kernel, below the architecture's limits."""
    limit = arch.shared_memory // KIB
    title = (
        f"{arch.name} ({arch.products}): a program may have {limit} KiB of shared memory; a "
        f"multiprocessor holds {arch.warps} warps"
    )
    head = ("kernel", "registers", "spills", "shared", "warps", "stages", "programs", "occupancy")
    rows = [(*head, "limited by"), *map(_row, kernels)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [_aligned(row, widths) for row in rows]
    return "\n".join([title, "", *lines]) + "\n"


def _row(kernel: KernelResources) -> tuple[str, ...]:
    return (
        kernel.kernel,
        str(kernel.registers),
        f"{kernel.spills} B",
        f"{kernel.shared_memory / KIB:.1f} KiB",
        str(kernel.warps),
        str(kernel.stages),
        str(kernel.programs),
        f"{kernel.occupancy:.0%}",
        kernel.limited_by if kernel.fits else "does not fit",
    )


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    """Align numbers to the right, the first and the last column to the left."""
    first, *numbers, last = row
    cells = [cell.rjust(width) for cell, width in zip(numbers, widths[1:-1], strict=True)]
    return "  ".join([first.ljust(widths[0]), *cells, last])
