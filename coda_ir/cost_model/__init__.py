"""The analytic cost model: which configuration of a GEMM is the fastest, and why."""

from coda_ir.cost_model.attention import attention_schedule
from coda_ir.cost_model.configurations import Configuration, Space, configurations
from coda_ir.cost_model.devices import DEVICES, Device
from coda_ir.cost_model.estimate import Estimate
from coda_ir.cost_model.main_loops import MAIN_LOOPS, MainLoop
from coda_ir.cost_model.ranking import Ranked, described, explanation, rank
from coda_ir.cost_model.workload import NOMINAL_ROWS, Workload

__all__ = [
    "DEVICES",
    "MAIN_LOOPS",
    "NOMINAL_ROWS",
    "Configuration",
    "Device",
    "Estimate",
    "MainLoop",
    "Ranked",
    "Space",
    "Workload",
    "attention_schedule",
    "configurations",
    "described",
    "explanation",
    "rank",
]
