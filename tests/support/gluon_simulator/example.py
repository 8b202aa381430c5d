"""A kernel as it is emitted for a Hopper GPU: GEMM, residual, scale, sums of squares by row.

Two partitions multiply and write, one loads. The numbers that are constants of the kernel (N, K)
are literals, as in emitted modules.
"""

RESIDUAL_GEMM = '''\
import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor


@gluon.jit
def grouped_tile(program, tiles_m, tiles_n: gl.constexpr, GROUP_M: gl.constexpr):
    first = program // (GROUP_M * tiles_n) * GROUP_M
    rows = gl.minimum(tiles_m - first, GROUP_M)
    within = program % (GROUP_M * tiles_n)
    return first + within % rows, within // rows


@gluon.jit
def split_columns(x, SUBTILES: gl.constexpr):
    """The columns of x in SUBTILES equal tiles."""
    if SUBTILES == 1:
        return (x,)
    else:
        halves = gl.permute(gl.reshape(x, (x.shape[0], 2, x.shape[1] // 2)), (0, 2, 1))
        first, second = gl.split(halves)
        return split_columns(first, SUBTILES // 2) + split_columns(second, SUBTILES // 2)


@gluon.jit
def producer(a_desc, w_desc, a_smem, b_smem, full, empty, M, tiles, N: gl.constexpr,
             K: gl.constexpr, STAGES: gl.constexpr):
    step = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        tile_m, tile_n = grouped_tile(tile, gl.cdiv(M, 128), N // 256, 8)
        for k in range(0, K, 64):
            stage = step % STAGES
            mbarrier.wait(empty.index(stage), ((step // STAGES) & 1) ^ 1)
            mbarrier.expect(full.index(stage), a_desc.block_type.nbytes + w_desc.block_type.nbytes)
            tma.async_copy_global_to_shared(
                a_desc, [tile_m * 128, k], full.index(stage), a_smem.index(stage))
            tma.async_copy_global_to_shared(
                w_desc, [tile_n * 256, k], full.index(stage), b_smem.index(stage))
            step += 1


@gluon.jit
def multiply(a_smem, b_smem, full, empty, step, WG: gl.constexpr, K: gl.constexpr,
             STAGES: gl.constexpr):
    L: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, 256, 16])
    acc = gl.zeros((64, 256), gl.float32, L)
    for k in range(0, K, 64):
        stage = step % STAGES
        mbarrier.wait(full.index(stage), (step // STAGES) & 1)
        a = a_smem.index(stage).slice(WG * 64, 64)
        b = b_smem.index(stage).permute((1, 0))
        acc = warpgroup_mma(a, b, acc, is_async=True)
        acc = warpgroup_mma_wait(num_outstanding=1, deps=(acc,))
        # The step before this one is done: its stage is free. The first one frees nothing.
        mbarrier.arrive(empty.index((step + STAGES - 1) % STAGES), pred=k > 0)
        step += 1
    acc = warpgroup_mma_wait(num_outstanding=0, deps=(acc,))
    mbarrier.arrive(empty.index((step + STAGES - 1) % STAGES))
    return acc, step


@gluon.jit
def consumer(a_smem, b_smem, full, empty, x_desc, x_buffers, x_bars, out_buffers, y_desc, h_desc,
             scale_ptr, sums_ptr, M, tiles, WG: gl.constexpr, N: gl.constexpr, K: gl.constexpr,
             STAGES: gl.constexpr, OUTS: gl.constexpr):
    SUBTILES: gl.constexpr = 4
    INS: gl.constexpr = 2
    step = 0
    uses = 0
    stored = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        tile_m, tile_n = grouped_tile(tile, gl.cdiv(M, 128), N // 256, 8)
        row0 = tile_m * 128 + WG * 64
        for subtile in gl.static_range(INS):
            mbarrier.expect(x_bars.index(subtile), x_desc.block_type.nbytes)
            tma.async_copy_global_to_shared(
                x_desc, [row0, tile_n * 256 + subtile * 64], x_bars.index(subtile),
                x_buffers.index(subtile))
        acc, step = multiply(a_smem, b_smem, full, empty, step, WG, K, STAGES)
        subtiles = split_columns(acc, SUBTILES)
        L: gl.constexpr = subtiles[0].type.layout
        rows = row0 + gl.arange(0, 64, gl.SliceLayout(1, L))
        row_mask = rows < M
        for subtile in gl.static_range(SUBTILES):
            column = tile_n * 256 + subtile * 64 + gl.arange(0, 64, gl.SliceLayout(0, L))
            buffer = subtile % INS
            mbarrier.wait(x_bars.index(buffer), (uses + subtile // INS) & 1)
            x = x_buffers.index(buffer).load(L).to(gl.float32)
            if subtile + INS < SUBTILES:
                mbarrier.expect(x_bars.index(buffer), x_desc.block_type.nbytes)
                tma.async_copy_global_to_shared(
                    x_desc, [row0, tile_n * 256 + (subtile + INS) * 64], x_bars.index(buffer),
                    x_buffers.index(buffer))
            scale = gl.load(scale_ptr + column)[None, :].to(gl.float32)
            y = x + subtiles[subtile]
            tma.store_wait(OUTS - 1)
            out = out_buffers.index(stored % OUTS)
            out.store(y.to(gl.bfloat16))
            fence_async_shared()
            tma.async_copy_shared_to_global(y_desc, [row0, tile_n * 256 + subtile * 64], out)
            stored += 1
            tma.store_wait(OUTS - 1)
            out = out_buffers.index(stored % OUTS)
            out.store((y * scale).to(gl.bfloat16))
            fence_async_shared()
            tma.async_copy_shared_to_global(h_desc, [row0, tile_n * 256 + subtile * 64], out)
            stored += 1
            place = rows.to(gl.int64) * (N // 64) + tile_n * SUBTILES + subtile
            gl.store(sums_ptr + place, gl.sum(y * y, 1), mask=row_mask)
        uses += SUBTILES // INS
    tma.store_wait(0)


@gluon.jit(do_not_specialize=["M"])
def residual_gemm(a_desc, w_desc, x_desc, y_desc, h_desc, scale_ptr, sums_ptr, M):
    N: gl.constexpr = 512
    K: gl.constexpr = 256
    STAGES: gl.constexpr = 3
    OUTS: gl.constexpr = 3
    tiles = gl.cdiv(M, 128) * (N // 256)
    a_smem = gl.allocate_shared_memory(gl.bfloat16, [STAGES, 128, 64], a_desc.layout)
    b_smem = gl.allocate_shared_memory(gl.bfloat16, [STAGES, 256, 64], w_desc.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    x_buffers0 = gl.allocate_shared_memory(gl.bfloat16, [2, 64, 64], x_desc.layout)
    x_buffers1 = gl.allocate_shared_memory(gl.bfloat16, [2, 64, 64], x_desc.layout)
    x_bars0 = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    x_bars1 = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    out0 = gl.allocate_shared_memory(gl.bfloat16, [OUTS, 64, 64], y_desc.layout)
    out1 = gl.allocate_shared_memory(gl.bfloat16, [OUTS, 64, 64], y_desc.layout)
    for stage in gl.static_range(STAGES):
        mbarrier.init(full.index(stage), count=1)
        mbarrier.init(empty.index(stage), count=2)
    for buffer in gl.static_range(2):
        mbarrier.init(x_bars0.index(buffer), count=1)
        mbarrier.init(x_bars1.index(buffer), count=1)
    fence_async_shared()
    gl.warp_specialize([
        (consumer, (a_smem, b_smem, full, empty, x_desc, x_buffers0, x_bars0, out0, y_desc, h_desc,
                    scale_ptr, sums_ptr, M, tiles, 0, N, K, STAGES, OUTS)),
        (consumer, (a_smem, b_smem, full, empty, x_desc, x_buffers1, x_bars1, out1, y_desc, h_desc,
                    scale_ptr, sums_ptr, M, tiles, 1, N, K, STAGES, OUTS)),
        (producer, (a_desc, w_desc, a_smem, b_smem, full, empty, M, tiles, N, K, STAGES)),
    ], [4, 1], [240, 24])


def described(x, rows):
    layout = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)
    return TensorDescriptor.from_tensor(x, [rows, 64], layout)


def run(a, w, x, scale):
    """y = a wᵀ + x, h = y scale in bfloat16, and the sums of y² over 64 columns in float32."""
    y, h = torch.empty_like(x), torch.empty_like(x)
    sums = torch.empty(x.shape[0], x.shape[1] // 64)
    programs = torch.cuda.get_device_properties(a.device).multi_processor_count
    residual_gemm[(programs,)](
        described(a, 128), described(w, 256), described(x, 64), described(y, 64),
        described(h, 64), scale, sums, a.shape[0], num_warps=4)
    return y, h, sums
'''
