// RUN: coda-opt %s --split-input-file --verify-diagnostics

// What the verifier of linear maps of groups refuses.

func.func @f(%x: tensor<?x?x8xbf16>, %w: tensor<4x16x8xbf16>, %e: tensor<4xi32>) {
  // expected-error@below {{operand x has rank 3, expected 2}}
  %r = coda.grouped_linear %x, %w, %e : (tensor<?x?x8xbf16>, tensor<4x16x8xbf16>, tensor<4xi32>) -> tensor<?x16xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %e: tensor<4xi32>) {
  // expected-error@below {{operand weight has rank 2, expected 3}}
  %r = coda.grouped_linear %x, %w, %e : (tensor<?x8xbf16>, tensor<16x8xbf16>, tensor<4xi32>) -> tensor<?x16xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<4x16x8xbf16>, %e: tensor<5xi32>) {
  // expected-error@below {{operand offsets has shape 5, expected 4}}
  %r = coda.grouped_linear %x, %w, %e : (tensor<?x8xbf16>, tensor<4x16x8xbf16>, tensor<5xi32>) -> tensor<?x16xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<4x16x8xbf16>, %e: tensor<4xi64>) {
  // expected-error@below {{operand offsets has element type i64, expected i32}}
  %r = coda.grouped_linear %x, %w, %e : (tensor<?x8xbf16>, tensor<4x16x8xbf16>, tensor<4xi64>) -> tensor<?x16xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<4x16x8xbf16>, %e: tensor<4xi32>) {
  // expected-error@below {{operand weight of shape 4x16x8 has K = 16 in dimension 1, expected 8, the last dimension of operand x}}
  %r = coda.grouped_matmul %x, %w, %e : (tensor<?x8xbf16>, tensor<4x16x8xbf16>, tensor<4xi32>) -> tensor<?x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<4x16x8xbf16>, %e: tensor<4xi32>, %b: tensor<16xbf16>) {
  // expected-error@below {{operand bias has shape 16, expected 4x16}}
  %r = coda.grouped_linear %x, %w, %e, %b : (tensor<?x8xbf16>, tensor<4x16x8xbf16>, tensor<4xi32>, tensor<16xbf16>) -> tensor<?x16xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<4x16x8xbf16>, %e: tensor<4xi32>) {
  // expected-error@below {{result has shape ?x8, expected ?x16}}
  %r = coda.grouped_linear %x, %w, %e : (tensor<?x8xbf16>, tensor<4x16x8xbf16>, tensor<4xi32>) -> tensor<?x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xf64>, %w: tensor<4x16x8xf64>, %e: tensor<4xi32>) {
  // expected-error@below {{grouped linear maps accumulate in f32, expected no f64}}
  %r = coda.grouped_linear %x, %w, %e : (tensor<?x8xf64>, tensor<4x16x8xf64>, tensor<4xi32>) -> tensor<?x16xf64>
  func.return
}

// -----

func.func @f(%ids: tensor<?x2xi64>) {
  // expected-error@below {{operand ids has rank 2, expected 1}}
  %o, %e = coda.group_order %ids {groups = 4 : i64} : (tensor<?x2xi64>) -> (tensor<?x2xi64>, tensor<4xi32>)
  func.return
}

// -----

func.func @f(%ids: tensor<?xf32>) {
  // expected-error@below {{operand ids has element type f32, expected}}
  %o, %e = coda.group_order %ids {groups = 4 : i64} : (tensor<?xf32>) -> (tensor<?xi64>, tensor<4xi32>)
  func.return
}

// -----

func.func @f(%ids: tensor<?xi64>) {
  // expected-error@below {{property groups is 513, expected 1 to 512}}
  %o, %e = coda.group_order %ids {groups = 513 : i64} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<513xi32>)
  func.return
}

// -----

func.func @f(%ids: tensor<?xi64>) {
  // expected-error@below {{result ends has shape 5, expected 4}}
  %o, %e = coda.group_order %ids {groups = 4 : i64} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<5xi32>)
  func.return
}
