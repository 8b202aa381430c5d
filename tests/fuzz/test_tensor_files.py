"""Damaged `.npz` and `.safetensors` files: their tensors, or a TensorFileError."""

import io
from pathlib import Path
from random import Random
from zipfile import ZipFile

import numpy
import pytest
import torch
from safetensors.torch import save

from coda_ir.tensor_files import TensorFileError, read_tensors

ARRAYS = {"x": numpy.ones((3, 4), numpy.float32), "y": numpy.arange(5)}


def stored(suffix: str) -> bytes:
    if suffix == ".safetensors":
        return save({name: torch.as_tensor(array) for name, array in ARRAYS.items()})
    stream = io.BytesIO()
    numpy.savez(stream, allow_pickle=False, **ARRAYS)
    return stream.getvalue()


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


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_damaged_files_are_explained(suffix: str, tmp_path: Path):
    path, data, refused = tmp_path / f"t{suffix}", stored(suffix), 0
    for seed in range(1000):
        path.write_bytes(damaged(data, Random(seed)))
        try:
            read_tensors(path)
        except TensorFileError as error:
            assert str(path) in str(error)
            refused += 1
    assert refused > 500


def test_shape_beyond_the_memory(tmp_path: Path):
    header = "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999,), }"
    array = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()
    with ZipFile(tmp_path / "t.npz", "w") as archive:
        archive.writestr("x.npy", array)
    with pytest.raises(TensorFileError):
        read_tensors(tmp_path / "t.npz")
