// RUN: coda-opt %s -p "stream-logits{chunks=3}" --split-input-file | filecheck %s
// RUN: coda-opt %s -p "stream-logits{chunks=3}" --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// The logits are a result.

func.func @logits_returned(%h: tensor<?x8xbf16>, %w: tensor<40x8xbf16>, %t: tensor<?xi64>, %d_loss: tensor<f32>) -> (tensor<f32>, tensor<?x8xbf16>, tensor<?x40xbf16>) {
  %z = coda.linear %h, %w : (tensor<?x8xbf16>, tensor<40x8xbf16>) -> tensor<?x40xbf16>
  %loss = coda.cross_entropy %z, %t {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xbf16>, tensor<?xi64>) -> tensor<f32>
  %lse = coda.reduce %z {kind = "lse"} : (tensor<?x40xbf16>) -> tensor<?x1xf32>
  %dz = coda.cross_entropy_grad %z, %t, %d_loss, %lse {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xbf16>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x40xbf16>
  %dh = coda.matmul %dz, %w : (tensor<?x40xbf16>, tensor<40x8xbf16>) -> tensor<?x8xbf16>
  func.return %loss, %dh, %z : tensor<f32>, tensor<?x8xbf16>, tensor<?x40xbf16>
}

// CHECK:      func.func @logits_returned(%h: tensor<?x8xbf16>, %w: tensor<40x8xbf16>, %t: tensor<?xi64>, %d_loss: tensor<f32>) -> (tensor<f32>, tensor<?x8xbf16>, tensor<?x40xbf16>) {
// CHECK-NEXT:   %z = coda.linear %h, %w : (tensor<?x8xbf16>, tensor<40x8xbf16>) -> tensor<?x40xbf16>
// CHECK-NEXT:   %loss = coda.cross_entropy %z, %t {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xbf16>, tensor<?xi64>) -> tensor<f32>
// CHECK-NEXT:   %lse = coda.reduce %z {kind = "lse"} : (tensor<?x40xbf16>) -> tensor<?x1xf32>
// CHECK-NEXT:   %dz = coda.cross_entropy_grad %z, %t, %d_loss, %lse {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xbf16>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x40xbf16>
// CHECK-NEXT:   %dh = coda.matmul %dz, %w : (tensor<?x40xbf16>, tensor<40x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   func.return %loss, %dh, %z : tensor<f32>, tensor<?x8xbf16>, tensor<?x40xbf16>
// CHECK-NEXT: }
// REMARK: remark[missed] stream-logits: coda.cross_entropy_grad: %z is stored: the caller uses it; failed condition: logits and their gradient are used column by column, or summed; costs 164*d0 + 8*d1 + 4 bytes

// -----

// Their gradient is a result.

func.func @gradient_returned(%h: tensor<?x8xbf16>, %w: tensor<40x8xbf16>, %t: tensor<?xi64>, %d_loss: tensor<f32>) -> (tensor<f32>, tensor<?x8xbf16>, tensor<?x40xbf16>) {
  %z = coda.linear %h, %w : (tensor<?x8xbf16>, tensor<40x8xbf16>) -> tensor<?x40xbf16>
  %loss = coda.cross_entropy %z, %t {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xbf16>, tensor<?xi64>) -> tensor<f32>
  %lse = coda.reduce %z {kind = "lse"} : (tensor<?x40xbf16>) -> tensor<?x1xf32>
  %dz = coda.cross_entropy_grad %z, %t, %d_loss, %lse {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xbf16>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x40xbf16>
  %dh = coda.matmul %dz, %w : (tensor<?x40xbf16>, tensor<40x8xbf16>) -> tensor<?x8xbf16>
  func.return %loss, %dh, %dz : tensor<f32>, tensor<?x8xbf16>, tensor<?x40xbf16>
}

// CHECK:      func.func @gradient_returned(%h: tensor<?x8xbf16>, %w: tensor<40x8xbf16>, %t: tensor<?xi64>, %d_loss: tensor<f32>) -> (tensor<f32>, tensor<?x8xbf16>, tensor<?x40xbf16>) {
// CHECK-NEXT:   %z = coda.linear %h, %w : (tensor<?x8xbf16>, tensor<40x8xbf16>) -> tensor<?x40xbf16>
// CHECK-NEXT:   %loss = coda.cross_entropy %z, %t {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xbf16>, tensor<?xi64>) -> tensor<f32>
// CHECK-NEXT:   %lse = coda.reduce %z {kind = "lse"} : (tensor<?x40xbf16>) -> tensor<?x1xf32>
// CHECK-NEXT:   %dz = coda.cross_entropy_grad %z, %t, %d_loss, %lse {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xbf16>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x40xbf16>
// CHECK-NEXT:   %dh = coda.matmul %dz, %w : (tensor<?x40xbf16>, tensor<40x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   func.return %loss, %dh, %dz : tensor<f32>, tensor<?x8xbf16>, tensor<?x40xbf16>
// CHECK-NEXT: }
// REMARK: remark[missed] stream-logits: coda.cross_entropy_grad: %dz is stored: the caller uses it; failed condition: logits and their gradient are used column by column, or summed; costs 164*d0 + 8*d1 + 4 bytes

// -----

// The largest logit of a row is used.

func.func @other_statistic(%h: tensor<?x8xbf16>, %w: tensor<40x8xbf16>, %t: tensor<?xi64>, %d_loss: tensor<f32>) -> (tensor<f32>, tensor<?x8xbf16>, tensor<?x1xbf16>) {
  %z = coda.linear %h, %w : (tensor<?x8xbf16>, tensor<40x8xbf16>) -> tensor<?x40xbf16>
  %loss = coda.cross_entropy %z, %t {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xbf16>, tensor<?xi64>) -> tensor<f32>
  %lse = coda.reduce %z {kind = "lse"} : (tensor<?x40xbf16>) -> tensor<?x1xf32>
  %dz = coda.cross_entropy_grad %z, %t, %d_loss, %lse {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xbf16>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x40xbf16>
  %dh = coda.matmul %dz, %w : (tensor<?x40xbf16>, tensor<40x8xbf16>) -> tensor<?x8xbf16>
  %top = coda.reduce %z {kind = "max"} : (tensor<?x40xbf16>) -> tensor<?x1xbf16>
  func.return %loss, %dh, %top : tensor<f32>, tensor<?x8xbf16>, tensor<?x1xbf16>
}

// CHECK:      func.func @other_statistic(%h: tensor<?x8xbf16>, %w: tensor<40x8xbf16>, %t: tensor<?xi64>, %d_loss: tensor<f32>) -> (tensor<f32>, tensor<?x8xbf16>, tensor<?x1xbf16>) {
// CHECK-NEXT:   %z = coda.linear %h, %w : (tensor<?x8xbf16>, tensor<40x8xbf16>) -> tensor<?x40xbf16>
// CHECK-NEXT:   %loss = coda.cross_entropy %z, %t {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xbf16>, tensor<?xi64>) -> tensor<f32>
// CHECK-NEXT:   %lse = coda.reduce %z {kind = "lse"} : (tensor<?x40xbf16>) -> tensor<?x1xf32>
// CHECK-NEXT:   %dz = coda.cross_entropy_grad %z, %t, %d_loss, %lse {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xbf16>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x40xbf16>
// CHECK-NEXT:   %dh = coda.matmul %dz, %w : (tensor<?x40xbf16>, tensor<40x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %top = coda.reduce %z {kind = "max"} : (tensor<?x40xbf16>) -> tensor<?x1xbf16>
// CHECK-NEXT:   func.return %loss, %dh, %top : tensor<f32>, tensor<?x8xbf16>, tensor<?x1xbf16>
// CHECK-NEXT: }
// REMARK: remark[missed] stream-logits: coda.cross_entropy_grad: %z is stored: coda.reduce uses it; failed condition: logits and their gradient are used column by column, or summed; costs 164*d0 + 8*d1 + 4 bytes

// -----

// A maximum of the gradient is no sum.

func.func @maximum(%h: tensor<?x8xbf16>, %w: tensor<40x8xbf16>, %t: tensor<?xi64>, %d_loss: tensor<f32>) -> (tensor<f32>, tensor<?x8xbf16>, tensor<?x1xbf16>) {
  %z = coda.linear %h, %w : (tensor<?x8xbf16>, tensor<40x8xbf16>) -> tensor<?x40xbf16>
  %loss = coda.cross_entropy %z, %t {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xbf16>, tensor<?xi64>) -> tensor<f32>
  %lse = coda.reduce %z {kind = "lse"} : (tensor<?x40xbf16>) -> tensor<?x1xf32>
  %dz = coda.cross_entropy_grad %z, %t, %d_loss, %lse {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xbf16>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x40xbf16>
  %dh = coda.matmul %dz, %w : (tensor<?x40xbf16>, tensor<40x8xbf16>) -> tensor<?x8xbf16>
  %top = coda.reduce %dz {kind = "max"} : (tensor<?x40xbf16>) -> tensor<?x1xbf16>
  func.return %loss, %dh, %top : tensor<f32>, tensor<?x8xbf16>, tensor<?x1xbf16>
}

// CHECK:      func.func @maximum(%h: tensor<?x8xbf16>, %w: tensor<40x8xbf16>, %t: tensor<?xi64>, %d_loss: tensor<f32>) -> (tensor<f32>, tensor<?x8xbf16>, tensor<?x1xbf16>) {
// CHECK-NEXT:   %z = coda.linear %h, %w : (tensor<?x8xbf16>, tensor<40x8xbf16>) -> tensor<?x40xbf16>
// CHECK-NEXT:   %loss = coda.cross_entropy %z, %t {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xbf16>, tensor<?xi64>) -> tensor<f32>
// CHECK-NEXT:   %lse = coda.reduce %z {kind = "lse"} : (tensor<?x40xbf16>) -> tensor<?x1xf32>
// CHECK-NEXT:   %dz = coda.cross_entropy_grad %z, %t, %d_loss, %lse {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xbf16>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x40xbf16>
// CHECK-NEXT:   %dh = coda.matmul %dz, %w : (tensor<?x40xbf16>, tensor<40x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %top = coda.reduce %dz {kind = "max"} : (tensor<?x40xbf16>) -> tensor<?x1xbf16>
// CHECK-NEXT:   func.return %loss, %dh, %top : tensor<f32>, tensor<?x8xbf16>, tensor<?x1xbf16>
// CHECK-NEXT: }
// REMARK: remark[missed] stream-logits: coda.cross_entropy_grad: %dz is stored: coda.reduce uses it; failed condition: logits and their gradient are used column by column, or summed; costs 164*d0 + 8*d1 + 4 bytes

// -----

// The columns need a sum over their row.

func.func @needs_row(%h: tensor<?x8xbf16>, %w: tensor<40x8xbf16>, %t: tensor<?xi64>, %d_loss: tensor<f32>) -> (tensor<f32>, tensor<?x8xbf16>) {
  %z = coda.linear %h, %w : (tensor<?x8xbf16>, tensor<40x8xbf16>) -> tensor<?x40xbf16>
  %loss = coda.cross_entropy %z, %t {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xbf16>, tensor<?xi64>) -> tensor<f32>
  %lse = coda.reduce %z {kind = "lse"} : (tensor<?x40xbf16>) -> tensor<?x1xf32>
  %dz = coda.cross_entropy_grad %z, %t, %d_loss, %lse {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xbf16>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x40xbf16>
  %s = coda.reduce %dz {kind = "sum"} : (tensor<?x40xbf16>) -> tensor<?x1xbf16>
  %centered = coda.sub %dz, %s : (tensor<?x40xbf16>, tensor<?x1xbf16>) -> tensor<?x40xbf16>
  %dh = coda.matmul %centered, %w : (tensor<?x40xbf16>, tensor<40x8xbf16>) -> tensor<?x8xbf16>
  func.return %loss, %dh : tensor<f32>, tensor<?x8xbf16>
}

// CHECK:      func.func @needs_row(%h: tensor<?x8xbf16>, %w: tensor<40x8xbf16>, %t: tensor<?xi64>, %d_loss: tensor<f32>) -> (tensor<f32>, tensor<?x8xbf16>) {
// CHECK-NEXT:   %z = coda.linear %h, %w : (tensor<?x8xbf16>, tensor<40x8xbf16>) -> tensor<?x40xbf16>
// CHECK-NEXT:   %loss = coda.cross_entropy %z, %t {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xbf16>, tensor<?xi64>) -> tensor<f32>
// CHECK-NEXT:   %lse = coda.reduce %z {kind = "lse"} : (tensor<?x40xbf16>) -> tensor<?x1xf32>
// CHECK-NEXT:   %dz = coda.cross_entropy_grad %z, %t, %d_loss, %lse {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xbf16>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x40xbf16>
// CHECK-NEXT:   %s = coda.reduce %dz {kind = "sum"} : (tensor<?x40xbf16>) -> tensor<?x1xbf16>
// CHECK-NEXT:   %centered = coda.sub %dz, %s : (tensor<?x40xbf16>, tensor<?x1xbf16>) -> tensor<?x40xbf16>
// CHECK-NEXT:   %dh = coda.matmul %centered, %w : (tensor<?x40xbf16>, tensor<40x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   func.return %loss, %dh : tensor<f32>, tensor<?x8xbf16>
// CHECK-NEXT: }
// REMARK: remark[missed] stream-logits: coda.cross_entropy_grad: %dz is stored: its columns need the result of coda.reduce; failed condition: logits and their gradient are used column by column, or summed; costs 164*d0 + 8*d1 + 4 bytes

// -----

// The gradient of the gradient: both operands have all columns.

func.func @both_operands(%h: tensor<?x8xbf16>, %w: tensor<40x8xbf16>, %t: tensor<?xi64>, %d_loss: tensor<f32>) -> (tensor<f32>, tensor<40x40xbf16>) {
  %z = coda.linear %h, %w : (tensor<?x8xbf16>, tensor<40x8xbf16>) -> tensor<?x40xbf16>
  %loss = coda.cross_entropy %z, %t {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xbf16>, tensor<?xi64>) -> tensor<f32>
  %lse = coda.reduce %z {kind = "lse"} : (tensor<?x40xbf16>) -> tensor<?x1xf32>
  %dz = coda.cross_entropy_grad %z, %t, %d_loss, %lse {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xbf16>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x40xbf16>
  %dw = coda.weight_gradient %dz, %z : (tensor<?x40xbf16>, tensor<?x40xbf16>) -> tensor<40x40xbf16>
  func.return %loss, %dw : tensor<f32>, tensor<40x40xbf16>
}

// CHECK:      func.func @both_operands(%h: tensor<?x8xbf16>, %w: tensor<40x8xbf16>, %t: tensor<?xi64>, %d_loss: tensor<f32>) -> (tensor<f32>, tensor<40x40xbf16>) {
// CHECK-NEXT:   %z = coda.linear %h, %w : (tensor<?x8xbf16>, tensor<40x8xbf16>) -> tensor<?x40xbf16>
// CHECK-NEXT:   %loss = coda.cross_entropy %z, %t {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xbf16>, tensor<?xi64>) -> tensor<f32>
// CHECK-NEXT:   %lse = coda.reduce %z {kind = "lse"} : (tensor<?x40xbf16>) -> tensor<?x1xf32>
// CHECK-NEXT:   %dz = coda.cross_entropy_grad %z, %t, %d_loss, %lse {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xbf16>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x40xbf16>
// CHECK-NEXT:   %dw = coda.weight_gradient %dz, %z : (tensor<?x40xbf16>, tensor<?x40xbf16>) -> tensor<40x40xbf16>
// CHECK-NEXT:   func.return %loss, %dw : tensor<f32>, tensor<40x40xbf16>
// CHECK-NEXT: }
// REMARK: remark[missed] stream-logits: coda.cross_entropy_grad: %z is stored: coda.weight_gradient multiplies with it; failed condition: logits and their gradient are used column by column, or summed; costs 164*d0 + 8*d1 + 4 bytes

// -----

// Nothing sums up the gradient: it is a function of its own that gives it.

func.func @no_sum(%h: tensor<?x8xbf16>, %w: tensor<40x8xbf16>, %t: tensor<?xi64>, %d_loss: tensor<f32>) -> (tensor<f32>) {
  %z = coda.linear %h, %w : (tensor<?x8xbf16>, tensor<40x8xbf16>) -> tensor<?x40xbf16>
  %loss = coda.cross_entropy %z, %t {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xbf16>, tensor<?xi64>) -> tensor<f32>
  %lse = coda.reduce %z {kind = "lse"} : (tensor<?x40xbf16>) -> tensor<?x1xf32>
  %dz = coda.cross_entropy_grad %z, %t, %d_loss, %lse {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xbf16>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x40xbf16>
  func.return %loss : tensor<f32>
}

// CHECK:      func.func @no_sum(%h: tensor<?x8xbf16>, %w: tensor<40x8xbf16>, %t: tensor<?xi64>, %d_loss: tensor<f32>) -> tensor<f32> {
// CHECK-NEXT:   %z = coda.linear %h, %w : (tensor<?x8xbf16>, tensor<40x8xbf16>) -> tensor<?x40xbf16>
// CHECK-NEXT:   %loss = coda.cross_entropy %z, %t {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xbf16>, tensor<?xi64>) -> tensor<f32>
// CHECK-NEXT:   %lse = coda.reduce %z {kind = "lse"} : (tensor<?x40xbf16>) -> tensor<?x1xf32>
// CHECK-NEXT:   %dz = coda.cross_entropy_grad %z, %t, %d_loss, %lse {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xbf16>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x40xbf16>
// CHECK-NEXT:   func.return %loss : tensor<f32>
// CHECK-NEXT: }
// REMARK: remark[missed] stream-logits: coda.cross_entropy_grad: %dz is stored: nothing sums it up; failed condition: logits and their gradient are used column by column, or summed; costs 164*d0 + 8*d1 + 4 bytes

// -----

// The vocabulary has a symbolic size.

func.func @symbolic(%h: tensor<?x8xbf16>, %w: tensor<?x8xbf16>, %t: tensor<?xi64>, %d_loss: tensor<f32>) -> (tensor<f32>, tensor<?x8xbf16>) {
  %z = coda.linear %h, %w : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x?xbf16>
  %loss = coda.cross_entropy %z, %t {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x?xbf16>, tensor<?xi64>) -> tensor<f32>
  %lse = coda.reduce %z {kind = "lse"} : (tensor<?x?xbf16>) -> tensor<?x1xf32>
  %dz = coda.cross_entropy_grad %z, %t, %d_loss, %lse {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x?xbf16>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x?xbf16>
  %dh = coda.matmul %dz, %w : (tensor<?x?xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return %loss, %dh : tensor<f32>, tensor<?x8xbf16>
}

// CHECK:      func.func @symbolic(%h: tensor<?x8xbf16>, %w: tensor<?x8xbf16>, %t: tensor<?xi64>, %d_loss: tensor<f32>) -> (tensor<f32>, tensor<?x8xbf16>) {
// CHECK-NEXT:   %z = coda.linear %h, %w : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x?xbf16>
// CHECK-NEXT:   %loss = coda.cross_entropy %z, %t {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x?xbf16>, tensor<?xi64>) -> tensor<f32>
// CHECK-NEXT:   %lse = coda.reduce %z {kind = "lse"} : (tensor<?x?xbf16>) -> tensor<?x1xf32>
// CHECK-NEXT:   %dz = coda.cross_entropy_grad %z, %t, %d_loss, %lse {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x?xbf16>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x?xbf16>
// CHECK-NEXT:   %dh = coda.matmul %dz, %w : (tensor<?x?xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   func.return %loss, %dh : tensor<f32>, tensor<?x8xbf16>
// CHECK-NEXT: }
// REMARK: remark[missed] stream-logits: coda.cross_entropy_grad: %z is stored: it has a symbolic number of columns; failed condition: the number of columns is static; costs 4*d0*d1 + 4*d0 + 8*d2 + 4 bytes

// -----

// The logits are added to a tensor of their size.

func.func @added(%h: tensor<?x8xbf16>, %w: tensor<40x8xbf16>, %t: tensor<?xi64>, %d_loss: tensor<f32>, %mask: tensor<?x40xbf16>) -> (tensor<f32>, tensor<?x8xbf16>) {
  %u = coda.linear %h, %w : (tensor<?x8xbf16>, tensor<40x8xbf16>) -> tensor<?x40xbf16>
  %z = coda.add %u, %mask : (tensor<?x40xbf16>, tensor<?x40xbf16>) -> tensor<?x40xbf16>
  %loss = coda.cross_entropy %z, %t {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xbf16>, tensor<?xi64>) -> tensor<f32>
  %lse = coda.reduce %z {kind = "lse"} : (tensor<?x40xbf16>) -> tensor<?x1xf32>
  %dz = coda.cross_entropy_grad %z, %t, %d_loss, %lse {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xbf16>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x40xbf16>
  %dh = coda.matmul %dz, %w : (tensor<?x40xbf16>, tensor<40x8xbf16>) -> tensor<?x8xbf16>
  func.return %loss, %dh : tensor<f32>, tensor<?x8xbf16>
}

// CHECK:      func.func @added(%h: tensor<?x8xbf16>, %w: tensor<40x8xbf16>, %t: tensor<?xi64>, %d_loss: tensor<f32>, %mask: tensor<?x40xbf16>) -> (tensor<f32>, tensor<?x8xbf16>) {
// CHECK-NEXT:   %u = coda.linear %h, %w : (tensor<?x8xbf16>, tensor<40x8xbf16>) -> tensor<?x40xbf16>
// CHECK-NEXT:   %z = coda.add %u, %mask : (tensor<?x40xbf16>, tensor<?x40xbf16>) -> tensor<?x40xbf16>
// CHECK-NEXT:   %loss = coda.cross_entropy %z, %t {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xbf16>, tensor<?xi64>) -> tensor<f32>
// CHECK-NEXT:   %lse = coda.reduce %z {kind = "lse"} : (tensor<?x40xbf16>) -> tensor<?x1xf32>
// CHECK-NEXT:   %dz = coda.cross_entropy_grad %z, %t, %d_loss, %lse {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xbf16>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x40xbf16>
// CHECK-NEXT:   %dh = coda.matmul %dz, %w : (tensor<?x40xbf16>, tensor<40x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   func.return %loss, %dh : tensor<f32>, tensor<?x8xbf16>
// CHECK-NEXT: }
// REMARK: remark[missed] stream-logits: coda.cross_entropy_grad: %z is stored: an argument of its shape is needed; failed condition: logits and their gradient are used column by column, or summed; costs 164*d0 + 8*d1 + 4 bytes

// -----

// Weights of K x N.

func.func @conv1d(%h: tensor<?x8xbf16>, %w: tensor<8x40xbf16>, %t: tensor<?xi64>, %d_loss: tensor<f32>) -> (tensor<f32>, tensor<?x8xbf16>) {
  %z = coda.matmul %h, %w : (tensor<?x8xbf16>, tensor<8x40xbf16>) -> tensor<?x40xbf16>
  %loss = coda.cross_entropy %z, %t {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xbf16>, tensor<?xi64>) -> tensor<f32>
  %lse = coda.reduce %z {kind = "lse"} : (tensor<?x40xbf16>) -> tensor<?x1xf32>
  %dz = coda.cross_entropy_grad %z, %t, %d_loss, %lse {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xbf16>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x40xbf16>
  %dh = coda.linear %dz, %w : (tensor<?x40xbf16>, tensor<8x40xbf16>) -> tensor<?x8xbf16>
  func.return %loss, %dh : tensor<f32>, tensor<?x8xbf16>
}

// CHECK:      func.func @conv1d(%h: tensor<?x8xbf16>, %w: tensor<8x40xbf16>, %t: tensor<?xi64>, %d_loss: tensor<f32>) -> (tensor<f32>, tensor<?x8xbf16>) {
// CHECK-NEXT:   %z = coda.matmul %h, %w : (tensor<?x8xbf16>, tensor<8x40xbf16>) -> tensor<?x40xbf16>
// CHECK-NEXT:   %loss = coda.cross_entropy %z, %t {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xbf16>, tensor<?xi64>) -> tensor<f32>
// CHECK-NEXT:   %lse = coda.reduce %z {kind = "lse"} : (tensor<?x40xbf16>) -> tensor<?x1xf32>
// CHECK-NEXT:   %dz = coda.cross_entropy_grad %z, %t, %d_loss, %lse {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xbf16>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x40xbf16>
// CHECK-NEXT:   %dh = coda.linear %dz, %w : (tensor<?x40xbf16>, tensor<8x40xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   func.return %loss, %dh : tensor<f32>, tensor<?x8xbf16>
// CHECK-NEXT: }
// REMARK: remark[missed] stream-logits: coda.cross_entropy_grad: %z is stored: it is computed by coda.matmul; failed condition: logits and their gradient are used column by column, or summed; costs 164*d0 + 8*d1 + 4 bytes

// -----

// float64.

func.func @double(%h: tensor<?x8xf64>, %w: tensor<40x8xf64>, %t: tensor<?xi64>, %d_loss: tensor<f32>) -> (tensor<f32>, tensor<?x8xf64>) {
  %z = coda.linear %h, %w : (tensor<?x8xf64>, tensor<40x8xf64>) -> tensor<?x40xf64>
  %loss = coda.cross_entropy %z, %t {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xf64>, tensor<?xi64>) -> tensor<f32>
  %lse = coda.reduce %z {kind = "lse"} : (tensor<?x40xf64>) -> tensor<?x1xf32>
  %dz = coda.cross_entropy_grad %z, %t, %d_loss, %lse {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xf64>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x40xf64>
  %dh = coda.matmul %dz, %w : (tensor<?x40xf64>, tensor<40x8xf64>) -> tensor<?x8xf64>
  func.return %loss, %dh : tensor<f32>, tensor<?x8xf64>
}

// CHECK:      func.func @double(%h: tensor<?x8xf64>, %w: tensor<40x8xf64>, %t: tensor<?xi64>, %d_loss: tensor<f32>) -> (tensor<f32>, tensor<?x8xf64>) {
// CHECK-NEXT:   %z = coda.linear %h, %w : (tensor<?x8xf64>, tensor<40x8xf64>) -> tensor<?x40xf64>
// CHECK-NEXT:   %loss = coda.cross_entropy %z, %t {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xf64>, tensor<?xi64>) -> tensor<f32>
// CHECK-NEXT:   %lse = coda.reduce %z {kind = "lse"} : (tensor<?x40xf64>) -> tensor<?x1xf32>
// CHECK-NEXT:   %dz = coda.cross_entropy_grad %z, %t, %d_loss, %lse {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xf64>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x40xf64>
// CHECK-NEXT:   %dh = coda.matmul %dz, %w : (tensor<?x40xf64>, tensor<40x8xf64>) -> tensor<?x8xf64>
// CHECK-NEXT:   func.return %loss, %dh : tensor<f32>, tensor<?x8xf64>
// CHECK-NEXT: }
// REMARK: remark[missed] stream-logits: coda.cross_entropy_grad: %z is stored: its element type is f64; failed condition: float32 can represent every value; costs 644*d0 + 8*d1 + 4 bytes

// -----

// Nothing knows the logsumexp.

func.func @no_lse(%h: tensor<?x8xbf16>, %w: tensor<40x8xbf16>, %t: tensor<?xi64>, %d_loss: tensor<f32>) -> (tensor<f32>, tensor<?x8xbf16>) {
  %z = coda.linear %h, %w : (tensor<?x8xbf16>, tensor<40x8xbf16>) -> tensor<?x40xbf16>
  %loss = coda.cross_entropy %z, %t {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xbf16>, tensor<?xi64>) -> tensor<f32>
  %lse = coda.reduce %z {kind = "lse"} : (tensor<?x40xbf16>) -> tensor<?x1xf32>
  %dz = coda.cross_entropy_grad %z, %t, %d_loss {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xbf16>, tensor<?xi64>, tensor<f32>) -> tensor<?x40xbf16>
  %dh = coda.matmul %dz, %w : (tensor<?x40xbf16>, tensor<40x8xbf16>) -> tensor<?x8xbf16>
  func.return %loss, %dh : tensor<f32>, tensor<?x8xbf16>
}

// CHECK:      func.func @no_lse(%h: tensor<?x8xbf16>, %w: tensor<40x8xbf16>, %t: tensor<?xi64>, %d_loss: tensor<f32>) -> (tensor<f32>, tensor<?x8xbf16>) {
// CHECK-NEXT:   %z = coda.linear %h, %w : (tensor<?x8xbf16>, tensor<40x8xbf16>) -> tensor<?x40xbf16>
// CHECK-NEXT:   %loss = coda.cross_entropy %z, %t {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xbf16>, tensor<?xi64>) -> tensor<f32>
// CHECK-NEXT:   %lse = coda.reduce %z {kind = "lse"} : (tensor<?x40xbf16>) -> tensor<?x1xf32>
// CHECK-NEXT:   %dz = coda.cross_entropy_grad %z, %t, %d_loss {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xbf16>, tensor<?xi64>, tensor<f32>) -> tensor<?x40xbf16>
// CHECK-NEXT:   %dh = coda.matmul %dz, %w : (tensor<?x40xbf16>, tensor<40x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   func.return %loss, %dh : tensor<f32>, tensor<?x8xbf16>
// CHECK-NEXT: }
// REMARK: remark[missed] stream-logits: coda.cross_entropy_grad: %z is stored: its rows are needed to recompute their logsumexp; failed condition: the gradient covers whole rows whose logsumexp is known; costs 160*d0 + 8*d1 + 4 bytes

// -----

// The logits are saved: the backward alone, after `save-or-recompute`.

func.func @saved(%z: tensor<?x40xbf16>, %w: tensor<40x8xbf16>, %t: tensor<?xi64>, %d_loss: tensor<f32>, %lse: tensor<?x1xf32>) -> tensor<?x8xbf16> {
  %dz = coda.cross_entropy_grad %z, %t, %d_loss, %lse {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xbf16>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x40xbf16>
  %dh = coda.matmul %dz, %w : (tensor<?x40xbf16>, tensor<40x8xbf16>) -> tensor<?x8xbf16>
  func.return %dh : tensor<?x8xbf16>
}

// CHECK:      func.func @saved(%z: tensor<?x40xbf16>, %w: tensor<40x8xbf16>, %t: tensor<?xi64>, %d_loss: tensor<f32>, %lse: tensor<?x1xf32>) -> tensor<?x8xbf16> {
// CHECK-NEXT:   %dz = coda.cross_entropy_grad %z, %t, %d_loss, %lse {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xbf16>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x40xbf16>
// CHECK-NEXT:   %dh = coda.matmul %dz, %w : (tensor<?x40xbf16>, tensor<40x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   func.return %dh : tensor<?x8xbf16>
// CHECK-NEXT: }
// REMARK: remark[missed] stream-logits: coda.cross_entropy_grad: %z is stored: an argument of its shape is needed; failed condition: logits and their gradient are used column by column, or summed; costs 160*d0 + 8*d1 + 4*d2 + 4 bytes
