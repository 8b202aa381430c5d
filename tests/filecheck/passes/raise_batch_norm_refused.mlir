// RUN: coda-opt %s -p raise-batch-norm --split-input-file | filecheck %s
// RUN: coda-opt %s -p raise-batch-norm --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=MISSED

// The statistics are those of the batch.

func.func @trained(%x: tensor<2x4x8xf32>, %v: tensor<4xf32>) -> tensor<2x4x8xf32> {
  %y = torch.call "aten.batch_norm.default"(%x, %v) {arguments = "{0}, {1}, {1}, None, None, True, 0.1, 1e-05, True"} : (tensor<2x4x8xf32>, tensor<4xf32>) -> tensor<2x4x8xf32>
  func.return %y : tensor<2x4x8xf32>
}

// CHECK-LABEL: func.func @trained(
// CHECK:         torch.call "aten.batch_norm.default"
// MISSED: remark[missed] raise-batch-norm: torch.call: the norm computes or updates the statistics of the batch

// -----

// Float64 is not computed in float32.

func.func @wide(%x: tensor<2x4x8xf64>, %v: tensor<4xf64>) -> tensor<2x4x8xf64> {
  %y = torch.call "aten.batch_norm.default"(%x, %v) {arguments = "{0}, {1}, {1}, {1}, {1}, False, 0.1, 1e-05, True"} : (tensor<2x4x8xf64>, tensor<4xf64>) -> tensor<2x4x8xf64>
  func.return %y : tensor<2x4x8xf64>
}

// CHECK-LABEL: func.func @wide(
// CHECK:         torch.call "aten.batch_norm.default"
// MISSED: remark[missed] raise-batch-norm: torch.call: the number of channels is symbolic, or they have another type
