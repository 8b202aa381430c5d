"""Pass `fuse-embedding`: let pointwise kernels load the rows of embeddings."""

from xdsl.ir import Operation

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, tensor_type
from coda_ir.dialects.gemm import MapOp, Port, PortKind, ResultPortAttr
from coda_ir.dialects.gemm.scalar_code import is_scalar
from coda_ir.passes.support.editing import EpilogueEditor, insert_map
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.passes.support.legality import name_of
from coda_ir.storage import is_looked_up_where_read, may_be_looked_up


class FuseEmbeddingPass(FunctionPass):
    """Makes a pointwise kernel the only reader of an embedding, so that it can load the rows from
    the table.

        %e = coda.embedding %ids, %table          %e = coda.embedding %ids, %table
        %s = gemm.map tile(%e) { ... }            %s, %x = gemm.map tile(%e) { ... yield ..., e }
        %y = gemm.fused ... tile(%e)        ->    %y = gemm.fused ... tile(%x)

    An embedding with one reader is not stored: the kernel loads the rows by their ids, and adds
    positions, scales the rows or sums the squares of a norm. If other operators read the rows too,
    the first kernel that reads them stores them; if none does, a separate kernel does. Legal iff
    the table is not a view, its size is known, kernels compute with its element type, and the ids
    have a dimension. As in PyTorch, an id out of range raises an error.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops_of(coda.EmbeddingOp):
            readers = [use.operation for use in op.result.uses]
            if readers and rewriter.accepts(op, _why_not(op), "a kernel loads its rows by the ids"):
                first = min(readers, key=rewriter.order.position)
                if not is_looked_up_where_read(op):
                    _store(op, first, rewriter)


def _why_not(op: coda.EmbeddingOp) -> Refusal | None:
    if may_be_looked_up(op) and is_scalar(element_type_of(op.table)):
        return None
    return Refusal(
        "the table is not a view, its size is known, kernels compute with its element type, and "
        "the ids have a dimension",
        f"runs as PyTorch's embedding of {name_of(op.table)}",
    )


def _store(op: coda.EmbeddingOp, first: Operation, rewriter: FunctionRewriter) -> None:
    """Store the rows in `first` if it is a kernel that loads them as a tile, else before it."""
    port = Port(PortKind.TILE, op.result)
    if isinstance(first, MapOp) and port in first.segment().ports:
        kernel = first
    else:
        kernel = insert_map(rewriter.order, first, op.location, [op.result]).op
    editor = EpilogueEditor(kernel, rewriter.order)
    segment = editor.segments[0]
    elements = segment.port_args(segment.ports.index(port))
    index = editor.add_result(0, ResultPortAttr.tile(), tensor_type(op.result), elements)
    (stored,) = editor.commit_and_locate(0, [index])
    stored.name_hint = op.result.name_hint
    op.result.replace_uses_with_if(stored, lambda use: use.operation is not stored.owner)
