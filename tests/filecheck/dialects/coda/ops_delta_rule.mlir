// RUN: coda-opt %s | filecheck %s
// RUN: coda-opt %s | coda-opt -f mlir | filecheck %s
// RUN: coda-opt %s --print-op-generic | coda-opt -f mlir | filecheck %s

func.func @f(%q: tensor<?x?x8xbf16>, %v: tensor<?x?x16xbf16>, %beta: tensor<?x?x4xf32>) -> tensor<?x?x16xbf16> {
  %y = coda.delta_rule %q, %q, %v, %beta, %beta {head_dim = 4 : i64} : (tensor<?x?x8xbf16>, tensor<?x?x8xbf16>, tensor<?x?x16xbf16>, tensor<?x?x4xf32>, tensor<?x?x4xf32>) -> tensor<?x?x16xbf16>
  %g:5 = coda.delta_rule_grad %y, %q, %q, %v, %beta, %beta {head_dim = 4 : i64} : (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>, tensor<?x?x16xbf16>, tensor<?x?x4xf32>, tensor<?x?x4xf32>) -> (tensor<?x?x8xbf16>, tensor<?x?x8xbf16>, tensor<?x?x16xbf16>, tensor<?x?x4xf32>, tensor<?x?x4xf32>)
  func.return %y : tensor<?x?x16xbf16>
}

// CHECK:      func.func @f(%q: tensor<?x?x8xbf16>, %v: tensor<?x?x16xbf16>, %beta: tensor<?x?x4xf32>) -> tensor<?x?x16xbf16> {
// CHECK-NEXT:   %y = coda.delta_rule %q, %q, %v, %beta, %beta {head_dim = 4 : i64} : (tensor<?x?x8xbf16>, tensor<?x?x8xbf16>, tensor<?x?x16xbf16>, tensor<?x?x4xf32>, tensor<?x?x4xf32>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:   %g, %g_1, %g_2, %g_3, %g_4 = coda.delta_rule_grad %y, %q, %q, %v, %beta, %beta {head_dim = 4 : i64} : (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>, tensor<?x?x16xbf16>, tensor<?x?x4xf32>, tensor<?x?x4xf32>) -> (tensor<?x?x8xbf16>, tensor<?x?x8xbf16>, tensor<?x?x16xbf16>, tensor<?x?x4xf32>, tensor<?x?x4xf32>)
// CHECK-NEXT:   func.return %y : tensor<?x?x16xbf16>
// CHECK-NEXT:  }

func.func @states(%q: tensor<?x?x8xbf16>, %v: tensor<?x?x16xbf16>, %beta: tensor<?x?x4xf32>, %s: tensor<?x4x4x4xf32>) -> (tensor<?x?x16xf32>, tensor<?x4x4x4xf32>) {
  %y, %last = coda.delta_rule %q, %q, %v, %beta, %beta, %s {head_dim = 4 : i64} : (tensor<?x?x8xbf16>, tensor<?x?x8xbf16>, tensor<?x?x16xbf16>, tensor<?x?x4xf32>, tensor<?x?x4xf32>, tensor<?x4x4x4xf32>) -> (tensor<?x?x16xf32>, tensor<?x4x4x4xf32>)
  func.return %y, %last : tensor<?x?x16xf32>, tensor<?x4x4x4xf32>
}

// CHECK:      func.func @states(%q: tensor<?x?x8xbf16>, %v: tensor<?x?x16xbf16>, %beta: tensor<?x?x4xf32>, %s: tensor<?x4x4x4xf32>) -> (tensor<?x?x16xf32>, tensor<?x4x4x4xf32>) {
// CHECK-NEXT:   %y, %last = coda.delta_rule %q, %q, %v, %beta, %beta, %s {head_dim = 4 : i64} : (tensor<?x?x8xbf16>, tensor<?x?x8xbf16>, tensor<?x?x16xbf16>, tensor<?x?x4xf32>, tensor<?x?x4xf32>, tensor<?x4x4x4xf32>) -> (tensor<?x?x16xf32>, tensor<?x4x4x4xf32>)
// CHECK-NEXT:   func.return %y, %last : tensor<?x?x16xf32>, tensor<?x4x4x4xf32>
// CHECK-NEXT:  }
