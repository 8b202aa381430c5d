"""The text of the host functions `run` and `run_boxed`."""

from __future__ import annotations

from collections.abc import Sequence

from coda_ir.backends.triton.host.program import HostProgram
from coda_ir.backends.triton.host.text import unpacked, wrapped
from coda_ir.backends.triton.kernel import definition, indented


def render_run(host: HostProgram) -> str:
    """`run`, behind the function `run_boxed` that it calls where the program is boxed."""
    parameters = host.arguments.parameters
    header = definition("run", parameters)
    if not host.is_boxed:
        device = f"{parameters[0]}.device" if parameters else 'torch.device("cpu")'
        body = _body(host, _device_guard(parameters), [f"device = {device}"])
        return "\n".join([*header, *indented(body)])
    summary = "`run` of a list of its arguments, which is emptied: the caller holds none of them."
    unused = [f"del {', '.join(host.unused)}"] if host.unused else []
    body = [f'"""{summary}"""', *_body(host, _boxed_head(parameters), unused)]
    boxed = ["def run_boxed(arguments):", *indented(body)]
    call = wrapped([f"return run_boxed([{', '.join(parameters)}])"])
    return "\n".join([*boxed, "", "", *header, *indented(call)])


def _device_guard(parameters: Sequence[str]) -> list[str]:
    if not parameters:
        return []
    first = parameters[0]
    return [
        f"if {first}.is_cuda and {first}.device.index != torch.cuda.current_device():",
        f"    with torch.cuda.device({first}.device):",
        f"        return run({', '.join(parameters)})",
    ]


def _boxed_head(parameters: Sequence[str]) -> list[str]:
    """The first tensor tells the device while the list has it; nothing holds them but names."""
    return [
        "device = arguments[0].device",
        'if device.type == "cuda" and device.index != torch.cuda.current_device():',
        "    with torch.cuda.device(device):",
        "        return run_boxed(arguments)",
        *unpacked(parameters, "arguments"),
        "arguments.clear()",
    ]


def _body(host: HostProgram, head: Sequence[str], begin: Sequence[str]) -> list[str]:
    """The statements, with `begin` behind those that take symbols from shapes."""
    arguments = [*head, *host.arguments.shape_lines(), *begin]
    stream = ["stream = direct_stream(device)"] if host.kernels.functions.sources else []
    prepared = [*stream, *host.packs, *host.arguments.dense_lines()]
    return wrapped([*arguments, *prepared, *host.lines], limit=96)
