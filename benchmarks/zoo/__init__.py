"""Tiny models of many architectures, exported and compared with PyTorch in float64."""

from zoo.architecture import Architecture, Example
from zoo.diffusers_models import DIFFUSERS
from zoo.transformers_models import TRANSFORMERS

ARCHITECTURES: tuple[Architecture, ...] = (*TRANSFORMERS, *DIFFUSERS)

__all__ = ["ARCHITECTURES", "Architecture", "Example"]
