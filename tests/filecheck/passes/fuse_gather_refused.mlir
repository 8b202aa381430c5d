// RUN: coda-opt %s -p fuse-gather --split-input-file | filecheck %s
// RUN: coda-opt %s -p fuse-gather --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// Ids of the caller, which may name no row; a bound above the number of rows.

func.func @unknown(%x: tensor<?x8xbf16>, %ids: tensor<?xi64>, %w: tensor<16x8xbf16>) -> tensor<?x16xbf16> {
  %rows = coda.index %x, %ids {dim = 0 : i64} : (tensor<?x8xbf16>, tensor<?xi64>) -> tensor<?x8xbf16>
  %y = gemm.fused %rows : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return %y : tensor<?x16xbf16>
}

// CHECK:      func.func @unknown(%x: tensor<?x8xbf16>, %ids: tensor<?xi64>, %w: tensor<16x8xbf16>) -> tensor<?x16xbf16> {
// CHECK-NEXT:   %rows = coda.index %x, %ids {dim = 0 : i64} : (tensor<?x8xbf16>, tensor<?xi64>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %y = gemm.fused %rows : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// REMARK: remark[missed] fuse-gather: coda.index: copies rows for a GEMM, which would not detect an invalid id in %ids; failed condition: the ids are known to be valid row numbers, such as those of a sort; costs 40*d1 bytes

// -----

func.func @too_few(%x: tensor<5x8xbf16>, %s: tensor<7xf32>, %w: tensor<16x8xbf16>) -> tensor<7x16xbf16> {
  %values, %order = coda.sort %s {dim = 0 : i64, descending = true} : (tensor<7xf32>) -> (tensor<7xf32>, tensor<7xi64>)
  %rows = coda.index %x, %order {dim = 0 : i64} : (tensor<5x8xbf16>, tensor<7xi64>) -> tensor<7x8xbf16>
  %y = gemm.fused %rows : tensor<7x8xbf16>
    columns(%w : tensor<16x8xbf16>)
      -> (tile : tensor<7x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return %y : tensor<7x16xbf16>
}

// CHECK:      func.func @too_few(%x: tensor<5x8xbf16>, %s: tensor<7xf32>, %w: tensor<16x8xbf16>) -> tensor<7x16xbf16> {
// CHECK-NEXT:   %values, %order = coda.sort %s {dim = 0 : i64, descending = true} : (tensor<7xf32>) -> (tensor<7xf32>, tensor<7xi64>)
// CHECK-NEXT:   %rows = coda.index %x, %order {dim = 0 : i64} : (tensor<5x8xbf16>, tensor<7xi64>) -> tensor<7x8xbf16>
// CHECK-NEXT:   %y = gemm.fused %rows : tensor<7x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<7x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<7x16xbf16>
// CHECK-NEXT: }

// REMARK: remark[missed] fuse-gather: coda.index: copies rows for a GEMM, which would not detect an invalid id in %order; failed condition: the ids are known to be valid row numbers, such as those of a sort; costs 280 bytes

// -----

// Rows that are returned, too, and rows that an epilogue reads.

func.func @returned(%x: tensor<?x8xbf16> {coda.dims = ["M", 8 : i64]}, %s: tensor<?xf32> {coda.dims = ["M"]}, %w: tensor<16x8xbf16>) -> (tensor<?x16xbf16>, tensor<?x8xbf16>) {
  %values, %order = coda.sort %s {dim = 0 : i64, descending = true} : (tensor<?xf32>) -> (tensor<?xf32>, tensor<?xi64>)
  %rows = coda.index %x, %order {dim = 0 : i64} : (tensor<?x8xbf16>, tensor<?xi64>) -> tensor<?x8xbf16>
  %y = gemm.fused %rows : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return %y, %rows : tensor<?x16xbf16>, tensor<?x8xbf16>
}

// CHECK:      func.func @returned(%x: tensor<?x8xbf16> {coda.dims = ["M", 8 : i64]}, %s: tensor<?xf32> {coda.dims = ["M"]}, %w: tensor<16x8xbf16>) -> (tensor<?x16xbf16>, tensor<?x8xbf16>) {
// CHECK-NEXT:   %values, %order = coda.sort %s {dim = 0 : i64, descending = true} : (tensor<?xf32>) -> (tensor<?xf32>, tensor<?xi64>)
// CHECK-NEXT:   %rows = coda.index %x, %order {dim = 0 : i64} : (tensor<?x8xbf16>, tensor<?xi64>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %y = gemm.fused %rows : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y, %rows : tensor<?x16xbf16>, tensor<?x8xbf16>
// CHECK-NEXT: }

// REMARK: remark[missed] fuse-gather: coda.index: copies rows for a GEMM: the caller also reads them; failed condition: only GEMMs of one input read the rows; costs 40*M bytes

// -----

// Rows of a product that sums over them, and slices of more dimensions.

func.func @transposed(%x: tensor<?x8xbf16> {coda.dims = ["M", 8 : i64]}, %s: tensor<?xf32> {coda.dims = ["M"]}, %dz: tensor<?x16xbf16> {coda.dims = ["M", 16 : i64]}) -> tensor<8x16xbf16> {
  %values, %order = coda.sort %s {dim = 0 : i64, descending = true} : (tensor<?xf32>) -> (tensor<?xf32>, tensor<?xi64>)
  %rows = coda.index %x, %order {dim = 0 : i64} : (tensor<?x8xbf16>, tensor<?xi64>) -> tensor<?x8xbf16>
  %y = gemm.fused transposed %rows : tensor<?x8xbf16>
    columns(%dz : tensor<?x16xbf16>) kn
      -> (tile : tensor<8x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return %y : tensor<8x16xbf16>
}

// CHECK:      func.func @transposed(%x: tensor<?x8xbf16> {coda.dims = ["M", 8 : i64]}, %s: tensor<?xf32> {coda.dims = ["M"]}, %dz: tensor<?x16xbf16> {coda.dims = ["M", 16 : i64]}) -> tensor<8x16xbf16> {
// CHECK-NEXT:   %values, %order = coda.sort %s {dim = 0 : i64, descending = true} : (tensor<?xf32>) -> (tensor<?xf32>, tensor<?xi64>)
// CHECK-NEXT:   %rows = coda.index %x, %order {dim = 0 : i64} : (tensor<?x8xbf16>, tensor<?xi64>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %y = gemm.fused transposed %rows : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%dz : tensor<?x16xbf16>) kn
// CHECK-NEXT:       -> (tile : tensor<8x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<8x16xbf16>
// CHECK-NEXT: }

// REMARK: remark[missed] fuse-gather: coda.index: copies rows for a GEMM: gemm.fused also reads them; failed condition: only GEMMs of one input read the rows; costs 40*M bytes

// -----

func.func @blocks(%x: tensor<?x3x8xbf16>, %ids: tensor<?xi64>, %w: tensor<16x8xbf16>) -> tensor<?x3x16xbf16> {
  %rows = coda.index %x, %ids {dim = 0 : i64} : (tensor<?x3x8xbf16>, tensor<?xi64>) -> tensor<?x3x8xbf16>
  %y = gemm.fused %rows : tensor<?x3x8xbf16>
    columns(%w : tensor<16x8xbf16>)
      -> (tile : tensor<?x3x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return %y : tensor<?x3x16xbf16>
}

// CHECK:      func.func @blocks(%x: tensor<?x3x8xbf16>, %ids: tensor<?xi64>, %w: tensor<16x8xbf16>) -> tensor<?x3x16xbf16> {
// CHECK-NEXT:   %rows = coda.index %x, %ids {dim = 0 : i64} : (tensor<?x3x8xbf16>, tensor<?xi64>) -> tensor<?x3x8xbf16>
// CHECK-NEXT:   %y = gemm.fused %rows : tensor<?x3x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x3x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<?x3x16xbf16>
// CHECK-NEXT: }

// REMARK: remark[missed] fuse-gather: coda.index: copies the selected elements for a GEMM; failed condition: the ids select rows of a matrix; costs 104*d1 bytes

// -----

// Numbers of 200 rows in eight bits: those from 128 on are negative.

func.func @wrapped(%x: tensor<200x8xbf16>, %s: tensor<200xf32>, %w: tensor<16x8xbf16>) -> tensor<200x16xbf16> {
  %values, %order = coda.sort %s {dim = 0 : i64, descending = true} : (tensor<200xf32>) -> (tensor<200xf32>, tensor<200xi64>)
  %narrow = coda.cast %order : (tensor<200xi64>) -> tensor<200xi8>
  %ids = coda.cast %narrow : (tensor<200xi8>) -> tensor<200xi64>
  %rows = coda.index %x, %ids {dim = 0 : i64} : (tensor<200x8xbf16>, tensor<200xi64>) -> tensor<200x8xbf16>
  %y = gemm.fused %rows : tensor<200x8xbf16>
    columns(%w : tensor<16x8xbf16>)
      -> (tile : tensor<200x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return %y : tensor<200x16xbf16>
}

// CHECK:      func.func @wrapped(
// CHECK-NEXT:   %values, %order = coda.sort %s {dim = 0 : i64, descending = true} : (tensor<200xf32>) -> (tensor<200xf32>, tensor<200xi64>)
// CHECK-NEXT:   %narrow = coda.cast %order : (tensor<200xi64>) -> tensor<200xi8>
// CHECK-NEXT:   %ids = coda.cast %narrow : (tensor<200xi8>) -> tensor<200xi64>
// CHECK-NEXT:   %rows = coda.index %x, %ids {dim = 0 : i64} : (tensor<200x8xbf16>, tensor<200xi64>) -> tensor<200x8xbf16>
// CHECK-NEXT:   %y = gemm.fused %rows : tensor<200x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<200x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<200x16xbf16>
// CHECK-NEXT: }

// REMARK: remark[missed] fuse-gather: coda.index: copies rows for a GEMM, which would not detect an invalid id in %ids; failed condition: the ids are known to be valid row numbers, such as those of a sort; costs 8000 bytes
