"""Errors of each numerics mode and of eager PyTorch against float64: a table, and JSON.

    python benchmarks/numerics.py [--small] [--group layer_norm] [--json FILE]

On the CPU, set TRITON_INTERPRET=1 before (or let nothing import triton first).
"""

import sys

from coda_ir.tools.error_report import main

if __name__ == "__main__":
    sys.exit(main())
