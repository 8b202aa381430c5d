"""Functions with one `gemm.fused` each, as text: the GEMMs of backward passes.

`schedule` is the text of the attribute's parameters, or empty.
"""

from collections.abc import Sequence


def _schedule(schedule: str) -> str:
    return f"schedule<{schedule}>" if schedule else ""


def input_gradient(
    dtype: str, depths: Sequence[int], n: int, schedule: str, layout: str = "kn"
) -> str:
    """dx = residual + Σ_t dz_t · W_t, and partial sums of dx by row and by column."""
    tile = f"tensor<?x{n}x{dtype}>"
    weight = {"kn": "{k}x{n}", "nk": "{n}x{k}"}[layout]
    shapes = [f"tensor<{weight.format(k=k, n=n)}x{dtype}>" for k in depths]
    inputs = [f"%dz{i} : tensor<?x{k}x{dtype}>" for i, k in enumerate(depths)]
    weights = [f"%w{i} : {shape}" for i, shape in enumerate(shapes)]
    terms = " + ".join(f"({weight})" for weight in weights)
    return f"""
func.func @f({", ".join([*inputs, *weights])}, %res : {tile})
    -> ({tile}, tensor<?x?xf32>, tensor<?x{n}xf32>) {{
  %dx, %sums, %dbias = gemm.fused {" + ".join(inputs)}
      {_schedule(schedule)}
      columns{terms} {layout if layout == "kn" else ""} tile(%res : {tile})
      -> (tile : {tile}, partial_row<add> : tensor<?x?xf32>,
          partial_col<add> : tensor<?x{n}xf32>) {{
  ^epilogue(%acc : f32, %r : f32):
    %sum = arith.addf %acc, %r : f32
    gemm.yield %sum, %sum, %sum : f32, f32, f32
  }}
  func.return %dx, %sums, %dbias : {tile}, tensor<?x?xf32>, tensor<?x{n}xf32>
}}
"""


def swiglu_gradient(dtype: str, depths: Sequence[int], n: int, schedule: str) -> str:
    """da = Σ_t dz_t · W_t, and from it and the gate and up projections what all that follows needs:
    their gradients, silu(gate) · up, and the sums of gate · dgate + up · dup.
    """
    tile = f"tensor<?x{n}x{dtype}>"
    inputs = [f"%dz{i} : tensor<?x{k}x{dtype}>" for i, k in enumerate(depths)]
    weights = [f"%w{i} : tensor<{k}x{n}x{dtype}>" for i, k in enumerate(depths)]
    types = f"{tile}, {tile}, {tile}, tensor<?x?xf32>"
    return f"""
func.func @f({", ".join([*inputs, *weights])}, %gate : {tile}, %up : {tile}) -> ({types}) {{
  %dg, %du, %a, %along = gemm.fused {" + ".join(inputs)}
      {_schedule(schedule)}
      columns{" + ".join(f"({weight})" for weight in weights)} kn tile(%gate : {tile}, %up : {tile})
      -> (tile : {tile}, tile : {tile}, tile : {tile}, partial_row<add> : tensor<?x?xf32>) {{
  ^epilogue(%acc : f32, %g : f32, %u : f32):
    %one = arith.constant 1.0 : f32
    %n = arith.negf %g : f32
    %e = math.exp %n : f32
    %d = arith.addf %one, %e : f32
    %s = arith.divf %one, %d : f32
    %act = arith.mulf %g, %s : f32
    %y = arith.mulf %act, %u : f32
    %r = arith.subf %one, %s : f32
    %gr = arith.mulf %g, %r : f32
    %b = arith.addf %one, %gr : f32
    %dact = arith.mulf %s, %b : f32
    %dy = arith.mulf %acc, %u : f32
    %dgate = arith.mulf %dy, %dact : f32
    %dup = arith.mulf %acc, %act : f32
    %p = arith.mulf %dgate, %g : f32
    %q = arith.mulf %dup, %u : f32
    %sum = arith.addf %p, %q : f32
    gemm.yield %dgate, %dup, %y, %sum : f32, f32, f32, f32
  }}
  func.return %dg, %du, %a, %along : {types}
}}
"""


def norm_gradient(n: int, k: int, schedule: str, *, normed: bool = True, tile: str = "f32") -> str:
    """dh = residual + the gradient through h · rstd · gamma of dz · W, as autocast has it: products
    of bfloat16, and h and the residual in `tile`.

    Beside dh there are dh in bfloat16, h · rstd · gamma if `normed`, and partial sums of dgamma.
    """
    wide, narrow = f"tensor<?x{n}x{tile}>", f"tensor<?x{n}xbf16>"
    row, column, sums = f"tensor<{n}xf32>", "tensor<?x1xf32>", f"tensor<?x{n}xf32>"
    types = [wide, narrow, *([narrow] if normed else []), sums]
    names = [f"%y{i}" for i in range(len(types))]
    ports = [*(f"tile : {type}" for type in types[:-1]), f"partial_col<add> : {sums}"]
    values = ["%dh", "%dh", *(["%scaled"] if normed else []), "%p"]
    return f"""
func.func @f(%dz : tensor<?x{k}xbf16>, %w : tensor<{k}x{n}xbf16>, %h : {wide}, %res : {wide},
    %rstd : {column}, %gamma : {row}, %along : {column}) -> ({", ".join(types)}) {{
  {", ".join(names)} = gemm.fused %dz : tensor<?x{k}xbf16>
      {_schedule(schedule)}
      columns(%w : tensor<{k}x{n}xbf16>) kn tile(%h : {wide})
      col(%rstd : {column}) row(%gamma : {row}) col(%along : {column}) tile(%res : {wide})
      -> ({", ".join(ports)}) {{
  ^epilogue(%acc : f32, %x : f32, %s : f32, %g : f32, %t : f32, %r : f32):
    %normed = arith.mulf %x, %s : f32
    %p = arith.mulf %acc, %normed : f32
    %scaled = arith.mulf %normed, %g : f32
    %dnormed = arith.mulf %acc, %g : f32
    %back = arith.mulf %normed, %t : f32
    %rest = arith.subf %dnormed, %back : f32
    %dx = arith.mulf %rest, %s : f32
    %dh = arith.addf %dx, %r : f32
    gemm.yield {", ".join(values)} : {", ".join("f32" for _ in values)}
  }}
  func.return {", ".join(names)} : {", ".join(types)}
}}
"""


def gated_input_gradient(dtype: str, depths: tuple[int, int], n: int, schedule: str) -> str:
    """Pairs of columns of sums: two weights of n columns for each of two inputs."""
    names = ("wg", "wu")
    weights = [
        [f"%{name}{i} : tensor<{k}x{n}x{dtype}>" for name in names] for i, k in enumerate(depths)
    ]
    inputs = [f"%dz{i} : tensor<?x{k}x{dtype}>" for i, k in enumerate(depths)]
    parameters = [*inputs, *(weight for term in weights for weight in term)]
    terms = " + ".join(f"({', '.join(term)})" for term in weights)
    half = f"tensor<?x{n}x{dtype}>"
    return f"""
func.func @f({", ".join(parameters)}) -> {half} {{
  %y = gemm.fused {" + ".join(inputs)}
      {_schedule(schedule)}
      columns{terms} kn pair<halves>
      -> (half : {half}) {{
  ^epilogue(%g : f32, %u : f32):
    %p = arith.mulf %g, %u : f32
    gemm.yield %p : f32
  }}
  func.return %y : {half}
}}
"""


def weight_gradient(dtype: str, m: int, n: int, schedule: str, rows: str = "?") -> str:
    """dW = dyᵀ · x (m x n) and the partial sums of its rows and columns."""
    tile = f"tensor<{m}x{n}x{dtype}>"
    dy, x = f"tensor<{rows}x{m}x{dtype}>", f"tensor<{rows}x{n}x{dtype}>"
    return f"""
func.func @f(%dy : {dy}, %x : {x}) -> ({tile}, tensor<{m}x?xf32>, tensor<?x{n}xf32>) {{
  %dw, %ssq, %top = gemm.fused transposed %dy : {dy}
      {_schedule(schedule)}
      columns(%x : {x}) kn
      -> (tile : {tile}, partial_row<add> : tensor<{m}x?xf32>,
          partial_col<max> : tensor<?x{n}xf32>) {{
  ^epilogue(%acc : f32):
    %sq = arith.mulf %acc, %acc : f32
    gemm.yield %acc, %sq, %acc : f32, f32, f32
  }}
  func.return %dw, %ssq, %top : {tile}, tensor<{m}x?xf32>, tensor<?x{n}xf32>
}}
"""


def packed_weight_gradient(dtype: str, k: int, widths: Sequence[int], schedule: str) -> str:
    """dw = xᵀ · dz for a weight of K x N whose dz has its columns in several tensors."""
    parts = [f"%dz{i} : tensor<?x{n}x{dtype}>" for i, n in enumerate(widths)]
    weight = f"tensor<{k}x{sum(widths)}x{dtype}>"
    return f"""
func.func @f(%x : tensor<?x{k}x{dtype}>, {", ".join(parts)}) -> {weight} {{
  %dw = gemm.fused transposed %x : tensor<?x{k}x{dtype}>
      {_schedule(schedule)}
      columns({", ".join(parts)}) kn -> (tile : {weight}) {{
  ^epilogue(%acc : f32):
    gemm.yield %acc : f32
  }}
  func.return %dw : {weight}
}}
"""


def merged_weight_gradients(
    dtype: str, k: int, columns: Sequence[int], schedule: str, rows: str = "?"
) -> str:
    """dW_i = dy_iᵀ · h (n_i x k) of one h, the last of them added in place to a float32 tensor."""
    h = f"tensor<{rows}x{k}x{dtype}>"
    dys = [f"%dy{i} : tensor<{rows}x{n}x{dtype}>" for i, n in enumerate(columns)]
    stored = [f"tensor<{n}x{k}x{dtype}>" for n in columns[:-1]]
    grad = f"tensor<{columns[-1]}x{k}xf32>"
    segments = [
        f"""
      columns({dy}) kn
      -> (tile_t : {type}) {{
  ^epilogue(%acc : f32):
    gemm.yield %acc : f32
  }}"""
        for dy, type in zip(dys, stored, strict=False)
    ]
    results = ", ".join(f"%dw{i}" for i in range(len(columns)))
    types = ", ".join([*stored, grad])
    return f"""
func.func @f(%h : {h}, {", ".join(dys)}, %grad : {grad}) -> ({types}) {{
  {results} = gemm.fused transposed %h : {h}
      {_schedule(schedule)}{"".join(segments)}
      columns({dys[-1]}) kn tile_t(%grad : {grad})
      -> (accumulate<0> : {grad}) {{
  ^epilogue(%acc : f32, %old : f32):
    %new = arith.addf %old, %acc : f32
    gemm.yield %new : f32
  }}
  func.return {results} : {types}
}}
"""


def twice_used_weight(dtype: str, m: int, n: int, schedule: str) -> str:
    """The gradient of a weight with two uses, of different numbers of rows: two products."""
    first, second = f"tensor<?x{m}x{dtype}>", f"tensor<?x?x{m}x{dtype}>"
    x, y = f"tensor<?x{n}x{dtype}>", f"tensor<?x?x{n}x{dtype}>"
    tile = f"tensor<{m}x{n}xf32>"
    return f"""
func.func @f(%da : {first}, %db : {second}, %x : {x}, %y : {y}) -> {tile} {{
  %dw = gemm.fused transposed %da : {first} + %db : {second}
      {_schedule(schedule)}
      columns(%x : {x}) + (%y : {y}) kn
      -> (tile : {tile}) {{
  ^epilogue(%acc : f32):
    gemm.yield %acc : f32
  }}
  func.return %dw : {tile}
}}
"""


def sample_sums(dtype: str, k: int, n: int, schedule: str) -> str:
    """x·W times a tile, added up over the rows of each sample, and over all rows."""
    tile = f"tensor<?x?x{n}x{dtype}>"
    partials = f"tensor<?x?x{n}xf32>, tensor<?x{n}xf32>"
    sums = ", ".join(f"partial_col<add> : {partial}" for partial in partials.split(", "))
    return f"""
func.func @f(%x : tensor<?x?x{k}x{dtype}>, %w : tensor<{n}x{k}x{dtype}>, %y : {tile})
    -> ({tile}, {partials}) {{
  %z, %scale, %bias = gemm.fused %x : tensor<?x?x{k}x{dtype}> schedule<{schedule}>
      columns(%w : tensor<{n}x{k}x{dtype}>) tile(%y : {tile})
        -> (tile : {tile}, {sums}) {{
  ^epilogue(%acc : f32, %b : f32):
    %p = arith.mulf %acc, %b : f32
    gemm.yield %acc, %p, %p : f32, f32, f32
  }}
  func.return %z, %scale, %bias : {tile}, {partials}
}}
"""
