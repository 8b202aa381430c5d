func.func @f() {
  %c = arith.constant 1 : i99999999
  func.return
}
