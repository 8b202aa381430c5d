"""Errors of kernels: each class is one kind of mistake that hardware does not report."""


class SimulationError(Exception):
    """The kernel does what the GPU does not allow, or leaves undefined."""


class BarrierError(SimulationError):
    """An mbarrier is used without `init`, arrived at too often, or left half full."""


class DataRaceError(SimulationError):
    """Shared memory is accessed while, or without knowing that, another access is over."""


class DeadlockError(SimulationError):
    """Every partition waits, and nothing is under way that could wake one."""


class MissingFenceError(SimulationError):
    """The asynchronous proxy reads what was stored without `fence_async_shared`."""


class UnfinishedError(SimulationError):
    """A result is used, or a kernel ends, before an asynchronous operation is waited for."""


class TmaError(SimulationError):
    """A tensor descriptor or a box that the tensor memory accelerator refuses."""


class OutOfBoundsError(SimulationError):
    """An access beyond a tensor or an allocation."""
