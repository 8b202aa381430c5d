"""Pipelines of passes: their text, their execution, and instrumentation.

pipeline = parse_pipeline("coda-to-gemm,func.func(cse)", get_all_passes())
PassManager(pipeline).run(make_context(), module, [Timing()])
"""

from coda_ir.pipeline.instrumentation import (
    PassInstrumentation as PassInstrumentation,
    PassRun as PassRun,
    PipelinePass as PipelinePass,
)
from coda_ir.pipeline.manager import (
    InvalidAfterPassError as InvalidAfterPassError,
    PassManager as PassManager,
    pipeline_of as pipeline_of,
)
from coda_ir.pipeline.spec import (
    PassRegistry as PassRegistry,
    Pipeline as Pipeline,
    PipelineError as PipelineError,
    parse_pipeline as parse_pipeline,
)
