"""Linear layers whose weights have 8 or 4 bits, and their product as one operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import nn

from coda_ir.frontends.torch.scaled_layers import FLOAT8, LARGEST, LEAST_SCALE, wide_linear

PACKING = "k01234567"
"""Eight elements of four bits in an int32, along K from the lowest bits on, as GPTQ has them."""
WORD = 8


@dataclass(frozen=True)
class WeightScheme:
    """Weight-only quantization: `group` elements along K, or all of K, share a scale.

    With `has_zeros`, the smallest element of a group is 0 and the largest 15 (255), otherwise the
    scale is for the largest magnitude.
    """

    type: Literal["int4", "int8", "float8"]
    group: int | None
    has_zeros: bool = False

    @property
    def is_packed(self) -> bool:
        return self.type == "int4"

    def depth(self, k: int) -> int:
        """The elements that share a scale; for all of K, the power of two that holds them."""
        return self.group or max(32, 1 << (k - 1).bit_length())

    def fits(self, weight: torch.Tensor) -> bool:
        """Return whether a weight (N x K) is made of whole words of elements and of zero points."""
        n, k = weight.shape
        return not self.is_packed or (k % WORD == 0 and (not self.has_zeros or n % WORD == 0))


@torch.library.custom_op("coda_ir::low_bit_linear", mutates_args=())
def _low_bit_linear(
    x: torch.Tensor,
    weight: torch.Tensor,
    scales: torch.Tensor,
    zeros: torch.Tensor | None,
    bias: torch.Tensor | None,
    depth: int,
    offset: int,
    packing: str,
) -> torch.Tensor:
    """Multiply x (... x K) by a weight of N x K, or K x N if packed, and add the bias, in the type
    of x. Scales and zero points have the same layout.

    Element q of the weight is (q - zero - offset) * scale, with a scale and a zero point for each
    `depth` elements of a column. Without a compiler the product is one of float32.
    """
    weight = dequantized(weight, scales, zeros, depth, offset, packing)
    product = wide_linear(x.float(), weight)
    return (product if bias is None else product + bias.float()).to(x.dtype)


def _fake(x: Any, weight: Any, scales: Any, *rest: Any) -> torch.Tensor:
    packing: str = rest[-1]
    return x.new_empty((*x.shape[:-1], scales.shape[1 if packing else 0]))


_operator: Any = _low_bit_linear  # has no complete types
_operator.register_fake(_fake)

LOW_BIT_LINEAR: Any = torch.ops.coda_ir.low_bit_linear.default


def dequantized(
    weight: torch.Tensor,
    scales: torch.Tensor,
    zeros: torch.Tensor | None,
    depth: int,
    offset: int = 0,
    packing: str = PACKING,
) -> torch.Tensor:
    """Return a weight in float32, N x K, given its elements or words, scales and zero points."""
    elements = weight
    if packing:
        order = [int(position) for position in packing[1:]]
        elements, scales = unpacked(weight, "kn".index(packing[0]), order).T, scales.T
        zeros = None if zeros is None else unpacked(zeros, 1, order).T
    k = elements.shape[1]
    wide = scales.float().repeat_interleave(depth, 1)[:, :k]
    if zeros is None:
        return (elements.float() - offset) * wide
    return (elements.float() - zeros.float().repeat_interleave(depth, 1)[:, :k] - offset) * wide


def packed(elements: torch.Tensor, axis: int) -> torch.Tensor:
    """Pack elements from 0 to 15 of a matrix: eight neighbours along a dimension to an int32."""
    shape = (*elements.shape[:axis], -1, WORD, *elements.shape[axis + 1 :])
    neighbours = elements.int().reshape(shape)
    words = neighbours.select(axis + 1, 0)
    for place in range(1, WORD):
        words = words | neighbours.select(axis + 1, place) << 4 * place
    return words.contiguous()


def unpacked(words: torch.Tensor, axis: int, order: Sequence[int] = range(WORD)) -> torch.Tensor:
    """Unpack words along a dimension; element i is at position order[i]."""
    parts = [words >> 4 * place & 15 for place in order]
    return torch.stack(parts, axis + 1).flatten(axis, axis + 1)


def quantized_weight(
    weight: torch.Tensor, scheme: WeightScheme
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Return the elements (N x K) of a weight in float32, its scales (N x K / group) in the type of
    the weight, and its zero points, if it has them.

    Elements are for the scales as they are rounded. Without zero points, those of four bits are 8
    more than what they are multiples of the scale.
    """
    n, k = weight.shape
    depth = scheme.group or k
    wide = F.pad(weight.float(), (0, -k % depth)).view(n, -1, depth)
    largest = {"int4": 7, "int8": 127, "float8": LARGEST}[scheme.type]
    zeros: torch.Tensor | None = None
    if scheme.has_zeros:
        low, high = wide.amin(-1).clamp(max=0), wide.amax(-1).clamp(min=0)
        range, least, most = high - low, 0, 2 * largest + 1
        scales = (range / most).clamp(min=LEAST_SCALE).to(weight.dtype)
        zeros = (-low / scales.float()).round().clamp(least, most)
    else:
        scales = (wide.abs().amax(-1) / largest).clamp(min=LEAST_SCALE).to(weight.dtype)
        least, most = -largest, largest
    elements = wide / scales.float().unsqueeze(-1)
    if scheme.type != "float8":
        elements = elements.round()
    if zeros is not None:
        elements = elements + zeros.unsqueeze(-1)
    elements = elements.clamp(least, most).flatten(1)[:, :k]
    return elements + (8 if scheme.is_packed and zeros is None else 0), scales, zeros


class LowBitLinear(nn.Module):
    """A linear layer with a weight of 8 or 4 bits, and an unquantized input.

    The parameters have the names of GPTQ's and AWQ's checkpoints, and for four bits one of their
    layouts, K x N: `qweight` in words of eight along K or N, `scales` (K / group x N) and `qzeros`
    (K / group x N / 8 words). Elements of 8 bits, their scales and zero points are N x K. They are
    not trained.
    """

    def __init__(
        self,
        qweight: torch.Tensor,
        scales: torch.Tensor,
        qzeros: torch.Tensor | None,
        bias: torch.Tensor | None,
        *,
        depth: int,
        offset: int = 0,
        packing: str = "",
    ):
        super().__init__()
        rows, columns = qweight.shape
        self.in_features = (rows * WORD if packing[0] == "k" else rows) if packing else columns
        self.out_features = scales.shape[1] if packing else rows
        self.depth, self.offset, self.packing = depth, offset, packing
        self.qweight = nn.Parameter(qweight, requires_grad=False)
        self.scales = nn.Parameter(scales, requires_grad=False)
        self.qzeros = None if qzeros is None else nn.Parameter(qzeros, requires_grad=False)
        self.bias = None if bias is None else nn.Parameter(bias, requires_grad=False)

    @staticmethod
    def of(linear: nn.Linear, scheme: WeightScheme) -> LowBitLinear:
        """Quantize the weight of a layer, by the range of each group."""
        given: torch.Tensor | None = getattr(linear, "bias", None)
        bias = None if given is None else given.detach()
        elements, scales, zeros = quantized_weight(linear.weight.detach(), scheme)
        depth = scheme.depth(linear.in_features)
        if scheme.is_packed:
            words = None if zeros is None else packed(zeros.T, 1)
            operands = packed(elements.T, 0), scales.T.contiguous(), words, bias
            offset = 8 if zeros is None else 0
            return LowBitLinear(*operands, depth=depth, offset=offset, packing=PACKING)
        dtype = torch.uint8 if scheme.has_zeros else torch.int8
        dtype = FLOAT8 if scheme.type == "float8" else dtype
        zeros = None if zeros is None else zeros.to(dtype)
        return LowBitLinear(elements.to(dtype), scales, zeros, bias, depth=depth)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.packing and self.qzeros is None and self.scales.shape[1] == 1:
            return F.linear(x, self.qweight.to(x.dtype) * self.scales, self.bias)
        return LOW_BIT_LINEAR(
            *(x, self.qweight, self.scales, self.qzeros, self.bias),
            *(self.depth, self.offset, self.packing),
        )

    def dequantized(self) -> torch.Tensor:
        """Return the dequantized weight in float32, N x K."""
        operands = self.qweight, self.scales, self.qzeros
        return dequantized(*operands, self.depth, self.offset, self.packing)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, depth={self.depth}, {self.packing}"
