"""The options of a page: GPU, sizes, passes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from xdsl.passes import ModulePass

from coda_ir.backends.triton.aot import MachineLevel, find_architecture
from coda_ir.backends.triton.architectures import Architecture
from coda_ir.cost_model import DEVICES, Device
from coda_ir.cost_model.memory_times import Sizes
from coda_ir.cost_model.workload import NOMINAL_ROWS
from coda_ir.passes.layout.plan_buffers import PlanBuffersPass
from coda_ir.passes.layout.schedule import SchedulePass
from coda_ir.symbolic_size import format_sizes

DEFAULT_ARCH = "sm_90"
"""The GPU that the constants of the cost model were measured on."""


@dataclass(frozen=True)
class PageOptions:
    """The GPU and the sizes that a page is made for."""

    arch: str | None = None
    """The GPU to schedule for and to estimate, whose machine code is on the page; by default
    `DEFAULT_ARCH`, for which nothing is compiled."""
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    """The sizes of symbols. By default they are equal, with a product of about `NOMINAL_ROWS`."""
    compiles: bool = True
    """True if the page has the machine code for `arch`."""
    schedule: Callable[..., ModulePass] = SchedulePass
    """Makes the pass that schedules, of the options `target`, `mainloop` and `sizes`."""

    @property
    def architecture(self) -> Architecture:
        """The GPU to schedule for. Raises CodaError for an unknown one."""
        return find_architecture(self.arch or DEFAULT_ARCH)

    @property
    def machine_level(self) -> MachineLevel:
        """The text that kernels are compiled to."""
        return "amdgcn" if self.architecture.is_amd else "ptx"

    @property
    def device(self) -> Device:
        """The GPU whose times are estimated."""
        return DEVICES[self.architecture.schedule_options["target"]]

    @property
    def title(self) -> str:
        """The name of that GPU, as shown on the page."""
        device = self.device
        products = "an A100's rates" if device.name == "portable" else device.products
        return f"{products} ({self.architecture.name})"

    def passes(self) -> tuple[ModulePass, ...]:
        """The passes from the GEMM level to the scheduled level."""
        sizes = format_sizes(self.sizes) if self.sizes else None
        options = self.architecture.schedule_options
        return self.schedule(**options, sizes=sizes), PlanBuffersPass()

    def sizes_of(self, symbols: frozenset[str]) -> Sizes:
        """Return the sizes of the symbols of a function."""
        nominal = round(NOMINAL_ROWS ** (1 / max(1, len(symbols))))
        return Sizes([*((symbol, nominal) for symbol in sorted(symbols)), *self.sizes.items()])
