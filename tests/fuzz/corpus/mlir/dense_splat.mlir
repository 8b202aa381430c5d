func.func @f() {
  %c = arith.constant dense<1.0> : tensor<4000000000xf32>
  func.return
}
