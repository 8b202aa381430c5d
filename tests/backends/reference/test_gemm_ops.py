"""The GEMM level, element by element: what a region sees, and where its results go."""

from collections.abc import Callable, Sequence
from math import exp, inf, log

import pytest
import torch
from support.equivalence import assert_results_close
from support.programs import run_body as run, type_of

from coda_ir.diagnostics import CodaError

B, T, K, N = 2, 3, 5, 8
M = B * T


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


X, W = normal(B, T, K), normal(N, K, seed=1)
ACC = (X @ W.T).reshape(M, N)
TILE, HALF = f"tensor<{B}x{T}x{N}xf64>", f"tensor<{B}x{T}x{N // 2}xf64>"

PORTS = {
    "tile": (B, T, N),
    "row": (N,),
    "col": (B, T, 1),
    "col of rank 2": (B, T),
    "scalar": (1, 1),
    "table": (T, 4),
    "table of all rows": (B, T, N),
    "table of one row": (2,),
    "group": (B, T, 2),
    "group of samples": (B, 1, 4),
    "group of all rows": (2,),
    "half_tile": (B, T, N // 2),
    "half_row": (N // 2,),
    "half_table": (T, 2),
    "half_group": (B, T, 2),
}


def port_element(kind: str, port: torch.Tensor, m: int, n: int) -> float:
    """Return what the element (m, n) sees of a port; n is the pair for the half ports."""
    rows = port.reshape(-1, port.shape[-1])
    columns = N // 2 if kind.startswith("half_") else N
    match kind.removeprefix("half_").split()[0]:
        case "group":
            row = m // T if port.dim() > 1 and port.shape[1] == 1 else m
            return float(rows[row % rows.shape[0], n // (columns // rows.shape[1])])
        case "tile":
            return float(rows[m, n])
        case "row":
            return float(port[n])
        case "col":
            return float(port.flatten()[m])
        case "scalar":
            return float(port)
        case _:
            return float(rows[m % rows.shape[0], n % rows.shape[1]])


@pytest.mark.parametrize("kind", [kind for kind in PORTS if "half" not in kind])
def test_port(kind: str):
    port = normal(*PORTS[kind], seed=2)
    (result,) = run(
        f"""%r = gemm.fused $0 columns($1) {kind.split()[0]}($2) -> (tile : {TILE}) {{
        ^e(%acc : f32, %p : f32):
          %s = arith.addf %acc, %p : f32
          gemm.yield %s : f32
        }}
        func.return %r : {TILE}""",
        TILE,
        *(X, W, port),
    )
    seen = [[port_element(kind, port, m, n) for n in range(N)] for m in range(M)]
    expected = (ACC + torch.tensor(seen, dtype=torch.float64)).reshape(B, T, N)
    assert_results_close([result], [expected], 1e-14)


PAIRS: dict[str, Sequence[tuple[int, int]]] = {
    "adjacent": [(0, 1), (2, 3), (4, 5), (6, 7)],
    "halves": [(0, 4), (1, 5), (2, 6), (3, 7)],
    "halves, 4": [(0, 2), (1, 3), (4, 6), (5, 7)],
}


@pytest.mark.parametrize("pairing", PAIRS)
@pytest.mark.parametrize("kind", PORTS)
def test_port_in_pair_mode(kind: str, pairing: str):
    """The region gives first · p + second · q as a half, and first · p, second · q as a tile."""
    port = normal(*PORTS[kind], seed=2)
    two = "half" not in kind and kind.split()[0] not in ("col", "scalar")
    other = "%q" if two else "%p"
    half, tile = run(
        f"""%h, %t = gemm.fused $0 columns($1) pair<{pairing}> {kind.split()[0]}($2)
            -> (half : {HALF}, tile : {TILE}) {{
        ^e(%x : f32, %y : f32, %p : f32{", %q : f32" if two else ""}):
          %a = arith.mulf %x, %p : f32
          %b = arith.mulf %y, {other} : f32
          %s = arith.addf %a, %b : f32
          gemm.yield %s, %a, %b : f32, f32, f32
        }}
        func.return %h, %t : {HALF}, {TILE}""",
        f"{HALF}, {TILE}",
        *(X, W, port),
    )
    expected_tile = torch.zeros(M, N, dtype=torch.float64)
    for m in range(M):
        for pair, columns in enumerate(PAIRS[pairing]):
            for column in columns:
                seen = port_element(kind, port, m, column if two else pair)
                expected_tile[m, column] = ACC[m, column] * seen
    expected_half = torch.stack([expected_tile[:, list(c)].sum(-1) for c in PAIRS[pairing]], -1)
    assert_results_close(
        [half, tile], [expected_half.reshape(B, T, -1), expected_tile.reshape(B, T, N)], 1e-13
    )


def test_two_weights_pair_as_halves():
    gate, up = normal(N, K, seed=1), normal(N, K, seed=2)
    (result,) = run(
        f"""%r = gemm.fused $0 columns($1, $2) pair<halves> -> (half : {TILE}) {{
        ^e(%g : f32, %u : f32):
          %s = arith.mulf %g, %u : f32
          gemm.yield %s : f32
        }}
        func.return %r : {TILE}""",
        TILE,
        *(X, gate, up),
    )
    assert_results_close([result], [(X @ gate.T) * (X @ up.T)], 1e-14)


def test_segments_and_layouts():
    other = normal(K, 3, seed=2)
    results = f"{TILE}, tensor<{B}x{T}x6xf64>"
    first, second = run(
        f"""%r, %s = gemm.fused $0
          columns($1) -> (tile : {TILE}) {{
        ^e(%a : f32):
          %n = arith.negf %a : f32
          gemm.yield %n : f32
        }}
          columns($2, $2) kn -> (tile : tensor<{B}x{T}x6xf64>) {{
        ^e(%a : f32):
          gemm.yield %a : f32
        }}
        func.return %r, %s : {results}""",
        results,
        *(X, W, other),
    )
    assert_results_close([first, second], [-X @ W.T, X @ torch.cat([other, other], 1)], 1e-14)


COMBINE: dict[str, Callable[[Sequence[float]], float]] = {
    "add": sum,
    "max": max,
    "lse": lambda values: log(sum(map(exp, values))),
}


def combine(kind: str, values: torch.Tensor) -> float:
    return COMBINE[kind]([float(value) for value in values])


def cuts(extent: int, size: int) -> list[list[int]]:
    """The indices below `extent` in runs of `size`."""
    return [list(range(i, min(i + size, extent))) for i in range(0, extent, size)]


SCHEDULE = 'schedule<pointer, "16x16x16", warps = 4, stages = 2, group_m = 1>'


@pytest.mark.parametrize("kind", COMBINE)
@pytest.mark.parametrize("schedule", ["", SCHEDULE])
@pytest.mark.parametrize("pairing", ["", "pair<adjacent>", "pair<halves, 4>"])
def test_partials(kind: str, schedule: str, pairing: str):
    """Tiles of 16 rows and 16 columns (8 pairs) with a schedule, of 128 without; N = 40, M = 34."""
    m, n = 34, 40
    x, w = normal(m, K), normal(n, K, seed=1)
    acc, per_tile = x @ w.T, 16 if schedule else 128
    both, column = "tensor<?x?xf32>, tensor<?x40xf32>", "%a, %b" if pairing else "%a"
    row = "arith.maximumf %a, %b : f32" if pairing else "arith.negf %a : f32"
    rows, columns = run(
        f"""%r, %c = gemm.fused $0 {schedule} columns($1) {pairing}
            -> (partial_row<{kind}> : tensor<?x?xf32>, partial_col<{kind}> : tensor<?x40xf32>) {{
        ^e({"%a : f32, %b : f32" if pairing else "%a : f32"}):
          %v = {row}
          gemm.yield %v, {column} : f32, f32{", f32" if pairing else ""}
        }}
        func.return %r, %c : {both}""",
        both,
        *(x, w),
    )
    value = -acc
    if pairing:
        stride = 1 if "adjacent" in pairing else 2
        first = [c for c in range(n) if c // stride % 2 == 0]
        value = torch.maximum(acc[:, first], acc[:, [c + stride for c in first]])
        per_tile //= 2
    tiles, row_tiles = cuts(value.shape[1], per_tile), cuts(m, 16 if schedule else 128)
    expected = [[combine(kind, value[i, tile]) for tile in tiles] for i in range(m)]
    by_column = [[combine(kind, acc[tile, j]) for j in range(n)] for tile in row_tiles]
    assert_results_close([rows, columns], [torch.tensor(expected), torch.tensor(by_column)], 1e-6)


def test_tiles_do_not_straddle_weights():
    x, w = normal(M, K), normal(20, K, seed=1)
    (rows,) = run(
        f"""%r = gemm.fused $0 {SCHEDULE} columns($1, $1)
            -> (partial_row<add> : tensor<?x?xf32>) {{
        ^e(%a : f32):
          gemm.yield %a : f32
        }}
        func.return %r : tensor<?x?xf32>""",
        "tensor<?x?xf32>",
        *(x, w),
    )
    one = torch.stack([(x @ w.T)[:, tile].sum(-1) for tile in cuts(20, 16)], -1)
    assert_results_close([rows], [torch.cat([one, one], -1)], 1e-14)


@pytest.mark.parametrize("kind", COMBINE)
@pytest.mark.parametrize("axis", ["row", "col"])
def test_finalize(kind: str, axis: str):
    partial, extra = normal(B, 4, dtype=torch.float32), normal(1, seed=1, dtype=torch.float32)
    kept = B if axis == "row" else 4
    col = normal(kept, seed=2, dtype=torch.float32)
    results = f"tensor<{kept}x1xf32>, tensor<{kept}xf32>"
    scaled, plain = run(
        f"""%r, %s = gemm.finalize {axis} ({kind} $0) col($1) scalar($2)
            -> ({results}) {{
        ^e(%t : f32, %c : f32, %e : f32):
          %u = arith.mulf %t, %c : f32
          %v = arith.addf %u, %e : f32
          gemm.yield %v, %t : f32, f32
        }}
        func.return %r, %s : {results}""",
        results,
        *(partial, col, extra),
    )
    lines = partial if axis == "row" else partial.T
    total = torch.tensor([combine(kind, line) for line in lines], dtype=torch.float64)
    assert_results_close([plain, scaled], [total, (total * col + extra)[:, None]], 1e-9)


def test_select_takes_one_column():
    index = torch.tensor([[0, 7, 3], [-1, 8, -100]])
    (result,) = run(
        f"""%r = gemm.fused $0 columns($1) row($2) col($3)
            -> (select<1> : tensor<{B}x{T}xf32>) {{
        ^e(%a : f32, %b : f32, %i : i64):
          %s = arith.addf %a, %b : f32
          gemm.yield %s : f32
        }}
        func.return %r : tensor<{B}x{T}xf32>""",
        f"tensor<{B}x{T}xf32>",
        *(X, W, W[:, 0].contiguous(), index),
    )
    logits = ACC + W[:, 0]
    expected = torch.tensor([[logits[0, 0], logits[1, 7], logits[2, 3]], [0, 0, 0]])
    assert_results_close([result], [expected], 1e-6)


@pytest.mark.parametrize("pairing", ["", "pair<halves, 4>"])
def test_group_reduce(pairing: str):
    second = "%b" if pairing else "%a"
    (result,) = run(
        f"""%r = gemm.fused $0 columns($1) {pairing} -> (tile : {TILE}) {{
        ^e({"%a : f32, %b : f32" if pairing else "%a : f32"}):
          %q = arith.addf %a, {second} : f32
          %s = gemm.group_reduce add %q over 4 : f32
          gemm.yield {"%s, %s : f32, f32" if pairing else "%s : f32"}
        }}
        func.return %r : {TILE}""",
        TILE,
        *(X, W),
    )
    heads = ACC.reshape(B, T, 2, 4).sum(-1, keepdim=True) * (1 if pairing else 2)
    assert_results_close([result], [heads.expand(B, T, 2, 4).reshape(B, T, N)], 1e-14)


def test_column_counts_the_columns_of_its_segment():
    first, second = run(
        f"""%r, %s = gemm.fused $0 columns($1) -> (tile : tensor<{B}x{T}x{N}xi64>) {{
        ^e(%a : f32):
          %n = gemm.column : i64
          gemm.yield %n : i64
        }} columns($1) -> (tile : tensor<{B}x{T}x{N}xi64>) {{
        ^e(%a : f32):
          %n = gemm.column : i64
          gemm.yield %n : i64
        }}
        func.return %r, %s : tensor<{B}x{T}x{N}xi64>, tensor<{B}x{T}x{N}xi64>""",
        f"tensor<{B}x{T}x{N}xi64>, tensor<{B}x{T}x{N}xi64>",
        *(X, W),
    )
    for result in (first, second):
        assert torch.equal(result, torch.arange(N).expand(B, T, N))


def test_map_takes_its_domain_from_ports():
    col, row = normal(M, 1), normal(N, seed=1)
    (result,) = run(
        """%r = gemm.map col($0) row($1) -> (tile : tensor<?x?xf64>) {
        ^e(%c : f32, %r0 : f32):
          %s = arith.mulf %c, %r0 : f32
          gemm.yield %s : f32
        }
        func.return %r : tensor<?x?xf64>""",
        "tensor<?x?xf64>",
        *(col, row),
    )
    assert_results_close([result], [col * row], 1e-15)


@pytest.mark.parametrize("layout", ["nk", "kn"])
def test_pack_weight(layout: str):
    weight = W if layout == "nk" else W.T.contiguous()
    vector = normal(K, seed=3)
    (result,) = run(
        f"""%r = gemm.pack_weight {layout} %a0, %a1 : ({type_of(weight)}, {type_of(vector)})
              -> tensor<{N}xf32>
        func.return %r : tensor<{N}xf32>""",
        f"tensor<{N}xf32>",
        *(weight, vector),
    )
    assert_results_close([result], [W @ vector], 1e-14)


@pytest.mark.parametrize("layout", ["nk", "kn"])
def test_scale_weight(layout: str):
    weight = W if layout == "nk" else W.T.contiguous()
    vector, type = normal(K, seed=3), type_of(weight)
    (result,) = run(
        f"""%r = gemm.scale_weight {layout} %a0, %a1 : ({type}, {type_of(vector)}) -> {type}
        func.return %r : {type}""",
        type,
        *(weight, vector),
    )
    expected = W * vector
    assert_results_close([result], [expected if layout == "nk" else expected.T], 1e-14)


def test_stated_rounds_only_where_the_region_says():
    x, w = normal(M, K, dtype=torch.bfloat16), normal(N, K, seed=1, dtype=torch.bfloat16)
    types = f"tensor<{M}x{N}xf32>, tensor<{M}x{N}xf32>, tensor<{M}x{N}xbf16>"
    kept, rounded, stored = run(
        f"""%r:3 = gemm.fused $0 columns($1)
            -> (tile : tensor<{M}x{N}xf32>, tile : tensor<{M}x{N}xf32>,
                tile : tensor<{M}x{N}xbf16>) {{
        ^e(%a : f32):
          %t = arith.truncf %a : f32 to bf16
          %e = arith.extf %t : bf16 to f32
          gemm.yield %a, %e, %a : f32, f32, f32
        }}
        func.return %r#0, %r#1, %r#2 : {types}""",
        types,
        *(x, w),
        precision="stated",
    )
    assert_results_close([kept], [x.float() @ w.float().T], 1e-7)
    assert torch.equal(rounded, kept.to(torch.bfloat16).float())
    assert torch.equal(stored, kept.to(torch.bfloat16))


def test_partials_of_special_values():
    x = torch.zeros(4, 1, dtype=torch.float64)
    x[0], x[1], x[2], x[3] = torch.nan, inf, -inf, 1e300
    both = "tensor<4x?xf32>, tensor<4x?xf32>"
    largest, lse = run(
        f"""%r, %s = gemm.fused $0 columns($1)
            -> (partial_row<max> : tensor<4x?xf32>, partial_row<lse> : tensor<4x?xf32>) {{
        ^e(%a : f32):
          gemm.yield %a, %a : f32, f32
        }}
        func.return %r, %s : {both}""",
        both,
        *(x, torch.ones(3, 1, dtype=torch.float64)),
    )
    expected = x.expand(4, 3)
    assert_results_close([largest], [expected.amax(-1, keepdim=True)], 0)
    assert_results_close([lse], [torch.logsumexp(expected, -1, keepdim=True)], 1e-12)


def test_no_rows():
    tile = f"tensor<0x{N}xf64>, tensor<0x?xf32>"
    result, partial = run(
        f"""%r, %p = gemm.fused $0 columns($1)
            -> (tile : tensor<0x{N}xf64>, partial_row<max> : tensor<0x?xf32>) {{
        ^e(%a : f32):
          gemm.yield %a, %a : f32, f32
        }}
        func.return %r, %p : {tile}""",
        tile,
        *(normal(0, K), W),
    )
    assert result.shape == (0, N)
    assert partial.shape == (0, 1)


def test_groups_that_do_not_fit_a_tile_are_an_error():
    with pytest.raises(CodaError, match="cannot hold a group of 40"):
        run(
            f"""%r = gemm.fused $0 {SCHEDULE} columns($1)
                -> (partial_row<add> : tensor<?x?xf32>) {{
            ^e(%a : f32):
              %s = gemm.group_reduce add %a over 40 : f32
              gemm.yield %s : f32
            }}
            func.return %r : tensor<?x?xf32>""",
            "tensor<?x?xf32>",
            *(normal(M, K), normal(40, K)),
        )
