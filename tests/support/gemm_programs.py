"""Functions with one `gemm.fused` each, as text: the epilogues of Transformer layers.

`schedule` is the text of the attribute's parameters (`pointer, "128x128x64", warps = 4, ...`), or
empty.
"""

from collections.abc import Sequence


def _schedule(schedule: str) -> str:
    return f"schedule<{schedule}>" if schedule else ""


def residual_norm(dtype: str, k: int, n: int, schedule: str, layout: str = "nk") -> str:
    """x1 = acc·r + residual; partial sum of squares; x1 ⊙ gamma."""
    tile = f"tensor<?x{n}x{dtype}>"
    w = f"tensor<{n}x{k}x{dtype}>" if layout == "nk" else f"tensor<{k}x{n}x{dtype}>"
    keyword = "" if layout == "nk" else layout
    return f"""
func.func @f(%x: tensor<?x{k}x{dtype}>, %w: {w}, %x0: {tile}, %gamma: tensor<{n}x{dtype}>,
             %rstd: tensor<?x1xf32>) -> ({tile}, tensor<?x?xf32>, {tile}) {{
  %x1, %ssq, %h1 = gemm.fused %x : tensor<?x{k}x{dtype}>
      {_schedule(schedule)}
      columns(%w : {w}) {keyword} tile(%x0 : {tile}) row(%gamma : tensor<{n}x{dtype}>)
          col(%rstd : tensor<?x1xf32>)
      -> (tile : {tile}, partial_row<add> : tensor<?x?xf32>, tile : {tile}) {{
  ^epilogue(%acc : f32, %res : f32, %g : f32, %r : f32):
    %0 = arith.mulf %acc, %r : f32
    %sum = arith.addf %0, %res : f32
    %sq = arith.mulf %sum, %sum : f32
    %h = arith.mulf %sum, %g : f32
    gemm.yield %sum, %sq, %h : f32, f32, f32
  }}
  func.return %x1, %ssq, %h1 : {tile}, tensor<?x?xf32>, {tile}
}}
"""


def unaligned(n: int, k: int, schedule: str, dtype: str = "bf16") -> str:
    """acc + bias, its sums by row, and twice as much: for rows of any size."""
    x, w, b = f"tensor<?x{k}xbf16>", f"tensor<{n}x{k}xbf16>", f"tensor<{n}xbf16>"
    y, z = f"tensor<?x{n}x{dtype}>", f"tensor<?x{n}xbf16>"
    return f"""
func.func @f(%x : {x}, %w : {w}, %b : {b}) -> ({y}, tensor<?x?xf32>, {z}) {{
  %y, %s, %z = gemm.fused %x : {x} {_schedule(schedule)}
      columns(%w : {w}) row(%b : {b})
        -> (tile : {y}, partial_row<add> : tensor<?x?xf32>, tile : {z}) {{
  ^epilogue(%acc : f32, %bias : f32):
    %sum = arith.addf %acc, %bias : f32
    %twice = arith.addf %sum, %sum : f32
    gemm.yield %sum, %sum, %twice : f32, f32, f32
  }}
  func.return %y, %s, %z : {y}, tensor<?x?xf32>, {z}
}}
"""


def scaled_rows(
    combiner: str, tiles: int | str, schedule: str, *, pairs: bool = False, dtype: str = "bf16"
) -> str:
    """Two ranges of columns, times and plus what the `tiles` partials of a row combine to."""
    x, w, y = f"tensor<?x72x{dtype}>", f"tensor<272x72x{dtype}>", f"tensor<?x272x{dtype}>"
    half, port = f"tensor<?x136x{dtype}>", f"partial_{combiner}(%p : tensor<?x{tiles}xf32>)"
    pairing, accs = ("pair<halves>", "%acc : f32, %other : f32") if pairs else ("", "%acc : f32")
    kind, first = ("half", half) if pairs else ("tile", y)
    return f"""
func.func @f(%x: {x}, %w: {w}, %w2: {w}, %p: tensor<?x{tiles}xf32>) -> ({first}, {y}) {{
  %y, %z = gemm.fused %x : {x}
      {_schedule(schedule)}
      columns(%w : {w}) {pairing} {port} -> ({kind} : {first}) {{
  ^epilogue({accs}, %s : f32):
    %0 = arith.mulf %acc, %s : f32
    gemm.yield %0 : f32
  }}
      columns(%w2 : {w}) {port} -> (tile : {y}) {{
  ^epilogue(%acc : f32, %s : f32):
    %0 = arith.addf %acc, %s : f32
    gemm.yield %0 : f32
  }}
  func.return %y, %z : {first}, {y}
}}
"""


SILU_MUL = """
    %n = arith.negf %gate : f32
    %e = math.exp %n : f32
    %one = arith.constant 1.0 : f32
    %d = arith.addf %one, %e : f32
    %silu = arith.divf %gate, %d : f32
    %y = arith.mulf %silu, %up : f32
"""


def grouped_swiglu(
    dtype: str, k: int, n: int, groups: int | str, schedule: str, *, packed: bool = False
) -> str:
    """silu(gate) · up of the weights of each row's group: two, or one of 2n columns."""
    weights = {"w": 2 * n} if packed else {"wg": n, "wu": n}
    x, y, ends = f"tensor<?x{k}x{dtype}>", f"tensor<?x{n}x{dtype}>", f"tensor<{groups}xi32>"
    columns = ", ".join(f"%{w} : tensor<{groups}x{c}x{k}x{dtype}>" for w, c in weights.items())
    return f"""
func.func @f(%x : {x}, {columns}, %ends : {ends}) -> {y} {{
  %a = gemm.fused %x : {x} groups(%ends : {ends})
      {_schedule(schedule)}
      columns({columns}) pair<halves> -> (half : {y}) {{
  ^epilogue(%gate : f32, %up : f32):
{SILU_MUL}
    gemm.yield %y : f32
  }}
  func.return %a : {y}
}}
"""


def numbered_rows(dtype: str, k: int, n: int, schedule: str, *, summed: bool) -> str:
    """acc·weight of the row: two rows of x times the weights of three groups each, or the sums of
    three rows side by side.
    """
    rows = 2 if summed else 6
    x, y = f"tensor<2x{3 * k if summed else k}x{dtype}>", f"tensor<{rows}x{n}x{dtype}>"
    w, s = f"tensor<4x{n}x{k}x{dtype}>", f"tensor<{rows}x1xf32>"
    return f"""
func.func @f(%x : {x}, %w : {w}, %ids : tensor<6xi64>, %s : {s}) -> {y} {{
  %y = gemm.fused %x : {x} numbered(%ids : tensor<6xi64>)
      {_schedule(schedule)}
      columns(%w : {w}) col(%s : {s}) -> (tile : {y}) {{
  ^epilogue(%acc : f32, %scale : f32):
    %0 = arith.mulf %acc, %scale : f32
    gemm.yield %0 : f32
  }}
  func.return %y : {y}
}}
"""


def grouped_neighbours(dtype: str, k: int, n: int, groups: int, schedule: str) -> str:
    """(gate + bias)·(up + bias) of neighbouring columns of K x N weights, one for each group."""
    x, y, ends = f"tensor<?x{k}x{dtype}>", f"tensor<?x{n}x{dtype}>", f"tensor<{groups}xi32>"
    w, b = f"tensor<{groups}x{k}x{2 * n}x{dtype}>", f"tensor<{groups}x{2 * n}x{dtype}>"
    return f"""
func.func @f(%x : {x}, %w : {w}, %b : {b}, %ends : {ends}) -> {y} {{
  %y = gemm.fused %x : {x} groups(%ends : {ends})
      {_schedule(schedule)}
      columns(%w : {w}) kn pair<adjacent> group_row(%b : {b}) -> (half : {y}) {{
  ^epilogue(%gate : f32, %up : f32, %first : f32, %second : f32):
    %0 = arith.addf %gate, %first : f32
    %1 = arith.addf %up, %second : f32
    %2 = arith.mulf %0, %1 : f32
    gemm.yield %2 : f32
  }}
  func.return %y : {y}
}}
"""


def grouped_residual(
    dtype: str, k: int, n: int, groups: int, schedule: str, layout: str = "nk"
) -> str:
    """(acc + bias of the group)·weight of the row + residual, and sums of squares by row."""
    x, y, ends = f"tensor<?x{k}x{dtype}>", f"tensor<?x{n}x{dtype}>", f"tensor<{groups}xi32>"
    shape, keyword = (f"{n}x{k}", "") if layout == "nk" else (f"{k}x{n}", "kn")
    w, b = f"tensor<{groups}x{shape}x{dtype}>", f"tensor<{groups}x{n}x{dtype}>"
    return f"""
func.func @f(%x : {x}, %w : {w}, %b : {b}, %r : tensor<?x1xf32>, %x0 : {y}, %ends : {ends})
    -> ({y}, tensor<?x?xf32>) {{
  %y, %s = gemm.fused %x : {x} groups(%ends : {ends})
      {_schedule(schedule)}
      columns(%w : {w}) {keyword} group_row(%b : {b}) col(%r : tensor<?x1xf32>) tile(%x0 : {y})
        -> (tile : {y}, partial_row<add> : tensor<?x?xf32>) {{
  ^epilogue(%acc : f32, %bias : f32, %weight : f32, %res : f32):
    %0 = arith.addf %acc, %bias : f32
    %1 = arith.mulf %0, %weight : f32
    %2 = arith.addf %1, %res : f32
    %3 = arith.mulf %2, %2 : f32
    gemm.yield %2, %3 : f32, f32
  }}
  func.return %y, %s : {y}, tensor<?x?xf32>
}}
"""


def moved_rows(
    dtype: str,
    k: int,
    n: int,
    schedule: str,
    *,
    rows: str = "",
    groups: int = 0,
    of_x: int = 9,
    column: str = "col",
) -> str:
    """acc·factor of the row, with rows that are gathered from 9 of x, scattered, or both; factors
    are those of `column`: of the row, of the one that is gathered, or of the one that is stored."""
    x, y = f"tensor<{of_x if 'gather' in rows else '?'}x{k}x{dtype}>", f"tensor<?x{n}x{dtype}>"
    w = f"tensor<{f'{groups}x' if groups else ''}{n}x{k}x{dtype}>"
    moves = [(name, f"%{name} : tensor<?xi64>") for name in rows.split()]
    if groups:
        moves.append(("groups", f"%ends : tensor<{groups}xi32>"))
    operands = " ".join(f"{name}({operand})" for name, operand in sorted(moves, key=_order))
    parameters = "".join(f", {operand}" for _, operand in moves)
    r = f"tensor<{of_x if column == 'gather_col' else '?'}x1xf32>"
    return f"""
func.func @f(%x : {x}, %w : {w}, %r : {r}{parameters}) -> {y} {{
  %y = gemm.fused %x : {x} {operands}
      {_schedule(schedule)}
      columns(%w : {w}) {column}(%r : {r}) -> (tile : {y}) {{
  ^epilogue(%acc : f32, %factor : f32):
    %0 = arith.mulf %acc, %factor : f32
    gemm.yield %0 : f32
  }}
  func.return %y : {y}
}}
"""


def _order(move: tuple[str, str]) -> int:
    return ("groups", "gather", "scatter").index(move[0])


def summed_rows(
    dtype: str,
    m: int,
    n: int,
    groups: int | str,
    schedule: str,
    *,
    gather: str = "",
    ports: bool = True,
) -> str:
    """2·acc of each group, whose rows are summed over, and sums by row; rows of x, or of what it is
    multiplied with, may be gathered from 9 (`gather` is x or weights)."""
    x = f"tensor<{9 if gather == 'x' else '?'}x{m}x{dtype}>"
    w = f"tensor<{9 if gather == 'weights' else '?'}x{n}x{dtype}>"
    y, ends = f"tensor<{groups}x{m}x{n}x{dtype}>", f"tensor<{groups}xi32>"
    ids = ", %ids : tensor<?xi64>" if gather else ""
    keyword = "gather_weights" if gather == "weights" else "gather"
    rows = f"{keyword}(%ids : tensor<?xi64>)" if gather else ""
    sums = f", partial_row<add> : tensor<{groups}x{m}x?xf32>" if ports else ""
    port, argument = (f"tile(%t : {y})", ", %more : f32") if ports else ("", "")
    result = "%0 = arith.addf %acc, %more : f32" if ports else "%0 = arith.addf %acc, %acc : f32"
    results = ("%y, %s", f"({y}{sums.replace('partial_row<add> :', '')})") if ports else ("%y", y)
    returned = f"{y}{sums.replace('partial_row<add> :', '')}"
    return f"""
func.func @f(%x : {x}, %w : {w}, %t : {y}, %ends : {ends}{ids}) -> {results[1]} {{
  {results[0]} = gemm.fused transposed %x : {x} groups(%ends : {ends}) {rows}
      {_schedule(schedule)}
      columns(%w : {w}) kn {port} -> (tile : {y}{sums}) {{
  ^epilogue(%acc : f32{argument}):
    {result}
    gemm.yield %0{", %acc" if ports else ""} : f32{", f32" if ports else ""}
  }}
  func.return {results[0]} : {returned}
}}
"""


def swiglu(dtype: str, k: int, n: int, schedule: str, pairing: str = "two weights") -> str:
    """silu(gate) · up over pairs: two weights of n columns, or one of 2n with `pairing`."""
    weights = {"wg": n, "wu": n} if pairing == "two weights" else {"w": 2 * n}
    pair = "halves" if pairing == "two weights" else pairing
    params = ", ".join(f"%{w}: tensor<{c}x{k}x{dtype}>" for w, c in weights.items())
    columns = ", ".join(f"%{w} : tensor<{c}x{k}x{dtype}>" for w, c in weights.items())
    return f"""
func.func @f(%x: tensor<?x{k}x{dtype}>, {params}, %rstd: tensor<?xf32>) -> tensor<?x{n}x{dtype}> {{
  %a = gemm.fused %x : tensor<?x{k}x{dtype}>
      {_schedule(schedule)}
      columns({columns}) pair<{pair}> col(%rstd : tensor<?xf32>)
      -> (half : tensor<?x{n}x{dtype}>) {{
  ^epilogue(%acc_gate : f32, %acc_up : f32, %r : f32):
    %gate = arith.mulf %acc_gate, %r : f32
    %up = arith.mulf %acc_up, %r : f32
{SILU_MUL}
    gemm.yield %y : f32
  }}
  func.return %a : tensor<?x{n}x{dtype}>
}}
"""


_HEAD_NORM = """
    %sq0 = arith.mulf %q0, %q0 : f32
    %sq1 = arith.mulf %q1, %q1 : f32
    %sq = arith.addf %sq0, %sq1 : f32
    %ssq = gemm.group_reduce add %sq over HEAD : f32
    %eps = arith.constant 1.0e-06 : f32
    %inv = arith.constant INVERSE : f32
    %ms = arith.mulf %ssq, %inv : f32
    %ms_eps = arith.addf %ms, %eps : f32
    %rstd = math.rsqrt %ms_eps : f32
    %n0 = arith.mulf %q0, %rstd : f32
    %n1 = arith.mulf %q1, %rstd : f32
    %a = arith.mulf %n0, %g0 : f32
    %b = arith.mulf %n1, %g1 : f32"""
_NO_NORM = "%a = arith.addf %q0, %zero : f32\n    %b = arith.addf %q1, %zero : f32"


def _rotated(weight: str, shape: str, head: int, dtype: str, gamma: str | None) -> str:
    """A segment with rotary embedding, and a norm per head where there is a `gamma`."""
    table, (n, _) = f"tensor<?x{head // 2}x{dtype}>", shape.split("x")
    ports, args = f"half_table(%cos : {table}, %sin : {table})", "%c : f32, %s : f32"
    body = _NO_NORM
    if gamma is not None:
        ports += f" row(%{gamma} : tensor<{n}x{dtype}>)"
        args += ", %g0 : f32, %g1 : f32"
        body = _HEAD_NORM.replace("HEAD", f"{head}").replace("INVERSE", f"{1 / head:e}")
    return f"""
      columns(%{weight} : tensor<{shape}x{dtype}>) pair<halves, {head}> {ports}
      -> (tile : tensor<?x{n}x{dtype}>) {{
  ^epilogue(%q0 : f32, %q1 : f32, {args}):
    %zero = arith.constant 0.0 : f32
    {body}
    %ac = arith.mulf %a, %c : f32
    %bs = arith.mulf %b, %s : f32
    %r0 = arith.subf %ac, %bs : f32
    %as = arith.mulf %a, %s : f32
    %bc = arith.mulf %b, %c : f32
    %r1 = arith.addf %bc, %as : f32
    gemm.yield %r0, %r1 : f32, f32
  }}"""


def qkv_rope(
    dtype: str, k: int, head: int, heads: tuple[int, int], schedule: str, *, norm: bool = False
) -> str:
    """q, k with rotary embedding (and a norm per head), v plain: three segments.

    The tables are head/2 wide, indexed by pair.
    """
    q, kv = heads[0] * head, heads[1] * head
    table = f"tensor<?x{head // 2}x{dtype}>"
    gammas = f", %gamma_q: tensor<{q}x{dtype}>, %gamma_k: tensor<{kv}x{dtype}>" if norm else ""
    types = f"tensor<?x{q}x{dtype}>, tensor<?x{kv}x{dtype}>, tensor<?x{kv}x{dtype}>"
    return f"""
func.func @f(%x: tensor<?x{k}x{dtype}>, %wq: tensor<{q}x{k}x{dtype}>, %wk: tensor<{kv}x{k}x{dtype}>,
             %wv: tensor<{kv}x{k}x{dtype}>, %cos: {table}, %sin: {table}{gammas}) -> ({types}) {{
  %q, %k, %v = gemm.fused %x : tensor<?x{k}x{dtype}>
      {_schedule(schedule)}
{_rotated("wq", f"{q}x{k}", head, dtype, "gamma_q" if norm else None)}
{_rotated("wk", f"{kv}x{k}", head, dtype, "gamma_k" if norm else None)}
      columns(%wv : tensor<{kv}x{k}x{dtype}>)
      -> (tile : tensor<?x{kv}x{dtype}>) {{
  ^epilogue(%acc : f32):
    gemm.yield %acc : f32
  }}
  func.return %q, %k, %v : {types}
}}
"""


_ROTATION = """
    %ac = arith.mulf %p, %c : f32
    %bs = arith.mulf %q, %s : f32
    %y0 = arith.subf %ac, %bs : f32
    %as = arith.mulf %p, %s : f32
    %bc = arith.mulf %q, %c : f32
    %y1 = arith.addf %bc, %as : f32"""


def rotated_pairs(
    pairing: str,
    tables: str,
    results: Sequence[str],
    schedule: str,
    *,
    n: int = 512,
) -> str:
    """n columns in pairs, rotated by tables such as `64xf32`: `results` such as `tile bf16`."""
    table = f"tensor<?x{tables}>"
    x, w = "tensor<?x72xbf16>", f"tensor<{n}x72xbf16>"
    kinds, elements = zip(*(result.split() for result in results), strict=True)
    extents = [n if kind == "tile" else n // 2 for kind in kinds]
    types = [
        f"tensor<?x{extent}x{element}>" for extent, element in zip(extents, elements, strict=True)
    ]
    ports = [f"{kind} : {type}" for kind, type in zip(kinds, types, strict=True)]
    values = [value for kind in kinds for value in ("%y0", "%y1")[: 2 if kind == "tile" else 1]]
    names = ", ".join(f"%r{index}" for index in range(len(results)))
    return f"""
func.func @f(%x : {x}, %w : {w}, %cos : {table}, %sin : {table}) -> ({", ".join(types)}) {{
  {names} = gemm.fused %x : {x}
      {_schedule(schedule)}
      columns(%w : {w}) pair<{pairing}> half_table(%cos : {table}, %sin : {table})
      -> ({", ".join(ports)}) {{
  ^epilogue(%p : f32, %q : f32, %c : f32, %s : f32):{_ROTATION}
    gemm.yield {", ".join(values)} : {", ".join(["f32"] * len(values))}
  }}
  func.return {names} : {", ".join(types)}
}}
"""


def lm_head(
    dtype: str, k: int, n: int, schedule: str, index: str = "i64", *, lse: str = "f64"
) -> str:
    """Softcapped logits: partial logsumexp, partial maximum and the target's logit."""
    types = f"tensor<?x?x{lse}>, tensor<?x?xf32>, tensor<?xf32>"
    return f"""
func.func @f(%x: tensor<?x{k}x{dtype}>, %w: tensor<{n}x{k}x{dtype}>, %target: tensor<?x{index}>)
    -> ({types}) {{
  %lse, %top, %logit = gemm.fused %x : tensor<?x{k}x{dtype}>
      {_schedule(schedule)}
      columns(%w : tensor<{n}x{k}x{dtype}>) col(%target : tensor<?x{index}>)
      -> (partial_row<lse> : tensor<?x?x{lse}>, partial_row<max> : tensor<?x?xf32>,
          select<0> : tensor<?xf32>) {{
  ^epilogue(%acc : f32, %t : {index}):
    %cap = arith.constant 3.0 : f32
    %0 = arith.divf %acc, %cap : f32
    %1 = math.tanh %0 : f32
    %capped = arith.mulf %1, %cap : f32
    gemm.yield %capped, %capped, %capped : f32, f32, f32
  }}
  func.return %lse, %top, %logit : {types}
}}
"""
