func.func @f(%x: tensor<999999999999999999999999999999xf32>) {
  func.return
}
