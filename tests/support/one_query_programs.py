"""Programs of attention with one query for each head."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "i1": torch.bool}

ATTENTION = "aten.scaled_dot_product_attention.default"


@dataclass(frozen=True)
class OneQuery:
    """q: B x H x 1 x E; k: B x G x S x E; v: B x G x S x F; a mask of the extents `mask`, with `?`
    for S.
    """

    element: str = "f32"
    batch: int | None = 2
    heads: tuple[int, int] = (4, 4)
    keys: int | None = 21
    columns: int = 16
    mask: str = ""
    options: str = ""
    queries: int = 1
    values: int | None = None
    """F; None where it is E."""

    @property
    def value_columns(self) -> int:
        return self.columns if self.values is None else self.values

    @property
    def text(self) -> str:
        """The program `f`, whose symbols are B and S."""
        heads, groups = self.heads
        q = self._argument("q", (self.batch, heads, self.queries, self.columns), self.element)
        k, v = (
            self._argument(name, (self.batch, groups, self.keys, columns), self.element)
            for name, columns in (("k", self.columns), ("v", self.value_columns))
        )
        arguments = [q, k, v]
        if self.mask:
            extents, element = self.mask.rsplit("x", 1)
            named = {"S": self.keys, "B": self.batch}
            dims = [named[d] if d in named else int(d) for d in extents.split("x")]
            arguments.append(self._argument("m", dims, element, extents.split("x")))
        types = [argument.split(": ", 1)[1].split(" {")[0] for argument in arguments]
        names = ", ".join(f"%{argument[1]}" for argument in arguments)
        values = ", ".join(f"{{{i}}}" for i in range(len(arguments)))
        mask = "" if self.mask else ", None"
        call = f"{values}{mask}{', ' if self.options else ''}{self.options}"
        result = self._argument(
            "q", (self.batch, heads, self.queries, self.value_columns), self.element
        )
        dims = f", coda.dims = {result.rsplit('= ', 1)[1].rstrip('}')}"
        type = result.split(": ", 1)[1].split(" {")[0]
        return f"""func.func @f({", ".join(arguments)}) -> {type} {{
  %y = torch.call "{ATTENTION}"({names}) {{arguments = "{call}"{dims}}} :
    ({", ".join(types)}) -> {type}
  func.return %y : {type}
}}
"""

    @staticmethod
    def _argument(
        name: str,
        dims: Sequence[int | None],
        element: str,
        names: Sequence[str] = ("B", "", "S", ""),
    ) -> str:
        type = f"tensor<{'x'.join('?' if d is None else str(d) for d in dims)}x{element}>"
        named = [
            f'"{symbol}"' if dim is None else f"{dim} : i64"
            for dim, symbol in zip(dims, names, strict=True)
        ]
        return f'%{name}: {type} {{coda.name = "{name}", coda.dims = [{", ".join(named)}]}}'


def one_query_inputs(program: OneQuery, batch: int = 3, keys: int = 40) -> list[torch.Tensor]:
    """Fresh random tensors; `batch` and `keys` stand for symbols."""
    batch, keys = program.batch or batch, program.keys or keys
    (heads, groups), dtype = program.heads, TYPES[program.element]
    tensors = [torch.randn(batch, heads, 1, program.columns)]
    columns = (program.columns, program.value_columns)
    tensors += [torch.randn(batch, groups, keys, n) for n in columns]
    tensors = [tensor.to(dtype) for tensor in tensors]
    if program.mask:
        *extents, element = program.mask.split("x")
        shape = [{"B": batch, "S": keys}.get(extent) or int(extent) for extent in extents]
        is_bool = element == "i1"
        tensors.append(torch.rand(shape) < 0.6 if is_bool else torch.randn(shape))
        tensors[-1] = tensors[-1].to(TYPES[element])
    return tensors


def attend(tensors: Sequence[torch.Tensor], scale: float | None = None) -> torch.Tensor:
    """Return what it is in float64; a query that sees no key gives 0."""
    q, k, v, *masks = (x if x.dtype == torch.bool else x.double() for x in tensors)
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    for mask in masks:
        is_bool = mask.dtype == torch.bool
        scores = scores.masked_fill(~mask, float("-inf")) if is_bool else scores + mask
    return torch.softmax(scores, -1).nan_to_num(0.0) @ v
