"""Tensors by name in `.npz` and `.safetensors` files."""

from collections.abc import Mapping
from io import BytesIO
from lzma import LZMAError
from pathlib import Path
from zipfile import BadZipFile
from zlib import error as ZlibError

import numpy
import torch

from coda_ir.diagnostics import CodaError

SUFFIXES = (".npz", ".safetensors")


DAMAGES = (
    *(ValueError, TypeError, EOFError, BadZipFile, ZlibError, LZMAError),
    *(OSError, RuntimeError, MemoryError),
)
"""The errors that NumPy and zipfile raise for the content of a file: places before its beginning,
methods of compression that do not exist, passwords, shapes beyond the memory.
"""


class TensorFileError(CodaError):
    """A file of another kind, or with damaged content."""


def check_suffix(path: Path) -> None:
    """Raise TensorFileError for a file name with another suffix."""
    if path.suffix not in SUFFIXES:
        raise TensorFileError(
            f"{path}: unknown file type '{path.suffix}'", "pass a .npz or .safetensors file"
        )


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """Read the tensors in a file. Raises TensorFileError, and OSError if it cannot be read."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    check_suffix(path)
    data = path.read_bytes()
    try:
        return _read_npz(data) if path.suffix == ".npz" else load(data)
    except (*DAMAGES, SafetensorError) as error:
        raise TensorFileError(
            f"{path}: {error}", "pass a .npz or .safetensors file of numbers"
        ) from error


def _read_npz(data: bytes) -> dict[str, torch.Tensor]:
    archive = numpy.load(BytesIO(data))
    if isinstance(archive, numpy.ndarray):
        raise ValueError("one array without a name, expected an archive of numpy.savez")
    with archive:
        return {name: torch.as_tensor(archive[name]) for name in archive.files}


def write_tensors(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write tensors to a file; bfloat16 becomes float32 in a .npz, because NumPy lacks it.

    Raises TensorFileError for a file that is named like neither kind, and OSError where it cannot
    be written.
    """
    from safetensors.torch import save

    check_suffix(path)
    # Results may be views of one another, which safetensors refuses.
    dense = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}
    if path.suffix == ".safetensors":
        path.write_bytes(save(dense))
        return
    data = BytesIO()
    # The names are those of parameters, which may be called like a parameter of savez.
    numpy.savez(data, allow_pickle=False, **{n: _as_numpy(t) for n, t in dense.items()})
    path.write_bytes(data.getvalue())


def _as_numpy(tensor: torch.Tensor) -> numpy.ndarray:
    return tensor.float().numpy() if tensor.dtype == torch.bfloat16 else tensor.numpy()
