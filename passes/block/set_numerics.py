"""Pass `set-numerics`: state the numerics mode of each function."""

from coda_ir.diagnostics import OptionError
from coda_ir.dialects.gemm import NUMERICS_ATTRIBUTE, NumericsAttr, NumericsMode
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter


class SetNumericsPass(FunctionPass):
    """Sets the numerics mode of each function, which later passes and the backends follow.

        func.func @f(...)   ->   func.func @f(...) attributes {
                                   coda.numerics = #gemm.numerics<"eager-exact">}

    `mode` is fp32-epilogue (the default, for which the attribute is removed), fast, eager-exact or
    deterministic. Run the pass before `coda-to-gemm`, which rewrites the program.
    """

    mode: str = NumericsMode.FP32_EPILOGUE.value

    def check_options(self) -> None:
        parse_mode(self.mode)

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        mode = parse_mode(self.mode)
        if mode == NumericsMode.FP32_EPILOGUE:
            rewriter.func.attributes.pop(NUMERICS_ATTRIBUTE, None)
        else:
            rewriter.func.attributes[NUMERICS_ATTRIBUTE] = NumericsAttr.get(mode)


def parse_mode(text: str) -> NumericsMode:
    """Return the mode named `text`. Raises CodaError if there is none."""
    names = [mode.value for mode in NumericsMode]
    if text not in names:
        raise OptionError(f"unknown numerics mode '{text}'", f"use one of {', '.join(names)}")
    return NumericsMode(text)
