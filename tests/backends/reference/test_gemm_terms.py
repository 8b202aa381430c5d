"""GEMMs of gradients: sums of products, transposed inputs, transposed tiles, results in place."""

import pytest
import torch
from support.equivalence import assert_results_close
from support.programs import run_body as run

B, T, K, N = 2, 3, 5, 8


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


PLAIN = "^e(%a : f32): gemm.yield %a : f32"


@pytest.mark.parametrize("layout", ["nk", "kn"])
def test_products_add_up(layout: str):
    x, y, z = normal(B, T, K), normal(B, T, 3, seed=1), normal(B, T, K, seed=2)
    weights = [normal(N, k, seed=3 + k) for k in (K, 3, K)]
    stored = weights if layout == "nk" else [weight.T.contiguous() for weight in weights]
    keyword = "" if layout == "nk" else layout
    tile = f"tensor<{B}x{T}x{N}xf64>"
    (result,) = run(
        f"""%r = gemm.fused $0 + $1 + $2 columns($3) + ($4) + ($5) {keyword}
            -> (tile : {tile}) {{ {PLAIN} }}
        func.return %r : {tile}""",
        tile,
        *(x, y, z, *stored),
    )
    expected = sum(
        (a @ weight.T for a, weight in zip((x, y, z), weights, strict=True)), torch.zeros(())
    )
    assert_results_close([result], [expected], 1e-14)


def test_terms_in_pair_mode():
    x, y = normal(4, K), normal(4, 3, seed=1)
    weights = [normal(N, k, seed=k + s) for k in (K, 3) for s in (10, 20)]
    half = f"tensor<4x{N}xf64>"
    (result,) = run(
        f"""%r = gemm.fused $0 + $1 columns($2, $3) + ($4, $5) pair<halves>
            -> (half : {half}) {{
        ^e(%g : f32, %u : f32):
          %p = arith.mulf %g, %u : f32
          gemm.yield %p : f32
        }}
        func.return %r : {half}""",
        half,
        *(x, y, *weights),
    )
    gate = x @ weights[0].T + y @ weights[2].T
    up = x @ weights[1].T + y @ weights[3].T
    assert_results_close([result], [gate * up], 1e-14)


def test_gradient_of_a_weight_and_of_its_siblings():
    h, dq, dk = normal(B, T, K), normal(B, T, N, seed=1), normal(B, T, 3, seed=2)
    results = f"tensor<{N}x{K}xf64>, tensor<3x{K}xf64>, tensor<{K}xf32>"
    dwq, dwk, total = run(
        f"""%r, %s, %p = gemm.fused transposed $0
          columns($1) kn -> (tile_t : tensor<{N}x{K}xf64>) {{ {PLAIN} }}
          columns($2) kn -> (tile_t : tensor<3x{K}xf64>, partial_row<add> : tensor<{K}x?xf32>) {{
        ^e(%a : f32):
          gemm.yield %a, %a : f32, f32
        }}
        %t = gemm.finalize row (add %p : tensor<{K}x?xf32>) -> (tensor<{K}xf32>) {PLAIN_REGION}
        func.return %r, %s, %t : {results}""",
        results,
        *(h, dq, dk),
    )
    flat = h.reshape(-1, K)
    expected = [dq.reshape(-1, N).T @ flat, dk.reshape(-1, 3).T @ flat]
    assert_results_close([dwq, dwk, total], [*expected, expected[1].sum(0)], 1e-14)


PLAIN_REGION = f"{{ {PLAIN} }}"


def test_transposed_tiles_keep_the_dimensions_of_the_rows():
    x, weight, old = normal(B, T, K), normal(N, K, seed=1), normal(N, B, T, seed=2)
    tile = f"tensor<{N}x{B}x{T}xf64>"
    stored, added = run(
        f"""%r, %s = gemm.fused $0 columns($1) tile_t($2)
            -> (tile_t : {tile}, accumulate<0> : {tile}) {{
        ^e(%a : f32, %o : f32):
          %n = arith.addf %o, %a : f32
          gemm.yield %a, %n : f32, f32
        }}
        func.return %r, %s : {tile}, {tile}""",
        f"{tile}, {tile}",
        *(x, weight, old),
    )
    expected = (x @ weight.T).permute(2, 0, 1)
    assert_results_close([stored, added], [expected, old + expected], 1e-14)


def test_accumulate_rounds_to_the_type_of_the_operand():
    dy, x = normal(6, N, dtype=torch.float32), normal(6, K, seed=1, dtype=torch.float32)
    old = normal(N, K, seed=2, dtype=torch.bfloat16)
    tile = f"tensor<{N}x{K}xbf16>"
    (result,) = run(
        f"""%r = gemm.fused transposed $0 columns($1) kn tile($2) -> (accumulate<0> : {tile}) {{
        ^e(%a : f32, %o : f32):
          %n = arith.addf %o, %a : f32
          gemm.yield %n : f32
        }}
        func.return %r : {tile}""",
        tile,
        *(dy, x, old),
        precision="stated",
    )
    expected = (old.float() + dy.T @ x).bfloat16()
    assert result.dtype == torch.bfloat16
    assert torch.equal(result, expected)


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_any_number_of_rows(rows: int):
    dy, x = normal(rows, N), normal(rows, K, seed=1)
    tile = f"tensor<{N}x{K}xf64>"
    (result,) = run(
        f"""%r = gemm.fused transposed $0 columns($1) kn -> (tile : {tile}) {PLAIN_REGION}
        func.return %r : {tile}""",
        tile,
        *(dy, x),
    )
    assert_results_close([result], [dy.T @ x], 1e-14)


def test_a_stated_order_sums_one_input_after_the_other():
    x, y = normal(2, 40, dtype=torch.float32), normal(2, 20, seed=1, dtype=torch.float32)
    v, w = normal(3, 40, seed=2, dtype=torch.float32), normal(3, 20, seed=3, dtype=torch.float32)
    tile = "tensor<2x3xf32>"
    (result,) = run(
        f"""%r = gemm.fused $0 + $1 order<depth = 16, columns = 16, rows = 16>
            columns($2) + ($3) -> (tile : {tile}) {PLAIN_REGION}
        func.return %r : {tile}""",
        tile,
        *(x, y, v, w),
        precision="stated",
    )
    total = torch.zeros(2, 3, dtype=torch.float32)
    for a, b in ((x, v), (y, w)):
        for start in range(0, a.shape[1], 16):
            step = a[:, start : start + 16].double() @ b[:, start : start + 16].double().T
            total = (total.double() + step).float()
    assert torch.equal(result, total)
