"""Programs in notebooks: a picture of the kernels, and the remarks as a table."""

from collections.abc import Iterator, Sequence
from html import escape

from xdsl.dialects.builtin import ModuleOp

from coda_ir.diagnostics import CodaError
from coda_ir.remarks import Remark, format_location

MAX_DRAWN = 300
"""Operators of a module that is drawn; larger pictures take Graphviz seconds, and nobody reads
them.
"""

COLUMNS = ("kind", "pass", "operator", "place", "reason", "remedy")


def html_of(title: str, module: ModuleOp, remarks: Sequence[Remark]) -> str:
    """Return an HTML fragment about a block-level module; all texts are escaped."""
    head = "".join(f"<th>{column}</th>" for column in COLUMNS)
    table = f"<table><tr>{head}</tr>{''.join(map(_row, remarks))}</table>"
    return f"<p><code>{escape(title)}</code></p>{_picture(module)}{table if remarks else ''}"


def _row(remark: Remark) -> str:
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in _cells(remark))}</tr>"


def _cells(remark: Remark) -> Iterator[str]:
    yield from (remark.kind, remark.pass_name, remark.operator)
    known = (remark.module, None if remark.position is None else format_location(remark.location))
    yield ", ".join(filter(None, known))
    yield remark.reason
    yield remark.suggestion or ""


def _picture(module: ModuleOp) -> str:
    """Draw the kernels with the operators in each; return a line of text if no picture can be
    drawn.
    """
    from coda_ir.backends.graphviz import draw_module, render_svg

    count = sum(1 for _ in module.walk())
    if count > MAX_DRAWN:
        return f"<p>{count} operators; explore() and --emit=html show programs of this size.</p>"
    try:
        svg = render_svg(draw_module(module))
    except CodaError as error:
        return f"<p>{escape(str(error))}</p>"
    return f'<div style="overflow:auto">{svg[svg.index("<svg") :]}</div>'
