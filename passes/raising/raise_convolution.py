"""Pass `raise-convolution`: turn convolutions with disjoint windows into linear maps."""

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import DYNAMIC_INDEX, UnitAttr
from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.passes.support.convolutions import Convolution
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, OpInserter, Refusal
from coda_ir.passes.support.permuted import ROWS, is_transposed

OVERLAP = Refusal(
    "each element of the input is in one window: strides as large as the kernel, no padding",
    "its windows overlap, leave elements out or are of unknown number, or its channels have groups",
)
CHANNELS_FIRST = Refusal(
    "the channels are columns for all readers of the result, or, of single positions, in the "
    "source of the input",
    "another operator reads the result with its channels before its positions",
)


class RaiseConvolutionPass(FunctionPass):
    """Turns convolutions over disjoint patches of an image, or over single positions, into GEMMs.

        %c = torch.call "aten.conv2d"(%x, %w, %b)      %p = coda.transpose (coda.reshape %x)
        %f = coda.reshape %c                           %r = coda.reshape %p : B x N x (C Kh Kw)
        %y = coda.transpose %f {perm = [0, 2, 1]}  ->  %y = coda.linear %r, (coda.reshape %w), %b

    Legal iff each element of the input is in one window: the strides equal the kernel size, which
    divides the image, and there is no padding, no dilation and no groups. Worth it iff the readers
    of the result have the channels in its columns, as the GEMM stores them, or each window is a
    single position of an input whose columns are its channels, so that the transpose moves after
    the GEMM. At most one copy precedes the GEMM, and none for a kernel as large as the image. A
    linear map of patches has the attribute `coda.patches`, for estimates of the time in PyTorch.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            found = Convolution.of(op)
            rewriter.refuses(op, None if found is None else _raise(op, found, rewriter))


def _raise(op: Operation, found: Convolution, rewriter: FunctionRewriter) -> Refusal | None:
    counts = _windows(found)
    if counts is None:
        return OVERLAP
    readers, count = _readers(op.results[0]), prod(counts)
    is_of_rows = prod(found.kernel) == 1 and is_transposed(found.input.owner)
    if readers is None and count > 1 and not is_of_rows:
        return CHANNELS_FIRST
    rewriter.passed(op, f"raised to coda.linear on {count} windows")
    insert = rewriter.before(op)
    window = prod(shape_of(found.weight)[1:])
    weight = insert.insert(coda.ReshapeOp(found.weight, (found.channels, window)), "weight")
    rows = _rows(found, counts, insert)
    product = coda.LinearOp(rows, weight, *([] if found.bias is None else [found.bias]))
    if prod(found.kernel) > 1:
        product.attributes[coda.PATCHES] = UnitAttr()
    y = insert.insert(product, op.results[0].name_hint)
    if readers is None and count > 1:
        y = insert.insert(coda.TransposeOp(y, ROWS), op.results[0].name_hint)
    for old in op.results if readers is None else [reader.results[0] for reader in readers]:
        old.replace_all_uses_with(_reshaped(y, shape_of(old), old.name_hint, insert))
    return None


def _windows(found: Convolution) -> tuple[int, ...] | None:
    """Return the number of windows in each dimension; None if they do not partition the input."""
    if any(found.padding) or set(found.dilation) != {1} or found.groups != 1:
        return None
    counts: list[int] = []
    for extent, size, stride in zip(
        shape_of(found.input)[2:], found.kernel, found.stride, strict=True
    ):
        if extent == DYNAMIC_INDEX or extent % size or (stride != size and extent > size):
            return None
        counts.append(extent // size)
    return tuple(counts)


def _rows(found: Convolution, counts: tuple[int, ...], insert: OpInserter) -> SSAValue:
    """Return the windows (B x N x C K1 ..), with elements in the order of the weight."""
    batch, channels, *_ = shape_of(found.input)
    axes, positions, inside = [batch, channels], list[int](), list[int]()
    for count, size in zip(counts, found.kernel, strict=True):
        positions.append(len(axes))
        axes.append(count)
        if size > 1:
            inside.append(len(axes))
            axes.append(size)
    x = found.input
    if prod(counts) > 1:
        x = _reshaped(x, axes, "windows", insert)
        x = insert.insert(coda.TransposeOp(x, (0, *positions, 1, *inside)), "windows")
    shape = (batch, prod(counts), channels * prod(found.kernel))
    return _reshaped(x, shape, "windows", insert)


def _reshaped(x: SSAValue, shape: Sequence[int], name: str | None, insert: OpInserter) -> SSAValue:
    """Return `x` itself if it has the shape, so that passes see a transpose after it."""
    is_same = shape_of(x) == tuple(shape)
    return x if is_same else insert.insert(coda.ReshapeOp(x, shape), name)


def _readers(value: SSAValue) -> list[Operation] | None:
    """Return the transposes that move channels after positions; None with other uses."""
    rank, found = len(shape_of(value)), list[Operation]()
    for use in value.uses:
        user = use.operation
        if isinstance(user, coda.TransposeOp) and user.permutation == (0, *range(2, rank), 1):
            found.append(user)
            continue
        batch, channels, *positions = shape_of(value)
        flat = (batch, channels, prod(positions))
        if not isinstance(user, coda.ReshapeOp) or shape_of(user.result) != flat:
            return None
        after = _readers(user.result)
        if after is None:
            return None
        found.extend(after)
    return found
