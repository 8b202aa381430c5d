"""Keys of Triton's cache. This module does not import PyTorch."""

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any


def prepare_keys(find_target: Callable[[], Any]) -> None:
    """Do the work that Triton's cache keys for a target require once per process and its forks:
    hash Triton's libraries, and determine the version of the assembler.
    """
    find_key = getattr(import_module("triton.runtime.cache"), "triton_key", None)
    if find_key is not None:
        find_key()
    import_module("triton.compiler").make_backend(find_target()).hash()


def settle_keys(module: ModuleType) -> None:
    """Make Triton hash the kernels of a module in the order of their first launches.

    The hash of a kernel includes the global values that it and its functions use, but those of a
    function only if it was hashed before. With several threads, the order of hashing, and therefore
    the keys of the cache on disk, would vary.
    """
    for name in module.KERNELS:
        _ = getattr(module, name).cache_key
