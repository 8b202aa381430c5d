"""Pipelines of passes: their text, running them, and what watches them run.

pipeline = parse_pipeline("coda-to-gemm,func.func(cse)", get_all_passes())
PassManager(pipeline).run(make_context(), module, [Timing()])
"""

from coda_ir.pipeline.instrumentation import PassInstrumentation, PassRun, PipelinePass
from coda_ir.pipeline.manager import InvalidAfterPassError, PassManager, pipeline_of
from coda_ir.pipeline.rewrite_limit import RewriteLoopError, rewrite_module
from coda_ir.pipeline.spec import PassRegistry, Pipeline, PipelineError, parse_pipeline

__all__ = [
    "InvalidAfterPassError",
    "PassInstrumentation",
    "PassManager",
    "PassRegistry",
    "PassRun",
    "Pipeline",
    "PipelineError",
    "PipelinePass",
    "RewriteLoopError",
    "parse_pipeline",
    "pipeline_of",
    "rewrite_module",
]
