# pyright: basic, reportCallIssue=false, reportArgumentType=false
"""Host functions that check, copy and multiply tensors."""

import functools
import math

import torch


def dense(x):
    """Return x, or a copy, in row-major order and aligned to 16 bytes, as vector loads require."""
    x = x.contiguous()
    return x.clone() if x.data_ptr() % 16 else x


def are_dense(*tensors):
    """Return whether `dense` returns each of these tensors itself."""
    for x in tensors:
        if not x.is_contiguous() or x.data_ptr() % 16:
            return False
    return True


def aligned_rows(x):
    """Return x, or a copy whose rows start at multiples of 16 bytes, as TMA requires."""
    padding = -x.shape[-1] % (16 // x.element_size())
    return torch.nn.functional.pad(x, (0, padding)) if padding else x


def part(workspace, start, dtype, shape):
    """Return the tensor of a type and a shape that begins at a byte of the workspace."""
    size = math.prod(shape) * dtype.itemsize
    return workspace[start : start + size].view(dtype).view(shape)


def expect(x, dtype, shape, call):
    """Raise ValueError unless x, a result of PyTorch, has the type that the program states."""
    if isinstance(x, torch.Tensor) and x.dtype == dtype and x.shape == shape:
        return
    actual = f"{x.dtype} {tuple(x.shape)}" if isinstance(x, torch.Tensor) else type(x).__name__
    raise ValueError(
        f"{call} gives {actual}, but the program states {dtype} {shape}\n"
        "  help: pass larger tensors if this is a range that is empty or out of bounds; otherwise "
        "state the type that PyTorch gives"
    )


def scaled(weight, factor):
    """Return weight * factor, computed in float32 and rounded to the type of weight; contiguous."""
    result = torch.empty(weight.shape, dtype=weight.dtype, device=weight.device)
    return torch.mul(weight, factor, out=result)


@functools.cache
def has_wide_products():
    """Return whether PyTorch's GEMMs of 16-bit operands can return float32."""
    return torch.version.hip is None and "dtype" in torch.ops.aten.addmm.overloads()


def library_gemm(dtype, x, w, *others):
    """Return x @ w by PyTorch's GEMM, in the given dtype.

    `others` are further pairs x, w, whose products are added to the first one in float32. The sum
    is rounded once.
    """
    if x.is_cuda and not others and x.dtype == dtype:
        return torch.mm(x, w)
    if x.is_cuda and has_wide_products():
        wide = {} if x.dtype == torch.float32 else {"out_dtype": torch.float32}
        total = torch.mm(x, w, **wide)
        for x, w in zip(others[::2], others[1::2]):
            total = torch.addmm(total, x, w, **wide)
    else:
        total = torch.mm(x.float(), w.float())
        for x, w in zip(others[::2], others[1::2]):
            total.addmm_(x.float(), w.float())
    return total.to(dtype)


def product_of_batches(x, w):
    """Return x @ w for batches of equal extents, of several dimensions."""
    product = torch.bmm(x.flatten(0, -3), w.flatten(0, -3))
    return product.view(*x.shape[:-1], w.shape[-1])


def grouped_library_gemm(dtype, x, w, ends):
    """Return x @ w by PyTorch's grouped GEMM, in the given dtype.

    `ends` has the end of each group. For w of three dimensions, it groups the rows of x, and each
    group has a matrix of w. For w of two dimensions, it groups K: the columns of x, which are the
    rows of w.
    """
    if not x.is_cuda:
        x, w = x.float(), w.float()
    return torch.nn.functional.grouped_mm(with_lines(x), with_lines(w), offs=ends).to(dtype)


def with_lines(x):
    """Return x if PyTorch's grouped GEMM accepts its strides, otherwise a copy: the rows or the
    columns of each matrix must be contiguous, must not overlap, and must begin at multiples of 16
    bytes.
    """
    (rows, columns), (down, right) = x.shape[-2:], x.stride()[-2:]
    has_lines = (right == 1 and down >= columns) or (down == 1 and right >= rows)
    places = (*x.stride()[:-2], down if right == 1 else right)
    is_aligned = all(stride * x.itemsize % 16 == 0 for stride in places)
    if has_lines and is_aligned and x.data_ptr() % 16 == 0:
        return x
    else:
        line = 16 // x.itemsize
        padded = x.new_empty((*x.shape[:-1], -(-max(columns, 1) // line) * line))
        return padded[..., :columns].copy_(x)


def check_index(name, index, extent, ignored, least=0):
    """Raise IndexError if an element of index is neither in [least, extent) nor equal to `ignored`.
    Only indices on a CPU are checked: for a GPU, kernels assert the range, and the host does not
    wait.
    """
    if index.is_cuda:
        return
    wrong = (index < least) | (index >= extent)
    if ignored is not None:
        wrong &= index != ignored
    if wrong.any():
        row = int(wrong.flatten().nonzero()[0])
        also = "" if ignored is None else f", or {ignored}, which is ignored"
        raise IndexError(
            f"{name}: row {row} has {int(index.flatten()[row])}, expected {least} to {extent - 1}"
            f"{also}"
        )
