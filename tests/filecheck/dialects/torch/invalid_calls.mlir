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
  // expected-error@below {{property arguments has {1}, but the last operand is {0}}}
  %y = torch.call "aten.cumsum.default"(%x) {arguments = "{0}, {1}"} : (tensor<8xf32>) -> tensor<8xf32>
  func.return
}

// -----

func.func @unused(%x: tensor<8xf32>) {
  // expected-error@below {{operand 0 is not in property arguments, expected every operand there}}
  %y = torch.call "aten.cumsum.default"(%x) {arguments = "1, 2"} : (tensor<8xf32>) -> tensor<8xf32>
  func.return
}

// -----

func.func @order(%x: tensor<8xf32>) {
  // expected-error@below {{property wrt is [1, 0], expected increasing numbers below 2}}
  %a, %b = torch.vjp "aten.mul.Tensor"(%x, %x : tensor<8xf32>, tensor<8xf32>) of(%x : tensor<8xf32>) {arguments = "{0}, {1}", of = [0], wrt = [1, 0]} -> tensor<8xf32>, tensor<8xf32>
  func.return
}

// -----

func.func @range(%x: tensor<8xf32>) {
  // expected-error@below {{property wrt is [1], expected increasing numbers below 1}}
  %a = torch.vjp "aten.exp.default"(%x : tensor<8xf32>) of(%x : tensor<8xf32>) {arguments = "{0}", of = [0], wrt = [1]} -> tensor<8xf32>
  func.return
}

// -----

func.func @count(%x: tensor<8xf32>) {
  // expected-error@below {{property of has 2 numbers, expected 1, one for each gradient of a result}}
  %a = torch.vjp "aten.exp.default"(%x : tensor<8xf32>) of(%x : tensor<8xf32>) {arguments = "{0}", of = [0, 1], wrt = [0]} -> tensor<8xf32>
  func.return
}

// -----

func.func @nothing(%x: tensor<8xf32>) {
  // expected-error@below {{property wrt is empty, expected at least one number}}
  %a = torch.vjp "aten.exp.default"(%x : tensor<8xf32>) of(%x : tensor<8xf32>) {arguments = "{0}", of = [0], wrt = []} -> tensor<8xf32>
  func.return
}

// -----

func.func @type(%x: tensor<8xf32>) {
  // expected-error@below {{a result has type tensor<4xf32>, expected tensor<8xf32>, that of input 0}}
  %a = torch.vjp "aten.exp.default"(%x : tensor<8xf32>) of(%x : tensor<8xf32>) {arguments = "{0}", of = [0], wrt = [0]} -> tensor<4xf32>
  func.return
}

// -----

func.func @twice(%x: tensor<8xf32>) {
  // expected-error@below {{expected a call with a variant in place that has its first operand as the first argument only, and one result, of its type}}
  %y = torch.call "aten.add.Tensor"(%x) {arguments = "{0}, {0}", in_place} : (tensor<8xf32>) -> tensor<8xf32>
  func.return
}
