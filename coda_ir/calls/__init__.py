"""The arguments of compiled functions: checks of tensors, the structure of a model's call."""
