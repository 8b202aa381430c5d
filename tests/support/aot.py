"""Compiles emitted kernels ahead of time, without a GPU: registers, spills, shared memory.

Compilation needs Triton without its interpreter, which the tests turn on before the import: it
runs in a process of its own (this file as a script, a request in JSON on stdin).
"""

import dataclasses
import importlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coda_ir.backends.triton.kernel import EmittedKernel

TARGETS = ("sm_80", "sm_90", "gfx942")
SHARED_MEMORY = {"sm_80": 163 * 1024, "sm_90": 227 * 1024, "gfx942": 64 * 1024}


@dataclasses.dataclass(frozen=True)
class CompiledKernel:
    name: str
    target: str
    registers: int
    spills: int
    """Bytes of stack (NVIDIA), or spilled vector registers (AMD)."""
    shared: int
    """Bytes of shared memory."""

    @property
    def fits(self) -> bool:
        return self.shared <= SHARED_MEMORY[self.target]


def compile_kernels(
    source: str, kernels: "Sequence[EmittedKernel]", targets: Sequence[str] = TARGETS
) -> list[CompiledKernel]:
    """Compile the kernels of the module `source` for each target; raises on a failure."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "emitted_module.py"
        path.write_text(source)
        request = {
            "path": str(path),
            "targets": list(targets),
            "kernels": [
                {
                    "name": kernel.name,
                    "arguments": [(a.name, a.type) for a in kernel.arguments],
                    "options": {"num_warps": kernel.num_warps, "num_stages": kernel.num_stages},
                }
                for kernel in kernels
            ],
        }
        environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
        done = subprocess.run(
            [sys.executable, __file__],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            env=environment,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"ahead-of-time compilation failed:\n{done.stderr[-4000:]}")
    return [CompiledKernel(**entry) for entry in json.loads(done.stdout.splitlines()[-1])]


def _compile_all(request: dict[str, Any]) -> list[dict[str, Any]]:
    spec = importlib.util.spec_from_file_location("emitted_module", request["path"])
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [
        dataclasses.asdict(_compile(getattr(module, kernel["name"]), kernel, target))
        for kernel in request["kernels"]
        for target in request["targets"]
    ]


def _compile(function: Any, kernel: dict[str, Any], target: str) -> CompiledKernel:
    # Triton has no type information; imported here, because the tests' process has another one.
    triton: Any = importlib.import_module("triton")
    compiler: Any = importlib.import_module("triton.compiler")
    backends: Any = importlib.import_module("triton.backends.compiler")
    arguments = kernel["arguments"]
    aligned = {
        (index,): [["tt.divisibility", 16]]
        for index, (_, type) in enumerate(arguments)
        if type.startswith("*")
    }
    source = compiler.ASTSource(function, dict(arguments), {}, aligned)
    is_amd = target.startswith("gfx")
    gpu = ("hip", target, 64) if is_amd else ("cuda", int(target[3:]), 32)
    compiled = triton.compile(source, target=backends.GPUTarget(*gpu), options=kernel["options"])
    usage = _amd_usage(compiled.asm["amdgcn"]) if is_amd else _nvidia_usage(compiled.asm["cubin"])
    return CompiledKernel(kernel["name"], target, *usage, shared=compiled.metadata.shared)


def _nvidia_usage(cubin: bytes) -> tuple[int, int]:
    """Registers per thread and bytes of stack, which are spills: kernels have no local arrays."""
    triton: Any = importlib.import_module("triton")
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        text = subprocess.run(
            [tool, "-res-usage", file.name], capture_output=True, text=True, check=True
        ).stdout
    match = re.search(r"REG:(\d+) STACK:(\d+)", text)
    assert match is not None, text
    return int(match[1]), int(match[2])


def _amd_usage(assembly: str) -> tuple[int, int]:
    registers = re.search(r"\.vgpr_count:\s+(\d+)", assembly)
    spills = re.search(r"\.vgpr_spill_count:\s+(\d+)", assembly)
    assert registers is not None and spills is not None
    return int(registers[1]), int(spills[1])


if __name__ == "__main__":
    print(json.dumps(_compile_all(json.load(sys.stdin))))
