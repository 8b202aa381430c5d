// RUN: coda-opt %s --split-input-file --verify-diagnostics

func.func @callee(%x: tensor<8xf32>) {
  // expected-error@below {{property callee is "cumsum", expected namespace.operator.overload such as "aten.cumsum.default"}}
  %y = torch.call "cumsum"(%x) {arguments = "{0}"} : (tensor<8xf32>) -> tensor<8xf32>
  func.return
}

// -----

func.func @literal(%x: tensor<8xf32>) {
  // expected-error@below {{property arguments: argument 'open('a')' is not a literal, an operand such as {0}, a symbol or a torch constant}}
  %y = torch.call "aten.cumsum.default"(%x) {arguments = "{0}, open('a')"} : (tensor<8xf32>) -> tensor<8xf32>
  func.return
}

// -----

func.func @number(%x: tensor<8xf32>) {
  // expected-error@below {{property arguments names operand 1, expected 0 to 0}}
  %y = torch.call "aten.cumsum.default"(%x) {arguments = "{0}, {1}"} : (tensor<8xf32>) -> tensor<8xf32>
  func.return
}

// -----

func.func @unused(%x: tensor<8xf32>) {
  // expected-error@below {{operand 0 is not in property arguments, expected every operand there}}
  %y = torch.call "aten.cumsum.default"(%x) {arguments = "1, 2"} : (tensor<8xf32>) -> tensor<8xf32>
  func.return
}
