"""Faults of legality: each condition that always holds, one by one.

Left out are the conditions on which no meaning depends. `check_norm_input` asks whether deferral
pays. What float32 and float16 cannot hold is a matter of rounding, which float64 does not show;
the goldens of refused rewrites hold these conditions. `gemm_site` asks for the tile of a GEMM: of a
`gemm.map`, pairs and norms of heads are refused just as well, since it has no weight, and a loss
fused into one is right.
"""

from faults.fault import Fault

L = "coda_ir.passes.legality:"
DEFERRAL = "coda_ir.passes.support.norm_deferral:"

LEGALITY_FAULTS = (
    Fault(
        "legality: any consumer of a norm is a GEMM",
        f"{DEFERRAL}check_norm_consumers",
        "if use.index == 0 and isinstance(op, NormConsumer) and _lets_pass(op, norm):",
        "if True:",
    ),
    Fault(
        "legality: a norm that is rounded has no other uses",
        "coda_ir.passes.support.matching:taken_norm",
        "cast = only_use(result)",
        "cast = max((use.operation for use in result.uses), key=lambda op: op.name == 'coda.cast')",
    ),
    Fault(
        "legality: a norm may be the weight of a GEMM",
        f"{DEFERRAL}check_norm_consumers",
        "if use.index == 0 and isinstance",
        "if isinstance",
    ),
    Fault(
        "legality: a symbolic number of columns has a mean",
        f"{L}static_columns",
        "if n != DYNAMIC_INDEX:",
        "if True:",
    ),
    Fault(
        "legality: a consumer of any shape",
        f"{L}check_site",
        "if domain != segment.results[site.result].type.get_shape():",
        "if False:",
    ),
    Fault(
        "legality: any broadcast is a port",
        f"{L}check_ports",
        "if port_kind(shape_of(value), domain) is None:",
        "if False:",
    ),
    Fault(
        "legality: an operand may depend on the kernel it is fused into",
        f"{L}check_site",
        "if order.slices_after(outside, site.op) is None:",
        "if False:",
    ),
    Fault(
        "legality: any value of a kernel is an element of its epilogue",
        "coda_ir.passes.support.editing:Site.holds",
        "and (other.segment, other.is_half) == (self.segment, self.is_half)",
        "",
    ),
    Fault(
        "legality: siblings read different inputs",
        f"{L}pair_of_siblings",
        "or not share_inputs(first, second)",
        "",
    ),
    Fault(
        "legality: siblings of different columns",
        f"{L}pair_of_siblings",
        "a[0].columns == b[0].columns and ",
        "",
    ),
    Fault(
        "legality: siblings of different layouts",
        f"{L}pair_of_siblings",
        " and a[0].layout == b[0].layout",
        "",
    ),
    Fault(
        "legality: a sibling may depend on the other",
        f"{L}pair_of_siblings",
        "None if order.slices_after(second.operands, first) is None else (first, second)",
        "(first, second)",
    ),
    Fault(
        "legality: siblings of several weights",
        f"{L}pair_of_siblings",
        "if not same or len(a[0].weights) != 1 or len(b[0].weights) != 1:",
        "if not same:",
    ),
    Fault(
        "legality: a sibling may be paired already",
        f"{L}_can_be_half",
        "plain = segment.pairing is None and ",
        "plain = ",
    ),
    Fault(
        "legality: a sibling may reduce groups",
        f"{L}_can_be_half",
        " and not _reduced_groups(segment)",
        "",
    ),
    Fault(
        "legality: a sibling may have any results",
        f"{L}_can_be_half",
        "and kinds <= {ResultKind.TILE, ResultKind.PARTIAL_ROW}",
        "",
    ),
    Fault(
        "legality: pairs across groups",
        f"{L}_keeps_groups",
        "return all(_pairs_within(pairing, segment, group) for group in _reduced_groups(segment))",
        "return True",
    ),
    Fault(
        "legality: pairs in the columns of several weights",
        f"{L}joined_weights",
        "if len(segment.weights) == 1:",
        "if True:",
    ),
    Fault(
        "legality: a head norm of rotated columns",
        f"{L}check_qk_norm",
        "if segment.pairing is not None:",
        "if False:",
    ),
    Fault(
        "legality: a head of any size",
        f"{L}check_qk_norm",
        "if norm.group_size > MAX_GROUP:",
        "if False:",
    ),
    Fault(
        "legality: heads of several sizes",
        f"{L}check_qk_norm",
        "if len(sizes) > 1 and any(size.bit_count() > 1 for size in sizes):",
        "if False:",
    ),
    Fault(
        "legality: a head norm's weight from its own projection",
        f"{L}check_qk_norm",
        "if norm.weight is not None and order.slice_after(norm.weight, site.op) is None:",
        "if False:",
    ),
    Fault(
        "legality: logits in paired columns",
        f"{L}check_cross_entropy",
        "if segment.pairing is not None or segment.columns == DYNAMIC_INDEX:",
        "if segment.columns == DYNAMIC_INDEX:",
    ),
    Fault(
        "legality: a target from its own logits",
        f"{L}check_cross_entropy",
        "if order.slice_after(loss.target, site.op) is None:",
        "if False:",
    ),
    Fault(
        "legality: columns paired in two ways",
        f"{L}check_pairing",
        "same = segment.pairing == pairing and not site.is_half",
        "same = True",
    ),
    Fault(
        "legality: pairs where a column is selected",
        f"{L}check_pairing",
        "if selects or any(",
        "if any(",
    ),
    Fault(
        "legality: a scale that is folded may be computed",
        "coda_ir.passes.place_column_scale:_check",
        "if not _multiplies(gemm, use.index):",
        "if False:",
    ),
    Fault(
        "legality: a GEMM may join one that it depends on",
        "coda_ir.passes.merge_sibling_gemms:MergeSiblingGemmsPass.run_on_function",
        "elif not rewriter.order.hoist(op.operands, first):",
        "elif rewriter.order.hoist(op.operands, first) and False:",
    ),
    Fault(
        "legality: row code may depend on the finalize it joins",
        "coda_ir.passes.fuse_finalize:_producer",
        "if fits and order.hoist(outside, finalize):",
        "if fits:",
    ),
    Fault(
        "legality: a slice of anything is a part of a packed projection",
        "coda_ir.passes.split_packed_linear:_column_slice",
        "and op.range[0] == len(shape_of(op.x)) - 1",
        "",
    ),
)
