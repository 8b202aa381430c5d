"""Faults of kernels whose programs share the K of a tile."""

from faults.fault import KernelFault

T = "coda_ir.backends.triton."

SPLIT_FAULTS = (
    KernelFault(
        "split: steps of K are left out",
        f"{T}prelude:_HELPERS[depths_of_split]",
        "tl.cdiv(tl.cdiv(K, BLOCK_K), SPLIT_K)",
        "tl.cdiv(K, BLOCK_K) // SPLIT_K",
    ),
    KernelFault(
        "split: the last part of K goes past the end",
        f"{T}prelude:_HELPERS[depths_of_split]",
        "tl.minimum(first + extent, K)",
        "first + extent",
    ),
    KernelFault(
        "split: the last program but one of a tile takes itself for the last one",
        f"{T}prelude:_HELPERS[is_last_of_tile]",
        "== SPLIT_K - 1",
        "== SPLIT_K - 2",
    ),
    KernelFault(
        "split: counters are not left as zeros",
        f"{T}prelude:_HELPERS[is_last_of_tile]",
        "tl.store(counter, 0)",
        "pass",
    ),
    KernelFault(
        "split: the sums of the second program are left out",
        f"{T}prelude:_HELPERS[sum_of_partials]",
        "tl.static_range(1, SPLIT_K)",
        "tl.static_range(2, SPLIT_K)",
    ),
    KernelFault(
        "split: both columns of a pair have the first sums",
        f"{T}split_k:SplitK._places",
        "partials + {i * size}",
        "partials",
    ),
    KernelFault(
        "split: room for the sums of one program of a tile",
        f"{T}split_k:workspace",
        "{shared.programs * shared.elements}",
        "{shared.elements}",
    ),
    KernelFault(
        "split: a program for each tile only",
        f"{T}gemm_kernel:_GemmEmitter._grid",
        "if self.split is None else",
        "if True else",
    ),
)
