// RUN: coda-opt %s -p pad-vocabulary --split-input-file | filecheck %s
// RUN: coda-opt %s -p pad-vocabulary --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// Few rows, or an unknown number of them; another operator that reads the logits; aligned rows.

func.func @few(%x: tensor<16x64xbf16>, %w: tensor<4099x64xbf16>) -> tensor<16x4099xbf16> {
  %y = coda.linear %x, %w : (tensor<16x64xbf16>, tensor<4099x64xbf16>) -> tensor<16x4099xbf16>
  func.return %y : tensor<16x4099xbf16>
}

// CHECK:      func.func @few(%x: tensor<16x64xbf16>, %w: tensor<4099x64xbf16>) -> tensor<16x4099xbf16> {
// CHECK-NEXT:   %y = coda.linear %x, %w : (tensor<16x64xbf16>, tensor<4099x64xbf16>) -> tensor<16x4099xbf16>
// CHECK-NEXT:   func.return %y : tensor<16x4099xbf16>
// CHECK-NEXT: }

// REMARK: remark[missed] pad-vocabulary: coda.linear: there are 16 rows; failed condition: there are at least 256 rows; costs 657888 bytes

// -----

func.func @unknown(%x: tensor<?x64xbf16>, %w: tensor<4099x64xbf16>) -> tensor<?x4099xbf16> {
  %y = coda.linear %x, %w : (tensor<?x64xbf16>, tensor<4099x64xbf16>) -> tensor<?x4099xbf16>
  func.return %y : tensor<?x4099xbf16>
}

// CHECK:      func.func @unknown(%x: tensor<?x64xbf16>, %w: tensor<4099x64xbf16>) -> tensor<?x4099xbf16> {
// CHECK-NEXT:   %y = coda.linear %x, %w : (tensor<?x64xbf16>, tensor<4099x64xbf16>) -> tensor<?x4099xbf16>
// CHECK-NEXT:   func.return %y : tensor<?x4099xbf16>
// CHECK-NEXT: }

// REMARK: remark[missed] pad-vocabulary: coda.linear: the number of rows is not known; failed condition: there are at least 256 rows; costs 8326*d0 + 524672 bytes

// -----

func.func @read(%x: tensor<512x64xbf16>, %w: tensor<4099x64xbf16>) -> tensor<512x4099xbf16> {
  %y = coda.linear %x, %w : (tensor<512x64xbf16>, tensor<4099x64xbf16>) -> tensor<512x4099xbf16>
  %t = coda.exp %y : (tensor<512x4099xbf16>) -> tensor<512x4099xbf16>
  func.return %t : tensor<512x4099xbf16>
}

// CHECK:      func.func @read(%x: tensor<512x64xbf16>, %w: tensor<4099x64xbf16>) -> tensor<512x4099xbf16> {
// CHECK-NEXT:   %y = coda.linear %x, %w : (tensor<512x64xbf16>, tensor<4099x64xbf16>) -> tensor<512x4099xbf16>
// CHECK-NEXT:   %t = coda.exp %y : (tensor<512x4099xbf16>) -> tensor<512x4099xbf16>
// CHECK-NEXT:   func.return %t : tensor<512x4099xbf16>
// CHECK-NEXT: }

// REMARK: remark[missed] pad-vocabulary: coda.linear: another operator reads the product; failed condition: the product is returned as it is; costs 4787584 bytes

// -----

func.func @aligned(%x: tensor<512x64xbf16>, %w: tensor<4096x64xbf16>) -> tensor<512x4096xbf16> {
  %y = coda.linear %x, %w : (tensor<512x64xbf16>, tensor<4096x64xbf16>) -> tensor<512x4096xbf16>
  func.return %y : tensor<512x4096xbf16>
}

// CHECK:      func.func @aligned(%x: tensor<512x64xbf16>, %w: tensor<4096x64xbf16>) -> tensor<512x4096xbf16> {
// CHECK-NEXT:   %y = coda.linear %x, %w : (tensor<512x64xbf16>, tensor<4096x64xbf16>) -> tensor<512x4096xbf16>
// CHECK-NEXT:   func.return %y : tensor<512x4096xbf16>
// CHECK-NEXT: }
