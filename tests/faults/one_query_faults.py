"""Faults of the kernel of attention with one query for each head."""

from faults.fault import KernelFault, Nth, Text

T = "coda_ir.backends.triton."
KERNEL = f"{T}one_query_kernel:"
PARTS = f"{T}one_query_kernel:_Columns."

ONE_QUERY_FAULTS = (
    KernelFault(
        "one query: what was summed before a larger score keeps its scale",
        f"{T}prelude:_HELPERS[attend_keys]",
        Nth("keep", "Mult", 2),
    ),
    KernelFault(
        "one query: sums of other programs keep their scale",
        f"{T}prelude:_HELPERS[combine_attended]",
        Nth("keep", "Mult", 11),
    ),
    KernelFault(
        "one query: the sums of the first program are combined again",
        f"{KERNEL}_shared",
        Text("partials + part * PARTIALS", "partials"),
    ),
    KernelFault(
        "one query: keys past the end have weight",
        f"{KERNEL}_masked",
        Text("tl.where(inside[None, :], {scaled}", "tl.where(inside[None, :] | True, {scaled}"),
    ),
    KernelFault(
        "one query: all query heads have the mask of the first one",
        f"{KERNEL}_masked",
        Text("* {op.queries} + query)", "* {op.queries} + 0 * query)"),
    ),
    KernelFault(
        "one query: all sequences have the mask of the first one",
        f"{KERNEL}_masked",
        Text("head // {tiling.groups} *", "0 *"),
    ),
    KernelFault(
        "one query: query heads are those of the first head of keys",
        f"{PARTS}places",
        Text("(head * {queries} + query)", "(head * 0 + query)"),
    ),
    KernelFault(
        "one query: room for the sums of one program of a head",
        f"{KERNEL}one_query_kernel",
        Text("SharedTiles(ROW_COUNT, tiling.splits", "SharedTiles(ROW_COUNT, 1"),
    ),
)
