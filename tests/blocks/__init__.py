"""Blocks in plain PyTorch, as users write them: `MEMBERS` of the files here, for `fleet`."""
