"""The worker: compiles kernels of modules ahead of time, each in a separate process (see
`compiler.py`).

Triton decides when it is imported whether it compiles or interprets, which is why this is a
script. It imports next to nothing of CODA IR, so that it starts fast.
"""

import importlib
import importlib.util
import re
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from coda_ir.launching.compile_worker import prepare
from coda_ir.launching.forked import Request, serve

TEXTS = {"ttir": "ttir", "ttgir": "ttgir", "llvm": "llir", "ptx": "ptx", "amdgcn": "amdgcn"}
"""Level -> Triton's name of its text."""


def begin(request: Request) -> None:
    """Prepare Triton for the target of a request, and load its module before the forks."""
    prepare(tuple(request["target"]))
    _load(request["module"])


def compile_kernel(request: Request) -> dict[str, Any]:
    """Return the resources of a kernel, and its text at the requested level (or "")."""
    # Triton has no type information.
    triton: Any = importlib.import_module("triton")
    arguments = request["arguments"]
    aligned = {
        (index,): [["tt.divisibility", 16]]
        for index, (name, type) in enumerate(arguments)
        if type.startswith("*") or name == "PITCH"
    }
    function = getattr(_load(request["module"]), request["name"])
    # The kernel then knows how Triton takes it: of Triton's own language or of Gluon.
    function.create_binder()
    source = function.ASTSource(function, dict(arguments), {}, aligned)
    target = triton.runtime.driver.active.get_current_target()
    compiled = triton.compile(source, target=target, options=request["options"])
    is_amd = "amdgcn" in compiled.asm
    usage = _amd_usage(compiled.asm["amdgcn"]) if is_amd else _nvidia_usage(compiled.asm["cubin"])
    return {
        "registers": usage[0],
        "spills": usage[1],
        "shared_memory": compiled.metadata.shared,
        "warps": compiled.metadata.num_warps,
        "stages": compiled.metadata.num_stages,
        "text": _text(compiled.asm, request["level"]),
    }


@cache
def _load(path: str) -> Any:
    spec = importlib.util.spec_from_file_location("emitted_module", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _text(asm: Any, level: str | None) -> str:
    if level is None:
        return ""
    return _nvidia_tool("nvdisasm", "-c", asm["cubin"]) if level == "sass" else asm[TEXTS[level]]


def _nvidia_tool(tool: str, option: str, cubin: bytes) -> str:
    """Return the output of a tool in Triton's wheel for machine code."""
    triton: Any = importlib.import_module("triton")
    path = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / tool
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        return subprocess.run(
            [path, option, file.name], capture_output=True, text=True, check=True
        ).stdout


def _nvidia_usage(cubin: bytes) -> tuple[int, int]:
    """Return the registers and bytes of stack per thread."""
    text = _nvidia_tool("cuobjdump", "-res-usage", cubin)
    match = re.search(r"REG:(\d+) STACK:(\d+)", text)
    assert match is not None, text
    return int(match[1]), int(match[2])


def _amd_usage(assembly: str) -> tuple[int, int]:
    """Return the vector registers and bytes of scratch memory per thread."""
    registers = re.search(r"\.vgpr_count:\s+(\d+)", assembly)
    scratch = re.search(r"\.private_segment_fixed_size:\s+(\d+)", assembly)
    assert registers is not None and scratch is not None
    return int(registers[1]), int(scratch[1])


if __name__ == "__main__":
    serve(compile_kernel, begin)
