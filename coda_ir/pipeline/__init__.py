"""Pipelines of passes, and what watches them run."""

from coda_ir.pipeline.instrumentation import PassInstrumentation, PassRun, PipelinePass

__all__ = ["PassInstrumentation", "PassRun", "PipelinePass"]
