// RUN: coda-opt %s --run --dim M=3 --entry first | filecheck %s
// RUN: coda-opt %s -p coda-to-gemm --run --dim M=3 --entry first | filecheck %s

// The same inputs at every level; the error against float64 is the rounding of bfloat16.

// CHECK: y: bfloat16[3, 8] norm {{[0-9.]+}} first [{{.*}}, ...] error 0.00{{[0-9]+}}
// CHECK-NEXT: result1: float32[3, 1] norm {{[0-9.]+}} first [{{.*}}] error {{0$|.+e-0[6-9]$}}
func.func @first(%x: tensor<?x16xbf16> {coda.dims = ["M", 16]}, %w: tensor<8x16xbf16>)
    -> (tensor<?x8xbf16> {coda.name = "y", coda.dims = ["M", 8]}, tensor<?x1xf32>) {
  %a = coda.linear %x, %w : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x8xbf16>
  %y = coda.silu %a : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %c = coda.cast %x : (tensor<?x16xbf16>) -> tensor<?x16xf32>
  %s = coda.reduce %c {kind = "sum"} : (tensor<?x16xf32>) -> tensor<?x1xf32>
  func.return %y, %s : tensor<?x8xbf16>, tensor<?x1xf32>
}

func.func @second(%x: tensor<8xf32>) -> tensor<8xf32> {
  func.return %x : tensor<8xf32>
}
