"""Calls that TorchDynamo leaves as they are.

A function that is compiled by `torch.compile` may call one of ours. TorchDynamo then ends a graph
before the call; by itself it would go on with the Python behind it, and trace the launches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def leave_untraced(call: Callable[..., Any]) -> None:
    """Let TorchDynamo trace neither `call`, a function in Python, nor what that calls."""
    function: Any = call
    function._torchdynamo_disable = True
    function._torchdynamo_disable_msg = "it runs a program that is compiled already"
    internals: Any = torch._C  # pyright: ignore[reportPrivateUsage]
    frames = internals._dynamo.eval_frame
    # PyTorch 2.6 has no such thing, and traces.
    if hasattr(frames, "set_code_exec_strategy"):
        skip = frames._FrameAction.SKIP
        strategy = frames._FrameExecStrategy(skip, skip)
        frames.set_code_exec_strategy(function.__code__, strategy)
