"""Experts of transformers as kernels, without torch.compile: `experts_implementation="coda"`.

    coda_ir.register_experts()
    model = AutoModelForCausalLM.from_pretrained(name, experts_implementation="coda")

The router stays PyTorch's. A program of the language computes what its experts do with tokens, and
its gradients: a sort, two GEMMs over groups of rows, and a sum. It is compiled once for each
combination of sizes and types, for any number of tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

import torch

from coda_ir.api import compile
from coda_ir.diagnostics import CodaError

if TYPE_CHECKING:
    from coda_ir.training.functions import TrainableFunction

NAME = "coda"
"""The name under which transformers finds the experts."""

_ACTIVATIONS: Mapping[str, str] = MappingProxyType(
    {
        "silu": "silu",
        "swish": "silu",
        "gelu": "gelu",
        "gelu_pytorch_tanh": "gelu_tanh",
        "relu": "relu",
        "relu2": "relu2",
    }
)
"""Activations of transformers, as the language calls them."""

_TYPES: Mapping[torch.dtype, str] = MappingProxyType(
    {torch.bfloat16: "bf16", torch.float16: "f16", torch.float32: "f32"}
)

_PROGRAM = """
import "std/moe.coda"

fn experts(
    x: {type}[M, {width}],
    ids: i64[M, {k}],
    gates: {gate_type}[M, {k}],
    weight gate_up: {type}[{gate_up}],
    weight down: {type}[{down}],
) -> {type}[M, {width}] {{
    sorted, order = sort(reshape(ids, [M * {k}]))
    offsets = ends_of_groups(sorted, {experts})
    h = {product}(index(x, floor_divide(order, {k})), gate_up, offsets)
    a = {activation}(h[..., {first}]) * h[..., {second}]
    scale = index(reshape(gates, [M * {k}, 1]), order)
    y = index(scale * {rows}, argsort(order))
    return {total}
}}
"""


def register_experts() -> None:
    """Let models of transformers take `experts_implementation="coda"`.

    Calls that are traced, by torch.compile or torch.export, run transformers' `grouped_mm`, which
    the compiler finds in graphs. Raises CodaError for a version of transformers without an
    interface for experts.
    """
    try:
        from transformers.integrations.moe import ExpertsInterface
    except ImportError as error:
        raise CodaError(
            "transformers has no interface for experts", "install transformers 5 or later"
        ) from error
    ExpertsInterface.register(NAME, experts_forward)


def experts_forward(
    module: torch.nn.Module,
    hidden_states: torch.Tensor,
    top_k_index: torch.Tensor,
    top_k_weights: torch.Tensor,
) -> torch.Tensor:
    """The sum of the results of the experts of each token, as transformers calls it.

    Raises CodaError for experts that the program does not compute.
    """
    if torch.compiler.is_compiling():
        return _traced(module, hidden_states, top_k_index, top_k_weights)
    program = _program(_Experts.of(module, hidden_states, top_k_index, top_k_weights))
    arguments = (hidden_states, top_k_index, top_k_weights, module.gate_up_proj, module.down_proj)
    return cast(torch.Tensor, program(*arguments))


def _traced(module: torch.nn.Module, *tensors: torch.Tensor) -> torch.Tensor:
    from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

    return ALL_EXPERTS_FUNCTIONS["grouped_mm"](module, *tensors)


@dataclass(frozen=True)
class _Experts:
    """The properties of experts for which a program is compiled."""

    type: torch.dtype
    gate_type: torch.dtype
    device: str
    experts: int
    k: int
    width: int
    hidden: int
    activation: str
    is_transposed: bool
    is_concatenated: bool

    @staticmethod
    def of(
        module: torch.nn.Module, x: torch.Tensor, ids: torch.Tensor, gates: torch.Tensor
    ) -> _Experts:
        _expect_gated(module)
        weight = module.down_proj
        assert isinstance(weight, torch.Tensor)
        experts, *sides = weight.shape
        hidden, width = sides if module.is_transposed else reversed(sides)
        return _Experts(
            type=x.dtype,
            gate_type=gates.dtype,
            device=str(x.device),
            experts=experts,
            k=ids.shape[-1],
            width=width,
            hidden=hidden,
            activation=_activation(module),
            is_transposed=bool(module.is_transposed),
            is_concatenated=bool(module.is_concatenated),
        )

    def text(self) -> str:
        """The program. Raises CodaError for types that kernels do not multiply."""
        wide = torch.promote_types(self.type, self.gate_type)
        for type in (self.type, self.gate_type):
            if type not in _TYPES:
                raise _refused(f"tensors of {type}", "use bfloat16, float16 or float32")
        both, n, h = 2 * self.hidden, self.width, self.hidden
        gate_up, down = (n, both), (h, n)
        if not self.is_transposed:
            gate_up, down = gate_up[::-1], down[::-1]
        product = "grouped_matmul" if self.is_transposed else "grouped_linear"
        rows = f"{product}(a, down, offsets)"
        total = f"reshape(sum(transpose(reshape(y, [M, {self.k}, {n}]))), [M, {n}])"
        if self.gate_type != wide:
            raise _refused("weights of a router narrower than tokens", "convert the model")
        if self.type != wide:
            rows, total = f"cast({rows}, {_TYPES[wide]})", f"cast({total}, {_TYPES[self.type]})"
        halves = (f"0:{h}", f"{h}:{both}") if self.is_concatenated else ("::2", "1::2")
        return _PROGRAM.format(
            type=_TYPES[self.type],
            gate_type=_TYPES[self.gate_type],
            width=n,
            k=self.k,
            experts=self.experts,
            gate_up=f"{self.experts}, {gate_up[0]}, {gate_up[1]}",
            down=f"{self.experts}, {down[0]}, {down[1]}",
            product=product,
            activation=self.activation,
            first=halves[0],
            second=halves[1],
            rows=rows,
            total=total,
        )


@cache
def _program(experts: _Experts) -> TrainableFunction:
    return compile(experts.text(), training=True, device=experts.device)


def _expect_gated(module: torch.nn.Module) -> None:
    """Raise CodaError for experts other than down(activation(gate(x)) · up(x))."""
    if module.has_bias:
        raise _refused("experts with biases", 'use experts_implementation="grouped_mm"')
    gating = getattr(type(module), "_apply_gate", None)
    is_default = getattr(gating, "__module__", "") == "transformers.integrations.moe"
    if not module.has_gate or not is_default:
        name = type(module).__name__
        raise _refused(f"the gate of {name}", 'use experts_implementation="grouped_mm"')


def _activation(module: torch.nn.Module) -> str:
    name = getattr(module.config, "hidden_act", None)
    if name not in _ACTIVATIONS:
        raise _refused(f"the activation {name}", 'use experts_implementation="grouped_mm"')
    return _ACTIVATIONS[name]


def _refused(what: str, remedy: str) -> CodaError:
    return CodaError(f'experts_implementation="{NAME}" does not compute {what}', remedy)
