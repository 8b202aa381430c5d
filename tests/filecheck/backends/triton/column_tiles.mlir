// RUN: coda-opt %s -t triton | filecheck %s

// A tile of single positions is read in the window that has them.

func.func @f(%window: tensor<?x64x4xbf16> {coda.name = "window", coda.dims = ["B", 64, 4]}, %x: tensor<?x64xbf16> {coda.name = "x", coda.dims = ["B", 64]}) -> tensor<?x64xbf16> {
  %position = coda.slice %window {dim = 2 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<?x64x4xbf16>) -> tensor<?x64x1xbf16>
  %tile = coda.reshape %position {coda.dims = ["B", 64]} : (tensor<?x64x1xbf16>) -> tensor<?x64xbf16>
  %y = coda.mul %tile, %x : (tensor<?x64xbf16>, tensor<?x64xbf16>) -> tensor<?x64xbf16>
  func.return %y : tensor<?x64xbf16>
}

// CHECK:     tile = tl.load(tile_ptr + (row[:, None] * 64 + column[None, :]) * 4 + 1).to(tl.float32)
// CHECK:     mul[((B + 31) // 32,)](
// CHECK-NEXT:         window,
