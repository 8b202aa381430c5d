func.func @f(%v: tensor<8xf32>) -> tensor<8xf32> {
  %a = coda.neg %c : (tensor<8xf32>) -> tensor<8xf32>
  %c = coda.mul %a, %v : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  func.return %c : tensor<8xf32>
}
