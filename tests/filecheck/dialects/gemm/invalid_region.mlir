// RUN: coda-opt %s --split-input-file --verify-diagnostics

// What is refused in the region of an epilogue.

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  %outer = arith.constant 1.0 : f32
  // expected-error@below {{region uses %outer of type f32 in arith.addf, which is defined outside of it; expected a port (ports are the only way in)}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32):
    %s = arith.addf %acc, %outer : f32
    gemm.yield %s : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{region has 2 blocks, expected 1}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  ^other(%b: f32):
    gemm.yield %b : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{region takes (f32, f32), expected (f32): the accumulators, then the ports}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32, %p: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{region takes (bf16), expected (f32): the accumulators, then the ports}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: bf16):
    gemm.yield %acc : bf16
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{region contains coda.constant, expected pure operators of arith and math}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32):
    %c = coda.constant {value = 1.0} : tensor<f32>
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32):
    // expected-error@below {{Operation arith.negf terminates block in single-block region but is not a terminator}}
    %s = arith.negf %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{region yields (f32, f32), expected (f32)}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc, %acc : f32, f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{region yields (bf16), expected (f32)}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32):
    %s = arith.truncf %acc : f32 to bf16
    gemm.yield %s : bf16
  }
  func.return
}

// -----

func.func @f(%i: i64) {
  // expected-error@below {{i64 should be of base attribute f32}}
  %r = gemm.group_reduce add %i over 4 : i64
  func.return
}

// -----

func.func @f(%v: f32) {
  // expected-error@below {{expected integer >= 1, got 0}}
  %r = gemm.group_reduce add %v over 0 : f32
  func.return
}

// -----

func.func @f(%v: f32) {
  // expected-error@below {{f64 should be of base attribute f32}}
  %r = "gemm.group_reduce"(%v) <{combiner = #gemm<combiner add>, group = 4 : i64}> : (f32) -> f64
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{region contains gemm.column in pair mode, expected plain columns}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) pair<adjacent>
    -> (half : tensor<?x8xi64>) {
  ^epilogue(%a: f32, %b: f32):
    %n = gemm.column : i64
    gemm.yield %n : i64
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x?xf32>) {
  // expected-error@below {{region contains gemm.column, expected a static number of columns}}
  %r = gemm.map tile(%x : tensor<?x?xf32>)
    -> (tile : tensor<?x?xi64>) {
  ^epilogue(%a: f32):
    %n = gemm.column : i64
    gemm.yield %n : i64
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xf32>) {
  %r = gemm.map tile(%x : tensor<?x8xf32>)
    -> (tile : tensor<?x8xf32>) {
  ^epilogue(%a: f32):
    // expected-error@below {{Expected one of i32, i64, but got i8}}
    %n = gemm.column : i8
    gemm.yield %a : f32
  }
  func.return
}

// -----

func.func @f(%p: tensor<?x?xf32>) {
  // expected-error@below {{region contains gemm.column, expected in gemm.fused and gemm.map}}
  %r = gemm.finalize row (add %p : tensor<?x?xf32>) -> (tensor<?xi64>) {
  ^epilogue(%a: f32):
    %n = gemm.column : i64
    gemm.yield %n : i64
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xf32>) {
  // expected-error@below {{gemm.exact is 2.000000e-01 : f64, expected a number that is 1.000000e-01 : f32 in float32}}
  %y = gemm.map tile(%x : tensor<?x8xf32>) -> (tile : tensor<?x8xf32>) {
  ^map(%a: f32):
    %c = arith.constant {gemm.exact = 0.2 : f64} 0.1 : f32
    %b = arith.mulf %a, %c : f32
    gemm.yield %b : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xf32>) {
  // expected-error@below {{gemm.exact is 1.000000e-01 : f32, expected a number of type f64}}
  %y = gemm.map tile(%x : tensor<?x8xf32>) -> (tile : tensor<?x8xf32>) {
  ^map(%a: f32):
    %c = arith.constant {gemm.exact = 0.1 : f32} 0.1 : f32
    %b = arith.mulf %a, %c : f32
    gemm.yield %b : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xf32>) {
  // expected-error@below {{arith.mulf has gemm.exact, expected it on constants of type f32 only}}
  %y = gemm.map tile(%x : tensor<?x8xf32>) -> (tile : tensor<?x8xf32>) {
  ^map(%a: f32):
    %b = arith.mulf %a, %a {gemm.exact = 0.1 : f64} : f32
    gemm.yield %b : f32
  }
  func.return
}
