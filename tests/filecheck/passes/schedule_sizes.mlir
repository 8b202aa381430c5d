// RUN: coda-opt %s -p "schedule{target=sm_90 mainloop=tma sizes=\"B=1,T=1\" explain}" --remarks -o /dev/null 2>&1 | filecheck %s --check-prefix ONE
// RUN: coda-opt %s -p "schedule{target=sm_90 mainloop=tma sizes=\"B=2,T=8192\" explain}" --remarks -o /dev/null 2>&1 | filecheck %s --check-prefix MANY
// RUN: coda-opt %s -p "schedule{target=sm_90 mainloop=tma sizes=\"T=1\"}" | filecheck %s --check-prefix UNKNOWN
// RUN: not coda-opt %s -p "schedule{sizes=\"B=x\"}" -o /dev/null 2>&1 | filecheck %s --check-prefix WRONG

// One row: small tiles, so that every processor reads a part of the weight. The table has the best configurations.

// ONE:      schedule: gemm.fused: M x 4096 x 4096: the best of {{[0-9]+}} configurations on sm_90 at 1 x 4096 x 4096, 0.03355 GFLOP, 33.57 MB
// ONE-NEXT:    main loop       tile  warps  stages  group_m  split_k    us  waves   main  epilogue      bound by
// ONE-NEXT: 1        tma   16x32x128      4       5        8        1  {{.*}} 0.97 {{.*}}
// ONE:      4096 in tiles of 16 x 32 x 128

// MANY:      at 16384 x 4096 x 4096, 549.8 GFLOP, 302 MB
// MANY-NEXT: main loop
// MANY-NEXT: 1 {{ *}} tma 128x256x64 {{.*}} 15.52 {{.*}} tensor cores
// MANY:      4096 in tiles of 128 x 256 x 64

// A symbol without a size leaves the number of rows open.

// UNKNOWN: schedule<tma, "128x256x64"

// WRONG: schedule: sizes has 'B=x'
// WRONG:      help: write sizes as "B=2,T=8192"
func.func @f(%x: tensor<?x?x4096xbf16> {coda.name = "x", coda.dims = ["B", "T", 4096]}, %w: tensor<4096x4096xbf16>) -> tensor<?x?x4096xbf16> {
  %z = gemm.fused %x : tensor<?x?x4096xbf16>
    columns(%w : tensor<4096x4096xbf16>)
      -> (tile : tensor<?x?x4096xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return %z : tensor<?x?x4096xbf16>
}
