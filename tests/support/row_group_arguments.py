"""Random arguments of GEMMs whose rows are in groups that end where a test says."""

from collections.abc import Sequence

import torch
from xdsl.dialects.func import FuncOp

from support.kernel_harness import random_arguments

ROWS_OF_X = 9
"""Those that `gemm_programs` gather from."""


def arguments_of_groups(func: FuncOp, rows: int, ends: Sequence[int]) -> list[torch.Tensor]:
    """Arguments by the names that `gemm_programs` gives them: ends, and ids of rows."""
    generator = torch.Generator().manual_seed(rows)
    arguments = random_arguments(func, [rows], generator)
    for index, parameter in enumerate(func.args):
        match parameter.name_hint:
            case "ends":
                arguments[index] = torch.tensor(ends, dtype=torch.int32)
            case "scatter":
                arguments[index] = torch.randperm(rows, generator=generator)
            case "gather" | "ids":
                arguments[index] = torch.randint(ROWS_OF_X, [rows], generator=generator)
            case _:
                pass
    return arguments
