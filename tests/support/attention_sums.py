"""Programs of attention and of its backward on the GEMM level, in float32: several tiles of queries
and of keys, the last ones cut, and heads that share those of keys.
"""

QUERIES, KEYS, COLUMNS, SHARED = 45, 70, 64, 32


def backward_of_attention(
    options: str, keys: int = KEYS, shared: int = SHARED, mask: str = "", of_dq: str = ""
) -> str:
    """Both kernels, with epilogues of all kinds; `options` as of attention, and `of_dq` those of
    the first one alone. There are so many keys with so many columns; `mask` is the type of one.
    """
    argument, operand = (f", %m: {mask}", f" mask(%m : {mask})") if mask else ("", "")
    q, k = f"tensor<2x{QUERIES}x{COLUMNS}xf32>", f"tensor<2x{keys}x{shared}xf32>"
    lse, table = f"tensor<2x4x{QUERIES}xf32>", f"tensor<{QUERIES}x8xf32>"
    row_sum, column_sum = f"tensor<2x{QUERIES}x1xf32>", f"tensor<{shared}xf32>"
    inputs = f"%lse : {lse}, %q : {q}, %k : {k}, %v : {k}"
    properties = f"{{head_dim = 16 : i64, {options}}}"
    properties_of_dq = properties.replace("}", f"{of_dq}}}")
    return f"""
func.func @f(%dy: {q}, %y: {q}, %lse: {lse}, %q: {q}, %k: {k}, %v: {k}, %cos: {table}, %z: {q}
    {argument}) -> ({q}, {row_sum}, {k}, {k}, {column_sum}) {{
  %moment, %dz, %p = gemm.attention_dq (%dy : {q}, %y : {q}, {inputs}){operand} {properties_of_dq}
      pair<halves, 16> half_table(%cos : {table}) tile(%z : {q})
      -> (tile : {q}, partial_row<add> : tensor<2x{QUERIES}x?xf32>) {{
  ^epilogue(%a : f32, %b : f32, %c : f32, %za : f32, %zb : f32):
    %first = arith.mulf %b, %c : f32
    %second = arith.subf %a, %c : f32
    %along = arith.mulf %first, %za : f32
    %across = arith.mulf %second, %zb : f32
    %s = arith.addf %along, %across : f32
    gemm.yield %first, %second, %s : f32, f32, f32
  }}
  %sum = gemm.finalize row (add %p : tensor<2x{QUERIES}x?xf32>) -> ({row_sum}) {{
  ^finalize(%t : f32):
    gemm.yield %t : f32
  }}
  %dk, %dv, %pk = gemm.attention_dkv (%dy : {q}, %moment : {lse}, {inputs}){operand} {properties}
      -> (tile : {k}, tile : {k}, partial_col<add> : tensor<?x{shared}xf32>) {{
  ^epilogue(%a : f32, %b : f32):
    %g = gemm.group_reduce add %b over 16 : f32
    %s = arith.addf %b, %g : f32
    gemm.yield %a, %s, %a : f32, f32, f32
  }}
  %total = gemm.finalize col (add %pk : tensor<?x{shared}xf32>) -> ({column_sum}) {{
  ^finalize(%t : f32):
    gemm.yield %t : f32
  }}
  func.return %dz, %sum, %dk, %dv, %total : {q}, {row_sum}, {k}, {k}, {column_sum}
}}
"""


def attention(options: str, mask: str = "") -> str:
    """Attention with an epilogue of pairs and a sum of rows; `mask` is the type of one."""
    q, k = f"tensor<2x{QUERIES}x{COLUMNS}xf32>", f"tensor<2x{KEYS}x{SHARED}xf32>"
    lse, table = f"tensor<2x4x{QUERIES}xf32>", f"tensor<{QUERIES}x8xf32>"
    argument, operand = (f", %m: {mask}", f" mask(%m : {mask})") if mask else ("", "")
    return f"""
func.func @f(%q: {q}, %k: {k}, %v: {k}, %cos: {table}, %z: {q}{argument})
    -> ({lse}, {q}, tensor<2x{QUERIES}x1xf32>) {{
  %lse, %y, %p = gemm.attention (%q : {q}, %k : {k}, %v : {k}){operand}
      {{head_dim = 16 : i64, {options}}}
      pair<halves, 16> half_table(%cos : {table}) tile(%z : {q})
      -> (tile : {q}, partial_row<add> : tensor<2x{QUERIES}x?xf32>) {{
  ^epilogue(%a : f32, %b : f32, %c : f32, %za : f32, %zb : f32):
    %first = arith.mulf %b, %c : f32
    %second = arith.subf %a, %za : f32
    %s = arith.addf %first, %zb : f32
    gemm.yield %first, %second, %s : f32, f32, f32
  }}
  %sum = gemm.finalize row (add %p : tensor<2x{QUERIES}x?xf32>) -> (tensor<2x{QUERIES}x1xf32>) {{
  ^finalize(%t : f32):
    gemm.yield %t : f32
  }}
  func.return %lse, %y, %sum : {lse}, {q}, tensor<2x{QUERIES}x1xf32>
}}
"""


def attention_in_parts(options: str) -> str:
    """Attention with sinks, and its backward, of heads of 40 columns, with a port and sums of
    columns.
    """
    q, k = f"tensor<2x{QUERIES}x80xf32>", f"tensor<2x{KEYS}x40xf32>"
    lse, partial, total = f"tensor<2x2x{QUERIES}xf32>", "tensor<?x40xf32>", "tensor<40xf32>"
    inputs, properties = f"%q : {q}, %k : {k}, %v : {k}", f"{{head_dim = 40 : i64, {options}}}"
    return f"""
func.func @f(%q: {q}, %k: {k}, %v: {k}, %s: tensor<2xf32>, %z: {q}, %dy: {q})
    -> ({lse}, {q}, {q}, {k}, {k}, {total}) {{
  %lse, %y, %z2 = gemm.attention ({inputs}) sinks(%s : tensor<2xf32>) {properties}
      tile(%z : {q}) -> (tile : {q}, tile : {q}) {{
  ^epilogue(%a : f32, %za : f32):
    %scaled = arith.mulf %a, %za : f32
    gemm.yield %a, %scaled : f32, f32
  }}
  %moment, %dq = gemm.attention_dq (%dy : {q}, %y : {q}, %lse : {lse}, {inputs}) {properties}
      -> (tile : {q}) {{
  ^epilogue(%a : f32):
    gemm.yield %a : f32
  }}
  %dk, %dv, %p = gemm.attention_dkv (%dy : {q}, %moment : {lse}, %lse : {lse}, {inputs})
      {properties}
      -> (tile : {k}, tile : {k}, partial_col<add> : {partial}) {{
  ^epilogue(%a : f32, %b : f32):
    gemm.yield %a, %b, %a : f32, f32, f32
  }}
  %total = gemm.finalize col (add %p : {partial}) -> ({total}) {{
  ^finalize(%t : f32):
    gemm.yield %t : f32
  }}
  func.return %lse, %z2, %dq, %dk, %dv, %total : {lse}, {q}, {q}, {k}, {k}, {total}
}}
"""


def mask_gradient(options: str, mask: str) -> str:
    """The gradient of a mask of this type, which has all queries and keys; and that of the queries,
    whose kernel computes the moments.
    """
    q, k = f"tensor<2x{QUERIES}x{COLUMNS}xf32>", f"tensor<2x{KEYS}x{SHARED}xf32>"
    lse, moment = f"tensor<2x4x{QUERIES}xf32>", f"tensor<2x4x{QUERIES}x2xf32>"
    inputs = f"""%lse : {lse}, %q : {q}, %k : {k}, %v : {k}) mask(%m : {mask})
      {{head_dim = 16 : i64, {options}}}"""
    return f"""
func.func @f(%dy: {q}, %y: {q}, %lse: {lse}, %q: {q}, %k: {k}, %v: {k}, %m: {mask})
    -> ({q}, {mask}) {{
  %moment, %dq = gemm.attention_dq (%dy : {q}, %y : {q}, {inputs} -> (tile : {q}) {{
  ^epilogue(%a : f32):
    gemm.yield %a : f32
  }}
  %d = gemm.attention_dmask (%dy : {q}, %moment : {moment}, {inputs} -> () {{
    gemm.yield
  }}
  func.return %dq, %d : {q}, {mask}
}}
"""
