"""Kernels that differ in names alone are one kernel."""

import pytest

import coda_ir
from coda_ir.backends.triton.equal_code import code_of

KERNEL = '''\
# layer.coda:3:5
@triton.jit(do_not_specialize=["M"])
def gemm(x_ptr, w_ptr, M):
    """x @ w."""
    row = tl.program_id(0) * 8
    x = tl.load(x_ptr + row, mask=row < M)
    tl.store(w_ptr + row, dot(x, x))
'''


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("gemm", "gemm_1"),
        ("w_ptr", "v_ptr"),
        ("row", "rows"),
        ('"""x @ w."""', '"""y @ v."""'),
        ("# layer.coda:3:5", "# layer.coda:9:5"),
        ("M", "count"),
    ],
)
def test_names_do_not_count(old: str, new: str):
    assert code_of(KERNEL.replace(old, new)) == code_of(KERNEL)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("* 8", "* 16"),
        ("mask=row < M", "mask=row <= M"),
        ("dot(", "dot_bf16("),
        ("dot(x, x)", "dot(x, row)"),
        ("x_ptr, w_ptr, M)", "w_ptr, x_ptr, M)"),
        ('do_not_specialize=["M"]', 'do_not_specialize=["x_ptr"]'),
        ("mask=", "other="),
    ],
)
def test_code_counts(old: str, new: str):
    changed = KERNEL.replace(old, new)
    assert changed != KERNEL and code_of(changed) != code_of(KERNEL)


def test_layers_share_their_kernels():
    layers = "\n".join(
        f"  h{n + 1} = h{n} + linear(silu(linear(rms_norm(h{n}, eps=1e-5), up{n})), down{n})"
        for n in range(4)
    )
    weights = ", ".join(f"up{n}: bf16[96, 64], down{n}: bf16[64, 96]" for n in range(4))
    program = (
        f"fn layers(h0: bf16[M, 64], {weights}) -> bf16[M, 64] {{\n{layers}\n  return h4\n}}\n"
    )
    compiled = coda_ir.compile(program, device="cpu")
    gemms = [name for name in compiled.kernels if name.startswith("gemm")]
    # The first layer has no statistics of its input, the last one makes none.
    assert gemms == ["gemm_silu", "gemm_residual_ssq", "gemm_row_scale_silu", "gemm_residual"]
