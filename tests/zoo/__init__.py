"""Tiny models of many architectures, exported and compared with PyTorch in float64."""

import os

# Models are measured in forks of a process, which must not start CUDA.
os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")

from zoo.architecture import Architecture, Example
from zoo.diffusers_models import DIFFUSERS
from zoo.transformers_models import TRANSFORMERS

ARCHITECTURES: tuple[Architecture, ...] = (*TRANSFORMERS, *DIFFUSERS)

__all__ = ["ARCHITECTURES", "Architecture", "Example"]
