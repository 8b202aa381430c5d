"""Faults of kernels whose programs share the K of a tile."""

from faults.fault import KernelFault, Nth, Text

T = "coda_ir.backends.triton."

SPLIT_FAULTS = (
    KernelFault(
        "split: steps of K are left out",
        f"{T}prelude:_HELPERS[depths_of_split]",
        Text("tl.cdiv(tl.cdiv(K, BLOCK_K), SPLIT_K)", "tl.cdiv(K, BLOCK_K) // SPLIT_K"),
    ),
    KernelFault(
        "split: the last part of K goes past the end",
        f"{T}prelude:_HELPERS[depths_of_split]",
        Nth("keep", "minimum", 1),
    ),
    KernelFault(
        "split: the last program but one of a tile takes itself for the last one",
        f"{T}prelude:_HELPERS[is_last_of_tile]",
        Nth("constant", "Constant", 3),
    ),
    KernelFault(
        "split: counters are not left as zeros",
        f"{T}prelude:_HELPERS[is_last_of_tile]",
        Nth("drop", "store"),
    ),
    KernelFault(
        "split: the sums of the second program are left out",
        f"{T}prelude:_HELPERS[sum_of_partials]",
        Nth("constant", "Constant", 8),
    ),
    KernelFault(
        "split: both columns of a pair have the first sums",
        f"{T}split_k:SplitK._places",
        Nth("keep", "Add"),
    ),
    KernelFault(
        "split: room for the sums of one program of a tile",
        f"{T}split_k:workspace",
        Nth("keep", "Mult", 1),
    ),
    KernelFault(
        "split: a program for each tile only",
        f"{T}gemm_kernel:_GemmEmitter._grid",
        Nth("always", "Is"),
    ),
)
