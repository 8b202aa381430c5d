// RUN: coda-opt %s --emit=dot | filecheck %s

// A GEMM is a box, its column range one inside of it; edges from weights, ports and partials.

// CHECK:      digraph "f" {
// CHECK:        n0 [label=<<B>x</B><BR/>{{.*}}bf16[M, 64]{{.*}}>, {{.*}} shape="oval"
// CHECK-NEXT:   n1 [label=<<B>w</B><BR/>{{.*}}bf16[32, 64]{{.*}}>, {{.*}} shape="cylinder"
// CHECK-NEXT:   n2 [label=<<B>b</B><BR/>{{.*}}
// CHECK-NEXT:   subgraph cluster_3 {
// CHECK-NEXT:     label=<<B>gemm.fused</B>{{.*}}M × 32 × 64{{.*}}tiles of 64 × 32 × 64, 4 warps, 2 stages, pointer main loop
// CHECK:          subgraph cluster_4 {
// CHECK-NEXT:       label={{.*}}columns of w<
// CHECK:            n5 [label=<<B>x · wᵀ</B>{{.*}}N = 32, accumulates in f32{{.*}}
// CHECK-NEXT:       n6 [label="b", tooltip="bf16[32]"
// CHECK-NEXT:       n7 [label="+"
// CHECK-NEXT:       n8 [label="× 0.5"
// CHECK-NEXT:       n9 [label="max 0"
// CHECK-NEXT:       n10 [label=<<B>y</B>{{.*}}tile{{.*}}bf16[M, 32]
// CHECK-NEXT:       n11 [label=<<B>sum</B>{{.*}}partial row: add per tile{{.*}} style="filled,dashed"
// CHECK:        subgraph cluster_12 {
// CHECK-NEXT:     label=<<B>gemm.finalize</B>{{.*}}per row
// CHECK:          n13 [label="Σ over tiles"
// CHECK-NEXT:     n14 [label="1 ÷"
// CHECK-NEXT:     n15 [label=<<B>s</B>{{.*}}f32[M, 1]
// CHECK:        n16 [label=<<B>return y</B>>
// CHECK-NEXT:   n17 [label=<<B>return s</B>>
// CHECK-NEXT:   n0 -> n5 [label=" A"];
// CHECK-NEXT:   n1 -> n5 [label=" W"];
// CHECK-NEXT:   n2 -> n6 [label=" row"];
// CHECK-NEXT:   n5 -> n7;
// CHECK-NEXT:   n6 -> n7;
// CHECK-NEXT:   n7 -> n8;
// CHECK-NEXT:   n8 -> n9;
// CHECK-NEXT:   n9 -> n10;
// CHECK-NEXT:   n8 -> n11;
// CHECK-NEXT:   n11 -> n13 [style="dashed"
// CHECK-NEXT:   n13 -> n14;
// CHECK-NEXT:   n14 -> n15;
// CHECK-NEXT:   n10 -> n16;
// CHECK-NEXT:   n15 -> n17;
// CHECK-NEXT: }
func.func @f(%x: tensor<?x64xbf16> {coda.name = "x", coda.dims = ["M", 64]},
             %w: tensor<32x64xbf16> {coda.name = "w", coda.weight}, %b: tensor<32xbf16> {coda.name = "b"})
    -> (tensor<?x32xbf16>, tensor<?x1xf32>) {
  %y, %sum = gemm.fused %x : tensor<?x64xbf16>
    schedule<pointer, "64x32x64", warps = 4, stages = 2, group_m = 8>
    columns(%w : tensor<32x64xbf16>) row(%b : tensor<32xbf16>)
      -> (tile : tensor<?x32xbf16>, partial_row<add> : tensor<?x?xf32>) {
    ^bb0(%acc: f32, %bias: f32):
      %0 = arith.addf %acc, %bias : f32
      %1 = arith.constant 5.000000e-01 : f32
      %2 = arith.mulf %0, %1 : f32
      %3 = arith.constant 0.000000e+00 : f32
      %4 = arith.maximumf %2, %3 : f32
      gemm.yield %4, %2 : f32, f32
    }
  %s = gemm.finalize row (add %sum : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
  ^bb0(%total: f32):
    %5 = arith.constant 1.000000e+00 : f32
    %6 = arith.divf %5, %total : f32
    gemm.yield %6 : f32
  }
  func.return %y, %s : tensor<?x32xbf16>, tensor<?x1xf32>
}
