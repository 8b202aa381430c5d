// RUN: coda-opt %s -p pad-rows --split-input-file | filecheck %s
// RUN: coda-opt %s -p pad-rows --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// Few rows, or an unknown number of them; aligned rows.

func.func @few(%dy: tensor<16x4099xbf16>, %w: tensor<4099x64xbf16>) -> tensor<16x64xbf16> {
  %dx = coda.matmul %dy, %w : (tensor<16x4099xbf16>, tensor<4099x64xbf16>) -> tensor<16x64xbf16>
  func.return %dx : tensor<16x64xbf16>
}

// CHECK:      func.func @few(%dy: tensor<16x4099xbf16>, %w: tensor<4099x64xbf16>) -> tensor<16x64xbf16> {
// CHECK-NEXT:   %dx = coda.matmul %dy, %w : (tensor<16x4099xbf16>, tensor<4099x64xbf16>) -> tensor<16x64xbf16>
// CHECK-NEXT:   func.return %dx : tensor<16x64xbf16>
// CHECK-NEXT: }

// REMARK: remark[missed] pad-rows: coda.matmul: there are 16 rows; failed condition: there are at least 256 rows; costs 657888 bytes

// -----

func.func @unknown(%dy: tensor<?x4099xbf16>, %x: tensor<?x64xbf16>) -> tensor<4099x64xbf16> {
  %dw = coda.weight_gradient %dy, %x : (tensor<?x4099xbf16>, tensor<?x64xbf16>) -> tensor<4099x64xbf16>
  func.return %dw : tensor<4099x64xbf16>
}

// CHECK:      func.func @unknown(%dy: tensor<?x4099xbf16>, %x: tensor<?x64xbf16>) -> tensor<4099x64xbf16> {
// CHECK-NEXT:   %dw = coda.weight_gradient %dy, %x : (tensor<?x4099xbf16>, tensor<?x64xbf16>) -> tensor<4099x64xbf16>
// CHECK-NEXT:   func.return %dw : tensor<4099x64xbf16>
// CHECK-NEXT: }

// REMARK: remark[missed] pad-rows: coda.weight_gradient: the number of rows is not known; failed condition: there are at least 256 rows; costs 8198*d0 + 128*d1 + 524672 bytes

// -----

func.func @aligned(%dy: tensor<512x4096xbf16>, %w: tensor<4096x64xbf16>) -> tensor<512x64xbf16> {
  %dx = coda.matmul %dy, %w : (tensor<512x4096xbf16>, tensor<4096x64xbf16>) -> tensor<512x64xbf16>
  func.return %dx : tensor<512x64xbf16>
}

// CHECK:      func.func @aligned(%dy: tensor<512x4096xbf16>, %w: tensor<4096x64xbf16>) -> tensor<512x64xbf16> {
// CHECK-NEXT:   %dx = coda.matmul %dy, %w : (tensor<512x4096xbf16>, tensor<4096x64xbf16>) -> tensor<512x64xbf16>
// CHECK-NEXT:   func.return %dx : tensor<512x64xbf16>
// CHECK-NEXT: }
