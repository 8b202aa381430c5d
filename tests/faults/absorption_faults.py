"""Faults of kernels that combine the partials of their rows: which rows, which code."""

from faults.fault import Fault, KernelFault, Nth, Text

T = "coda_ir.backends.triton."
ABSORPTION = "coda_ir.passes.layout.absorption:"
CODE = f"{ABSORPTION}AbsorbedCode."

ABSORPTION_FAULTS = (
    Fault(
        "absorbed finalize: its first result for each of them",
        f"{CODE}result",
        Text("terminator.operands[index]", "terminator.operands[0]"),
    ),
    Fault(
        "absorbed finalize: partials are added whatever their combination is",
        f"{CODE}_port",
        Text("PortKind.partial(combiner)", "PortKind.PARTIAL_ADD"),
    ),
    Fault(
        "absorbed finalize: one row is read by the rows that it scales",
        f"{ABSORPTION}_check_use",
        Text("if is_one_row", "if not is_one_row"),
    ),
    Fault(
        "absorbed finalize: integers of 8 bits do not wrap around",
        f"{ABSORPTION}_check_form",
        Text("region_type(type) != type", "region_type(type) == type"),
    ),
    Fault(
        "absorbed finalize: the caller reads the first result for each of them",
        "coda_ir.passes.layout.absorb_finalize:_add_code",
        Text("op.outputs.index(output)", "0"),
    ),
    KernelFault(
        "a number of each row: no tile stores it",
        f"{T}result_places:in_first_tile",
        Text("({tile} == 0)", "({tile} < 0)"),
    ),
    KernelFault(
        "partials: rows lie as if they had one each",
        f"{T}prelude:_HELPERS[row_partials]",
        Nth("keep", "Mult"),
    ),
    KernelFault(
        "partials: what is not there counts",
        f"{T}ports:partial_extents",
        Text(
            "tiles, 1 << (tiles - 1).bit_length()",
            "1 << (tiles - 1).bit_length(), 1 << (tiles - 1).bit_length()",
        ),
    ),
    KernelFault(
        "hopper: partials of the first rows",
        f"{T}warp_specialized.gluon:_HELPERS[group_partials]",
        Text("rows = first_row + gl.arange", "rows = first_row * 0 + gl.arange"),
    ),
    KernelFault(
        "hopper: partials that are not there count as zeros",
        f"{T}warp_specialized.gluon:_HELPERS[group_partials]",
        Text("other=IDENTITY", "other=0.0"),
    ),
)
