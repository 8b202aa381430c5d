"""Tensors by name in `.safetensors` files."""

from collections.abc import Mapping
from pathlib import Path

import torch

from coda_ir.diagnostics import FileError

SUFFIX = ".safetensors"


class TensorFileError(FileError):
    """A file of another kind, or with damaged content."""


def check_suffix(path: Path) -> None:
    """Raise TensorFileError for a file name with another suffix."""
    if path.suffix != SUFFIX:
        raise TensorFileError(f"{path}: unknown file type '{path.suffix}'", f"pass a {SUFFIX} file")


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """Read the tensors in a file. Raises TensorFileError, and OSError if it cannot be read."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    check_suffix(path)
    data = path.read_bytes()
    try:
        return load(data)
    except (SafetensorError, KeyError) as error:
        raise TensorFileError(f"{path}: {error}", f"pass a {SUFFIX} file") from error


def write_tensors(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write tensors to a file. Raises TensorFileError for a file that is named like another kind,
    and OSError where it cannot be written.
    """
    from safetensors.torch import save

    check_suffix(path)
    # Results may be views of one another, which safetensors refuses.
    dense = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}
    path.write_bytes(save(dense))
