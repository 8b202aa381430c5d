"""Models that are distributed over two processes, compiled with the backend: the numbers of one."""

import copy
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from faults.runner import start_server

from coda_ir.frontends.torch.dynamo import coda

PROCESSES = 2

Model = Any
"""A module, which PyTorch changes in place."""


class Block(torch.nn.Module):
    """A norm, and an MLP with a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.RMSNorm(16)
        self.up = torch.nn.Linear(16, 32)
        self.down = torch.nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


def compiled(model: Model) -> Model:
    compile_model: Any = getattr(torch, "compile")  # noqa: B009  (it has no complete type)
    return compile_model(model, backend=coda, options={"target": "reference", "errors": "raise"})


def tensor_parallel(model: Model, mesh: Any) -> Model:
    parallel = import_module("torch.distributed.tensor.parallel")
    plan = {"up": parallel.ColwiseParallel(), "down": parallel.RowwiseParallel()}
    for block in model:
        parallel.parallelize_module(block, mesh, plan)
    return compiled(model)


def sharded(model: Model, mesh: Any) -> Model:
    """Shard a model by FSDP2, with each block compiled."""
    fully_shard = import_module("torch.distributed.fsdp").fully_shard
    for block in model:
        block.compile(backend=coda, options={"target": "reference", "errors": "raise"})
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def replicated(model: Model, mesh: Any) -> Model:
    parallel: Any = import_module("torch.nn.parallel")
    return compiled(parallel.DistributedDataParallel(model))


WAYS: Mapping[str, Callable[[Model, Any], Model]] = {
    "tensor parallel": tensor_parallel,
    "FSDP2": sharded,
    "DDP": replicated,
}


def step(model: Model, x: torch.Tensor) -> list[torch.Tensor]:
    """The result, and the gradients of all parameters, whole."""
    result = model(x)
    result.square().sum().backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    return [result, *(g.full_tensor() if hasattr(g, "full_tensor") else g for g in gradients)]


def work(rank: int, store: str) -> None:
    distributed: Any = import_module("torch.distributed")
    distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=PROCESSES
    )
    mesh = import_module("torch.distributed.device_mesh").init_device_mesh("cpu", (PROCESSES,))
    torch.default_generator.manual_seed(0)
    model = torch.nn.Sequential(Block(), Block())
    x = torch.randn(4, 16)
    expected = step(copy.deepcopy(model), x)
    for name, distribute in WAYS.items():
        # All processes have the same rows, so that means of gradients are the gradients.
        found = step(distribute(copy.deepcopy(model), mesh), x)
        for index, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
            try:
                torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
            except AssertionError as error:
                raise AssertionError(f"{name}, tensor {index}: {error}") from None
    distributed.destroy_process_group()


@pytest.mark.slow
def test_numbers_are_those_of_one_process(tmp_path: Path) -> None:
    """All ways in the same two processes, which take longer to start than to compute."""
    processes: Any = import_module("torch.multiprocessing")
    # They are copies of one that has imported what they need.
    start_server()
    arguments = (str(tmp_path / "store"),)
    processes.start_processes(work, arguments, PROCESSES, start_method="forkserver")
