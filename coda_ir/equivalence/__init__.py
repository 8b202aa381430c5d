"""Translation validation: whether a pass, or any change of a module, kept what it computes.

    from coda_ir.equivalence import check_equivalent

    counterexample = check_equivalent(before, after)
    if counterexample is not None:
        print(counterexample)

Both modules are run on the reference backend in float64, on random inputs of several sizes and
kinds. `EquivalenceCheck` does so after every pass of a pipeline.
"""

from coda_ir.equivalence.checker import EquivalenceCheck, NotEquivalentError, check_equivalent
from coda_ir.equivalence.comparison import Difference, find_difference
from coda_ir.equivalence.counterexample import Counterexample
from coda_ir.equivalence.draws import DRAWS, Draw

__all__ = [
    "DRAWS",
    "Counterexample",
    "Difference",
    "Draw",
    "EquivalenceCheck",
    "NotEquivalentError",
    "check_equivalent",
    "find_difference",
]
