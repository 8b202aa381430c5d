// RUN: coda-opt %s -p align-scales --split-input-file | filecheck %s
// RUN: coda-opt %s -p align-scales --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// Eager rounds the scaled product.

func.func @exact(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %a: tensor<2x8xbf16>, %b: tensor<16x2xbf16>, %s: tensor<?x1xbf16>) -> tensor<?x16xbf16> attributes {coda.numerics = #gemm.numerics<"eager-exact">} {
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %t = coda.linear %x, %a : (tensor<?x8xbf16>, tensor<2x8xbf16>) -> tensor<?x2xbf16>
  %u = coda.linear %t, %b : (tensor<?x2xbf16>, tensor<16x2xbf16>) -> tensor<?x16xbf16>
  %su = coda.mul %u, %s : (tensor<?x16xbf16>, tensor<?x1xbf16>) -> tensor<?x16xbf16>
  %y = coda.add %z, %su : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %y : tensor<?x16xbf16>
}

// REMARK: remark[missed] align-scales: coda.add: the products are stored and added one by one: eager PyTorch rounds each, and the mode is eager-exact; failed condition: the numerics mode allows rounding points to move; costs 96*d0 bytes
// REMARK: help: use the mode fp32-epilogue or deterministic
// CHECK:      func.func @exact(
// CHECK-NEXT:   %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %t = coda.linear %x, %a : (tensor<?x8xbf16>, tensor<2x8xbf16>) -> tensor<?x2xbf16>
// CHECK-NEXT:   %u = coda.linear %t, %b : (tensor<?x2xbf16>, tensor<16x2xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %su = coda.mul %u, %s : (tensor<?x16xbf16>, tensor<?x1xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %y = coda.add %z, %su : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// The product is returned too.

func.func @used(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %a: tensor<2x8xbf16>, %b: tensor<16x2xbf16>, %s: tensor<?x1xbf16>) -> (tensor<?x16xbf16>, tensor<?x16xbf16>) {
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %t = coda.linear %x, %a : (tensor<?x8xbf16>, tensor<2x8xbf16>) -> tensor<?x2xbf16>
  %u = coda.linear %t, %b : (tensor<?x2xbf16>, tensor<16x2xbf16>) -> tensor<?x16xbf16>
  %su = coda.mul %u, %s : (tensor<?x16xbf16>, tensor<?x1xbf16>) -> tensor<?x16xbf16>
  %y = coda.add %z, %su : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %y, %u : tensor<?x16xbf16>, tensor<?x16xbf16>
}

// REMARK: remark[missed] align-scales: coda.add: the products are stored and added one by one: %u is also used elsewhere; failed condition: an added product has no other use; costs 96*d0 bytes
// CHECK:      func.func @used(
// CHECK-NEXT:   %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %t = coda.linear %x, %a : (tensor<?x8xbf16>, tensor<2x8xbf16>) -> tensor<?x2xbf16>
// CHECK-NEXT:   %u = coda.linear %t, %b : (tensor<?x2xbf16>, tensor<16x2xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %su = coda.mul %u, %s : (tensor<?x16xbf16>, tensor<?x1xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %y = coda.add %z, %su : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %y, %u : tensor<?x16xbf16>, tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// The scaled product has a bias.

func.func @bias(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %a: tensor<2x8xbf16>, %b: tensor<16x2xbf16>, %s: tensor<?x1xbf16>, %c: tensor<16xbf16>) -> tensor<?x16xbf16> {
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %t = coda.linear %x, %a : (tensor<?x8xbf16>, tensor<2x8xbf16>) -> tensor<?x2xbf16>
  %u = coda.linear %t, %b, %c : (tensor<?x2xbf16>, tensor<16x2xbf16>, tensor<16xbf16>) -> tensor<?x16xbf16>
  %su = coda.mul %u, %s : (tensor<?x16xbf16>, tensor<?x1xbf16>) -> tensor<?x16xbf16>
  %y = coda.add %z, %su : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %y : tensor<?x16xbf16>
}

// REMARK: remark[missed] align-scales: coda.add: the products are stored and added one by one: %su has a scale and a bias; failed condition: no scaled product has a bias; costs 96*d0 bytes
// CHECK:      func.func @bias(
// CHECK-NEXT:   %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %t = coda.linear %x, %a : (tensor<?x8xbf16>, tensor<2x8xbf16>) -> tensor<?x2xbf16>
// CHECK-NEXT:   %u = coda.linear %t, %b, %c : (tensor<?x2xbf16>, tensor<16x2xbf16>, tensor<16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %su = coda.mul %u, %s : (tensor<?x16xbf16>, tensor<?x1xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %y = coda.add %z, %su : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// The input of the scaled product is an argument.

func.func @argument(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %a: tensor<2x8xbf16>, %b: tensor<16x2xbf16>, %s: tensor<?x1xbf16>, %t: tensor<?x2xbf16>) -> tensor<?x16xbf16> {
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %u = coda.linear %t, %b : (tensor<?x2xbf16>, tensor<16x2xbf16>) -> tensor<?x16xbf16>
  %su = coda.mul %u, %s : (tensor<?x16xbf16>, tensor<?x1xbf16>) -> tensor<?x16xbf16>
  %y = coda.add %z, %su : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %y : tensor<?x16xbf16>
}

// REMARK: remark[missed] align-scales: coda.add: the products are stored and added one by one: %su has another scale, and %t is not the tile of a kernel; failed condition: the kernel that computes the input of a scaled product can apply the scale; costs 64*d0 + 32*d2 bytes
// CHECK:      func.func @argument(
// CHECK-NEXT:   %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %u = coda.linear %t, %b : (tensor<?x2xbf16>, tensor<16x2xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %su = coda.mul %u, %s : (tensor<?x16xbf16>, tensor<?x1xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %y = coda.add %z, %su : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// float16 may not hold a scaled input.

func.func @range(%x: tensor<?x8xf16>, %w: tensor<16x8xf16>, %a: tensor<2x8xf16>, %b: tensor<16x2xf16>, %s: tensor<?x1xf16>) -> tensor<?x16xf16> {
  %z = coda.linear %x, %w : (tensor<?x8xf16>, tensor<16x8xf16>) -> tensor<?x16xf16>
  %t = coda.linear %x, %a : (tensor<?x8xf16>, tensor<2x8xf16>) -> tensor<?x2xf16>
  %u = coda.linear %t, %b : (tensor<?x2xf16>, tensor<16x2xf16>) -> tensor<?x16xf16>
  %su = coda.mul %u, %s : (tensor<?x16xf16>, tensor<?x1xf16>) -> tensor<?x16xf16>
  %y = coda.add %z, %su : (tensor<?x16xf16>, tensor<?x16xf16>) -> tensor<?x16xf16>
  func.return %y : tensor<?x16xf16>
}

// REMARK: remark[missed] align-scales: coda.add: the products are stored and added one by one: the scaled input of %su may leave the range of f16; failed condition: the type of the input has the range of float32; costs 96*d0 bytes
// REMARK: help: use bf16
// CHECK:      func.func @range(
// CHECK-NEXT:   %z = coda.linear %x, %w : (tensor<?x8xf16>, tensor<16x8xf16>) -> tensor<?x16xf16>
// CHECK-NEXT:   %t = coda.linear %x, %a : (tensor<?x8xf16>, tensor<2x8xf16>) -> tensor<?x2xf16>
// CHECK-NEXT:   %u = coda.linear %t, %b : (tensor<?x2xf16>, tensor<16x2xf16>) -> tensor<?x16xf16>
// CHECK-NEXT:   %su = coda.mul %u, %s : (tensor<?x16xf16>, tensor<?x1xf16>) -> tensor<?x16xf16>
// CHECK-NEXT:   %y = coda.add %z, %su : (tensor<?x16xf16>, tensor<?x16xf16>) -> tensor<?x16xf16>
// CHECK-NEXT:   func.return %y : tensor<?x16xf16>
// CHECK-NEXT: }

// -----

// A scaled copy of an input of more columns than the product.

func.func @wide(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %a: tensor<32x8xbf16>, %b: tensor<16x32xbf16>, %s: tensor<?x1xbf16>) -> (tensor<?x16xbf16>, tensor<?x32xbf16>) {
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %t = coda.linear %x, %a : (tensor<?x8xbf16>, tensor<32x8xbf16>) -> tensor<?x32xbf16>
  %u = coda.linear %t, %b : (tensor<?x32xbf16>, tensor<16x32xbf16>) -> tensor<?x16xbf16>
  %su = coda.mul %u, %s : (tensor<?x16xbf16>, tensor<?x1xbf16>) -> tensor<?x16xbf16>
  %y = coda.add %z, %su : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %y, %t : tensor<?x16xbf16>, tensor<?x32xbf16>
}

// REMARK: remark[missed] align-scales: coda.add: the products are stored and added one by one: %su has another scale, and %t is also used elsewhere; failed condition: a scaled copy of the input has no more columns than the product; costs 96*d0 bytes
// CHECK:      func.func @wide(
// CHECK-NEXT:   %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %t = coda.linear %x, %a : (tensor<?x8xbf16>, tensor<32x8xbf16>) -> tensor<?x32xbf16>
// CHECK-NEXT:   %u = coda.linear %t, %b : (tensor<?x32xbf16>, tensor<16x32xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %su = coda.mul %u, %s : (tensor<?x16xbf16>, tensor<?x1xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %y = coda.add %z, %su : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %y, %t : tensor<?x16xbf16>, tensor<?x32xbf16>
// CHECK-NEXT: }

// -----

// The scale is computed from the input.

func.func @late(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %a: tensor<2x8xbf16>, %b: tensor<16x2xbf16>) -> tensor<?x16xbf16> {
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %t = coda.linear %x, %a : (tensor<?x8xbf16>, tensor<2x8xbf16>) -> tensor<?x2xbf16>
  %u = coda.linear %t, %b : (tensor<?x2xbf16>, tensor<16x2xbf16>) -> tensor<?x16xbf16>
  %s = coda.reduce %t {kind = "max"} : (tensor<?x2xbf16>) -> tensor<?x1xbf16>
  %su = coda.mul %u, %s : (tensor<?x16xbf16>, tensor<?x1xbf16>) -> tensor<?x16xbf16>
  %y = coda.add %z, %su : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %y : tensor<?x16xbf16>
}

// REMARK: remark[missed] align-scales: coda.add: the products are stored and added one by one: the scale of %su is computed from %t; failed condition: the scale is known before the input of the product; costs 96*d0 bytes
// CHECK:      func.func @late(
// CHECK-NEXT:   %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %t = coda.linear %x, %a : (tensor<?x8xbf16>, tensor<2x8xbf16>) -> tensor<?x2xbf16>
// CHECK-NEXT:   %u = coda.linear %t, %b : (tensor<?x2xbf16>, tensor<16x2xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %s = coda.reduce %t {kind = "max"} : (tensor<?x2xbf16>) -> tensor<?x1xbf16>
// CHECK-NEXT:   %su = coda.mul %u, %s : (tensor<?x16xbf16>, tensor<?x1xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %y = coda.add %z, %su : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// Both products have a scale, and neither can give up its own.

func.func @two(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %a: tensor<2x8xbf16>, %b: tensor<16x2xbf16>, %s: tensor<?x1xbf16>, %q: tensor<?x1xbf16>) -> tensor<?x16xbf16> {
  %z0 = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %z = coda.mul %z0, %q : (tensor<?x16xbf16>, tensor<?x1xbf16>) -> tensor<?x16xbf16>
  %t = coda.linear %x, %a : (tensor<?x8xbf16>, tensor<2x8xbf16>) -> tensor<?x2xbf16>
  %u = coda.linear %t, %b : (tensor<?x2xbf16>, tensor<16x2xbf16>) -> tensor<?x16xbf16>
  %su = coda.mul %u, %s : (tensor<?x16xbf16>, tensor<?x1xbf16>) -> tensor<?x16xbf16>
  %y = coda.add %z, %su : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %y : tensor<?x16xbf16>
}

// REMARK: remark[missed] align-scales: coda.add: the products are stored and added one by one: %q scales other products, and may be 0; failed condition: no other product of the sum has a scale; costs 96*d0 bytes
// CHECK:      func.func @two(
// CHECK-NEXT:   %z0 = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %z = coda.mul %z0, %q : (tensor<?x16xbf16>, tensor<?x1xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %t = coda.linear %x, %a : (tensor<?x8xbf16>, tensor<2x8xbf16>) -> tensor<?x2xbf16>
// CHECK-NEXT:   %u = coda.linear %t, %b : (tensor<?x2xbf16>, tensor<16x2xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %su = coda.mul %u, %s : (tensor<?x16xbf16>, tensor<?x1xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %y = coda.add %z, %su : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// An infinite scale: the product is infinite where its terms are not NaN.

func.func @infinite(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %a: tensor<2x8xbf16>, %b: tensor<16x2xbf16>) -> tensor<?x16xbf16> {
  %s = coda.constant {value = 0xfff0000000000000 : f64} : tensor<bf16>
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %t = coda.linear %x, %a : (tensor<?x8xbf16>, tensor<2x8xbf16>) -> tensor<?x2xbf16>
  %u = coda.linear %t, %b : (tensor<?x2xbf16>, tensor<16x2xbf16>) -> tensor<?x16xbf16>
  %su = coda.mul %u, %s : (tensor<?x16xbf16>, tensor<bf16>) -> tensor<?x16xbf16>
  %y = coda.add %z, %su : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %y : tensor<?x16xbf16>
}

// REMARK: remark[missed] align-scales: coda.add: the products are stored and added one by one: %su is scaled by infinity or NaN; failed condition: a scale is a finite number; costs 96*d0 bytes
// CHECK:      func.func @infinite(
// CHECK:        %su = coda.mul %u, %s : (tensor<?x16xbf16>, tensor<bf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %y = coda.add %z, %su : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>

// -----

// Scales are for what float8 holds: a scaled input may leave its range.

func.func @narrow(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %a: tensor<2x8xbf16>, %b: tensor<16x2xf8E4M3FN>, %s: tensor<?x1xf32>) -> tensor<?x16xf32> {
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xf32>
  %t = coda.linear %x, %a : (tensor<?x8xbf16>, tensor<2x8xbf16>) -> tensor<?x2xf32>
  %q = coda.cast %t : (tensor<?x2xf32>) -> tensor<?x2xf8E4M3FN>
  %u = coda.linear %q, %b : (tensor<?x2xf8E4M3FN>, tensor<16x2xf8E4M3FN>) -> tensor<?x16xf32>
  %su = coda.mul %u, %s : (tensor<?x16xf32>, tensor<?x1xf32>) -> tensor<?x16xf32>
  %y = coda.add %z, %su : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  func.return %y : tensor<?x16xf32>
}

// REMARK: remark[missed] align-scales: coda.add: the products are stored and added one by one: the scaled input of %su may leave the range of f8E4M3FN; failed condition: the type of the input has the range of float32; costs 192*d0 bytes
// CHECK:      func.func @narrow(
// CHECK-NEXT:   %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xf32>
// CHECK-NEXT:   %t = coda.linear %x, %a : (tensor<?x8xbf16>, tensor<2x8xbf16>) -> tensor<?x2xf32>
// CHECK-NEXT:   %q = coda.cast %t : (tensor<?x2xf32>) -> tensor<?x2xf8E4M3FN>
// CHECK-NEXT:   %u = coda.linear %q, %b : (tensor<?x2xf8E4M3FN>, tensor<16x2xf8E4M3FN>) -> tensor<?x16xf32>
// CHECK-NEXT:   %su = coda.mul %u, %s : (tensor<?x16xf32>, tensor<?x1xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %y = coda.add %z, %su : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   func.return %y : tensor<?x16xf32>
// CHECK-NEXT: }
