// RUN: coda-opt %s -p differentiate | filecheck %s --check-prefix=SAVE
// RUN: coda-opt %s -p differentiate --remarks -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK
// RUN: coda-opt %s -p "differentiate{recompute=y}" | filecheck %s --check-prefix=AGAIN

// The backward of attention needs what it gave, and the logsumexp of its scores: one number for each
// query and head. Both are saved, unless attention is told to run again.

func.func @attend(%x: tensor<?x?x16xbf16> {coda.name = "x", coda.dims = ["B", "T", 16]}, %w: tensor<8x16xbf16> {coda.name = "w", coda.dims = [8, 16]}) -> (tensor<?x?x8xbf16> {coda.name = "z", coda.dims = ["B", "T", 8]}) {
  %y = coda.attention %x, %x, %x {head_dim = 8 : i64, causal = true} : (tensor<?x?x16xbf16>, tensor<?x?x16xbf16>, tensor<?x?x16xbf16>) -> tensor<?x?x16xbf16>
  %z = coda.linear %y, %w : (tensor<?x?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x?x8xbf16>
  func.return %z : tensor<?x?x8xbf16>
}

// SAVE:      func.func @attend_forward(
// SAVE:        %y, %y_lse = coda.attention %x, %x, %x {head_dim = 8 : i64, causal = true} : (tensor<?x?x16xbf16>, tensor<?x?x16xbf16>, tensor<?x?x16xbf16>) -> tensor<?x?x16xbf16> lse tensor<?x2x?xf32>
// SAVE-NEXT:   %z = coda.linear %y, %w
// SAVE-NEXT:   func.return %z, %y, %y_lse : tensor<?x?x8xbf16>, tensor<?x?x16xbf16>, tensor<?x2x?xf32>
// SAVE:      func.func @attend_backward(
// SAVE-NOT:    coda.attention %
// SAVE:        %d_x, %d_x_1, %d_x_2 = coda.attention_grad %d_y, %y, %y_lse, %x, %x, %x {head_dim = 8 : i64, causal = true}

// REMARK: remark[analysis] save-or-recompute: coda.attention: %y is saved for the backward; costs 32*B*T bytes
// REMARK: remark[analysis] save-or-recompute: coda.attention: %y_lse is saved for the backward; costs 8*B*T bytes
// REMARK: remark[analysis] save-or-recompute: func.func: attend saves 2 values of 40*B*T bytes

// AGAIN:      func.func @attend_forward(
// AGAIN:        %y = coda.attention %x, %x, %x
// AGAIN-NOT:    lse
// AGAIN:        func.return %z : tensor<?x?x8xbf16>
// AGAIN:      func.func @attend_backward(
// AGAIN:        %y, %y_lse = coda.attention %x, %x, %x {head_dim = 8 : i64, causal = true} : (tensor<?x?x16xbf16>, tensor<?x?x16xbf16>, tensor<?x?x16xbf16>) -> tensor<?x?x16xbf16> lse tensor<?x2x?xf32>
// AGAIN:        %d_x, %d_x_1, %d_x_2 = coda.attention_grad %d_y, %y, %y_lse, %x, %x, %x {head_dim = 8 : i64, causal = true}
