"""The xDSL context in which CODA IR is parsed and rewritten."""

from xdsl.context import Context
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import Builtin
from xdsl.dialects.func import Func
from xdsl.dialects.math import Math
from xdsl.dialects.tensor import Tensor

from coda_ir.dialects import get_all_dialects


def make_context() -> Context:
    """Make a context with builtin, func, arith, math, tensor and every CODA dialect."""
    context = Context()
    for dialect in (Builtin, Func, Arith, Math, Tensor):
        context.load_dialect(dialect)
    for name, load in get_all_dialects().items():
        context.register_dialect(name, load)
    return context
