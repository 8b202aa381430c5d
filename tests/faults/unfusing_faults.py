"""Faults of the pass that takes epilogues apart from products."""

from faults.fault import Fault, Nth, Text

_PLACE = "coda_ir.passes.layout.unfusing:"

UNFUSING_FAULTS = (
    Fault(
        "unfused: a gate is multiplied with itself",
        f"{_PLACE}_call",
        Text(
            "[weights[index] for weights in segment.terms]",
            "[weights[0] for weights in segment.terms]",
        ),
    ),
    Fault(
        "unfused: the halves of heads are taken for neighbours",
        f"{_PLACE}_over",
        Text("PairingAttr.halves(segment.group_size)", "PairingAttr.adjacent_columns()"),
    ),
    Fault(
        "unfused: what is computed from a product is taken for the product",
        f"{_PLACE}is_bare",
        Nth("always", "Is"),
    ),
    Fault(
        "unfused: a gradient is stored the other way round",
        f"{_PLACE}_call",
        Text("port.kind.data == ResultKind.TILE_T", "port.kind.data == ResultKind.TILE"),
    ),
    Fault(
        "unfused: columns of both weights are taken for those of one",
        f"{_PLACE}why_not_unfused",
        Nth("never", "UnaryOp", 1),
    ),
)
