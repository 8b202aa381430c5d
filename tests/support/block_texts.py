"""Programs of `.coda` that call the blocks of the standard library."""

import re
from dataclasses import replace

from support.block_references import HEAD
from support.standard_blocks import BLOCKS, ROTARY, Block

FLOAT32 = ("cos", "sin", "balance")
"""Parameters of f32, as scales are; those whose names end in 8 are float8, all others bf16."""

FIRST = {block.file: name for name, block in reversed(BLOCKS.items())}
"""The first function of each file."""


def element_of(name: str) -> str:
    if name == "ids":
        return "i64"
    if name in FLOAT32 or name.endswith("scale"):
        return "f32"
    return "f8e4m3" if name.endswith("8") else "bf16"


def program(name: str, block: Block) -> str:
    """A function `f` that calls a block with its parameters."""

    def parameter(name: str, dims: str) -> str:
        return f"{'weight ' * name.startswith('w')}{name}: {element_of(name)}[{dims}]"

    parameters = ", ".join(parameter(*item) for item in block.parameters.items())
    arguments = ", ".join(filter(None, [*block.parameters, block.options]))
    call = block.call or f"{name.split('.')[1].split()[0]}({arguments})"
    body = f"{block.statements}\nreturn {call}"
    return f'import "std/{block.file}.coda"\nfn f({parameters}) {{\n{body}\n}}\n'


_ROTARY_WIDE = f"T, {8 * HEAD // 2}"


def widened(block: Block) -> Block:
    """Return the block with eight times the widths: its rows take several tiles of a GEMM.

    Numbers below 24 other than the size of a head count something.
    """
    parameters = {
        name: block.wide.get(name) or (_ROTARY_WIDE if dims == ROTARY["cos"] else _wide(dims))
        for name, dims in block.parameters.items()
    }
    return replace(block, parameters=parameters, options=_wide(block.options))


def _wide(text: str) -> str:
    def times_eight(number: re.Match[str]) -> str:
        value = int(number[0])
        return str(8 * value if value >= 24 or value == HEAD else value)

    return re.sub(r"\b\d+\b", times_eight, text)
