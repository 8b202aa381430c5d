"""Faults of legality: each condition that always holds, one by one.

Left out are the conditions on which no meaning depends. `check_norm_input` asks whether deferral
pays. What float32 and float16 cannot hold is a matter of rounding, which float64 does not show;
the goldens of refused rewrites hold these conditions. `gemm_site` asks for the tile of a GEMM: of a
`gemm.map`, pairs and norms of heads are refused just as well, since it has no weight, and a loss
fused into one is right.
"""

from faults.fault import Fault, Nth, Text

L = "coda_ir.passes.support.legality:"
R = "coda_ir.passes.fusion.fuse_qk_norm:"
DEFERRAL = "coda_ir.passes.support.norm_deferral:"

LEGALITY_FAULTS = (
    Fault(
        "legality: any consumer of a norm is a GEMM",
        f"{DEFERRAL}check_norm_consumers",
        Nth("always", "And", 2),
    ),
    Fault(
        "legality: a norm that is rounded has no other uses",
        "coda_ir.passes.support.matching:taken_norm",
        Text(
            "cast = only_use(result)",
            "cast = max((u.operation for u in result.uses), key=lambda op: op.name == 'coda.cast')",
        ),
    ),
    Fault(
        "legality: a norm may be the weight of a GEMM",
        f"{DEFERRAL}check_norm_consumers",
        Nth("drop", "And", 4),
    ),
    Fault(
        "legality: a symbolic number of columns has a mean",
        f"{L}static_columns",
        Nth("always", "NotEq"),
    ),
    Fault("legality: a consumer of any shape", f"{L}_check_leaves", Nth("never", "NotEq")),
    Fault(
        "legality: an operand may depend on the kernel it is fused into",
        f"{L}_check_leaves",
        Nth("never", "Is"),
    ),
    Fault(
        "legality: any value of a kernel is an element of its epilogue",
        "coda_ir.passes.support.editing:Site.holds",
        Nth("drop", "And", 1),
    ),
    Fault(
        "legality: groups of the columns of pairs are those of one column",
        "coda_ir.passes.support.editing:Site.holds",
        Nth("drop", "And", 5),
    ),
    Fault(
        "legality: a row that repeats for each group is one element of each",
        "coda_ir.passes.support.ports:repeated_group",
        Nth("drop", "Or", 1),
    ),
    Fault("legality: siblings read different inputs", f"{L}pair_of_siblings", Nth("drop", "Or", 2)),
    Fault("legality: siblings of different columns", f"{L}pair_of_siblings", Nth("drop", "And", 5)),
    Fault("legality: siblings of different layouts", f"{L}pair_of_siblings", Nth("drop", "And", 6)),
    Fault(
        "legality: a sibling may depend on the other",
        f"{L}pair_of_siblings",
        Nth("keep", "IfExp", 1),
    ),
    Fault(
        "legality: siblings of several weights",
        f"{L}pair_of_siblings",
        Text("if not same or len(a[0].weights) != 1 or len(b[0].weights) != 1:", "if not same:"),
    ),
    Fault("legality: a sibling may be paired already", f"{L}_can_be_half", Nth("drop", "And")),
    Fault("legality: a sibling may reduce groups", f"{L}_can_be_half", Nth("drop", "And", 2)),
    Fault("legality: a sibling may have any results", f"{L}_can_be_half", Nth("drop", "And", 5)),
    Fault("legality: pairs across groups", f"{L}_keeps_groups", Nth("always", "Return")),
    Fault(
        "legality: pairs in the columns of several weights",
        f"{L}joined_weights",
        Nth("always", "Eq"),
    ),
    Fault("legality: a head norm of rotated columns", f"{L}check_qk_norm", Nth("never", "IsNot")),
    Fault("legality: a head of any size", f"{L}check_qk_norm", Nth("never", "Gt")),
    Fault("legality: heads of several sizes", f"{L}check_qk_norm", Nth("never", "And")),
    Fault(
        "legality: a head norm's weight from its own projection",
        f"{L}check_qk_norm",
        Nth("never", "And", 1),
    ),
    *(
        Fault(f"legality: a norm of rotated heads: {condition}", f"{R}{where}", mutation)
        for condition, where, mutation in (
            ("a weight", "_failures", Nth("never", "IsNot")),
            ("other groups", "_failures", Nth("never", "NotEq")),
            ("any tables", "_failures", Nth("never", "If", 1)),
            ("other columns of tables", "_turns_by_angles", Nth("never", "NotEq")),
            ("an angle for each column", "_turns_by_angles", Nth("drop", "Or", 2)),
            ("two angles", "_turns_by_angles", Nth("drop", "And", 2)),
        )
    ),
    Fault("legality: logits in paired columns", f"{L}_plain_logits", Nth("never", "IsNot")),
    Fault("legality: a target from its own logits", f"{L}check_cross_entropy", Nth("never", "Is")),
    Fault("legality: columns paired in two ways", f"{L}check_pairing", Nth("always", "And")),
    Fault("legality: pairs where a column is selected", f"{L}check_pairing", Nth("drop", "Or")),
    Fault(
        "legality: a scale that is folded may be computed",
        "coda_ir.passes.algebra.place_column_scale:_check",
        Nth("never", "If"),
    ),
    Fault(
        "legality: a GEMM may join one that it depends on",
        "coda_ir.passes.fusion.merge_sibling_gemms:MergeSiblingGemmsPass.run_on_function",
        Text(
            "elif not rewriter.order.hoist(op.operands, first):",
            "elif rewriter.order.hoist(op.operands, first) and False:",
        ),
    ),
    Fault(
        "legality: row code may depend on the finalize it joins",
        "coda_ir.passes.fusion.fuse_finalize:_producer",
        Nth("drop", "And", 5),
    ),
    Fault(
        "legality: a slice of anything is a part of a packed projection",
        "coda_ir.passes.block.split_packed_linear:_columns",
        Text("or taken.dim != len(shape_of(op.operands[0])) - 1", ""),
    ),
    Fault(
        "legality: steps of a packed projection may leave columns out",
        "coda_ir.passes.block.split_packed_linear:_columns",
        Text("taken.step * count == whole", "True"),
    ),
    Fault(
        "scatter: a column in another order is loaded by the numbers of the rows",
        "coda_ir.passes.support.ports:_moved",
        Text("index.ids is ids and ", ""),
    ),
)
