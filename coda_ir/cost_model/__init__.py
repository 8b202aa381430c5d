"""The analytic cost model: which configuration of a GEMM is the fastest, and why."""

from coda_ir.cost_model.attention import attention_schedule
from coda_ir.cost_model.configurations import Space
from coda_ir.cost_model.devices import DEVICES, Device
from coda_ir.cost_model.main_loops import MAIN_LOOPS
from coda_ir.cost_model.ranking import Ranked, described, explanation, rank

__all__ = [
    "DEVICES",
    "MAIN_LOOPS",
    "Device",
    "Ranked",
    "Space",
    "attention_schedule",
    "described",
    "explanation",
    "rank",
]
