func.func @f(%x: tensor<½xf32>) {
  func.return
}
