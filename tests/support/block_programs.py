"""Functions with one `gemm.fused` each, whose float8 operands have scales of blocks."""

E4M3, E5M2 = "f8E4M3FN", "f8E5M2"


def scaled_blocks(
    how: str,
    *,
    k: int = 272,
    n: int = 264,
    depth: int = 128,
    columns: int = 128,
    x: str = E4M3,
    w: str = E4M3,
    y: str = "bf16",
) -> str:
    """acc + bias, and the largest element of each row of a tile."""
    count = -(-k // depth)
    operands = f"tensor<?x{k}x{x}>", f"tensor<{n}x{k}x{w}>"
    scales = f"tensor<?x{count}xf32>", f"tensor<{-(-n // columns)}x{count}xf32>"
    results, b = f"tensor<?x{n}x{y}>, tensor<?x?xf32>", f"tensor<{n}xf32>"
    return f"""
func.func @f(%x: {operands[0]}, %w: {operands[1]}, %sx: {scales[0]}, %sw: {scales[1]}, %b: {b})
    -> ({results}) {{
  %y, %top = gemm.fused %x : {operands[0]} blocks<{depth}, {columns}>(%sx : {scales[0]})
      schedule<{how}>
      columns(%w : {operands[1]}) scales(%sw : {scales[1]}) row(%b : {b})
      -> (tile : tensor<?x{n}x{y}>, partial_row<max> : tensor<?x?xf32>) {{
  ^epilogue(%acc : f32, %bias : f32):
    %0 = arith.addf %acc, %bias : f32
    gemm.yield %0, %0 : f32, f32
  }}
  func.return %y, %top : {results}
}}
"""


def gated_blocks(how: str, pairing: str, *, k: int = 272, n: int = 256, columns: int = 128) -> str:
    """gate · up, of two weights of n columns, or of one of 2n in pairs of `pairing`, such as
    `halves, 128` for the halves of heads."""
    count, x, y = -(-k // 128), f"tensor<?x{k}x{E4M3}>", f"tensor<?x{n}xbf16>"
    weights = {"w": n, "v": n} if pairing == "two weights" else {"w": 2 * n}
    typed = [f"%{name} : tensor<{rows}x{k}x{E4M3}>" for name, rows in weights.items()]
    scales = [
        f"%s{name} : tensor<{-(-rows // columns)}x{count}xf32>" for name, rows in weights.items()
    ]
    pair = "halves" if pairing == "two weights" else pairing
    return f"""
func.func @f(%x: {x}, %sx: tensor<?x{count}xf32>, {", ".join([*typed, *scales])}) -> {y} {{
  %y = gemm.fused %x : {x} blocks<128, {columns}>(%sx : tensor<?x{count}xf32>) schedule<{how}>
      columns({", ".join(typed)}) scales({", ".join(scales)}) pair<{pair}> -> (half : {y}) {{
  ^epilogue(%gate : f32, %up : f32):
    %0 = arith.mulf %gate, %up : f32
    gemm.yield %0 : f32
  }}
  func.return %y : {y}
}}
"""
