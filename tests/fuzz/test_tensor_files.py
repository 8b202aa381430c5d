"""Damaged `.safetensors` files: their tensors, or a TensorFileError."""

from pathlib import Path
from random import Random

import torch
from safetensors.torch import save

from coda_ir.tensor_files import TensorFileError, read_tensors

TENSORS = {"x": torch.ones(3, 4), "y": torch.arange(5)}


def damaged(data: bytes, generator: Random) -> bytes:
    """`data` with one to eight bytes changed, removed or added, or cut off."""
    result = bytearray(data)
    for _ in range(generator.choice((1, 1, 2, 4, 8))):
        at = generator.randrange(len(result) + 1)
        match generator.randrange(5):
            case 0:
                result[at : at + 1] = generator.randbytes(1)
            case 1:
                del result[at : at + generator.choice((1, 4, 20))]
            case 2:
                result[at:at] = generator.randbytes(generator.choice((1, 4)))
            case 3:
                del result[at:]
            case _:
                result = result.replace(b"3", generator.choice((b"9" * 12, b"-1", b"0")), 1)
    return bytes(result)


def test_damaged_files_are_explained(tmp_path: Path):
    path, data, refused = tmp_path / "t.safetensors", save(TENSORS), 0
    for seed in range(1000):
        path.write_bytes(damaged(data, Random(seed)))
        try:
            read_tensors(path)
        except TensorFileError as error:
            assert str(path) in str(error)
            refused += 1
    assert refused > 500
