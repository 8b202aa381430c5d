"""Properties of the smaller languages: pipelines, expectations, files of tensors."""

from coda_ir.pipeline.spec import SOURCE_NAME, parse_pipeline
from coda_ir.registry import get_all_passes
from coda_ir.tools.opt.verify_diagnostics import parse_expectations
from fuzz.oracle import Finding, outcome


def check_pipeline(text: str) -> None:
    """A pipeline of passes: what is printed is read as the same pipeline. Raises Finding."""
    passes = get_all_passes()
    pipeline, _ = outcome(lambda: parse_pipeline(text, passes), text, SOURCE_NAME)
    if pipeline is None:
        return
    printed = str(pipeline)
    again, error = outcome(lambda: parse_pipeline(printed, passes), printed, SOURCE_NAME)
    if again != pipeline:
        raise Finding(f"is something else when read back: {printed}: {error}")


def check_expectations(text: str) -> None:
    """The comments `expected-...` of either language. Raises Finding."""
    for file in ("fuzzed.coda", "fuzzed.mlir"):
        outcome(lambda file=file: parse_expectations(text, file), text, file)
