// RUN: coda-opt %s -p expand-quantized-linear,canonicalize,cse,dce --split-input-file | filecheck %s
// RUN: coda-opt %s -p expand-quantized-linear --split-input-file --remarks=passed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// A scale for each row of x and of the weight; two maps share what is quantized.

func.func @rows(%x: tensor<?x?x256xbf16> {coda.dims = ["B", "T", 256 : i64]}, %w: tensor<512x256xf32>, %v: tensor<128x256xbf16>) -> (tensor<?x?x512xbf16>, tensor<?x?x128xf32>) {
  %y = coda.quantized_linear %x, %w : (tensor<?x?x256xbf16>, tensor<512x256xf32>) -> tensor<?x?x512xbf16>
  %z = coda.quantized_linear %x, %v : (tensor<?x?x256xbf16>, tensor<128x256xbf16>) -> tensor<?x?x128xf32>
  func.return %y, %z : tensor<?x?x512xbf16>, tensor<?x?x128xf32>
}

// CHECK:      func.func @rows(%x: tensor<?x?x256xbf16> {coda.dims = ["B", "T", 256 : i64]}, %w: tensor<512x256xf32>, %v: tensor<128x256xbf16>) -> (tensor<?x?x512xbf16>, tensor<?x?x128xf32>) {
// CHECK-NEXT:   %x_1 = coda.cast %x : (tensor<?x?x256xbf16>) -> tensor<?x?x256xf32>
// CHECK-NEXT:   %0 = coda.abs %x_1 : (tensor<?x?x256xf32>) -> tensor<?x?x256xf32>
// CHECK-NEXT:   %1 = coda.reduce %0 {kind = "max"} : (tensor<?x?x256xf32>) -> tensor<?x?x1xf32>
// CHECK-NEXT:   %2 = coda.constant {value = 4.480000e+02 : f64} : tensor<f32>
// CHECK-NEXT:   %3 = coda.constant {value = 1.000000e-12 : f64} : tensor<f32>
// CHECK-NEXT:   %4 = coda.div %1, %2 : (tensor<?x?x1xf32>, tensor<f32>) -> tensor<?x?x1xf32>
// CHECK-NEXT:   %scale = coda.maximum %4, %3 : (tensor<?x?x1xf32>, tensor<f32>) -> tensor<?x?x1xf32>
// CHECK-NEXT:   %5 = coda.abs %w : (tensor<512x256xf32>) -> tensor<512x256xf32>
// CHECK-NEXT:   %6 = coda.reduce %5 {kind = "max"} : (tensor<512x256xf32>) -> tensor<512x1xf32>
// CHECK-NEXT:   %7 = coda.div %6, %2 : (tensor<512x1xf32>, tensor<f32>) -> tensor<512x1xf32>
// CHECK-NEXT:   %scale_1 = coda.maximum %7, %3 : (tensor<512x1xf32>, tensor<f32>) -> tensor<512x1xf32>
// CHECK-NEXT:   %8 = coda.div %x_1, %scale : (tensor<?x?x256xf32>, tensor<?x?x1xf32>) -> tensor<?x?x256xf32>
// CHECK-NEXT:   %quantized = coda.cast %8 : (tensor<?x?x256xf32>) -> tensor<?x?x256xf8E4M3FN>
// CHECK-NEXT:   %9 = coda.div %w, %scale_1 : (tensor<512x256xf32>, tensor<512x1xf32>) -> tensor<512x256xf32>
// CHECK-NEXT:   %quantized_1 = coda.cast %9 : (tensor<512x256xf32>) -> tensor<512x256xf8E4M3FN>
// CHECK-NEXT:   %y = coda.linear %quantized, %quantized_1 : (tensor<?x?x256xf8E4M3FN>, tensor<512x256xf8E4M3FN>) -> tensor<?x?x512xf32>
// CHECK-NEXT:   %scale_2 = coda.reshape %scale_1 : (tensor<512x1xf32>) -> tensor<512xf32>
// CHECK-NEXT:   %y_1 = coda.mul %y, %scale : (tensor<?x?x512xf32>, tensor<?x?x1xf32>) -> tensor<?x?x512xf32>
// CHECK-NEXT:   %y_2 = coda.mul %y_1, %scale_2 : (tensor<?x?x512xf32>, tensor<512xf32>) -> tensor<?x?x512xf32>
// CHECK-NEXT:   %y_3 = coda.cast %y_2 : (tensor<?x?x512xf32>) -> tensor<?x?x512xbf16>
// CHECK-NEXT:   %v_1 = coda.cast %v : (tensor<128x256xbf16>) -> tensor<128x256xf32>
// CHECK-NEXT:   %10 = coda.abs %v_1 : (tensor<128x256xf32>) -> tensor<128x256xf32>
// CHECK-NEXT:   %11 = coda.reduce %10 {kind = "max"} : (tensor<128x256xf32>) -> tensor<128x1xf32>
// CHECK-NEXT:   %12 = coda.div %11, %2 : (tensor<128x1xf32>, tensor<f32>) -> tensor<128x1xf32>
// CHECK-NEXT:   %scale_3 = coda.maximum %12, %3 : (tensor<128x1xf32>, tensor<f32>) -> tensor<128x1xf32>
// CHECK-NEXT:   %13 = coda.div %v_1, %scale_3 : (tensor<128x256xf32>, tensor<128x1xf32>) -> tensor<128x256xf32>
// CHECK-NEXT:   %quantized_2 = coda.cast %13 : (tensor<128x256xf32>) -> tensor<128x256xf8E4M3FN>
// CHECK-NEXT:   %z = coda.linear %quantized, %quantized_2 : (tensor<?x?x256xf8E4M3FN>, tensor<128x256xf8E4M3FN>) -> tensor<?x?x128xf32>
// CHECK-NEXT:   %scale_4 = coda.reshape %scale_3 : (tensor<128x1xf32>) -> tensor<128xf32>
// CHECK-NEXT:   %z_1 = coda.mul %z, %scale : (tensor<?x?x128xf32>, tensor<?x?x1xf32>) -> tensor<?x?x128xf32>
// CHECK-NEXT:   %z_2 = coda.mul %z_1, %scale_4 : (tensor<?x?x128xf32>, tensor<128xf32>) -> tensor<?x?x128xf32>
// CHECK-NEXT:   func.return %y_3, %z_2 : tensor<?x?x512xbf16>, tensor<?x?x128xf32>
// CHECK-NEXT: }

// REMARK: remark[passed] expand-quantized-linear: coda.quantized_linear: became a product of float8 with scales of rows or of blocks

// -----

// The gradient of x: the rows of the weight are columns in memory.

func.func @transposed(%dy: tensor<?x512xbf16> {coda.dims = ["M", 512 : i64]}, %w: tensor<512x256xbf16>) -> tensor<?x256xbf16> {
  %t = coda.transpose %w {perm = [1 : i64, 0 : i64]} : (tensor<512x256xbf16>) -> tensor<256x512xbf16>
  %y = coda.quantized_linear %dy, %t : (tensor<?x512xbf16>, tensor<256x512xbf16>) -> tensor<?x256xbf16>
  func.return %y : tensor<?x256xbf16>
}

// CHECK:      func.func @transposed(%dy: tensor<?x512xbf16> {coda.dims = ["M", 512 : i64]}, %w: tensor<512x256xbf16>) -> tensor<?x256xbf16> {
// CHECK-NEXT:   %t = coda.transpose %w {perm = [1 : i64, 0 : i64]} : (tensor<512x256xbf16>) -> tensor<256x512xbf16>
// CHECK-NEXT:   %dy_1 = coda.cast %dy : (tensor<?x512xbf16>) -> tensor<?x512xf32>
// CHECK-NEXT:   %t_1 = coda.cast %t : (tensor<256x512xbf16>) -> tensor<256x512xf32>
// CHECK-NEXT:   %0 = coda.abs %dy_1 : (tensor<?x512xf32>) -> tensor<?x512xf32>
// CHECK-NEXT:   %1 = coda.reduce %0 {kind = "max"} : (tensor<?x512xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %2 = coda.constant {value = 4.480000e+02 : f64} : tensor<f32>
// CHECK-NEXT:   %3 = coda.constant {value = 1.000000e-12 : f64} : tensor<f32>
// CHECK-NEXT:   %4 = coda.div %1, %2 : (tensor<?x1xf32>, tensor<f32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %scale = coda.maximum %4, %3 : (tensor<?x1xf32>, tensor<f32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %5 = coda.abs %t_1 : (tensor<256x512xf32>) -> tensor<256x512xf32>
// CHECK-NEXT:   %6 = coda.reduce %5 {kind = "max"} : (tensor<256x512xf32>) -> tensor<256x1xf32>
// CHECK-NEXT:   %7 = coda.div %6, %2 : (tensor<256x1xf32>, tensor<f32>) -> tensor<256x1xf32>
// CHECK-NEXT:   %scale_1 = coda.maximum %7, %3 : (tensor<256x1xf32>, tensor<f32>) -> tensor<256x1xf32>
// CHECK-NEXT:   %8 = coda.div %dy_1, %scale : (tensor<?x512xf32>, tensor<?x1xf32>) -> tensor<?x512xf32>
// CHECK-NEXT:   %quantized = coda.cast %8 : (tensor<?x512xf32>) -> tensor<?x512xf8E4M3FN>
// CHECK-NEXT:   %9 = coda.div %t_1, %scale_1 : (tensor<256x512xf32>, tensor<256x1xf32>) -> tensor<256x512xf32>
// CHECK-NEXT:   %quantized_1 = coda.cast %9 : (tensor<256x512xf32>) -> tensor<256x512xf8E4M3FN>
// CHECK-NEXT:   %y = coda.linear %quantized, %quantized_1 : (tensor<?x512xf8E4M3FN>, tensor<256x512xf8E4M3FN>) -> tensor<?x256xf32>
// CHECK-NEXT:   %scale_2 = coda.reshape %scale_1 : (tensor<256x1xf32>) -> tensor<256xf32>
// CHECK-NEXT:   %y_1 = coda.mul %y, %scale : (tensor<?x256xf32>, tensor<?x1xf32>) -> tensor<?x256xf32>
// CHECK-NEXT:   %y_2 = coda.mul %y_1, %scale_2 : (tensor<?x256xf32>, tensor<256xf32>) -> tensor<?x256xf32>
// CHECK-NEXT:   %y_3 = coda.cast %y_2 : (tensor<?x256xf32>) -> tensor<?x256xbf16>
// CHECK-NEXT:   func.return %y_3 : tensor<?x256xbf16>
// CHECK-NEXT: }

// -----

// Blocks, to which zeros are added where a row or a column has a part of one.

func.func @blocks(%x: tensor<?x300xbf16> {coda.dims = ["M", 300 : i64]}, %w: tensor<200x300xbf16>) -> tensor<?x200xbf16> {
  %y = coda.quantized_linear %x, %w {blocks = #coda.blocks<128, 128>} : (tensor<?x300xbf16>, tensor<200x300xbf16>) -> tensor<?x200xbf16>
  func.return %y : tensor<?x200xbf16>
}

// CHECK:      func.func @blocks(%x: tensor<?x300xbf16> {coda.dims = ["M", 300 : i64]}, %w: tensor<200x300xbf16>) -> tensor<?x200xbf16> {
// CHECK-NEXT:   %0 = coda.pad %x {dim = 1 : i64, start = 0 : i64} : (tensor<?x300xbf16>) -> tensor<?x384xbf16>
// CHECK-NEXT:   %1 = coda.reshape %0 {coda.dims = ["M", 3 : i64, 128 : i64]} : (tensor<?x384xbf16>) -> tensor<?x3x128xbf16>
// CHECK-NEXT:   %2 = coda.cast %1 : (tensor<?x3x128xbf16>) -> tensor<?x3x128xf32>
// CHECK-NEXT:   %3 = coda.abs %2 : (tensor<?x3x128xf32>) -> tensor<?x3x128xf32>
// CHECK-NEXT:   %4 = coda.reduce %3 {kind = "max"} : (tensor<?x3x128xf32>) -> tensor<?x3x1xf32>
// CHECK-NEXT:   %5 = coda.constant {value = 4.480000e+02 : f64} : tensor<f32>
// CHECK-NEXT:   %6 = coda.constant {value = 1.000000e-12 : f64} : tensor<f32>
// CHECK-NEXT:   %7 = coda.div %4, %5 : (tensor<?x3x1xf32>, tensor<f32>) -> tensor<?x3x1xf32>
// CHECK-NEXT:   %scale = coda.maximum %7, %6 : (tensor<?x3x1xf32>, tensor<f32>) -> tensor<?x3x1xf32>
// CHECK-NEXT:   %8 = coda.pad %w {dim = 1 : i64, start = 0 : i64} : (tensor<200x300xbf16>) -> tensor<200x384xbf16>
// CHECK-NEXT:   %9 = coda.pad %8 {dim = 0 : i64, start = 0 : i64} : (tensor<200x384xbf16>) -> tensor<256x384xbf16>
// CHECK-NEXT:   %10 = coda.cast %9 : (tensor<256x384xbf16>) -> tensor<256x384xf32>
// CHECK-NEXT:   %11 = coda.reshape %10 : (tensor<256x384xf32>) -> tensor<256x3x128xf32>
// CHECK-NEXT:   %12 = coda.abs %11 : (tensor<256x3x128xf32>) -> tensor<256x3x128xf32>
// CHECK-NEXT:   %13 = coda.reduce %12 {kind = "max"} : (tensor<256x3x128xf32>) -> tensor<256x3x1xf32>
// CHECK-NEXT:   %14 = coda.reshape %13 : (tensor<256x3x1xf32>) -> tensor<256x3xf32>
// CHECK-NEXT:   %15 = coda.transpose %14 {perm = [1 : i64, 0 : i64]} : (tensor<256x3xf32>) -> tensor<3x256xf32>
// CHECK-NEXT:   %16 = coda.reshape %15 : (tensor<3x256xf32>) -> tensor<3x2x128xf32>
// CHECK-NEXT:   %17 = coda.reduce %16 {kind = "max"} : (tensor<3x2x128xf32>) -> tensor<3x2x1xf32>
// CHECK-NEXT:   %18 = coda.reshape %17 : (tensor<3x2x1xf32>) -> tensor<3x2xf32>
// CHECK-NEXT:   %19 = coda.transpose %18 {perm = [1 : i64, 0 : i64]} : (tensor<3x2xf32>) -> tensor<2x3xf32>
// CHECK-NEXT:   %20 = coda.div %19, %5 : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
// CHECK-NEXT:   %scale_1 = coda.maximum %20, %6 : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
// CHECK-NEXT:   %scale_2 = coda.reshape %scale_1 : (tensor<2x3xf32>) -> tensor<2x1x3xf32>
// CHECK-NEXT:   %21 = coda.broadcast %scale_2 : (tensor<2x1x3xf32>) -> tensor<2x128x3xf32>
// CHECK-NEXT:   %22 = coda.reshape %21 : (tensor<2x128x3xf32>) -> tensor<256x3x1xf32>
// CHECK-NEXT:   %23 = coda.div %11, %22 : (tensor<256x3x128xf32>, tensor<256x3x1xf32>) -> tensor<256x3x128xf32>
// CHECK-NEXT:   %quantized = coda.cast %23 : (tensor<256x3x128xf32>) -> tensor<256x3x128xf8E4M3FN>
// CHECK-NEXT:   %24 = coda.div %2, %scale : (tensor<?x3x128xf32>, tensor<?x3x1xf32>) -> tensor<?x3x128xf32>
// CHECK-NEXT:   %quantized_1 = coda.cast %24 : (tensor<?x3x128xf32>) -> tensor<?x3x128xf8E4M3FN>
// CHECK-NEXT:   %quantized_2 = coda.reshape %quantized_1 {coda.dims = ["M", 384 : i64]} : (tensor<?x3x128xf8E4M3FN>) -> tensor<?x384xf8E4M3FN>
// CHECK-NEXT:   %quantized_3 = coda.reshape %quantized : (tensor<256x3x128xf8E4M3FN>) -> tensor<256x384xf8E4M3FN>
// CHECK-NEXT:   %25 = coda.slice %quantized_3 {dim = 0 : i64, start = 0 : i64, stop = 200 : i64} : (tensor<256x384xf8E4M3FN>) -> tensor<200x384xf8E4M3FN>
// CHECK-NEXT:   %scale_3 = coda.reshape %scale {coda.dims = ["M", 3 : i64]} : (tensor<?x3x1xf32>) -> tensor<?x3xf32>
// CHECK-NEXT:   %y = coda.scaled_linear %quantized_2, %25, %scale_3, %scale_1 {blocks = #coda.blocks<128, 128>} : (tensor<?x384xf8E4M3FN>, tensor<200x384xf8E4M3FN>, tensor<?x3xf32>, tensor<2x3xf32>) -> tensor<?x200xf32>
// CHECK-NEXT:   %y_1 = coda.cast %y : (tensor<?x200xf32>) -> tensor<?x200xbf16>
// CHECK-NEXT:   func.return %y_1 : tensor<?x200xbf16>
// CHECK-NEXT: }

// -----

// The gradient of a weight in blocks: neighbours in memory of x are combined first.

func.func @columns(%dy: tensor<2x128x256xbf16>, %x: tensor<2x128x384xbf16>) -> tensor<256x384xbf16> {
  %0 = coda.reshape %dy : (tensor<2x128x256xbf16>) -> tensor<256x256xbf16>
  %1 = coda.transpose %0 {perm = [1 : i64, 0 : i64]} : (tensor<256x256xbf16>) -> tensor<256x256xbf16>
  %2 = coda.reshape %x : (tensor<2x128x384xbf16>) -> tensor<256x384xbf16>
  %3 = coda.transpose %2 {perm = [1 : i64, 0 : i64]} : (tensor<256x384xbf16>) -> tensor<384x256xbf16>
  %y = coda.quantized_linear %1, %3 {blocks = #coda.blocks<128, 128>} : (tensor<256x256xbf16>, tensor<384x256xbf16>) -> tensor<256x384xbf16>
  func.return %y : tensor<256x384xbf16>
}

// CHECK:      func.func @columns(%dy: tensor<2x128x256xbf16>, %x: tensor<2x128x384xbf16>) -> tensor<256x384xbf16> {
// CHECK-NEXT:   %0 = coda.reshape %dy : (tensor<2x128x256xbf16>) -> tensor<256x256xbf16>
// CHECK-NEXT:   %1 = coda.transpose %0 {perm = [1 : i64, 0 : i64]} : (tensor<256x256xbf16>) -> tensor<256x256xbf16>
// CHECK-NEXT:   %2 = coda.reshape %x : (tensor<2x128x384xbf16>) -> tensor<256x384xbf16>
// CHECK-NEXT:   %3 = coda.transpose %2 {perm = [1 : i64, 0 : i64]} : (tensor<256x384xbf16>) -> tensor<384x256xbf16>
// CHECK-NEXT:   %4 = coda.reshape %1 : (tensor<256x256xbf16>) -> tensor<256x2x128xbf16>
// CHECK-NEXT:   %5 = coda.cast %4 : (tensor<256x2x128xbf16>) -> tensor<256x2x128xf32>
// CHECK-NEXT:   %6 = coda.abs %5 : (tensor<256x2x128xf32>) -> tensor<256x2x128xf32>
// CHECK-NEXT:   %7 = coda.reduce %6 {kind = "max"} : (tensor<256x2x128xf32>) -> tensor<256x2x1xf32>
// CHECK-NEXT:   %8 = coda.constant {value = 4.480000e+02 : f64} : tensor<f32>
// CHECK-NEXT:   %9 = coda.constant {value = 1.000000e-12 : f64} : tensor<f32>
// CHECK-NEXT:   %10 = coda.div %7, %8 : (tensor<256x2x1xf32>, tensor<f32>) -> tensor<256x2x1xf32>
// CHECK-NEXT:   %scale = coda.maximum %10, %9 : (tensor<256x2x1xf32>, tensor<f32>) -> tensor<256x2x1xf32>
// CHECK-NEXT:   %11 = coda.cast %3 : (tensor<384x256xbf16>) -> tensor<384x256xf32>
// CHECK-NEXT:   %x_1 = coda.reshape %x : (tensor<2x128x384xbf16>) -> tensor<2x128x3x128xbf16>
// CHECK-NEXT:   %x_2 = coda.cast %x_1 : (tensor<2x128x3x128xbf16>) -> tensor<2x128x3x128xf32>
// CHECK-NEXT:   %12 = coda.abs %x_2 : (tensor<2x128x3x128xf32>) -> tensor<2x128x3x128xf32>
// CHECK-NEXT:   %13 = coda.reduce %12 {kind = "max"} : (tensor<2x128x3x128xf32>) -> tensor<2x128x3x1xf32>
// CHECK-NEXT:   %14 = coda.reshape %13 : (tensor<2x128x3x1xf32>) -> tensor<256x3xf32>
// CHECK-NEXT:   %15 = coda.transpose %14 {perm = [1 : i64, 0 : i64]} : (tensor<256x3xf32>) -> tensor<3x256xf32>
// CHECK-NEXT:   %16 = coda.reshape %15 : (tensor<3x256xf32>) -> tensor<3x2x128xf32>
// CHECK-NEXT:   %17 = coda.reduce %16 {kind = "max"} : (tensor<3x2x128xf32>) -> tensor<3x2x1xf32>
// CHECK-NEXT:   %18 = coda.div %17, %8 : (tensor<3x2x1xf32>, tensor<f32>) -> tensor<3x2x1xf32>
// CHECK-NEXT:   %scale_1 = coda.maximum %18, %9 : (tensor<3x2x1xf32>, tensor<f32>) -> tensor<3x2x1xf32>
// CHECK-NEXT:   %scale_2 = coda.reshape %scale_1 : (tensor<3x2x1xf32>) -> tensor<3x2xf32>
// CHECK-NEXT:   %scale_3 = coda.reshape %scale_1 : (tensor<3x2x1xf32>) -> tensor<3x1x2xf32>
// CHECK-NEXT:   %19 = coda.broadcast %scale_3 : (tensor<3x1x2xf32>) -> tensor<3x128x2xf32>
// CHECK-NEXT:   %20 = coda.reshape %11 : (tensor<384x256xf32>) -> tensor<384x2x128xf32>
// CHECK-NEXT:   %21 = coda.reshape %19 : (tensor<3x128x2xf32>) -> tensor<384x2x1xf32>
// CHECK-NEXT:   %22 = coda.div %20, %21 : (tensor<384x2x128xf32>, tensor<384x2x1xf32>) -> tensor<384x2x128xf32>
// CHECK-NEXT:   %quantized = coda.cast %22 : (tensor<384x2x128xf32>) -> tensor<384x2x128xf8E4M3FN>
// CHECK-NEXT:   %23 = coda.div %5, %scale : (tensor<256x2x128xf32>, tensor<256x2x1xf32>) -> tensor<256x2x128xf32>
// CHECK-NEXT:   %quantized_1 = coda.cast %23 : (tensor<256x2x128xf32>) -> tensor<256x2x128xf8E4M3FN>
// CHECK-NEXT:   %quantized_2 = coda.reshape %quantized_1 : (tensor<256x2x128xf8E4M3FN>) -> tensor<256x256xf8E4M3FN>
// CHECK-NEXT:   %quantized_3 = coda.reshape %quantized : (tensor<384x2x128xf8E4M3FN>) -> tensor<384x256xf8E4M3FN>
// CHECK-NEXT:   %scale_4 = coda.reshape %scale : (tensor<256x2x1xf32>) -> tensor<256x2xf32>
// CHECK-NEXT:   %y = coda.scaled_linear %quantized_2, %quantized_3, %scale_4, %scale_2 {blocks = #coda.blocks<128, 128>} : (tensor<256x256xf8E4M3FN>, tensor<384x256xf8E4M3FN>, tensor<256x2xf32>, tensor<3x2xf32>) -> tensor<256x384xf32>
// CHECK-NEXT:   %y_1 = coda.cast %y : (tensor<256x384xf32>) -> tensor<256x384xbf16>
// CHECK-NEXT:   func.return %y_1 : tensor<256x384xbf16>
// CHECK-NEXT: }

// -----

// A permutation that moves nothing leaves rows where they are.

func.func @kept(%x: tensor<16x64xbf16>, %w: tensor<64x64xf32>) -> tensor<16x64xf32> {
  %t = coda.transpose %w {perm = [0 : i64, 1 : i64]} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %y = coda.quantized_linear %x, %t {blocks = #coda.blocks<32, 32>} : (tensor<16x64xbf16>, tensor<64x64xf32>) -> tensor<16x64xf32>
  func.return %y : tensor<16x64xf32>
}

// CHECK:      func.func @kept(%x: tensor<16x64xbf16>, %w: tensor<64x64xf32>) -> tensor<16x64xf32> {
// CHECK-NEXT:   %x_1 = coda.reshape %x : (tensor<16x64xbf16>) -> tensor<16x2x32xbf16>
// CHECK-NEXT:   %x_2 = coda.cast %x_1 : (tensor<16x2x32xbf16>) -> tensor<16x2x32xf32>
// CHECK-NEXT:   %0 = coda.abs %x_2 : (tensor<16x2x32xf32>) -> tensor<16x2x32xf32>
// CHECK-NEXT:   %1 = coda.reduce %0 {kind = "max"} : (tensor<16x2x32xf32>) -> tensor<16x2x1xf32>
// CHECK-NEXT:   %2 = coda.constant {value = 4.480000e+02 : f64} : tensor<f32>
// CHECK-NEXT:   %3 = coda.constant {value = 1.000000e-12 : f64} : tensor<f32>
// CHECK-NEXT:   %4 = coda.div %1, %2 : (tensor<16x2x1xf32>, tensor<f32>) -> tensor<16x2x1xf32>
// CHECK-NEXT:   %scale = coda.maximum %4, %3 : (tensor<16x2x1xf32>, tensor<f32>) -> tensor<16x2x1xf32>
// CHECK-NEXT:   %t = coda.reshape %w : (tensor<64x64xf32>) -> tensor<64x2x32xf32>
// CHECK-NEXT:   %5 = coda.abs %t : (tensor<64x2x32xf32>) -> tensor<64x2x32xf32>
// CHECK-NEXT:   %6 = coda.reduce %5 {kind = "max"} : (tensor<64x2x32xf32>) -> tensor<64x2x1xf32>
// CHECK-NEXT:   %7 = coda.reshape %6 : (tensor<64x2x1xf32>) -> tensor<64x2xf32>
// CHECK-NEXT:   %8 = coda.transpose %7 {perm = [1 : i64, 0 : i64]} : (tensor<64x2xf32>) -> tensor<2x64xf32>
// CHECK-NEXT:   %9 = coda.reshape %8 : (tensor<2x64xf32>) -> tensor<2x2x32xf32>
// CHECK-NEXT:   %10 = coda.reduce %9 {kind = "max"} : (tensor<2x2x32xf32>) -> tensor<2x2x1xf32>
// CHECK-NEXT:   %11 = coda.reshape %10 : (tensor<2x2x1xf32>) -> tensor<2x2xf32>
// CHECK-NEXT:   %12 = coda.transpose %11 {perm = [1 : i64, 0 : i64]} : (tensor<2x2xf32>) -> tensor<2x2xf32>
// CHECK-NEXT:   %13 = coda.div %12, %2 : (tensor<2x2xf32>, tensor<f32>) -> tensor<2x2xf32>
// CHECK-NEXT:   %scale_1 = coda.maximum %13, %3 : (tensor<2x2xf32>, tensor<f32>) -> tensor<2x2xf32>
// CHECK-NEXT:   %scale_2 = coda.reshape %scale_1 : (tensor<2x2xf32>) -> tensor<2x1x2xf32>
// CHECK-NEXT:   %14 = coda.broadcast %scale_2 : (tensor<2x1x2xf32>) -> tensor<2x32x2xf32>
// CHECK-NEXT:   %15 = coda.reshape %14 : (tensor<2x32x2xf32>) -> tensor<64x2x1xf32>
// CHECK-NEXT:   %16 = coda.div %t, %15 : (tensor<64x2x32xf32>, tensor<64x2x1xf32>) -> tensor<64x2x32xf32>
// CHECK-NEXT:   %quantized = coda.cast %16 : (tensor<64x2x32xf32>) -> tensor<64x2x32xf8E4M3FN>
// CHECK-NEXT:   %17 = coda.div %x_2, %scale : (tensor<16x2x32xf32>, tensor<16x2x1xf32>) -> tensor<16x2x32xf32>
// CHECK-NEXT:   %quantized_1 = coda.cast %17 : (tensor<16x2x32xf32>) -> tensor<16x2x32xf8E4M3FN>
// CHECK-NEXT:   %quantized_2 = coda.reshape %quantized_1 : (tensor<16x2x32xf8E4M3FN>) -> tensor<16x64xf8E4M3FN>
// CHECK-NEXT:   %quantized_3 = coda.reshape %quantized : (tensor<64x2x32xf8E4M3FN>) -> tensor<64x64xf8E4M3FN>
// CHECK-NEXT:   %scale_3 = coda.reshape %scale : (tensor<16x2x1xf32>) -> tensor<16x2xf32>
// CHECK-NEXT:   %y = coda.scaled_linear %quantized_2, %quantized_3, %scale_3, %scale_1 {blocks = #coda.blocks<32, 32>} : (tensor<16x64xf8E4M3FN>, tensor<64x64xf8E4M3FN>, tensor<16x2xf32>, tensor<2x2xf32>) -> tensor<16x64xf32>
// CHECK-NEXT:   func.return %y : tensor<16x64xf32>
// CHECK-NEXT: }

// -----

// Both products with a weight use the same largest elements of blocks.

func.func @both_ways(%x: tensor<16x64xf32>, %dy: tensor<16x32xf32>, %w: tensor<32x64xf32>) -> (tensor<16x32xf32>, tensor<16x64xf32>) {
  %y = coda.quantized_linear %x, %w {blocks = #coda.blocks<32, 32>} : (tensor<16x64xf32>, tensor<32x64xf32>) -> tensor<16x32xf32>
  %t = coda.transpose %w {perm = [1 : i64, 0 : i64]} : (tensor<32x64xf32>) -> tensor<64x32xf32>
  %dx = coda.quantized_linear %dy, %t {blocks = #coda.blocks<32, 32>} : (tensor<16x32xf32>, tensor<64x32xf32>) -> tensor<16x64xf32>
  func.return %y, %dx : tensor<16x32xf32>, tensor<16x64xf32>
}

// CHECK:      func.func @both_ways(
// CHECK-NEXT:   %x_1 = coda.reshape %x : (tensor<16x64xf32>) -> tensor<16x2x32xf32>
// CHECK-NEXT:   %0 = coda.abs %x_1 : (tensor<16x2x32xf32>) -> tensor<16x2x32xf32>
// CHECK-NEXT:   %1 = coda.reduce %0 {kind = "max"} : (tensor<16x2x32xf32>) -> tensor<16x2x1xf32>
// CHECK-NEXT:   %2 = coda.constant {value = 4.480000e+02 : f64} : tensor<f32>
// CHECK-NEXT:   %3 = coda.constant {value = 1.000000e-12 : f64} : tensor<f32>
// CHECK-NEXT:   %4 = coda.div %1, %2 : (tensor<16x2x1xf32>, tensor<f32>) -> tensor<16x2x1xf32>
// CHECK-NEXT:   %scale = coda.maximum %4, %3 : (tensor<16x2x1xf32>, tensor<f32>) -> tensor<16x2x1xf32>
// CHECK-NEXT:   %w_1 = coda.reshape %w : (tensor<32x64xf32>) -> tensor<32x2x32xf32>
// CHECK-NEXT:   %5 = coda.abs %w_1 : (tensor<32x2x32xf32>) -> tensor<32x2x32xf32>
// CHECK-NEXT:   %6 = coda.reduce %5 {kind = "max"} : (tensor<32x2x32xf32>) -> tensor<32x2x1xf32>
// CHECK-NEXT:   %7 = coda.reshape %6 : (tensor<32x2x1xf32>) -> tensor<32x2xf32>
// CHECK-NEXT:   %8 = coda.transpose %7 {perm = [1 : i64, 0 : i64]} : (tensor<32x2xf32>) -> tensor<2x32xf32>
// CHECK-NEXT:   %9 = coda.reshape %8 : (tensor<2x32xf32>) -> tensor<2x1x32xf32>
// CHECK-NEXT:   %10 = coda.reduce %9 {kind = "max"} : (tensor<2x1x32xf32>) -> tensor<2x1x1xf32>
// CHECK-NEXT:   %11 = coda.reshape %10 : (tensor<2x1x1xf32>) -> tensor<2x1xf32>
// CHECK-NEXT:   %12 = coda.transpose %11 {perm = [1 : i64, 0 : i64]} : (tensor<2x1xf32>) -> tensor<1x2xf32>
// CHECK-NEXT:   %13 = coda.div %12, %2 : (tensor<1x2xf32>, tensor<f32>) -> tensor<1x2xf32>
// CHECK-NEXT:   %scale_1 = coda.maximum %13, %3 : (tensor<1x2xf32>, tensor<f32>) -> tensor<1x2xf32>
// CHECK-NEXT:   %scale_2 = coda.reshape %scale_1 : (tensor<1x2xf32>) -> tensor<1x1x2xf32>
// CHECK-NEXT:   %14 = coda.broadcast %scale_2 : (tensor<1x1x2xf32>) -> tensor<1x32x2xf32>
// CHECK-NEXT:   %15 = coda.reshape %14 : (tensor<1x32x2xf32>) -> tensor<32x2x1xf32>
// CHECK-NEXT:   %16 = coda.div %w_1, %15 : (tensor<32x2x32xf32>, tensor<32x2x1xf32>) -> tensor<32x2x32xf32>
// CHECK-NEXT:   %quantized = coda.cast %16 : (tensor<32x2x32xf32>) -> tensor<32x2x32xf8E4M3FN>
// CHECK-NEXT:   %17 = coda.div %x_1, %scale : (tensor<16x2x32xf32>, tensor<16x2x1xf32>) -> tensor<16x2x32xf32>
// CHECK-NEXT:   %quantized_1 = coda.cast %17 : (tensor<16x2x32xf32>) -> tensor<16x2x32xf8E4M3FN>
// CHECK-NEXT:   %quantized_2 = coda.reshape %quantized_1 : (tensor<16x2x32xf8E4M3FN>) -> tensor<16x64xf8E4M3FN>
// CHECK-NEXT:   %quantized_3 = coda.reshape %quantized : (tensor<32x2x32xf8E4M3FN>) -> tensor<32x64xf8E4M3FN>
// CHECK-NEXT:   %scale_3 = coda.reshape %scale : (tensor<16x2x1xf32>) -> tensor<16x2xf32>
// CHECK-NEXT:   %y = coda.scaled_linear %quantized_2, %quantized_3, %scale_3, %scale_1 {blocks = #coda.blocks<32, 32>} : (tensor<16x64xf8E4M3FN>, tensor<32x64xf8E4M3FN>, tensor<16x2xf32>, tensor<1x2xf32>) -> tensor<16x32xf32>
// CHECK-NEXT:   %t = coda.transpose %w {perm = [1 : i64, 0 : i64]} : (tensor<32x64xf32>) -> tensor<64x32xf32>
// CHECK-NEXT:   %dy_1 = coda.reshape %dy : (tensor<16x32xf32>) -> tensor<16x1x32xf32>
// CHECK-NEXT:   %18 = coda.abs %dy_1 : (tensor<16x1x32xf32>) -> tensor<16x1x32xf32>
// CHECK-NEXT:   %19 = coda.reduce %18 {kind = "max"} : (tensor<16x1x32xf32>) -> tensor<16x1x1xf32>
// CHECK-NEXT:   %20 = coda.div %19, %2 : (tensor<16x1x1xf32>, tensor<f32>) -> tensor<16x1x1xf32>
// CHECK-NEXT:   %scale_4 = coda.maximum %20, %3 : (tensor<16x1x1xf32>, tensor<f32>) -> tensor<16x1x1xf32>
// CHECK-NEXT:   %21 = coda.div %10, %2 : (tensor<2x1x1xf32>, tensor<f32>) -> tensor<2x1x1xf32>
// CHECK-NEXT:   %scale_5 = coda.maximum %21, %3 : (tensor<2x1x1xf32>, tensor<f32>) -> tensor<2x1x1xf32>
// CHECK-NEXT:   %scale_6 = coda.reshape %scale_5 : (tensor<2x1x1xf32>) -> tensor<2x1xf32>
// CHECK-NEXT:   %22 = coda.broadcast %scale_5 : (tensor<2x1x1xf32>) -> tensor<2x32x1xf32>
// CHECK-NEXT:   %t_1 = coda.reshape %t : (tensor<64x32xf32>) -> tensor<64x1x32xf32>
// CHECK-NEXT:   %23 = coda.reshape %22 : (tensor<2x32x1xf32>) -> tensor<64x1x1xf32>
// CHECK-NEXT:   %24 = coda.div %t_1, %23 : (tensor<64x1x32xf32>, tensor<64x1x1xf32>) -> tensor<64x1x32xf32>
// CHECK-NEXT:   %quantized_4 = coda.cast %24 : (tensor<64x1x32xf32>) -> tensor<64x1x32xf8E4M3FN>
// CHECK-NEXT:   %25 = coda.div %dy_1, %scale_4 : (tensor<16x1x32xf32>, tensor<16x1x1xf32>) -> tensor<16x1x32xf32>
// CHECK-NEXT:   %quantized_5 = coda.cast %25 : (tensor<16x1x32xf32>) -> tensor<16x1x32xf8E4M3FN>
// CHECK-NEXT:   %quantized_6 = coda.reshape %quantized_5 : (tensor<16x1x32xf8E4M3FN>) -> tensor<16x32xf8E4M3FN>
// CHECK-NEXT:   %quantized_7 = coda.reshape %quantized_4 : (tensor<64x1x32xf8E4M3FN>) -> tensor<64x32xf8E4M3FN>
// CHECK-NEXT:   %scale_7 = coda.reshape %scale_4 : (tensor<16x1x1xf32>) -> tensor<16x1xf32>
// CHECK-NEXT:   %dx = coda.scaled_linear %quantized_6, %quantized_7, %scale_7, %scale_6 {blocks = #coda.blocks<32, 32>} : (tensor<16x32xf8E4M3FN>, tensor<64x32xf8E4M3FN>, tensor<16x1xf32>, tensor<2x1xf32>) -> tensor<16x64xf32>
// CHECK-NEXT:   func.return %y, %dx : tensor<16x32xf32>, tensor<16x64xf32>
// CHECK-NEXT: }

// -----

// The rows of the first weight are padded for its blocks, which are not those of the second.

func.func @other_blocks(%x: tensor<?x64xbf16>, %w: tensor<64x64xbf16>) -> (tensor<?x64xbf16>, tensor<?x64xbf16>) {
  %y = coda.quantized_linear %x, %w {blocks = #coda.blocks<64, 128>} : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16>
  %t = coda.transpose %w {perm = [1 : i64, 0 : i64]} : (tensor<64x64xbf16>) -> tensor<64x64xbf16>
  %z = coda.quantized_linear %x, %t {blocks = #coda.blocks<64, 64>} : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16>
  func.return %y, %z : tensor<?x64xbf16>, tensor<?x64xbf16>
}

// CHECK:      func.func @other_blocks(
// CHECK-NEXT:   %x_1 = coda.reshape %x {coda.dims = ["?", 1 : i64, 64 : i64]} : (tensor<?x64xbf16>) -> tensor<?x1x64xbf16>
// CHECK-NEXT:   %x_2 = coda.cast %x_1 : (tensor<?x1x64xbf16>) -> tensor<?x1x64xf32>
// CHECK-NEXT:   %0 = coda.abs %x_2 : (tensor<?x1x64xf32>) -> tensor<?x1x64xf32>
// CHECK-NEXT:   %1 = coda.reduce %0 {kind = "max"} : (tensor<?x1x64xf32>) -> tensor<?x1x1xf32>
// CHECK-NEXT:   %2 = coda.constant {value = 4.480000e+02 : f64} : tensor<f32>
// CHECK-NEXT:   %3 = coda.constant {value = 1.000000e-12 : f64} : tensor<f32>
// CHECK-NEXT:   %4 = coda.div %1, %2 : (tensor<?x1x1xf32>, tensor<f32>) -> tensor<?x1x1xf32>
// CHECK-NEXT:   %scale = coda.maximum %4, %3 : (tensor<?x1x1xf32>, tensor<f32>) -> tensor<?x1x1xf32>
// CHECK-NEXT:   %5 = coda.pad %w {dim = 0 : i64, start = 0 : i64} : (tensor<64x64xbf16>) -> tensor<128x64xbf16>
// CHECK-NEXT:   %6 = coda.cast %5 : (tensor<128x64xbf16>) -> tensor<128x64xf32>
// CHECK-NEXT:   %7 = coda.reshape %6 : (tensor<128x64xf32>) -> tensor<128x1x64xf32>
// CHECK-NEXT:   %8 = coda.abs %7 : (tensor<128x1x64xf32>) -> tensor<128x1x64xf32>
// CHECK-NEXT:   %9 = coda.reduce %8 {kind = "max"} : (tensor<128x1x64xf32>) -> tensor<128x1x1xf32>
// CHECK-NEXT:   %10 = coda.reshape %9 : (tensor<128x1x1xf32>) -> tensor<128x1xf32>
// CHECK-NEXT:   %11 = coda.transpose %10 {perm = [1 : i64, 0 : i64]} : (tensor<128x1xf32>) -> tensor<1x128xf32>
// CHECK-NEXT:   %12 = coda.reshape %11 : (tensor<1x128xf32>) -> tensor<1x1x128xf32>
// CHECK-NEXT:   %13 = coda.reduce %12 {kind = "max"} : (tensor<1x1x128xf32>) -> tensor<1x1x1xf32>
// CHECK-NEXT:   %14 = coda.reshape %13 : (tensor<1x1x1xf32>) -> tensor<1x1xf32>
// CHECK-NEXT:   %15 = coda.transpose %14 {perm = [1 : i64, 0 : i64]} : (tensor<1x1xf32>) -> tensor<1x1xf32>
// CHECK-NEXT:   %16 = coda.div %15, %2 : (tensor<1x1xf32>, tensor<f32>) -> tensor<1x1xf32>
// CHECK-NEXT:   %scale_1 = coda.maximum %16, %3 : (tensor<1x1xf32>, tensor<f32>) -> tensor<1x1xf32>
// CHECK-NEXT:   %scale_2 = coda.reshape %scale_1 : (tensor<1x1xf32>) -> tensor<1x1x1xf32>
// CHECK-NEXT:   %17 = coda.broadcast %scale_2 : (tensor<1x1x1xf32>) -> tensor<1x128x1xf32>
// CHECK-NEXT:   %18 = coda.reshape %17 : (tensor<1x128x1xf32>) -> tensor<128x1x1xf32>
// CHECK-NEXT:   %19 = coda.div %7, %18 : (tensor<128x1x64xf32>, tensor<128x1x1xf32>) -> tensor<128x1x64xf32>
// CHECK-NEXT:   %quantized = coda.cast %19 : (tensor<128x1x64xf32>) -> tensor<128x1x64xf8E4M3FN>
// CHECK-NEXT:   %20 = coda.div %x_2, %scale : (tensor<?x1x64xf32>, tensor<?x1x1xf32>) -> tensor<?x1x64xf32>
// CHECK-NEXT:   %quantized_1 = coda.cast %20 : (tensor<?x1x64xf32>) -> tensor<?x1x64xf8E4M3FN>
// CHECK-NEXT:   %quantized_2 = coda.reshape %quantized_1 {coda.dims = ["?", 64 : i64]} : (tensor<?x1x64xf8E4M3FN>) -> tensor<?x64xf8E4M3FN>
// CHECK-NEXT:   %quantized_3 = coda.reshape %quantized : (tensor<128x1x64xf8E4M3FN>) -> tensor<128x64xf8E4M3FN>
// CHECK-NEXT:   %21 = coda.slice %quantized_3 {dim = 0 : i64, start = 0 : i64, stop = 64 : i64} : (tensor<128x64xf8E4M3FN>) -> tensor<64x64xf8E4M3FN>
// CHECK-NEXT:   %scale_3 = coda.reshape %scale {coda.dims = ["?", 1 : i64]} : (tensor<?x1x1xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %y = coda.scaled_linear %quantized_2, %21, %scale_3, %scale_1 {blocks = #coda.blocks<64, 128>} : (tensor<?x64xf8E4M3FN>, tensor<64x64xf8E4M3FN>, tensor<?x1xf32>, tensor<1x1xf32>) -> tensor<?x64xf32>
// CHECK-NEXT:   %y_1 = coda.cast %y : (tensor<?x64xf32>) -> tensor<?x64xbf16>
// CHECK-NEXT:   %t = coda.transpose %w {perm = [1 : i64, 0 : i64]} : (tensor<64x64xbf16>) -> tensor<64x64xbf16>
// CHECK-NEXT:   %t_1 = coda.cast %t : (tensor<64x64xbf16>) -> tensor<64x64xf32>
// CHECK-NEXT:   %w_1 = coda.reshape %w : (tensor<64x64xbf16>) -> tensor<64x1x64xbf16>
// CHECK-NEXT:   %w_2 = coda.cast %w_1 : (tensor<64x1x64xbf16>) -> tensor<64x1x64xf32>
// CHECK-NEXT:   %22 = coda.abs %w_2 : (tensor<64x1x64xf32>) -> tensor<64x1x64xf32>
// CHECK-NEXT:   %23 = coda.reduce %22 {kind = "max"} : (tensor<64x1x64xf32>) -> tensor<64x1x1xf32>
// CHECK-NEXT:   %24 = coda.reshape %23 : (tensor<64x1x1xf32>) -> tensor<64x1xf32>
// CHECK-NEXT:   %25 = coda.transpose %24 {perm = [1 : i64, 0 : i64]} : (tensor<64x1xf32>) -> tensor<1x64xf32>
// CHECK-NEXT:   %26 = coda.reshape %25 : (tensor<1x64xf32>) -> tensor<1x1x64xf32>
// CHECK-NEXT:   %27 = coda.reduce %26 {kind = "max"} : (tensor<1x1x64xf32>) -> tensor<1x1x1xf32>
// CHECK-NEXT:   %28 = coda.div %27, %2 : (tensor<1x1x1xf32>, tensor<f32>) -> tensor<1x1x1xf32>
// CHECK-NEXT:   %scale_4 = coda.maximum %28, %3 : (tensor<1x1x1xf32>, tensor<f32>) -> tensor<1x1x1xf32>
// CHECK-NEXT:   %scale_5 = coda.reshape %scale_4 : (tensor<1x1x1xf32>) -> tensor<1x1xf32>
// CHECK-NEXT:   %29 = coda.broadcast %scale_4 : (tensor<1x1x1xf32>) -> tensor<1x64x1xf32>
// CHECK-NEXT:   %t_2 = coda.reshape %t_1 : (tensor<64x64xf32>) -> tensor<64x1x64xf32>
// CHECK-NEXT:   %30 = coda.reshape %29 : (tensor<1x64x1xf32>) -> tensor<64x1x1xf32>
// CHECK-NEXT:   %31 = coda.div %t_2, %30 : (tensor<64x1x64xf32>, tensor<64x1x1xf32>) -> tensor<64x1x64xf32>
// CHECK-NEXT:   %quantized_4 = coda.cast %31 : (tensor<64x1x64xf32>) -> tensor<64x1x64xf8E4M3FN>
// CHECK-NEXT:   %quantized_5 = coda.reshape %quantized_4 : (tensor<64x1x64xf8E4M3FN>) -> tensor<64x64xf8E4M3FN>
// CHECK-NEXT:   %z = coda.scaled_linear %quantized_2, %quantized_5, %scale_3, %scale_5 {blocks = #coda.blocks<64, 64>} : (tensor<?x64xf8E4M3FN>, tensor<64x64xf8E4M3FN>, tensor<?x1xf32>, tensor<1x1xf32>) -> tensor<?x64xf32>
// CHECK-NEXT:   %z_1 = coda.cast %z : (tensor<?x64xf32>) -> tensor<?x64xbf16>
// CHECK-NEXT:   func.return %y_1, %z_1 : tensor<?x64xbf16>, tensor<?x64xbf16>
// CHECK-NEXT: }
