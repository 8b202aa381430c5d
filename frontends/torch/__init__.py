"""PyTorch models as modules of the IR."""

from coda_ir.frontends.torch.export import ExportedModel, export

__all__ = ["ExportedModel", "export"]
