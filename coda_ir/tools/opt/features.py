"""The features of `coda-opt`; the order is that of their options in `--help`, and of nesting."""

from coda_ir.tools.opt import (
    check_equivalence,
    diagnostics,
    execution,
    passes,
    remarks,
    source,
    target,
)
from coda_ir.tools.opt.feature import Feature

FEATURES: tuple[Feature, ...] = (
    Feature(source.register_arguments),
    Feature(passes.register_arguments),
    Feature(target.register_arguments),
    Feature(diagnostics.register_arguments, around_chunk=diagnostics.expected_errors),
    Feature(remarks.register_arguments, around_chunk=remarks.printed_remarks),
    Feature(
        check_equivalence.register_arguments,
        instrumentations=check_equivalence.instrumentations,
    ),
    Feature(execution.register_arguments, write=execution.write),
)
