"""The GPU architectures that kernels can be compiled for, and their limits for one program."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from coda_ir.diagnostics import OptionError

KIB = 1024

PARTITIONS = 4
"""Parts of a multiprocessor, each with its own registers and warps."""
REGISTERS_PER_LANE = 512
"""Registers that one lane of a partition has for all its warps."""
REGISTER_GRANULE = 8


@dataclass(frozen=True)
class Architecture:
    """An architecture and the limits of one of its multiprocessors.

    A multiprocessor is an SM of NVIDIA or a compute unit of AMD, a warp is a wavefront of AMD.
    Sources: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; LLVM's
    AMDGPU user guide.
    """

    name: str
    products: str
    schedule: str
    """Options of the pass `schedule` for it."""
    shared_memory: int
    """Bytes of shared memory (AMD: LDS) that one program may have."""
    shared_memory_of_multiprocessor: int
    warps_per_partition: int
    programs: int
    """The number of programs that a multiprocessor can hold."""
    reserved_shared_memory: int = 0
    """Bytes that every program takes besides its own."""
    warp_size: int = 32

    @property
    def schedule_options(self) -> dict[str, str]:
        """The options in `schedule`, by name."""
        return dict(option.split("=") for option in self.schedule.split())

    @property
    def is_amd(self) -> bool:
        return self.name.startswith("gfx")

    @property
    def warps(self) -> int:
        """The number of warps that a multiprocessor can hold."""
        return PARTITIONS * self.warps_per_partition

    @property
    def triton_target(self) -> tuple[str, int | str, int]:
        """The arguments of Triton's `GPUTarget`."""
        if self.is_amd:
            return "hip", self.name, self.warp_size
        return "cuda", int(self.name.removeprefix("sm_")), self.warp_size


def _nvidia(
    name: str, products: str, schedule: str, shared: int, warps: int, programs: int
) -> Architecture:
    return Architecture(
        name=name,
        products=products,
        schedule=schedule,
        # The system keeps 1 KiB of each program for itself.
        shared_memory=(shared - 1) * KIB,
        shared_memory_of_multiprocessor=shared * KIB,
        warps_per_partition=warps // PARTITIONS,
        programs=programs,
        reserved_shared_memory=KIB,
    )


def _cdna(name: str, products: str, shared: int) -> Architecture:
    return Architecture(
        name=name,
        products=products,
        schedule="target=gfx942",
        shared_memory=shared * KIB,
        shared_memory_of_multiprocessor=shared * KIB,
        warps_per_partition=8,
        programs=16,
        warp_size=64,
    )


_ARCHITECTURES = (
    _nvidia("sm_80", "A100", "target=sm_80", 164, 64, 32),
    _nvidia("sm_86", "RTX 30, A10", "target=portable", 100, 48, 16),
    _nvidia("sm_89", "RTX 40, L4, L40S", "target=portable", 100, 48, 24),
    _nvidia("sm_90", "H100, H200", "target=sm_90 mainloop=warp_specialized", 228, 64, 32),
    _nvidia("sm_100", "B200", "target=sm_80", 228, 64, 32),
    _nvidia("sm_120", "RTX 50", "target=portable", 100, 48, 24),
    _cdna("gfx90a", "MI200", 64),
    _cdna("gfx942", "MI300", 64),
    _cdna("gfx950", "MI350", 160),
)

ARCHITECTURES: Mapping[str, Architecture] = MappingProxyType({a.name: a for a in _ARCHITECTURES})
"""All architectures by name."""


def find_architecture(name: str) -> Architecture:
    """Return the architecture of a name. Raises CodaError for an unknown one."""
    if name in ARCHITECTURES:
        return ARCHITECTURES[name]
    known = ", ".join(f"{a.name} ({a.products})" for a in _ARCHITECTURES)
    raise OptionError(f"unknown architecture '{name}'", f"use one of {known}")


def default_schedule(architecture: str) -> str:
    """Return the options of the pass `schedule` for `cpu` or the name of an architecture."""
    if architecture == "cpu":
        return "target=interpreter"
    known = ARCHITECTURES.get(architecture)
    return "target=portable" if known is None else known.schedule


_OPTION = re.compile(r'([\w-]+)(?:=("[^"]*"|\S*))?')


def complete_schedule(options: str, architecture: str) -> str:
    """Complete `options` of the pass `schedule` with those of the architecture that they leave
    open.

    Options for another target stay as they are.
    """
    default = default_schedule(architecture)
    chosen, fitting = (dict(_OPTION.findall(text)) for text in (options, default))
    if chosen.get("target", fitting["target"]) != fitting["target"]:
        return options
    missing = [f"{name}={value}" for name, value in fitting.items() if name not in chosen]
    return " ".join([*missing, options])
