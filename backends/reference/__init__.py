"""The reference backend: runs the block level, the GEMM level and the scheduled level in PyTorch.

Every pass and every other backend is compared with it, so it favours plain mathematics over speed.
"""

from coda_ir.backends.reference.interpreter import (
    Trace as Trace,
    call_on_device as call_on_device,
    run_boxed as run_boxed,
    run_function as run_function,
    run_module as run_module,
    trace_function as trace_function,
)
from coda_ir.backends.reference.numerics import Precision as Precision
from coda_ir.backends.reference.torch_calls import first_topk as first_topk
