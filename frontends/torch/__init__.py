"""PyTorch models as modules of the IR."""

from coda_ir.exported import ExportedModel
from coda_ir.frontends.torch.export import export

__all__ = ["ExportedModel", "export"]
