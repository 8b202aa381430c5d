"""Pass `share-key-heads`: let attention with one query read shared keys without repeating them."""

from collections.abc import Sequence

from xdsl.ir import SSAValue

from coda_ir.dialects.torch import ATTENTION, CallOp
from coda_ir.one_query_attention import MAX_QUERIES, OneQueryAttention
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.passes.support.heads import unrepeated

MORE_QUERIES = Refusal(
    "attention with one query per head is a kernel of the program",
    "PyTorch computes the call, and its kernels with a mask need separate keys for each query head",
)
UNLIKE = Refusal(
    "keys and values are repeated for the same query heads",
    "keys and values are shared by different heads",
)
TOO_MANY = Refusal(
    f"at most {MAX_QUERIES} query heads share a key head", "more query heads share a key head"
)


class ShareKeyHeadsPass(FunctionPass):
    """Passes keys and values that several query heads share to attention without repeating them.

        %k4 = reshape(expand(reshape %k))                      (B x G x S x E) to (B x G·R x S x E)
        %y = torch.call "aten.scaled_dot_product_attention.default"(%q, %k4, %v4, %mask)
        ->
        %y = torch.call "aten.scaled_dot_product_attention.default"(%q, %k, %v, %mask)
            {arguments = "{0}, {1}, {2}, {3}, 0.0, False, scale=..., enable_gqa=True"}

    Otherwise, a decoding step would write a copy of its cache, R times as large, and read it again.
    Legal iff keys and values are repeated in the same way, and backends have a kernel for the call
    with shared heads: one query for each head (`coda_ir.one_query_attention`).
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            if not isinstance(op, CallOp) or op.callee.data != ATTENTION:
                continue
            found = OneQueryAttention.of(op, rewriter.shapes)
            repeated = list(op.inputs[1:3]) if found is None else [found.k, found.v]
            heads = [unrepeated(value, rewriter) for value in repeated]
            if heads == repeated:
                continue
            if found is None:
                rewriter.missed(op, MORE_QUERIES)
                continue
            if rewriter.accepts(
                op, _check(found, heads, rewriter), "query heads share one copy of their keys"
            ):
                _share(op, found, heads, rewriter)


def _check(
    found: OneQueryAttention, heads: Sequence[SSAValue], rewriter: FunctionRewriter
) -> Refusal | None:
    dims = rewriter.shapes.dims
    k, v = heads
    if dims(k)[:-1] != dims(v)[:-1]:
        return UNLIKE
    queries, groups = dims(found.q)[1], dims(k)[1]
    assert isinstance(queries, int) and isinstance(groups, int), "numbers, as they were repeated"
    return TOO_MANY if queries // groups > MAX_QUERIES else None


def _share(
    op: CallOp, found: OneQueryAttention, heads: Sequence[SSAValue], rewriter: FunctionRewriter
) -> None:
    masks = [] if found.mask is None else [found.mask]
    mask = "{3}" if masks else "None"
    shared = CallOp(
        ATTENTION,
        [found.q, *heads, *masks],
        f"{{0}}, {{1}}, {{2}}, {mask}, 0.0, False, scale={found.scale!r}, enable_gqa=True",
        [op.outputs[0].type],
    )
    shared.attributes.update(op.attributes)
    rewriter.replace(op, rewriter.before(op).insert(shared))
