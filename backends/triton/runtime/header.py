# pyright: basic
"""The imports and constants at the head of every emitted module."""

import os

import torch
import triton
import triton.language as tl

# Whether Triton's CPU interpreter runs the kernels. It computes bfloat16 arithmetic wrongly, so
# some functions have a second implementation for it.
INTERPRET: tl.constexpr = tl.constexpr(os.environ.get("TRITON_INTERPRET", "0") == "1")
