# pyright: basic, reportGeneralTypeIssues=false
# pyright: reportArgumentType=false, reportOperatorIssue=false
"""Device functions that reduce a tile over an axis or a group of columns, or split its columns."""

import triton
import triton.language as tl

from coda_ir.backends.triton.runtime.device import LOG2_E, maximum
from coda_ir.backends.triton.runtime.header import INTERPRET


@triton.jit
def sum_rows(x):
    """Return each column's sum; in float64 in the interpreter, which would sum row by row."""
    if INTERPRET:
        return tl.sum(x.to(tl.float64), 0).to(tl.float32)
    else:
        return tl.sum(x, 0)


@triton.jit
def store_sample_sums(pointers, mask, x, rows, tile, M, LENGTH, TILES, N: tl.constexpr):
    """Store the partial sums of one tile of rows: for each sample that has rows in the tile, and
    for each column, the sum over these rows.

    A sample is LENGTH consecutive rows. The buffer has TILES partial sums for each sample and
    column, one for each tile that overlaps the sample. A sample may overlap TILES - 1 tiles only:
    its last tile then also stores a partial sum of 0.
    """
    BLOCK_M: tl.constexpr = rows.shape[0]
    first = tile * BLOCK_M
    last = tl.minimum(first + BLOCK_M, M) - 1
    sample = first // LENGTH
    while sample * LENGTH <= last:
        start = sample * LENGTH
        number = tile - start // BLOCK_M
        place = (number + sample * TILES).to(tl.int64) * N
        is_of_sample = (rows >= start) & (rows < start + LENGTH)
        total = sum_rows(tl.where(is_of_sample[:, None], x, 0.0))
        tl.store(pointers + place, total, mask=mask)
        if (last + 1 >= start + LENGTH) & (number + 1 < TILES):
            tl.store(pointers + place + N, tl.zeros_like(total), mask=mask)
        sample += 1


@triton.jit
def reduce_max(x, axis: tl.constexpr):
    """Return the maximum over an axis, or NaN if an element is NaN."""
    if INTERPRET:
        numbers = tl.max(tl.where(x == x, x, float("-inf")), axis)
        return tl.where(tl.sum((x != x).to(tl.int32), axis) > 0, float("nan"), numbers)
    else:
        return tl.reduce(x, axis, maximum)


@triton.jit
def exp_below(x, most):
    """Return exp(x - most), or 0 for less than 2**-126, for which `tl.exp` takes three more
    instructions. x is at most `most`.
    """
    return tl.exp2((x - most) * LOG2_E)


@triton.jit
def reduce_lse(x, axis: tl.constexpr):
    """Return log(sum(exp(x))) over an axis. An infinite maximum is not subtracted: +inf gives +inf,
    and -inf alone -inf.
    """
    largest = tl.max(x, axis)
    shift = tl.where(tl.abs(largest) == float("inf"), 0.0, largest)
    return shift + tl.log(tl.sum(exp_below(x, tl.expand_dims(shift, axis)), axis))


@triton.jit
def with_exponentials(largest, total, x):
    """Update the running maximum and sum of an online softmax with a tile x: return for each row
    the maximum element, and the sum of exp(element - maximum). It is NaN for +inf, as is the loss
    of such a row.
    """
    most = tl.maximum(largest, tl.max(x, 1))
    shift = tl.where(most == float("-inf"), 0.0, most)
    more = tl.sum(exp_below(x, tl.expand_dims(shift, 1)), 1)
    return most, total * exp_below(largest, shift) + more


@triton.jit
def wide_logarithm(largest, total):
    """Return log(total * exp(largest)) in float64. The logarithm of total is a float32."""
    shift = tl.where(largest == float("-inf"), 0.0, largest)
    return shift.to(tl.float64) + tl.log(total).to(tl.float64)


@triton.jit
def wide_lse(x, axis: tl.constexpr):
    """Return log(sum(exp(x))) over an axis in float64: the maximum plus a float32 logarithm."""
    largest = tl.max(x, axis)
    shift = tl.where(largest == float("-inf"), 0.0, largest)
    rest = tl.log(tl.sum(exp_below(x, tl.expand_dims(shift, axis)), axis))
    return shift.to(tl.float64) + rest.to(tl.float64)


@triton.jit
def wide_tree_lse(x, axis: tl.constexpr):
    """Return `wide_lse` with the exponentials summed by `tree_sum`."""
    largest = tl.max(x, axis)
    shift = tl.where(largest == float("-inf"), 0.0, largest)
    rest = tl.log(tree_sum(tl.exp(x - tl.expand_dims(shift, axis)), axis))
    return shift.to(tl.float64) + rest.to(tl.float64)


@triton.jit
def lse_of_two(a, b):
    """Return log(exp(a) + exp(b)), also of infinite numbers."""
    largest = tl.maximum(a, b)
    shift = tl.where(tl.abs(largest) == float("inf"), 0.0, largest)
    return shift + tl.log(tl.exp(a - shift) + tl.exp(b - shift))


@triton.jit
def rest_of(wide, rounded):
    """Return wide - rounded in float32, the rounding error; 0 where `rounded` is not finite."""
    is_finite = tl.abs(rounded) < float("inf")
    wide, rounded = tl.where(is_finite, wide, 0.0), tl.where(is_finite, rounded, 0.0)
    return (wide - rounded.to(tl.float64)).to(tl.float32)


@triton.jit
def column_subtile(x, subtile: tl.constexpr, SUBTILES: tl.constexpr):
    """Return range `subtile` of SUBTILES equal ranges of columns; nothing moves between threads."""
    if SUBTILES == 1:
        return x
    else:
        left, right = column_halves(x)
        if subtile < SUBTILES // 2:
            return column_subtile(left, subtile, SUBTILES // 2)
        else:
            return column_subtile(right, subtile - SUBTILES // 2, SUBTILES // 2)


@triton.jit
def column_halves(x):
    """Return the first and the second half of the columns; no elements move between threads."""
    return tl.split(tl.permute(tl.reshape(x, (x.shape[0], 2, x.shape[1] // 2)), (0, 2, 1)))


@triton.jit
def column_neighbours(x):
    """Return the even and the odd columns of x."""
    return tl.split(tl.reshape(x, (x.shape[0], x.shape[1] // 2, 2)))


@triton.jit
def tree_sum(x, axis: tl.constexpr):
    """Return the sum over an axis in a stated order: halves are added until one element is left."""
    if axis == 0:
        return tree_sum(tl.trans(x), 1)
    elif x.shape[1] == 1:
        return tl.reshape(x, (x.shape[0],))
    else:
        left, right = column_halves(x)
        return tree_sum(left + right, 1)


@triton.jit
def tree_lse(x, axis: tl.constexpr):
    """Return log(sum(exp(x))) over an axis of a tile, with a sum by `tree_sum`."""
    largest = tl.max(x, axis)
    shift = tl.where(tl.abs(largest) == float("inf"), 0.0, largest)
    return shift + tl.log(tree_sum(tl.exp(x - tl.expand_dims(shift, axis)), axis))


@triton.jit
def group_tree_add(x, GROUP: tl.constexpr):
    """Return x with each column replaced by its group's `tree_sum` over GROUP neighbours."""
    groups = tl.reshape(x, (x.shape[0] * (x.shape[1] // GROUP), GROUP))
    combined = tl.expand_dims(tree_sum(groups, 1), 1)
    return tl.reshape(tl.broadcast_to(combined, groups.shape), x.shape)


@triton.jit
def group_tree_lse(x, GROUP: tl.constexpr):
    """Return x with each column replaced by its group's logsumexp, summed by `tree_sum`."""
    groups = tl.reshape(x, (x.shape[0] * (x.shape[1] // GROUP), GROUP))
    combined = tl.expand_dims(tree_lse(groups, 1), 1)
    return tl.reshape(tl.broadcast_to(combined, groups.shape), x.shape)


@triton.jit
def group_add(x, GROUP: tl.constexpr):
    """Return x with every column replaced by the sum over its group of GROUP neighbours."""
    groups = tl.reshape(x, (x.shape[0], x.shape[1] // GROUP, GROUP))
    combined = tl.expand_dims(tl.sum(groups, 2), 2)
    return tl.reshape(tl.broadcast_to(combined, groups.shape), x.shape)


@triton.jit
def group_max(x, GROUP: tl.constexpr):
    """Return x with every column replaced by the maximum over its group of GROUP neighbours."""
    groups = tl.reshape(x, (x.shape[0], x.shape[1] // GROUP, GROUP))
    combined = tl.expand_dims(reduce_max(groups, 2), 2)
    return tl.reshape(tl.broadcast_to(combined, groups.shape), x.shape)


@triton.jit
def group_element(x, GROUP: tl.constexpr):
    """Return one element for each group of GROUP neighbouring columns, whose elements are equal."""
    return reduce_max(tl.reshape(x, (x.shape[0], x.shape[1] // GROUP, GROUP)), 2)


@triton.jit
def group_lse(x, GROUP: tl.constexpr):
    """Return x with every column replaced by the logsumexp over its group of GROUP neighbours."""
    groups = tl.reshape(x, (x.shape[0], x.shape[1] // GROUP, GROUP))
    combined = tl.expand_dims(reduce_lse(groups, 2), 2)
    return tl.reshape(tl.broadcast_to(combined, groups.shape), x.shape)
