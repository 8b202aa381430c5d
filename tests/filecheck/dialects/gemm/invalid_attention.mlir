// RUN: coda-opt %s --split-input-file --verify-diagnostics

// What the verifier of the backward of attention refuses.

func.func @f(%dy: tensor<?x?x64xbf16>, %y: tensor<?x?x64xbf16>, %lse: tensor<?x4x?xf32>, %q: tensor<?x?x64xbf16>, %k: tensor<?x?x32xbf16>, %v: tensor<?x?x32xbf16>, %t: tensor<64x?x?xbf16>, %i: tensor<?x?xi32>) {
  // expected-error@below {{5 operands, expected 6}}
  %r:2 = gemm.attention_dq (%dy : tensor<?x?x64xbf16>, %y : tensor<?x?x64xbf16>, %lse : tensor<?x4x?xf32>, %q : tensor<?x?x64xbf16>, %k : tensor<?x?x32xbf16>) {head_dim = 16 : i64, causal = true}
      -> (tile : tensor<?x?x64xbf16>) {
    ^bb0(%a: f32):
      gemm.yield %a : f32
    }
  func.return
}

// -----

func.func @f(%dy: tensor<?x?x64xbf16>, %y: tensor<?x?x64xbf16>, %lse: tensor<?x4x?xf32>, %q: tensor<?x?x64xbf16>, %k: tensor<?x?x32xbf16>, %v: tensor<?x?x32xbf16>, %t: tensor<64x?x?xbf16>, %i: tensor<?x?xi32>) {
  // expected-error@below {{unknown property dropout, expected head_dim, value_dim, causal, window, scale, softcap}}
  %r:2 = gemm.attention_dq (%dy : tensor<?x?x64xbf16>, %y : tensor<?x?x64xbf16>, %lse : tensor<?x4x?xf32>, %q : tensor<?x?x64xbf16>, %k : tensor<?x?x32xbf16>, %v : tensor<?x?x32xbf16>) {head_dim = 16 : i64, causal = true, dropout = 2.0 : f64}
      -> (tile : tensor<?x?x64xbf16>) {
    ^bb0(%a: f32):
      gemm.yield %a : f32
    }
  func.return
}

// -----

func.func @f(%dy: tensor<?x?x64xbf16>, %y: tensor<?x?x64xbf16>, %lse: tensor<?x4x?xf32>, %q: tensor<?x?x64xbf16>, %k: tensor<?x?x32xbf16>, %v: tensor<?x?x32xbf16>, %t: tensor<64x?x?xbf16>, %i: tensor<?x?xi32>) {
  // expected-error@below {{operand d_out has shape ?x?x32, expected ?x?x64}}
  %r:2 = gemm.attention_dq (%k : tensor<?x?x32xbf16>, %y : tensor<?x?x64xbf16>, %lse : tensor<?x4x?xf32>, %q : tensor<?x?x64xbf16>, %k : tensor<?x?x32xbf16>, %v : tensor<?x?x32xbf16>) {head_dim = 16 : i64, causal = true}
      -> (tile : tensor<?x?x64xbf16>) {
    ^bb0(%a: f32):
      gemm.yield %a : f32
    }
  func.return
}

// -----

func.func @f(%dy: tensor<?x?x64xbf16>, %y: tensor<?x?x64xbf16>, %lse: tensor<?x4x?xf32>, %q: tensor<?x?x64xbf16>, %k: tensor<?x?x32xbf16>, %v: tensor<?x?x32xbf16>, %t: tensor<64x?x?xbf16>, %i: tensor<?x?xi32>) {
  // expected-error@below {{operand out has shape ?x?x32, expected ?x?x64}}
  %r:2 = gemm.attention_dq (%dy : tensor<?x?x64xbf16>, %k : tensor<?x?x32xbf16>, %lse : tensor<?x4x?xf32>, %q : tensor<?x?x64xbf16>, %k : tensor<?x?x32xbf16>, %v : tensor<?x?x32xbf16>) {head_dim = 16 : i64, causal = true}
      -> (tile : tensor<?x?x64xbf16>) {
    ^bb0(%a: f32):
      gemm.yield %a : f32
    }
  func.return
}

// -----

func.func @f(%dy: tensor<?x?x64xbf16>, %y: tensor<?x?x64xbf16>, %lse: tensor<?x4x?xf32>, %q: tensor<?x?x64xbf16>, %k: tensor<?x?x32xbf16>, %v: tensor<?x?x32xbf16>, %t: tensor<64x?x?xbf16>, %i: tensor<?x?xi32>, %l: tensor<?x2x?xf32>) {
  // expected-error@below {{operand lse has shape ?x2x?, expected ?x4x?}}
  %r:2 = gemm.attention_dq (%dy : tensor<?x?x64xbf16>, %y : tensor<?x?x64xbf16>, %l : tensor<?x2x?xf32>, %q : tensor<?x?x64xbf16>, %k : tensor<?x?x32xbf16>, %v : tensor<?x?x32xbf16>) {head_dim = 16 : i64, causal = true}
      -> (tile : tensor<?x?x64xbf16>) {
    ^bb0(%a: f32):
      gemm.yield %a : f32
    }
  func.return
}

// -----

func.func @f(%dy: tensor<?x?x64xbf16>, %y: tensor<?x?x64xbf16>, %lse: tensor<?x4x?xf32>, %q: tensor<?x?x64xbf16>, %k: tensor<?x?x32xbf16>, %v: tensor<?x?x32xbf16>, %t: tensor<64x?x?xbf16>, %i: tensor<?x?xi32>) {
  // expected-error@below {{pair mode across heads, expected pairs within 16 columns}}
  %r:2 = gemm.attention_dq (%dy : tensor<?x?x64xbf16>, %y : tensor<?x?x64xbf16>, %lse : tensor<?x4x?xf32>, %q : tensor<?x?x64xbf16>, %k : tensor<?x?x32xbf16>, %v : tensor<?x?x32xbf16>) {head_dim = 16 : i64, causal = true} pair<halves, 32>
      -> (tile : tensor<?x?x64xbf16>) {
    ^bb0(%a: f32, %b: f32):
      gemm.yield %a, %b : f32, f32
    }
  func.return
}

// -----

func.func @f(%dy: tensor<?x?x64xbf16>, %y: tensor<?x?x64xbf16>, %lse: tensor<?x4x?xf32>, %q: tensor<?x?x64xbf16>, %k: tensor<?x?x32xbf16>, %v: tensor<?x?x32xbf16>, %t: tensor<64x?x?xbf16>, %i: tensor<?x?xi32>) {
  // expected-error@below {{a tile_t port, expected only in gemm.fused}}
  %r:2 = gemm.attention_dq (%dy : tensor<?x?x64xbf16>, %y : tensor<?x?x64xbf16>, %lse : tensor<?x4x?xf32>, %q : tensor<?x?x64xbf16>, %k : tensor<?x?x32xbf16>, %v : tensor<?x?x32xbf16>) {head_dim = 16 : i64, causal = true} tile_t(%t : tensor<64x?x?xbf16>)
      -> (tile : tensor<?x?x64xbf16>) {
    ^bb0(%a: f32, %b: f32):
      gemm.yield %a : f32
    }
  func.return
}

// -----

func.func @f(%dy: tensor<?x?x64xbf16>, %y: tensor<?x?x64xbf16>, %lse: tensor<?x4x?xf32>, %q: tensor<?x?x64xbf16>, %k: tensor<?x?x32xbf16>, %v: tensor<?x?x32xbf16>, %t: tensor<64x?x?xbf16>, %i: tensor<?x?xi32>) {
  // expected-error@below {{a tile_t result, expected only in gemm.fused}}
  %r:2 = gemm.attention_dq (%dy : tensor<?x?x64xbf16>, %y : tensor<?x?x64xbf16>, %lse : tensor<?x4x?xf32>, %q : tensor<?x?x64xbf16>, %k : tensor<?x?x32xbf16>, %v : tensor<?x?x32xbf16>) {head_dim = 16 : i64, causal = true}
      -> (tile_t : tensor<64x?x?xbf16>) {
    ^bb0(%a: f32):
      gemm.yield %a : f32
    }
  func.return
}

// -----

func.func @f(%dy: tensor<?x?x64xbf16>, %y: tensor<?x?x64xbf16>, %lse: tensor<?x4x?xf32>, %q: tensor<?x?x64xbf16>, %k: tensor<?x?x32xbf16>, %v: tensor<?x?x32xbf16>, %t: tensor<64x?x?xbf16>, %i: tensor<?x?xi32>) {
  // expected-error@below {{region reduces groups of several heads, expected divisors of 16}}
  %r:2 = gemm.attention_dq (%dy : tensor<?x?x64xbf16>, %y : tensor<?x?x64xbf16>, %lse : tensor<?x4x?xf32>, %q : tensor<?x?x64xbf16>, %k : tensor<?x?x32xbf16>, %v : tensor<?x?x32xbf16>) {head_dim = 16 : i64, causal = true}
      -> (tile : tensor<?x?x64xbf16>) {
    ^bb0(%a: f32):
      %0 = gemm.group_reduce add %a over 32 : f32
      gemm.yield %0 : f32
    }
  func.return
}

// -----

func.func @f(%dy: tensor<?x?x64xbf16>, %y: tensor<?x?x64xbf16>, %lse: tensor<?x4x?xf32>, %q: tensor<?x?x64xbf16>, %k: tensor<?x?x32xbf16>, %v: tensor<?x?x32xbf16>, %t: tensor<64x?x?xbf16>, %i: tensor<?x?xi32>) {
  // expected-error@below {{region takes (f32, f32), expected (f32): the accumulators, then the ports}}
  %r:2 = gemm.attention_dq (%dy : tensor<?x?x64xbf16>, %y : tensor<?x?x64xbf16>, %lse : tensor<?x4x?xf32>, %q : tensor<?x?x64xbf16>, %k : tensor<?x?x32xbf16>, %v : tensor<?x?x32xbf16>) {head_dim = 16 : i64, causal = true}
      -> (tile : tensor<?x?x64xbf16>) {
    ^bb0(%a: f32, %b: f32):
      gemm.yield %a : f32
    }
  func.return
}

// -----

func.func @f(%dy: tensor<?x?x64xbf16>, %y: tensor<?x?x64xbf16>, %lse: tensor<?x4x?xf32>, %q: tensor<?x?x64xbf16>, %k: tensor<?x?x32xbf16>, %v: tensor<?x?x32xbf16>, %m: tensor<?x4x?xbf16>, %t: tensor<64x?x?xbf16>, %i: tensor<?x?xi32>) {
  // expected-error@below {{operand moment has element type bf16, expected f32}}
  %r = gemm.attention_dkv (%dy : tensor<?x?x64xbf16>, %m : tensor<?x4x?xbf16>, %lse : tensor<?x4x?xf32>, %q : tensor<?x?x64xbf16>, %k : tensor<?x?x32xbf16>, %v : tensor<?x?x32xbf16>) {head_dim = 16 : i64, causal = true}
      -> (tile : tensor<?x?x32xbf16>) {
    ^bb0(%a: f32, %b: f32):
      gemm.yield %a : f32
    }
  func.return
}

// -----

func.func @f(%dy: tensor<?x?x64xbf16>, %y: tensor<?x?x64xbf16>, %lse: tensor<?x4x?xf32>, %q: tensor<?x?x64xbf16>, %k: tensor<?x?x32xbf16>, %v: tensor<?x?x32xbf16>) {
  // expected-error@below {{schedule: split_k is 4, expected a divisor of the 2 heads of queries that a tile sums over}}
  %dk, %dv = gemm.attention_dkv (%dy : tensor<?x?x64xbf16>, %lse : tensor<?x4x?xf32>, %lse : tensor<?x4x?xf32>, %q : tensor<?x?x64xbf16>, %k : tensor<?x?x32xbf16>, %v : tensor<?x?x32xbf16>) {head_dim = 16 : i64, causal = true}
      schedule<pointer, "32x16x16", warps = 4, stages = 1, group_m = 8, split_k = 4>
      -> (tile : tensor<?x?x32xbf16>, tile : tensor<?x?x32xbf16>) {
    ^bb0(%a: f32, %b: f32):
      gemm.yield %a, %b : f32, f32
    }
  func.return
}

// -----

func.func @f(%dy: tensor<?x?x64xbf16>, %y: tensor<?x?x64xbf16>, %lse: tensor<?x4x?xf32>, %q: tensor<?x?x64xbf16>, %k: tensor<?x?x32xbf16>, %v: tensor<?x?x32xbf16>, %m: tensor<?x?xbf16>) {
  // expected-error@below {{operand moment has shape ?x4x?, expected ?x4x?x2}}
  %dk, %dv = gemm.attention_dkv (%dy : tensor<?x?x64xbf16>, %lse : tensor<?x4x?xf32>, %lse : tensor<?x4x?xf32>, %q : tensor<?x?x64xbf16>, %k : tensor<?x?x32xbf16>, %v : tensor<?x?x32xbf16>) mask(%m : tensor<?x?xbf16>) {head_dim = 16 : i64, causal = true}
      -> (tile : tensor<?x?x32xbf16>, tile : tensor<?x?x32xbf16>) {
    ^bb0(%a: f32, %b: f32):
      gemm.yield %a, %b : f32, f32
    }
  func.return
}

// -----

func.func @f(%q: tensor<?x?x64xbf16>, %k: tensor<?x?x32xbf16>, %v: tensor<?x?x32xbf16>) {
  // expected-error@below {{2 operands, expected 3}}
  %lse, %y = gemm.attention (%q : tensor<?x?x64xbf16>, %k : tensor<?x?x32xbf16>) {head_dim = 16 : i64, causal = true}
      -> (tile : tensor<?x?x64xbf16>) {
    ^bb0(%a: f32):
      gemm.yield %a : f32
    }
  func.return
}

// -----

func.func @f(%q: tensor<2x6x48xbf16>) {
  // expected-error@below {{pairs in heads of 24 columns, expected a power of two of columns}}
  %r:2 = gemm.attention (%q : tensor<2x6x48xbf16>, %q : tensor<2x6x48xbf16>, %q : tensor<2x6x48xbf16>) {head_dim = 24 : i64, causal = true}
      pair<halves, 24> -> (tile : tensor<2x6x48xbf16>) {
    ^bb0(%a: f32, %b: f32):
      gemm.yield %a, %b : f32, f32
    }
  func.return
}

// -----

func.func @f(%q: tensor<2x6x48xbf16>) {
  // expected-error@below {{property scale, expected a positive number}}
  %r:2 = gemm.attention (%q : tensor<2x6x48xbf16>, %q : tensor<2x6x48xbf16>, %q : tensor<2x6x48xbf16>) {head_dim = 24 : i64, causal = true, scale = -1.0 : f64}
      -> (tile : tensor<2x6x48xbf16>) {
    ^bb0(%a: f32):
      gemm.yield %a : f32
    }
  func.return
}

// -----

func.func @f(%q: tensor<2x6x48xbf16>, %lse: tensor<2x2x6xf32>, %s: tensor<2xbf16>) {
  // expected-error@below {{operand sinks, expected them in the logsumexp}}
  %r:2 = gemm.attention_dq (%q : tensor<2x6x48xbf16>, %q : tensor<2x6x48xbf16>, %lse : tensor<2x2x6xf32>, %q : tensor<2x6x48xbf16>, %q : tensor<2x6x48xbf16>, %q : tensor<2x6x48xbf16>) sinks(%s : tensor<2xbf16>) {head_dim = 24 : i64, causal = true}
      -> (tile : tensor<2x6x48xbf16>) {
    ^bb0(%a: f32):
      gemm.yield %a : f32
    }
  func.return
}

// -----

func.func @f(%dy: tensor<2x6x64xbf16>, %lse: tensor<2x4x6xf32>, %q: tensor<2x6x96xbf16>, %k: tensor<2x9x48xbf16>, %v: tensor<2x9x32xbf16>) {
  // expected-error@below {{an epilogue of heads of keys and of values with different numbers of columns, expected one that stores the sums unchanged}}
  %r:2 = gemm.attention_dkv (%dy : tensor<2x6x64xbf16>, %lse : tensor<2x4x6xf32>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x96xbf16>, %k : tensor<2x9x48xbf16>, %v : tensor<2x9x32xbf16>) {head_dim = 24 : i64, value_dim = 16 : i64, causal = true}
      -> (tile : tensor<2x9x48xbf16>, tile : tensor<2x9x32xbf16>) {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      gemm.yield %c, %b : f32, f32
    }
  func.return
}

// -----

func.func @f(%q: tensor<2x6x128xbf16>, %lse: tensor<2x2x6xf32>, %m: tensor<6x6xi1>) {
  // expected-error@below {{schedule: wgmma is impossible: its mask is loaded between the products}}
  %r:2 = gemm.attention_dq (%q : tensor<2x6x128xbf16>, %q : tensor<2x6x128xbf16>, %lse : tensor<2x2x6xf32>, %q : tensor<2x6x128xbf16>, %q : tensor<2x6x128xbf16>, %q : tensor<2x6x128xbf16>) mask(%m : tensor<6x6xi1>) {head_dim = 64 : i64, causal = true}
      schedule<wgmma, "64x64x64", warps = 4, stages = 2, group_m = 8>
      -> (tile : tensor<2x6x128xbf16>) {
    ^bb0(%a: f32):
      gemm.yield %a : f32
    }
  func.return
}

// -----

func.func @f(%q: tensor<2x6x128xbf16>, %lse: tensor<2x2x6xf32>) {
  // expected-error@below {{schedule: 8 warps for 32 rows, expected 4 or 8 for each 64 rows}}
  %r:2 = gemm.attention_dq (%q : tensor<2x6x128xbf16>, %q : tensor<2x6x128xbf16>, %lse : tensor<2x2x6xf32>, %q : tensor<2x6x128xbf16>, %q : tensor<2x6x128xbf16>, %q : tensor<2x6x128xbf16>) {head_dim = 64 : i64, causal = true}
      schedule<wgmma, "32x64x64", warps = 8, stages = 2, group_m = 8>
      -> (tile : tensor<2x6x128xbf16>) {
    ^bb0(%a: f32):
      gemm.yield %a : f32
    }
  func.return
}

// -----

func.func @f(%q: tensor<2x6x128xbf16>, %lse: tensor<2x2x6xf32>) {
  // expected-error@below {{schedule: stages is 1, but wgmma takes at least 2}}
  %r:2 = gemm.attention_dq (%q : tensor<2x6x128xbf16>, %q : tensor<2x6x128xbf16>, %lse : tensor<2x2x6xf32>, %q : tensor<2x6x128xbf16>, %q : tensor<2x6x128xbf16>, %q : tensor<2x6x128xbf16>) {head_dim = 64 : i64, causal = true}
      schedule<wgmma, "64x64x64", warps = 4, stages = 1, group_m = 8>
      -> (tile : tensor<2x6x128xbf16>) {
    ^bb0(%a: f32):
      gemm.yield %a : f32
    }
  func.return
}

// -----

func.func @f(%q: tensor<2x6x128xbf16>) {
  // expected-error@below {{schedule: wgmma is impossible: only the backward has them}}
  %r:2 = gemm.attention (%q : tensor<2x6x128xbf16>, %q : tensor<2x6x128xbf16>, %q : tensor<2x6x128xbf16>) {head_dim = 64 : i64, causal = true}
      schedule<wgmma, "64x64x64", warps = 4, stages = 2, group_m = 8>
      -> (tile : tensor<2x6x128xbf16>) {
    ^bb0(%a: f32):
      gemm.yield %a : f32
    }
  func.return
}

// -----

func.func @f(%dy: tensor<?x?x64xbf16>, %moment: tensor<?x4x?xf32>, %lse: tensor<?x4x?xf32>, %q: tensor<?x?x64xbf16>, %k: tensor<?x?x32xbf16>, %m: tensor<4x?x?xi1>) {
  // expected-error@below {{expected no epilogue, and a mask of floats}}
  %d_mask = gemm.attention_dmask (%dy : tensor<?x?x64xbf16>, %moment : tensor<?x4x?xf32>, %lse : tensor<?x4x?xf32>, %q : tensor<?x?x64xbf16>, %k : tensor<?x?x32xbf16>, %k : tensor<?x?x32xbf16>) mask(%m : tensor<4x?x?xi1>) {head_dim = 16 : i64, causal = true}
      -> () {
      gemm.yield
    }
  func.return
}

// -----

func.func @f(%dy: tensor<?x?x64xbf16>, %moment: tensor<?x4x?xf32>, %lse: tensor<?x4x?xf32>, %q: tensor<?x?x64xbf16>, %k: tensor<?x?x32xbf16>, %m: tensor<4x?x?xf32>) {
  // expected-error@below {{operand moment has shape ?x4x?, expected ?x4x?x2}}
  %d_mask = gemm.attention_dmask (%dy : tensor<?x?x64xbf16>, %moment : tensor<?x4x?xf32>, %lse : tensor<?x4x?xf32>, %q : tensor<?x?x64xbf16>, %k : tensor<?x?x32xbf16>, %k : tensor<?x?x32xbf16>) mask(%m : tensor<4x?x?xf32>) {head_dim = 16 : i64, causal = true}
      -> () {
      gemm.yield
    }
  func.return
}

// -----

func.func @f(%dy: tensor<?x?x64xbf16>, %moment: tensor<?x4x?x2xf32>, %lse: tensor<?x4x?xf32>, %q: tensor<?x?x64xbf16>, %k: tensor<?x?x32xbf16>, %m: tensor<4x?x?xf32>) {
  // expected-error@below {{expected no epilogue, and a mask of floats}}
  %d_mask, %z = gemm.attention_dmask (%dy : tensor<?x?x64xbf16>, %moment : tensor<?x4x?x2xf32>, %lse : tensor<?x4x?xf32>, %q : tensor<?x?x64xbf16>, %k : tensor<?x?x32xbf16>, %k : tensor<?x?x32xbf16>) mask(%m : tensor<4x?x?xf32>) {head_dim = 16 : i64, causal = true}
      -> (tile : tensor<?x?x64xbf16>) {
    ^bb0(%a: f32):
      gemm.yield %a : f32
    }
  func.return
}
