"""The features of `coda-opt`, in the order in which they act.

The observations of features are nested: the first one sees the beginning of a pass first and its
end last. `measure` comes last, so that it does not time the others.
"""

from coda_ir.tools.opt import (
    check_equivalence,
    diagnostics_output,
    emit,
    execution,
    explain,
    listing,
    measure,
    passes,
    print_ir,
    reduce,
    remarks_output,
    reproducer,
    source,
    target,
    verify_diagnostics,
)
from coda_ir.tools.opt.feature import Feature

FEATURES: tuple[Feature, ...] = (
    Feature(source.register_arguments),
    Feature(passes.register_arguments),
    Feature(target.register_arguments),
    Feature(reduce.register_arguments, action=reduce.reduce_input),
    Feature(execution.register_arguments, action=execution.prepare, write=execution.write),
    Feature(emit.register_arguments, action=emit.prepare, write=emit.write),
    Feature(
        verify_diagnostics.register_arguments, around_chunk=verify_diagnostics.checked_diagnostics
    ),
    Feature(
        check_equivalence.register_arguments, instrumentations=check_equivalence.instrumentations
    ),
    Feature(remarks_output.register_arguments, around_chunk=remarks_output.reported_remarks),
    Feature(print_ir.register_arguments, instrumentations=print_ir.instrumentations),
    Feature(
        reproducer.register_arguments,
        around_chunk=reproducer.kept_input,
        instrumentations=reproducer.instrumentations,
    ),
    Feature(
        measure.register_arguments,
        instrumentations=measure.instrumentations,
        finish=measure.report_timing,
    ),
    Feature(listing.register_arguments, action=listing.act),
    Feature(explain.register_arguments, action=explain.act),
    Feature(diagnostics_output.register_arguments),
)
