func.func @f(%l: tensor<?x8xf32>) {
  %r = coda.silu %l {reduction = "max} : (tensor<?x8xf32>) -> tensor<?x8xf32> and so on and so on
}
