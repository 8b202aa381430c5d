"""Models of transformers and diffusers at real widths: eager, torch.compile and coda."""
