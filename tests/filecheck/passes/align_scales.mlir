// RUN: coda-opt %s -p align-scales --split-input-file | filecheck %s
// RUN: coda-opt %s -p align-scales --split-input-file --remarks=passed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// A low-rank adaptation, and a residual.

func.func @lora(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %a: tensor<2x8xbf16>, %b: tensor<16x2xbf16>, %r: tensor<?x16xbf16>) -> tensor<?x16xbf16> {
  %s = coda.constant {value = 1.5 : f64} : tensor<bf16>
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %t = coda.linear %x, %a : (tensor<?x8xbf16>, tensor<2x8xbf16>) -> tensor<?x2xbf16>
  %u = coda.linear %t, %b : (tensor<?x2xbf16>, tensor<16x2xbf16>) -> tensor<?x16xbf16>
  %su = coda.mul %u, %s : (tensor<?x16xbf16>, tensor<bf16>) -> tensor<?x16xbf16>
  %y = coda.add %z, %su : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %x1 = coda.sub %y, %r : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %x2 = coda.add %r, %x1 : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %x2 : tensor<?x16xbf16>
}

// REMARK: remark[passed] align-scales: coda.add: 2 products have one scale
// CHECK:      func.func @lora(
// CHECK-NEXT:   %s = coda.constant {value = 1.500000e+00 : f64} : tensor<bf16>
// CHECK-NEXT:   %t = coda.linear %x, %a : (tensor<?x8xbf16>, tensor<2x8xbf16>) -> tensor<?x2xbf16>
// CHECK-NEXT:   %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xf32>
// CHECK-NEXT:   %t_1 = coda.cast %t : (tensor<?x2xbf16>) -> tensor<?x2xf32>
// CHECK-NEXT:   %s_1 = coda.cast %s : (tensor<bf16>) -> tensor<f32>
// CHECK-NEXT:   %0 = coda.mul %t_1, %s_1 : (tensor<?x2xf32>, tensor<f32>) -> tensor<?x2xf32>
// CHECK-NEXT:   %1 = coda.cast %0 : (tensor<?x2xf32>) -> tensor<?x2xbf16>
// CHECK-NEXT:   %u = coda.linear %1, %b : (tensor<?x2xbf16>, tensor<16x2xbf16>) -> tensor<?x16xf32>
// CHECK-NEXT:   %2 = coda.add %z, %u : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %r_1 = coda.cast %r : (tensor<?x16xbf16>) -> tensor<?x16xf32>
// CHECK-NEXT:   %3 = coda.add %2, %r_1 : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %r_2 = coda.cast %r : (tensor<?x16xbf16>) -> tensor<?x16xf32>
// CHECK-NEXT:   %4 = coda.sub %3, %r_2 : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %x2 = coda.cast %4 : (tensor<?x16xf32>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %x2 : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// Behind a deferred RMSNorm: both products have the factor of the rows, one of them in its input.

func.func @rms(%x: tensor<?x8xbf16>, %r: tensor<?x1xf32>, %w: tensor<8x16xbf16>, %a: tensor<8x2xbf16>, %b: tensor<2x16xbf16>, %s: tensor<bf16>, %bias: tensor<16xf32>) -> (tensor<?x16xbf16>, tensor<?x2xbf16>) {
  %z0 = coda.matmul %x, %w : (tensor<?x8xbf16>, tensor<8x16xbf16>) -> tensor<?x16xf32>
  %z1 = coda.mul %z0, %r : (tensor<?x16xf32>, tensor<?x1xf32>) -> tensor<?x16xf32>
  %z2 = coda.add %z1, %bias : (tensor<?x16xf32>, tensor<16xf32>) -> tensor<?x16xf32>
  %z = coda.cast %z2 : (tensor<?x16xf32>) -> tensor<?x16xbf16>
  %t0 = coda.matmul %x, %a : (tensor<?x8xbf16>, tensor<8x2xbf16>) -> tensor<?x2xf32>
  %t1 = coda.mul %t0, %r : (tensor<?x2xf32>, tensor<?x1xf32>) -> tensor<?x2xf32>
  %t = coda.cast %t1 : (tensor<?x2xf32>) -> tensor<?x2xbf16>
  %u = coda.matmul %t, %b : (tensor<?x2xbf16>, tensor<2x16xbf16>) -> tensor<?x16xbf16>
  %su = coda.mul %u, %s : (tensor<?x16xbf16>, tensor<bf16>) -> tensor<?x16xbf16>
  %y = coda.add %z, %su : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %y, %t : tensor<?x16xbf16>, tensor<?x2xbf16>
}

// REMARK: remark[passed] align-scales: coda.add: 2 products have one scale
// CHECK:      func.func @rms(
// CHECK-NEXT:   %t0 = coda.matmul %x, %a : (tensor<?x8xbf16>, tensor<8x2xbf16>) -> tensor<?x2xf32>
// CHECK-NEXT:   %t1 = coda.mul %t0, %r : (tensor<?x2xf32>, tensor<?x1xf32>) -> tensor<?x2xf32>
// CHECK-NEXT:   %t = coda.cast %t1 : (tensor<?x2xf32>) -> tensor<?x2xbf16>
// CHECK-NEXT:   %z0 = coda.matmul %x, %w : (tensor<?x8xbf16>, tensor<8x16xbf16>) -> tensor<?x16xf32>
// CHECK-NEXT:   %s_1 = coda.cast %s : (tensor<bf16>) -> tensor<f32>
// CHECK-NEXT:   %0 = coda.mul %t0, %s_1 : (tensor<?x2xf32>, tensor<f32>) -> tensor<?x2xf32>
// CHECK-NEXT:   %1 = coda.cast %0 : (tensor<?x2xf32>) -> tensor<?x2xbf16>
// CHECK-NEXT:   %u = coda.matmul %1, %b : (tensor<?x2xbf16>, tensor<2x16xbf16>) -> tensor<?x16xf32>
// CHECK-NEXT:   %2 = coda.add %z0, %u : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %3 = coda.mul %2, %r : (tensor<?x16xf32>, tensor<?x1xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %4 = coda.add %3, %bias : (tensor<?x16xf32>, tensor<16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %y = coda.cast %4 : (tensor<?x16xf32>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %y, %t : tensor<?x16xbf16>, tensor<?x2xbf16>
// CHECK-NEXT: }

// -----

// Behind a deferred LayerNorm: the input is more than a scaled tile, and divided by rstd.

func.func @layer(%v: tensor<?x8xbf16>, %c: tensor<8x8xbf16>, %w: tensor<16x8xbf16>, %a: tensor<2x8xbf16>, %b: tensor<16x2xbf16>, %uw: tensor<16xf32>, %ua: tensor<2xf32>) -> tensor<?x16xbf16> {
  %x = coda.linear %v, %c : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  %r, %mean = coda.norm_stats %x {kind = "layer", eps = 1.000000e-05 : f64} : (tensor<?x8xbf16>) -> (tensor<?x1xf32>, tensor<?x1xf32>)
  %shift = coda.mul %r, %mean : (tensor<?x1xf32>, tensor<?x1xf32>) -> tensor<?x1xf32>
  %z0 = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xf32>
  %z1 = coda.mul %z0, %r : (tensor<?x16xf32>, tensor<?x1xf32>) -> tensor<?x16xf32>
  %z2 = coda.mul %shift, %uw : (tensor<?x1xf32>, tensor<16xf32>) -> tensor<?x16xf32>
  %z3 = coda.sub %z1, %z2 : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  %z = coda.cast %z3 : (tensor<?x16xf32>) -> tensor<?x16xbf16>
  %t0 = coda.linear %x, %a : (tensor<?x8xbf16>, tensor<2x8xbf16>) -> tensor<?x2xf32>
  %t1 = coda.mul %t0, %r : (tensor<?x2xf32>, tensor<?x1xf32>) -> tensor<?x2xf32>
  %t2 = coda.mul %shift, %ua : (tensor<?x1xf32>, tensor<2xf32>) -> tensor<?x2xf32>
  %t3 = coda.sub %t1, %t2 : (tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x2xf32>
  %t = coda.cast %t3 : (tensor<?x2xf32>) -> tensor<?x2xbf16>
  %u = coda.linear %t, %b : (tensor<?x2xbf16>, tensor<16x2xbf16>) -> tensor<?x16xbf16>
  %y = coda.add %z, %u : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %y : tensor<?x16xbf16>
}

// REMARK: remark[passed] align-scales: coda.add: 2 products have one scale
// CHECK:      func.func @layer(
// CHECK-NEXT:   %x = coda.linear %v, %c : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %r, %mean = coda.norm_stats %x {kind = "layer", eps = 1.000000e-05 : f64} : (tensor<?x8xbf16>) -> (tensor<?x1xf32>, tensor<?x1xf32>)
// CHECK-NEXT:   %shift = coda.mul %r, %mean : (tensor<?x1xf32>, tensor<?x1xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %z2 = coda.mul %shift, %uw : (tensor<?x1xf32>, tensor<16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %t0 = coda.linear %x, %a : (tensor<?x8xbf16>, tensor<2x8xbf16>) -> tensor<?x2xf32>
// CHECK-NEXT:   %t1 = coda.mul %t0, %r : (tensor<?x2xf32>, tensor<?x1xf32>) -> tensor<?x2xf32>
// CHECK-NEXT:   %t2 = coda.mul %shift, %ua : (tensor<?x1xf32>, tensor<2xf32>) -> tensor<?x2xf32>
// CHECK-NEXT:   %t3 = coda.sub %t1, %t2 : (tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x2xf32>
// CHECK-NEXT:   %z0 = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xf32>
// CHECK-NEXT:   %0 = coda.div %t3, %r : (tensor<?x2xf32>, tensor<?x1xf32>) -> tensor<?x2xf32>
// CHECK-NEXT:   %1 = coda.cast %0 : (tensor<?x2xf32>) -> tensor<?x2xbf16>
// CHECK-NEXT:   %u = coda.linear %1, %b : (tensor<?x2xbf16>, tensor<16x2xbf16>) -> tensor<?x16xf32>
// CHECK-NEXT:   %2 = coda.add %z0, %u : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %3 = coda.mul %2, %r : (tensor<?x16xf32>, tensor<?x1xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %4 = coda.sub %3, %z2 : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %y = coda.cast %4 : (tensor<?x16xf32>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// Two linear maps of a deferred norm.

func.func @both(%x: tensor<?x8xbf16>, %r: tensor<?x1xf32>, %w: tensor<16x8xbf16>, %v: tensor<16x8xbf16>, %bias: tensor<16xbf16>) -> tensor<?x16xbf16> {
  %a0 = coda.linear %x, %w, %bias : (tensor<?x8xbf16>, tensor<16x8xbf16>, tensor<16xbf16>) -> tensor<?x16xf32>
  %a = coda.mul %a0, %r : (tensor<?x16xf32>, tensor<?x1xf32>) -> tensor<?x16xf32>
  %b0 = coda.linear %x, %v : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xf32>
  %b = coda.mul %r, %b0 : (tensor<?x1xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  %y = coda.add %a, %b : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  %yc = coda.cast %y : (tensor<?x16xf32>) -> tensor<?x16xbf16>
  func.return %yc : tensor<?x16xbf16>
}

// REMARK: remark[passed] align-scales: coda.add: 2 products have one scale
// CHECK:      func.func @both(
// CHECK-NEXT:   %a0 = coda.linear %x, %w, %bias : (tensor<?x8xbf16>, tensor<16x8xbf16>, tensor<16xbf16>) -> tensor<?x16xf32>
// CHECK-NEXT:   %b0 = coda.linear %x, %v : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xf32>
// CHECK-NEXT:   %0 = coda.add %a0, %b0 : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %y = coda.mul %0, %r : (tensor<?x16xf32>, tensor<?x1xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %yc = coda.cast %y : (tensor<?x16xf32>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %yc : tensor<?x16xbf16>
// CHECK-NEXT: }
