"""Random arguments of GEMMs whose rows are in groups that end where a test says."""

from collections.abc import Sequence

import torch

from support.kernel_harness import function_of, parse_module, random_arguments

ROWS_OF_X = 9
"""Those that `gemm_programs` gather from."""


def arguments_of_groups(text: str, rows: int, ends: Sequence[int]) -> list[torch.Tensor]:
    """Arguments by the names that `gemm_programs` gives them: ends, and ids of rows."""
    func, generator = function_of(parse_module(text)), torch.Generator().manual_seed(rows)
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
