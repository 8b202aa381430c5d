"""Lossless plain data of remarks; `Remark.to_dict` is the format for users."""

from typing import Any, TypeAlias, get_args

from xdsl.dialects.builtin import (
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    LocationAttr,
    NameLoc,
    NoneAttr,
    StringAttr,
    UnknownLoc,
)
from xdsl.ir import Attribute

from coda_ir.remarks import REMARK_KINDS, Remark, fused_parts
from coda_ir.symbolic_size import SymbolicSize

Plain: TypeAlias = dict[str, Any]
"""A value that JSON can write."""

_TEXTS = ("kind", "pass_name", "operator", "message", "condition", "suggestion", "function")


def encode_remark(remark: Remark) -> Plain:
    """Return the fields that have a value."""
    fields: Plain = {name: getattr(remark, name) for name in _TEXTS}
    fields["location"] = _encode_location(remark.location)
    fields["bytes"] = _encode_bytes(remark.bytes)
    return {name: value for name, value in fields.items() if value is not None}


def decode_remark(fields: Plain) -> Remark:
    """Read what `encode_remark` returns. Raises KeyError, TypeError or ValueError otherwise."""
    if fields["kind"] not in REMARK_KINDS:
        raise ValueError(f"unknown kind of remark '{fields['kind']}'")
    texts = {name: fields[name] for name in _TEXTS if name in fields}
    location = _decode_location(fields.get("location"))
    return Remark(**texts, location=location, bytes=_decode_bytes(fields.get("bytes")))


def _encode_bytes(size: int | str | SymbolicSize | None) -> Any:
    return [list(term) for term in size.terms] if isinstance(size, SymbolicSize) else size


def _decode_bytes(data: Any) -> int | str | SymbolicSize | None:
    if data is None or isinstance(data, int | str):
        return data
    return SymbolicSize(tuple((tuple(monomial), factor) for monomial, factor in data))


def _encode_location(location: Attribute) -> Any:
    """Return a location as data: None if unknown, with any text that accompanies it."""
    match location:
        case FileLineColLoc():
            return [location.filename.data, location.line.data, location.column.data]
        case NameLoc():
            return {"name": location.desc.data, "at": _encode_location(location.location)}
        case CallSiteLoc():
            callee, caller = map(_encode_location, (location.callee, location.caller))
            return {"callee": callee, "caller": caller}
        case FusedLoc():
            return {"fused": [_encode_location(inner) for inner in fused_parts(location)]}
        case _:
            return None


def _decode_location(data: Any) -> LocationAttr:
    match data:
        case None:
            return UnknownLoc()
        case [file, line, column]:
            return FileLineColLoc(StringAttr(file), IntAttr(line), IntAttr(column))
        case {"name": name, "at": place}:
            return NameLoc(StringAttr(name), _decode_location(place))
        case {"callee": callee, "caller": caller}:
            return CallSiteLoc(_decode_location(callee), _decode_location(caller))
        case {"fused": places}:
            return FusedLoc(tuple(map(_decode_location, places)), NoneAttr())
        case _:
            raise ValueError(f"not a location: {data}")


assert set(get_args(LocationAttr)) == {UnknownLoc, FileLineColLoc, NameLoc, CallSiteLoc, FusedLoc}
