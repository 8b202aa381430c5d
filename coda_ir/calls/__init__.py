"""What compiled functions are called with: checks of tensors, the structure of a model's call."""
