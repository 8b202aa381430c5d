"""Experts of transformers as kernels in eager models: `experts_implementation="coda"`.

    coda_ir.register_experts()
    model = AutoModelForCausalLM.from_pretrained(name, experts_implementation="coda")

PyTorch runs the model and its router. The computation of the experts is compiled as a graph, and so
are its gradients: a sort, two GEMMs over groups of rows, and a sum.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, cast

import torch
from torch._dynamo import maybe_mark_dynamic as mark_dynamic

from coda_ir.diagnostics import ModelError
from coda_ir.frontends.torch.dynamo import coda

NAME = "coda"
"""The name under which transformers finds the experts."""

TRACED = "grouped_mm"
"""The implementation of transformers that is compiled."""

Experts = Callable[..., torch.Tensor]


def register_experts() -> None:
    """Register `experts_implementation="coda"` for models of transformers.

    Experts may have biases, custom gates or none, and weights in any layout that transformers
    supports. They are compiled once for all layers of the same sizes, and for any number of tokens.
    Inside torch.compile and torch.export they are part of the graph. Raises CodaError for a version
    of transformers without an interface for experts.
    """
    _interface().register(NAME, experts_forward)


def experts_forward(
    module: torch.nn.Module,
    hidden_states: torch.Tensor,
    top_k_index: torch.Tensor,
    top_k_weights: torch.Tensor,
) -> torch.Tensor:
    """Compute the weighted sum of each token's experts, with transformers' interface.

    Tokens are T x H; the numbers of their experts and the weights of these T x k.
    """
    tensors = (hidden_states, top_k_index, top_k_weights)
    if torch.compiler.is_compiling():
        return _traced()(module, *tensors)
    for tensor in tensors:
        mark_dynamic(tensor, 0)
    return _compiled()(module, *tensors)


@cache
def _compiled() -> Experts:
    compile_function: Any = getattr(torch, "compile")  # noqa: B009  (it has no complete type)
    return compile_function(_traced(), backend=coda, options={"compare": False})


def _traced() -> Experts:
    return cast(Experts, _interface()()[TRACED])


def _interface() -> Any:
    try:
        from transformers.integrations.moe import ExpertsInterface
    except ImportError as error:
        raise ModelError(
            "transformers has no interface for experts", "install transformers 5 or later"
        ) from error
    return ExpertsInterface
