"""Pass `raise-depthwise-convolution`: turn convolutions of single channels into shifted rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.passes.support.convolutions import Convolution
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.passes.support.matching import defined_by
from coda_ir.passes.support.permuted import ROWS, is_transposed, permuted_values
from coda_ir.passes.support.views import View, insert_steps, start_of
from coda_ir.symbolic_shapes import Dim

TOO_WIDE = Refusal(
    f"a window has at most {coda.MAX_TAPS} positions, one for each position of the result",
    "its windows have more positions, or skip positions",
)
OTHER_LENGTH = Refusal(
    "the number of positions that are read is that of the input",
    "a different range of the padded positions is read",
)
CHANNELS_FIRST = Refusal(
    "the channels are columns in the source of the input, or for all readers of the result",
    "the input and the readers of the result have channels before positions",
)


class RaiseDepthwiseConvolutionPass(FunctionPass):
    """Turns a convolution of each channel over positions into a weighted sum of shifted rows.

        %t = coda.transpose %x : B x C x T                  %0 = coda.shift %x {by = 1}
        %c = torch.call "aten.conv1d"(%t, %w, %b)           %1 = coda.shift %x {by = 0}
        %s = coda.slice %c : the first T positions     ->   %y = %0 · w[:, 0] + %1 · w[:, 1] + b
        %y = coda.transpose %s : B x T x C

    One pointwise kernel reads the rows in place. Pointwise code around it that also has channels
    before positions joins the kernel when `cancel-transposes` has moved it to rows. Legal iff there
    are as many groups as channels, the stride is 1, and the result has the positions of the input:
    padding, or zeros that the model adds, fill the windows, or the readers of the result take that
    many positions. Worth it iff the channels are columns before or after the convolution, and the
    window is narrow.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            found = Convolution.of(op)
            if found is None or not _is_depthwise(found):
                continue
            rewriter.refuses(op, _raise(op, found, rewriter))


def _is_depthwise(found: Convolution) -> bool:
    """Return whether the convolution is depthwise: one group for each channel."""
    is_single = found.groups == found.channels == shape_of(found.input)[1]
    return is_single and len(found.kernel) == 1


def _raise(op: Operation, found: Convolution, rewriter: FunctionRewriter) -> Refusal | None:
    ((taps,), (padding,), (dilation,)) = found.kernel, found.padding, found.dilation
    if found.stride != (1,) or taps > coda.MAX_TAPS:
        return TOO_WIDE
    source = _Input.of(found.input).by_rows(rewriter, op)
    before, after = (padding + zeros for zeros in source.zeros)
    positions = rewriter.shapes.dims(source.x)[1 if source.is_rows else 2]
    kept = _kept(op.results[0], before + after == dilation * (taps - 1), positions, rewriter)
    if kept is None:
        return OTHER_LENGTH
    insert = rewriter.before(op)
    has_rows = source.is_rows or permuted_values(rewriter.ops).get(source.x) == ROWS
    if not has_rows and not all(map(_are_transposes, kept)):
        return CHANNELS_FIRST
    rewriter.passed(op, f"raised to {taps} shifted rows")
    x = source.x
    if not source.is_rows:
        x = insert.insert(coda.TransposeOp(x, ROWS), x.name_hint)
    for value, start in kept.items():
        y = coda.shifted_convolution(
            insert.insert, x, found.weight, found.bias, before=before - start, dilation=dilation
        )
        y.name_hint = op.results[0].name_hint
        value.replace_all_uses_with(insert.insert(coda.TransposeOp(y, ROWS), y.name_hint))
    return None


@dataclass(frozen=True)
class _Input:
    """The input of a convolution without the zeros that pad its positions."""

    x: SSAValue
    is_rows: bool = False
    """True if the columns of x are its channels, so that the model transposes it first."""
    zeros: tuple[int, int] = (0, 0)
    """The number of zeros before and after x."""

    @staticmethod
    def of(value: SSAValue) -> _Input:
        transpose = defined_by(value, coda.TransposeOp)
        is_rows = transpose is not None and transpose.permutation == ROWS
        x = transpose.x if transpose is not None and is_rows else value
        pad = defined_by(x, coda.PadOp)
        if pad is None or pad.number or pad.added is None:
            return _Input(x, is_rows)
        is_of_positions = pad.dim.value.data == (1 if is_rows else 2)
        return _Input(pad.x, is_rows, pad.added) if is_of_positions else _Input(x, is_rows)

    def by_rows(self, rewriter: FunctionRewriter, op: Operation) -> _Input:
        """Return the same with channels as columns, if x is a view of columns, such as of heads."""
        view, dims = View.of(self.x, rewriter.shapes), rewriter.shapes.dims(self.x)
        batch, channels, positions = view.dims
        rows = replace(view, dims=(batch, positions, channels))
        is_moved = [*view.order] != sorted(view.order) == [*rows.order]
        if self.is_rows or not is_moved:
            return self
        steps = rows.steps((dims[0], dims[2], dims[1]))
        return _Input(insert_steps(steps, view.base, rewriter.before(op)), True, self.zeros)


def _kept(
    value: SSAValue, is_whole: bool, positions: Dim, rewriter: FunctionRewriter
) -> dict[SSAValue, int] | None:
    """Return the parts of the result `value` that are read, which have as many `positions` as the
    input, with their first positions; None if another part is read.
    """
    if is_whole:
        return {value: 0}
    found: dict[SSAValue, int] = {}
    for use in value.uses:
        part = use.operation
        start = start_of(part, 2)
        if start is None or rewriter.shapes.dims(part.results[0])[2:] != (positions,):
            return None
        found[part.results[0]] = start
    return found


def _are_transposes(value: SSAValue) -> bool:
    """Return whether all readers of `value` use its channels as columns."""
    return all(is_transposed(use.operation) for use in value.uses)
