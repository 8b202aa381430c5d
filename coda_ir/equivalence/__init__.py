"""Translation validation: checks that a pass, or any change of a module, preserves the results.

    from coda_ir.equivalence import check_equivalent

    counterexample = check_equivalent(before, after)
    if counterexample is not None:
        print(counterexample)

Both modules are run on the reference backend in float64, on random inputs of several sizes and
kinds. `EquivalenceCheck` does so after every pass of a pipeline.
"""

from coda_ir.equivalence.checker import (
    EquivalenceCheck as EquivalenceCheck,
    NotEquivalentError as NotEquivalentError,
    check_equivalent as check_equivalent,
)
from coda_ir.equivalence.comparison import (
    Difference as Difference,
    find_difference as find_difference,
)
from coda_ir.equivalence.counterexample import Counterexample as Counterexample
from coda_ir.equivalence.draws import DRAWS as DRAWS, Draw as Draw
