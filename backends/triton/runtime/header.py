# pyright: basic
"""The imports and constants at the head of every emitted module."""

import os

import torch
import triton
import triton.language as tl

# Triton's CPU interpreter computes wrongly in bfloat16: some helpers go through float32 there.
INTERPRET: tl.constexpr = tl.constexpr(os.environ.get("TRITON_INTERPRET", "0") == "1")
