"""Rotary embedding with every kind of table, through emitted Triton, against float64."""

from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import coda_ir
from coda_ir.diagnostics import CodaError
from coda_ir.float64 import relative_error

HEAD, T = 8, 5


class Tables(NamedTuple):
    """The layout of a table: its columns for each of `heads` heads, and the options for that."""

    per_column: bool
    of_all_heads: bool

    def columns(self, heads: int) -> int:
        per_head = HEAD if self.per_column else HEAD // 2
        return per_head * (heads if self.of_all_heads else 1)

    def options(self, heads: int) -> str:
        options = ", per_column=true" if self.per_column else ""
        return options + (f", table_heads={heads}" if self.of_all_heads else "")

    def by_column(self, table: Tensor, layout: str) -> Tensor:
        """An entry for each column: T x (1 or heads) x HEAD."""
        if self.per_column:
            return in_heads(table, HEAD)
        pairs = in_heads(table, HEAD // 2)
        if layout == "half_split":
            return torch.cat((pairs, pairs), -1)
        return pairs.repeat_interleave(2, -1)


def in_heads(x: Tensor, width: int) -> Tensor:
    """The last dimension as heads of `width` columns."""
    return x.reshape(*x.shape[:-1], -1, width)


TABLES = [Tables(column, every) for column in (False, True) for every in (False, True)]


def rotated(heads: Tensor, layout: str) -> Tensor:
    """The other column of each pair, with the sign that its sine has."""
    if layout == "half_split":
        first, second = heads.chunk(2, -1)
        return torch.cat((-second, first), -1)
    return torch.stack((-heads[..., 1::2], heads[..., ::2]), -1).flatten(-2)


def eager(
    x: Tensor, w: Tensor | None, cos: Tensor, sin: Tensor, layout: str, tables: Tables
) -> Tensor:
    z = in_heads(x if w is None else F.linear(x, w), HEAD)
    cos, sin = (tables.by_column(table, layout) for table in (cos, sin))
    return (z * cos + rotated(z, layout) * sin).flatten(-2)


@pytest.mark.parametrize("heads", [1, 2, 3])
@pytest.mark.parametrize("tables", TABLES)
@pytest.mark.parametrize("layout", ["half_split", "interleaved"])
@pytest.mark.parametrize("fused", [False, True])
def test_tables_against_float64(layout: str, tables: Tables, heads: int, fused: bool):
    """Alone and in the epilogue of a GEMM, forward and derived backward."""
    columns = tables.columns(heads)
    weight = f"weight w: f32[{heads * HEAD}, {heads * HEAD}], " if fused else ""
    program = coda_ir.compile(
        f"""
        fn f(x: f32[B, {T}, {heads * HEAD}], {weight}cos: f32[{T}, {columns}],
             sin: f32[{T}, {columns}]) {{
            return rope({"linear(x, w)" if fused else "x"}, cos, sin, head_dim={HEAD},
                        layout="{layout}"{tables.options(heads)})
        }}
        """,
        device="cpu",
        training=True,
    )
    x, w = torch.randn(2, T, heads * HEAD), torch.randn(heads * HEAD, heads * HEAD)
    angles = torch.randn(2, T, columns)
    dy = torch.randn(2, T, heads * HEAD)
    leaves = [x, w] if fused else [x]

    def results(dtype: torch.dtype) -> list[Tensor]:
        own = [leaf.to(dtype).requires_grad_() for leaf in leaves]
        cos, sin = angles[0].cos().to(dtype), angles[1].sin().to(dtype)
        y: Tensor = (
            program(*own, cos, sin)
            if dtype == torch.float32
            else eager(own[0], own[1] if fused else None, cos, sin, layout, tables)
        )
        return [y.detach(), *torch.autograd.grad(y, own, dy.to(dtype))]

    for actual, exact in zip(results(torch.float32), results(torch.float64), strict=True):
        assert relative_error(actual, exact) < 1e-6


@pytest.mark.parametrize("layout", ["half_split", "interleaved"])
def test_some_columns_of_each_head(layout: str):
    """As they are written in .coda: a rotation beside the columns that stay, forward and back."""
    text = f"""
        fn f(x: f32[B, {T}, 24], cos: f32[{T}, 4], sin: f32[{T}, 4], weight w: f32[48, 24]) {{
            rest, last = split(reshape(linear(x, w), [B, {T}, 3, 16]), [8, 8])
            rotated = rope(reshape(last, [B, {T}, 24]), cos, sin, head_dim=8, layout="{layout}")
            y = concat(rest, reshape(rotated, [B, {T}, 3, 8]))
            return reshape(y, [B, {T}, 48])
        }}
        """
    program = coda_ir.compile(text, device="cpu", training=True)
    x, w, angles = torch.randn(2, T, 24), torch.randn(48, 24), torch.randn(T, 4)
    dy = torch.randn(2, T, 48)

    def results(dtype: torch.dtype) -> list[Tensor]:
        own = [leaf.to(dtype).requires_grad_() for leaf in (x, w)]
        cos, sin = angles.cos().to(dtype), angles.sin().to(dtype)
        if dtype == torch.float32:
            y: Tensor = program(own[0], cos, sin, own[1])
        else:
            rest, last = in_heads(F.linear(*own), 16).chunk(2, -1)
            rotated = eager(last.flatten(-2), None, cos, sin, layout, Tables(False, False))
            y = torch.cat((rest, in_heads(rotated, 8)), -1).flatten(-2)
        return [y.detach(), *torch.autograd.grad(y, own, dy.to(dtype))]

    for actual, exact in zip(results(torch.float32), results(torch.float64), strict=True):
        assert relative_error(actual, exact) < 1e-6


@pytest.mark.parametrize("heads", [2, 3, 4])
@pytest.mark.parametrize("layout", ["half_split", "interleaved"])
def test_tables_of_columns_are_not_taken_for_those_of_two_heads(layout: str, heads: int):
    text = f"""fn f(x: f32[T, {heads * HEAD}], cos: f32[T, {HEAD}], sin: f32[T, {HEAD}]) {{
            return rope(x, cos, sin, head_dim={HEAD}, layout="{layout}")
        }}"""
    with pytest.raises(CodaError) as caught:
        coda_ir.compile(text, device="cpu")
    message = str(caught.value)
    assert f"rope: cos is f32[T, {HEAD}], expected the shape [T, {HEAD // 2}]" in message
    assert "per_column=true if they have an entry for each column of a head" in message
    assert "table_heads=N if they are those of N heads" in message


class GPTJAttention(nn.Module):
    """As GPT-J writes it: sines and cosines in one tensor, each repeated for a pair of columns."""

    def __init__(self, heads: int, repeats: bool):
        super().__init__()
        self.repeats = repeats
        width = heads * HEAD
        self.q, self.k, self.v, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))

    def rotated(self, x: Tensor, sincos: Tensor) -> Tensor:
        sin, cos = sincos[:, :, None].chunk(2, -1)
        if self.repeats:
            sin, cos = (torch.repeat_interleave(table, 2, 3) for table in (sin, cos))
        first, second = x[:, :, :, ::2], x[:, :, :, 1::2]
        return x * cos + torch.stack((-second, first), -1).flatten(-2) * sin

    def forward(self, x: Tensor, sincos: Tensor) -> Tensor:
        q, k, v = (in_heads(layer(x), HEAD) for layer in (self.q, self.k, self.v))
        q, k = self.rotated(q, sincos), self.rotated(k, sincos)
        q, k, v = (value.transpose(1, 2) for value in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(-2))


@pytest.mark.slow
@pytest.mark.parametrize("repeats", [True, False], ids=["repeated here", "repeated before"])
@pytest.mark.parametrize("heads", [2, 3])
def test_exported_attention_of_gpt_j(heads: int, repeats: bool):
    model = GPTJAttention(heads, repeats)
    x = torch.randn(2, T, heads * HEAD)
    sincos = torch.randn(2, T, HEAD)
    if not repeats:
        sincos = sincos.repeat_interleave(2, -1)
    exported = coda_ir.export(model, (x, sincos))
    assert str(exported.module).count("coda.rope") == 2
    actual = exported.compile(device="cpu")(x, sincos)
    exact = model.double()(x.double(), sincos.double()).detach()
    assert relative_error(actual, exact) < 1e-6
