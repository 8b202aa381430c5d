// Values with several uses, results that are returned and consumed, operators on one value twice.

func.func @same_operand_twice(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) -> tensor<?x16xbf16> {
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %y = coda.mul %z, %z : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %s = coda.sub %y, %y : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %e = coda.exp %s : (tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %a = coda.add %e, %y : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %a : tensor<?x16xbf16>
}

// -----

func.func @returned_and_consumed(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %v: tensor<8x16xbf16>) -> (tensor<?x16xbf16>, tensor<?x16xbf16>, tensor<?x8xbf16>, tensor<?x16xbf16>) {
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %y = coda.silu %z : (tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %d = coda.linear %y, %v : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x8xbf16>
  func.return %z, %y, %d, %z : tensor<?x16xbf16>, tensor<?x16xbf16>, tensor<?x8xbf16>, tensor<?x16xbf16>
}

// -----

func.func @x_is_the_residual(%x: tensor<?x8xbf16>, %w: tensor<8x8xbf16>) -> tensor<?x8xbf16> {
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  %y = coda.add %z, %x : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %a = coda.mul %x, %y : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return %a : tensor<?x8xbf16>
}

// -----

func.func @x_is_the_weight(%x: tensor<8x8xbf16>) -> tensor<8x8xbf16> {
  %z = coda.matmul %x, %x : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
  %y = coda.add %z, %x : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
  func.return %y : tensor<8x8xbf16>
}

// -----

func.func @residual_is_another_gemm(%x: tensor<?x8xbf16>, %x2: tensor<?x4xbf16>, %w: tensor<16x8xbf16>, %v: tensor<16x4xbf16>) -> tensor<?x16xbf16> {
  %a = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %b = coda.linear %x2, %v : (tensor<?x4xbf16>, tensor<16x4xbf16>) -> tensor<?x16xbf16>
  %c = coda.sub %a, %b : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %d = coda.div %c, %a : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %d : tensor<?x16xbf16>
}

// -----

func.func @residual_of_the_gemm_before(%x: tensor<?x8xbf16>, %w: tensor<8x8xbf16>, %v: tensor<8x8xbf16>) -> tensor<?x8xbf16> {
  %a = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  %b = coda.linear %a, %v : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  %c = coda.add %a, %b : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %d = coda.linear %c, %v : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  %e = coda.add %d, %a : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return %e : tensor<?x8xbf16>
}

// -----

func.func @sum_of_siblings(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %v: tensor<16x8xbf16>) -> (tensor<?x16xbf16>, tensor<?x16xbf16>) {
  %a = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %b = coda.linear %x, %v : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %c = coda.sub %b, %a : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %d = coda.mul %a, %c : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %c, %d : tensor<?x16xbf16>, tensor<?x16xbf16>
}

// -----

func.func @gate_and_up_are_one_gemm(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) -> tensor<?x16xbf16> {
  %g = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %s = coda.silu %g : (tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %a = coda.mul %s, %g : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %a : tensor<?x16xbf16>
}

// -----

func.func @gate_and_up_share_the_weight(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) -> tensor<?x16xbf16> {
  %g = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %u = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %s = coda.silu %g : (tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %a = coda.mul %s, %u : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %a : tensor<?x16xbf16>
}

// -----

func.func @three_siblings(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %v: tensor<16x8xbf16>, %u: tensor<16x8xbf16>) -> tensor<?x16xbf16> {
  %a = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %b = coda.linear %x, %v : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %c = coda.linear %x, %u : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %d = coda.mul %a, %b : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %e = coda.mul %d, %c : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %f = coda.add %e, %a : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %f : tensor<?x16xbf16>
}

// -----

func.func @glu_input_has_other_uses(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %y: tensor<?x16xbf16>) -> (tensor<?x8xbf16>, tensor<?x16xbf16>, tensor<?x1xf32>) {
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %a = coda.glu %z {activation = "gelu"} : (tensor<?x16xbf16>) -> tensor<?x8xbf16>
  %b = coda.add %z, %y : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %m = coda.reduce %b {kind = "max"} : (tensor<?x16xbf16>) -> tensor<?x1xf32>
  func.return %a, %b, %m : tensor<?x8xbf16>, tensor<?x16xbf16>, tensor<?x1xf32>
}

// -----

func.func @dead_code(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %v: tensor<16x8xbf16>, %g: tensor<16xbf16>) -> tensor<?x16xbf16> {
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %dead = coda.linear %x, %v : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %dead2 = coda.mul %z, %dead : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %dead3 = coda.rms_norm %dead2, %g {eps = 1.0e-6 : f64} : (tensor<?x16xbf16>, tensor<16xbf16>) -> tensor<?x16xbf16>
  func.return %z : tensor<?x16xbf16>
}

// -----

func.func @nothing_to_do(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
  func.return %x : tensor<?x8xbf16>
}

// -----

func.func @shared_weight_chain(%x: tensor<?x8xbf16>, %w: tensor<8x8xbf16>, %g: tensor<8xbf16>) -> tensor<?x8xbf16> {
  %a = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  %b = coda.rms_norm %a, %g {eps = 1.0e-6 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %c = coda.linear %b, %w : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  %d = coda.rms_norm %c, %g {eps = 1.0e-6 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %e = coda.linear %d, %w : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  func.return %e : tensor<?x8xbf16>
}
