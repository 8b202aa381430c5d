// RUN: coda-opt %s -p lower-leftovers{always=true} --split-input-file | filecheck %s
// RUN: coda-opt %s -p lower-leftovers{always=true} --split-input-file --remarks=missed,analysis -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// The program states where it rounds.

func.func @exact(%x: tensor<?x8xbf16> {coda.dims = ["M", 8]}, %w: tensor<8x8xbf16>) -> tensor<?x8xbf16> attributes {coda.numerics = #gemm.numerics<"eager-exact">} {
  %h = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<8x8xbf16>)
      -> (tile : tensor<?x8xbf16>) {
    ^bb0(%acc: f32):
      %e = math.exp %acc : f32
      gemm.yield %e : f32
    }
  %y = coda.softmax %h : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return %y : tensor<?x8xbf16>
}

// CHECK: func.func @exact
// CHECK-NOT: func.call
// REMARK: remark[analysis] lower-leftovers: func.func: is emitted as kernels without a graph: the program states where it rounds

// -----

// The number of rows depends on data.

func.func @data(%x: tensor<?x8xf32> {coda.dims = ["M", 8]}, %keep: tensor<?xi1> {coda.dims = ["M"]}, %w: tensor<8x8xf32>) -> tensor<?x8xf32> {
  %rows = torch.call "aten.index.Tensor"(%x, %keep) {arguments = "{0}, [{1}]"} : (tensor<?x8xf32>, tensor<?xi1>) -> tensor<?x8xf32>
  %h = gemm.fused %rows : tensor<?x8xf32>
    columns(%w : tensor<8x8xf32>)
      -> (tile : tensor<?x8xf32>) {
    ^bb0(%acc: f32):
      %e = math.exp %acc : f32
      gemm.yield %e : f32
    }
  %y = coda.softmax %h : (tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return %y : tensor<?x8xf32>
}

// CHECK: func.func @data
// CHECK-NOT: func.call
// REMARK: size of %rows does not follow from the arguments

// -----

// A function that is only declared.

func.func private @declared(tensor<4xf32>) -> tensor<4xf32>

// CHECK: func.func private @declared(tensor<4xf32>) -> tensor<4xf32>
