"""The analytic cost model: which configuration of a GEMM is the fastest, and why."""

from coda_ir.cost_model.attention import attention_schedule as attention_schedule
from coda_ir.cost_model.configurations import Space as Space
from coda_ir.cost_model.devices import DEVICES as DEVICES, Device as Device
from coda_ir.cost_model.main_loops import MAIN_LOOPS as MAIN_LOOPS
from coda_ir.cost_model.ranking import (
    Ranked as Ranked,
    described as described,
    explanation as explanation,
    rank as rank,
)
