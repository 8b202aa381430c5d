"""Programs as parts of PyTorch's autograd: a forward and a derived backward (docs/training.md)."""
