"""Pass `canonicalize`: the patterns and the folding of each operator, and dead code elimination.

It does what xDSL's pass of this name does, and replaces it: `limit_rewrites` ends it where
patterns undo each other.

    %1 = "coda.neg"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    %2 = "coda.neg"(%1) : (tensor<4xf32>) -> tensor<4xf32>    // uses of %2 become uses of %0
"""

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.pattern_rewriter import GreedyRewritePatternApplier
from xdsl.transforms.canonicalize import CanonicalizationRewritePattern
from xdsl.transforms.dead_code_elimination import region_dce

from coda_ir.passes.support.function_pass import NamedPass
from coda_ir.pipeline.rewrite_limit import rewrite_module


class CanonicalizePass(NamedPass):
    """Applies the canonicalization patterns of all operators."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        pattern = GreedyRewritePatternApplier(
            [CanonicalizationRewritePattern()], ctx=ctx, folding_enabled=True
        )
        rewrite_module(op, pattern, region_dce)
