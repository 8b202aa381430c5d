// RUN: coda-opt %s -p drop-detach | filecheck %s

// Results and chains lose their marks, too.

func.func @gate(%x: tensor<?x8xbf16>) -> (tensor<?x8xbf16>, tensor<?x8xbf16>) {
  %a = coda.detach %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %y = coda.mul %x, %a : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %b = coda.detach %y : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %c = coda.detach %b : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return %y, %c : tensor<?x8xbf16>, tensor<?x8xbf16>
}

// CHECK:      func.func @gate(%x: tensor<?x8xbf16>) -> (tensor<?x8xbf16>, tensor<?x8xbf16>) {
// CHECK-NEXT:   %y = coda.mul %x, %x : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   func.return %y, %y : tensor<?x8xbf16>, tensor<?x8xbf16>
// CHECK-NEXT: }
