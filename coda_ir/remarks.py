"""Optimization remarks: what a pass did, what it refused, and the cost of a refusal.

with collect_remarks() as remarks:
    CodaToGemmPass().apply(context, module)
for remark in remarks:
    print(remark)
"""

from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast, get_args

from xdsl.dialects.builtin import (
    ArrayAttr,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    LocationAttr,
    NameLoc,
    NoneAttr,
    StringAttr,
    UnknownLoc,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation

from coda_ir.diagnostics import Diagnostic, SourceRange, excerpt
from coda_ir.symbolic_size import SymbolicSize

RemarkKind: TypeAlias = Literal["passed", "missed", "analysis"]

REMARK_KINDS: tuple[RemarkKind, ...] = get_args(RemarkKind)


@dataclass(frozen=True)
class Remark:
    """One statement of a pass about one operator.

    `passed` reports a rewrite that was done, `missed` one that was refused, and `analysis` a fact
    behind such a decision.
    """

    kind: RemarkKind
    pass_name: str
    operator: str
    """Name of the operator that the remark is about, such as `coda.rms_norm`."""
    location: LocationAttr
    message: str
    condition: str | None = None
    """The legality condition that failed, for a missed rewrite."""
    bytes: int | str | SymbolicSize | None = None
    """Memory traffic that a missed rewrite costs, or that a passed one saves."""
    suggestion: str | None = None
    """A change by the user that makes the rewrite legal."""
    function: str | None = None
    """Name of the function that the operator is in."""

    @property
    def position(self) -> tuple[str, int, int] | None:
        """File, line and column (both from 1), or None if the location is unknown."""
        return source_position(self.location)

    @property
    def module(self) -> str | None:
        """The module of a PyTorch model that the operator is in, such as `layers.0.mlp`."""
        return module_name(self.location)

    def to_dict(self) -> dict[str, str | int | dict[str, str | int]]:
        """Plain data for JSON; fields without a value are left out.

        `bytes` is an integer, or a text such as `64*M` where it depends on a symbol.
        """
        fields: dict[str, str | int | dict[str, str | int] | None] = {
            "kind": self.kind,
            "pass": self.pass_name,
            "operator": self.operator,
            "function": self.function,
            "module": self.module,
            "message": self.message,
            "condition": self.condition,
            "bytes": self._plain_bytes(),
            "suggestion": self.suggestion,
        }
        if self.position is not None:
            file, line, column = self.position
            fields["location"] = {"file": file, "line": line, "column": column}
        return {name: value for name, value in fields.items() if value is not None}

    def _plain_bytes(self) -> int | str | None:
        if not isinstance(self.bytes, SymbolicSize):
            return self.bytes
        text = str(self.bytes)
        return int(text) if text.isdecimal() else text

    def to_diagnostic(self) -> Diagnostic:
        """Return the remark as a diagnostic of severity `remark`; its suggestion is the remedy."""
        place = None
        if self.position is not None:
            file, line, column = self.position
            place = SourceRange(file, line, column, column + 1)
        message = f"[{self.kind}] {self._statement()}"
        return Diagnostic("remark", place, message, self.suggestion, self.pass_name)

    def render(self, source_text: str | None = None) -> str:
        """Return the remark as in `str`, with the source line, a caret, and the suggestion."""
        lines = [f"{format_location(self.location)}: remark[{self.kind}] {self._statement()}"]
        place = self.to_diagnostic().range
        if place is not None and source_text is not None:
            lines += excerpt(place, source_text)
        if self.suggestion is not None:
            lines.append(f"  help: {self.suggestion}")
        return "\n".join(lines)

    def __str__(self) -> str:
        """`file:line:col: remark[missed] pass: operator: message; costs N bytes`."""
        text = f"{format_location(self.location)}: remark[{self.kind}] {self._statement()}"
        return text if self.suggestion is None else f"{text}; help: {self.suggestion}"

    @property
    def reason(self) -> str:
        """The message, the condition that failed, and the bytes that it costs or saves."""
        text = self.message
        if self.condition is not None:
            text += f"; failed condition: {self.condition}"
        if self.bytes is not None:
            text += f"; {'saves' if self.kind == 'passed' else 'costs'} {self.bytes} bytes"
        return text

    def _statement(self) -> str:
        inside = "" if self.module is None else f" in {self.module}"
        return f"{self.pass_name}: {self.operator}{inside}: {self.reason}"


def enclosing_function(op: Operation) -> FuncOp | None:
    """Return the function that `op` is, or is in."""
    around: Operation | None = op
    while around is not None and not isinstance(around, FuncOp):
        around = around.parent_op()
    return around


def source_position(location: Attribute) -> tuple[str, int, int] | None:
    """Return a location's file, line, column: the innermost if nested, the first known if fused."""
    match location:
        case FileLineColLoc():
            return location.filename.data, location.line.data, location.column.data
        case CallSiteLoc():
            return source_position(location.callee)
        case NameLoc():
            return source_position(location.location)
        case FusedLoc():
            return _first_position(location)
        case _:
            return None


def module_name(location: Attribute) -> str | None:
    """Return the name in a location: the first name in a fused one."""
    return next((n for n in _names(location) if not n.startswith(_CHECKPOINT)), None)


def checkpointed_location(location: LocationAttr, region: str) -> LocationAttr:
    """Return the location of an operator that the backward recomputes with all of `region`."""
    return NameLoc(StringAttr(_CHECKPOINT + region), location)


def checkpoint_of(location: Attribute) -> str | None:
    """Return the recomputed region that an operator is in, if any."""
    names = (n for n in _names(location) if n.startswith(_CHECKPOINT))
    return next((name.removeprefix(_CHECKPOINT) for name in names), None)


_CHECKPOINT = "checkpoint: "


def _names(location: Attribute) -> Generator[str]:
    match location:
        case NameLoc():
            yield location.desc.data
            yield from _names(location.location)
        case CallSiteLoc():
            yield from _names(location.callee)
        case FusedLoc():
            for inner in fused_parts(location):
                yield from _names(inner)
        case _:
            return


def _first_position(location: FusedLoc) -> tuple[str, int, int] | None:
    positions = map(source_position, fused_parts(location))
    return next((position for position in positions if position is not None), None)


def format_location(location: Attribute) -> str:
    """Return `file:line:col`, or `<unknown>`."""
    position = source_position(location)
    return "<unknown>" if position is None else ":".join(map(str, position))


def fuse_locations(*locations: LocationAttr) -> LocationAttr:
    """Return the location of an operator that replaces several: each of their locations once."""
    known = list(dict.fromkeys(leaf for location in locations for leaf in leaf_locations(location)))
    if not known:
        return UnknownLoc()
    return known[0] if len(known) == 1 else FusedLoc(tuple(known), NoneAttr())


def fused_parts(location: FusedLoc) -> Sequence[LocationAttr]:
    """Return the parts of a fused location, which may be fused themselves."""
    # Not `isa`, which builds a constraint per call.
    return cast(ArrayAttr[LocationAttr], location.locations).data


def leaf_locations(location: LocationAttr) -> Generator[LocationAttr]:
    """Return the known locations in a fused one, or the only one."""
    if isinstance(location, FusedLoc):
        for inner in fused_parts(location):
            yield from leaf_locations(inner)
    elif not isinstance(location, UnknownLoc):
        yield location


_collectors: ContextVar[tuple[list[Remark], ...]] = ContextVar("coda_ir_remarks", default=())
"""The lists that gather remarks, the innermost last."""


@contextmanager
def collect_remarks() -> Generator[list[Remark]]:
    """Collect the remarks that are emitted inside the `with` block, in order.

    Blocks nest: an inner block hands its remarks on to the outer one when it ends.
    """
    outer, remarks = _collectors.get(), list[Remark]()
    token = _collectors.set((*outer, remarks))
    try:
        yield remarks
    finally:
        _collectors.reset(token)
        if outer:
            outer[-1].extend(remarks)


def emit_remark(remark: Remark) -> None:
    """Pass `remark` to the innermost `collect_remarks` block; without one, it is dropped."""
    collectors = _collectors.get()
    if collectors:
        collectors[-1].append(remark)


def missed_places(function: str, operators: Collection[str]) -> set[LocationAttr]:
    """Return the places at which collected remarks refuse a rewrite of such operators."""
    return {
        place
        for remarks in _collectors.get()
        for remark in remarks
        if remark.kind == "missed" and remark.function == function and remark.operator in operators
        for place in leaf_locations(remark.location)
    }


def is_collecting_remarks() -> bool:
    """Return whether remarks emitted here are collected."""
    return bool(_collectors.get())
