"""Expert blocks, as members of the fleet, beside the bare grouped GEMMs.

    python -m fleet --members experts.py --batch 1 --tokens 8192 --json experts.json
    python -m fleet --members experts.py --models qwen3_moe --parts training --tokens 32768
    python -m fleet --members experts.py --batch 1 --tokens 1 --variants \
        eager,torch.compile-graphs,coda-graphs                         # one token in CUDA graphs

Run in benchmarks/. Blocks of transformers with a residual, at the widths of Qwen3-MoE, Mixtral,
DeepSeek V3 and GPT-OSS. `grouped GEMMs` are the products alone, by PyTorch, with as many rows for
each expert, and `reading its experts` is a copy that moves as many bytes as the experts of one
token have. Errors are against float32 (PyTorch has no grouped GEMM in float64), in which the router
may choose other experts; two sets of DeepSeek's weights in float32 do not fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

import torch
from fleet.models import Member, Setting
from harness import Candidate


@dataclass(frozen=True)
class Block:
    """A block of a model."""

    model: str
    """The folder of transformers, and the beginning of its names."""
    layer: str
    hidden: int
    intermediate: int
    experts: int
    k: int
    options: Mapping[str, object] = field(default_factory=dict[str, object])

    @property
    def expert_bytes(self) -> int:
        """The bytes of the weights of one expert in bf16."""
        return 2 * 3 * self.hidden * self.intermediate

    def small(self) -> Block:
        """Return the block with tiny widths and few experts, for CPUs."""
        few = {"n_group": 2, "topk_group": 1} if "n_group" in self.options else {}
        sizes = {"hidden": 64, "intermediate": 48, "experts": 8, "k": 2}
        return replace(self, **sizes, options={**self.options, **few})

    def build(self, setting: Setting) -> torch.nn.Module:
        """Return the block, or a tiny one."""
        return (self.small() if setting.small else self).make(setting)

    def make(self, setting: Setting) -> torch.nn.Module:
        """Make x + block(x) with random weights."""
        module: Any = import_module(f"transformers.models.{self.model}.modeling_{self.model}")
        config = import_module(f"transformers.models.{self.model}")
        prefix = "".join(word.capitalize() for word in self.model.split("_"))
        names = {"num_experts", "num_local_experts", "n_routed_experts"}
        made: Any = getattr(config, f"{prefix}Config")(
            hidden_size=self.hidden,
            intermediate_size=self.intermediate,
            moe_intermediate_size=self.intermediate,
            num_experts_per_tok=self.k,
            experts_implementation="grouped_mm",
            **dict.fromkeys(names, self.experts),
            **self.options,
        )
        with torch.device(setting.device):
            layer: torch.nn.Module = getattr(module, f"{prefix}{self.layer}")(made)
        block: torch.nn.Module = Residual(layer)
        block.to(setting.dtype)
        for parameter in block.parameters():
            torch.nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5)
        return block

    def inputs(self, _: torch.nn.Module, setting: Setting) -> Mapping[str, torch.Tensor]:
        """Return the rows of all tokens."""
        shape = (setting.batch, setting.tokens, 64 if setting.small else self.hidden)
        x = torch.randn(shape, device=setting.device, dtype=setting.dtype)
        return {"x": x.requires_grad_()}

    def baselines(self, _: Any, inputs: Mapping[str, Any], part: str) -> Mapping[str, Candidate]:
        """Return the products alone, or for one token the reading of its experts."""
        rows = inputs["x"].shape[:-1].numel()
        if not inputs["x"].is_cuda:
            return {}
        if rows == 1:
            # A copy moves its bytes twice.
            size = self.k * self.expert_bytes // 2
            source, target = (torch.ones(size, dtype=torch.uint8, device="cuda") for _ in range(2))
            return {"reading its experts": lambda: target.copy_(source)}
        forward, backward = grouped_gemms(self, rows)
        step = forward if part == "forward" else lambda: (forward(), backward())
        return {"grouped GEMMs": step}


class Residual(torch.nn.Module):
    """A block with the residual around it, as in a decoder layer."""

    def __init__(self, block: torch.nn.Module):
        super().__init__()
        self.block = block

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """B x T x D -> B x T x D."""
        result: Any = self.block(x)
        rows: torch.Tensor = result if isinstance(result, torch.Tensor) else result[0]
        return x + rows


def grouped_gemms(block: Block, tokens: int) -> tuple[Candidate, Candidate]:
    """The bare grouped GEMMs by PyTorch: those of a forward, and the additional ones of a training
    step.

    All experts have equally many rows, which are neither gathered nor scattered.
    """
    rows, e, h, i = tokens * block.k, block.experts, block.hidden, block.intermediate

    def random(*shape: int) -> Any:
        return torch.randn(shape, device="cuda", dtype=torch.bfloat16)

    x, dy, a, dz = (random(rows, columns) for columns in (h, h, i, 2 * i))
    up, down = random(e, 2 * i, h), random(e, h, i)
    ends = torch.arange(1, e + 1, device="cuda", dtype=torch.int32) * (rows // e)
    product: Any = torch.nn.functional.grouped_mm

    def forward() -> None:
        product(x, up.mT, offs=ends)
        product(a, down.mT, offs=ends)

    def backward() -> None:
        product(dy, down, offs=ends)
        product(dy.T, a, offs=ends)
        product(dz, up, offs=ends)
        product(dz.T, x, offs=ends)

    return forward, backward


BLOCKS = (
    Block(*("qwen3_moe", "SparseMoeBlock", 2048, 768, 128, 8), options={"norm_topk_prob": True}),
    Block("mixtral", "SparseMoeBlock", 4096, 14336, 8, 2),
    Block(
        *("deepseek_v3", "MoE", 7168, 2048, 256, 8),
        options={"n_group": 8, "topk_group": 4, "n_shared_experts": 1, "norm_topk_prob": True},
    ),
    Block("gpt_oss", "MLP", 2880, 2880, 32, 4),
)

MEMBERS = [
    Member(block.model, "experts", block.build, block.inputs, baselines=block.baselines)
    for block in BLOCKS
]
