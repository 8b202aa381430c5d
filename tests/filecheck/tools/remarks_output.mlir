// RUN: coda-opt %s -p coda-to-gemm --remarks -o /dev/null 2>&1 | filecheck %s --check-prefix TEXT
// RUN: coda-opt %s -p coda-to-gemm --remarks=json -o /dev/null 2>&1 | filecheck %s --check-prefix JSON
// RUN: coda-opt %s -p coda-to-gemm --remarks=missed --remarks-format=json -o /dev/null 2>&1 | filecheck %s --check-prefix MISSED
// RUN: coda-opt %s -p coda-to-gemm --remarks-filter=^fuse- -o /dev/null 2>&1 | filecheck %s --check-prefix FILTER
// RUN: coda-opt %s -p coda-to-gemm --remarks-output=%t.json --remarks-summary -o /dev/null 2>&1 | filecheck %s --check-prefix SUMMARY
// RUN: coda-opt %s -p coda-to-gemm --remarks=missed --remarks-output=%t.json --remarks-format=text -o /dev/null \
// RUN:   && cat %t.json | filecheck %s --check-prefix FILE

// TEXT: remarks_output.mlir:35:8: remark[missed] defer-norms: coda.rms_norm: {{.+}}; costs 64*M bytes
// TEXT-NEXT: %h = coda.rms_norm
// TEXT-NEXT: ^
// TEXT-NEXT: help: compute the norm's input in the same function
// TEXT-NEXT: remarks_output.mlir:37:8: remark[passed] fuse-pointwise: coda.silu: fused into the epilogue of the GEMM

// FILE: remark[missed] defer-norms: coda.rms_norm:
// FILE-NOT: remark[passed]


// JSON:      {"kind": "missed", "pass": "defer-norms", "operator": "coda.rms_norm", "function": "layer", "message": {{.+}}, "bytes": "64*M", "suggestion": {{.+}}, "location": {"file": {{.+}}, "line": 35, "column": 8}}
// JSON-NEXT: {"kind": "passed", "pass": "fuse-pointwise", "operator": "coda.silu",

// MISSED:     {"kind": "missed",
// MISSED-NOT: {"kind": "passed",

// FILTER-NOT: remark[missed]
// FILTER: remark[passed] fuse-pointwise

// SUMMARY-NOT: remark[
// SUMMARY: 2 remarks: 1 passed, 1 missed
// SUMMARY-NEXT: 1 missed defer-norms
// SUMMARY-NEXT: 1 passed fuse-pointwise

func.func @layer(%x: tensor<?x16xbf16> {coda.dims = ["M", 16]}, %w: tensor<8x16xbf16>)
    -> tensor<?x8xbf16> {
  %h = coda.rms_norm %x {eps = 1.0e-6 : f64} : (tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %a = coda.linear %h, %w : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x8xbf16>
  %y = coda.silu %a : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return %y : tensor<?x8xbf16>
}
