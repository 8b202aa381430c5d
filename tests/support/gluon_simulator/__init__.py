"""Runs Gluon kernels for Hopper on the CPU, and finds what hardware would leave undefined.

`load_module(source)` executes an emitted module with `triton.experimental.gluon` bound to the
simulator; `run(module, *args, seed=n)` calls its host function on CPU tensors under one of many
schedules. What a kernel does wrong is a `SimulationError` that names the line and the partition.
"""

from support.gluon_simulator.errors import (
    BarrierError,
    DataRaceError,
    DeadlockError,
    MissingFenceError,
    OutOfBoundsError,
    SimulationError,
    TmaError,
    UnfinishedError,
)
from support.gluon_simulator.modules import Kernel, Settings, load_module, run

__all__ = [
    "BarrierError",
    "DataRaceError",
    "DeadlockError",
    "Kernel",
    "MissingFenceError",
    "OutOfBoundsError",
    "Settings",
    "SimulationError",
    "TmaError",
    "UnfinishedError",
    "load_module",
    "run",
]
