"""Faults of products of float8: promoted sums in pieces of a tile, and scales of blocks."""

from faults.fault import KernelFault, Text

T = "coda_ir.backends.triton."
W = f"{T}warp_specialized."
PROMOTED = f"{W}gluon:_HELPERS[accumulate_promoted]"

SCALE_FAULTS = (
    KernelFault(
        "split rows: both groups multiply the first rows",
        PROMOTED,
        Text("a.slice(FIRST_ROW, acc.shape[0])", "a.slice(0, acc.shape[0])"),
    ),
    KernelFault(
        "split rows: both groups store the first rows",
        f"{W}kernel:_Emitter._first_row",
        Text("f' + {rows} * GROUP' if rows < bm else ''", "''"),
    ),
    KernelFault(
        "split rows: a stage is handed back before its last piece",
        PROMOTED,
        Text("piece == PIECES - 1", "piece == 0"),
    ),
    KernelFault(
        "split rows: every piece has the first columns",
        PROMOTED,
        Text("slice(COLUMNS * piece, COLUMNS)", "slice(0, COLUMNS)"),
    ),
    KernelFault(
        "split rows: a product is added to the sums of another piece",
        PROMOTED,
        Text("sums[1:] + (sums[0] + added,)", "(sums[0] + added,) + sums[1:]"),
    ),
    KernelFault(
        "split rows: the first step of a tile adds to the products before",
        PROMOTED,
        Text("use_acc=False", "use_acc=True"),
    ),
    KernelFault(
        "hopper, blocks: scales of the step before",
        PROMOTED,
        Text("b_scales, k)", "b_scales, gl.maximum(k - 1, 0))"),
    ),
    KernelFault(
        "hopper, blocks: both pieces have the scales of the first",
        PROMOTED,
        Text("scales[1 + PARTS * piece + part]", "scales[1]"),
    ),
    KernelFault(
        "hopper, blocks: all parts of a piece have the scales of the first",
        PROMOTED,
        Text("scales[1 + PARTS * piece + part]", "scales[1 + PARTS * piece]"),
    ),
    KernelFault(
        "hopper, blocks: scales of the first rows for all of them",
        PROMOTED,
        Text("row = first_row + gl.arange", "row = gl.arange"),
    ),
    KernelFault(
        "hopper, blocks: scales of the first columns for all of them",
        f"{W}loads:scaled_columns",
        Text("f'{rows.first}{offset}'", "'0'"),
    ),
    KernelFault(
        "hopper, blocks: both weights have the scales of the first",
        f"{W}loads:scaled_columns",
        Text("(rows.weight, ", "(0, "),
    ),
    KernelFault(
        "blocks: scales of the next step",
        f"{T}prelude:_HELPERS[multiply]",
        Text("k // SCALED", "tl.minimum(k + BLOCK_K, K - 1) // SCALED"),
    ),
    KernelFault(
        "blocks: scales of another block of columns",
        f"{T}mainloop:MainLoop._scales",
        Text("// {blocks.columns.data}", "// {2 * blocks.columns.data}"),
    ),
    KernelFault(
        "blocks: both weights of a pair have the scales of the first",
        f"{T}mainloop:MainLoop._scales",
        Text("tile.weight(index, tile.segment.scales)", "tile.weight(0, tile.segment.scales)"),
    ),
    KernelFault(
        "blocks: columns are not scaled",
        f"{T}prelude:_HELPERS[scaled_dot]",
        Text(" * tl.load(b_scales + block)", ""),
    ),
)
