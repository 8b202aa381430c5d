"""Transpositions, repetitions and padding that kernels copy: PyTorch's elements."""

import re
from typing import Any, cast

import pytest
import torch

import coda_ir

pytestmark = pytest.mark.any_device

TYPES = {"bf16": torch.bfloat16, "f32": torch.float32, "i64": torch.int64}
ORDERS = [
    ((0, 2, 1, 3), "bf16"),
    ((2, 0, 1, 3), "i64"),
    ((0, 3, 1, 2), "bf16"),
    ((0, 3, 2, 1), "f32"),
    ((3, 1, 0, 2), "i64"),
]


def compiled(text: str) -> tuple[Any, list[str]]:
    """Return a program, and the names of its kernels that copy."""
    function = cast(Any, coda_ir.compile(text, device="cpu"))
    return function, re.findall(r"^def (copy\w*)\(", function.source, re.MULTILINE)


@pytest.mark.parametrize(("order", "type"), ORDERS)
def test_orders(order: tuple[int, ...], type: str) -> None:
    """Rows, and tiles of any two dimensions, which are not whole at the ends."""
    x = torch.randint(-999, 999, (3, 70, 5, 33)).to(TYPES[type])
    y = x.permute(order).reshape(-1, 33)
    text = f"fn f(x: {type}[3, 70, 5, 33]) {{"
    text += f" return abs(reshape(transpose(x, {list(order)}), {list(y.shape)})) }}"
    function, copies = compiled(text)
    assert copies == ["copy"] and "dense_" not in function.source
    assert torch.equal(function(x), y.abs())


def test_a_kernel_alone_copies_merged_dimensions() -> None:
    """Without a statement for the reshape, which PyTorch might copy as well."""
    function, copies = compiled("""fn f(x: f32[3, 10, 8, 32], w: f32[64, 80]) {
        return linear(reshape(transpose(x, [0, 3, 1, 2]), [3, 32, 80]), w)
    }""")
    assert copies == ["copy"] and "reshape(" not in function.source
    x, w = torch.randn(3, 10, 8, 32), torch.randn(64, 80)
    expected = x.permute(0, 3, 1, 2).reshape(3, 32, 80).double() @ w.double().T
    torch.testing.assert_close(function(x, w).double(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("batch", [0, 2])
def test_a_batch_of_any_size(batch: int) -> None:
    text = """fn f(x: f32[B, 9, 40]) {
        part = x[:, 2:, 7:]
        return abs(reshape(transpose(part), [B, 231])), abs(reshape(part, [B, 231]))
    }"""
    function, copies = compiled(text)
    x = torch.randn(batch, 9, 40)
    part = x[:, 2:, 7:]
    assert len(copies) == 2
    expected = [each.reshape(batch, 231).abs() for each in (part.mT, part)]
    assert all(map(torch.equal, function(x), expected))


@pytest.mark.parametrize("is_transposed", [False, True])
def test_selected_slices(is_transposed: bool) -> None:
    """PyTorch selects the slices, in any order of their elements."""
    function, copies = compiled("""fn f(x: f32[9, 5, 40], ids: i64[7, 3]) {
        return abs(reshape(transpose(x[ids], [0, 2, 3, 1]), [35, 120]))
    }""")
    assert copies == ["copy"]
    x, ids = torch.randn(9, 5, 40), torch.randint(9, (7, 3))
    x = x.transpose(0, 2).contiguous().transpose(0, 2) if is_transposed else x
    assert torch.equal(function(x, ids), x[ids].permute(0, 2, 3, 1).reshape(35, 120).abs())


@pytest.mark.parametrize("format", [torch.contiguous_format, torch.channels_last])
def test_parts_of_images(format: torch.memory_format) -> None:
    """PyTorch keeps the channels of images last only if they are last in all parts."""
    text = """fn f(x: f32[2, 4, 5, 6], w: f32[4, 4, 3, 3]) {
        image = convolution(x, w, padding=[1, 1])
        y = reshape(concat(image, x[:, :3], dim=1), [2, 7, 30])
        return abs(reshape(transpose(y), [60, 7]))
    }"""
    function, copies = compiled(text)
    assert copies == ["copy"]
    x, w = (torch.randn(s).to(memory_format=format) for s in ((2, 4, 5, 6), (4, 4, 3, 3)))
    y = torch.cat([torch.conv2d(x, w, padding=1), x[:, :3]], 1)
    torch.testing.assert_close(function(x, w), y.flatten(2).mT.reshape(60, 7).abs())


def test_products_share_copies() -> None:
    """A kernel copies batches that do not start at equal distances, and matrices with neither
    contiguous rows nor contiguous columns. PyTorch's library reads other operands in place.
    """
    text = """fn f(x: f32[4, 6, 2, 16], z: f32[4, 2, 6, 6], c: f32[5, 5, 8]) {
        y, d = transpose(x, [0, 2, 1, 3]), transpose(c, [2, 0, 1])
        return y @ transpose(y), z @ y, d @ transpose(d), c @ transpose(c)
    }"""
    function, copies = compiled(text)
    assert len(copies) == 3
    called = re.findall(r"= (?:dense\()?(torch\.bmm|product_of_batches)\(", function.source)
    assert sorted(called) == [*["product_of_batches"] * 2, *["torch.bmm"] * 3]
    x, z, c = torch.randn(4, 6, 2, 16), torch.randn(4, 2, 6, 6), torch.randn(5, 5, 8)
    y, d = x.transpose(1, 2), c.permute(2, 0, 1)
    expected = y @ y.mT, z @ y, d @ d.mT, c @ c.mT
    torch.testing.assert_close(function(x, z, c), expected)


def test_repetitions() -> None:
    """Matrices that queries share, and columns that are repeated one by one."""
    text = """fn f(q: f32[2, 6, 5, 8], k: f32[2, 3, 1, 9, 8], m: f32[2, 7, 4, 1], x: f32[2, 12, 5])
        {
        keys = reshape(broadcast(k, [2, 3, 2, 9, 8]), [2, 6, 9, 8])
        return q @ transpose(keys), reshape(broadcast(m, [2, 7, 4, 3]), [2, 7, 12]) @ x
    }"""
    function, copies = compiled(text)
    assert len(copies) == 2 and "dense_" not in function.source
    q, k = torch.randn(2, 6, 5, 8), torch.randn(2, 3, 1, 9, 8)
    m, x = torch.randn(2, 7, 4, 1), torch.randn(2, 12, 5)
    keys, columns = k[:, :, 0].repeat_interleave(2, 1), m[..., 0].repeat_interleave(3, -1)
    torch.testing.assert_close(function(q, k, m, x), (q @ keys.mT, columns @ x))


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("batch", [0, 3])
def test_padding(type: str, batch: int) -> None:
    """Columns, rows and whole matrices between numbers, of dense tensors and of a transposition."""
    text = f"""fn f(x: {type}[B, 5, 6], y: {type}[5, 7]) {{
        z = transpose(x, [1, 0, 2])
        rows = pad(x, 2, 1, dim=1)
        return pad(x, 2, 1, value=3), rows, pad(z, 0, 3), pad(y, 1, 1, dim=0, value=-2)
    }}"""
    function, copies = compiled(text)
    assert not copies and len(re.findall(r"^def pad\w*\(", function.source, re.MULTILINE)) == 4
    x, y = (torch.randint(-9, 9, shape).to(TYPES[type]) for shape in ((batch, 5, 6), (5, 7)))
    around = torch.nn.functional.pad
    expected = [
        around(x, (2, 1), value=3),
        around(x, (0, 0, 2, 1)),
        around(x.transpose(0, 1), (0, 3)),
        around(y, (0, 0, 1, 1), value=-2),
    ]
    assert all(map(torch.equal, function(x, y), expected))


def test_arguments_with_strides() -> None:
    """Products make arguments dense before they transpose them: rows are copied faster."""
    text = "fn f(x: f32[3, 4, 5, 8], y: f32[3, 4, 5, 8]) { return transpose(x) @ y }"
    function, _ = compiled(text)
    x, y = (torch.randn(3, 5, 4, 8).transpose(1, 2) for _ in "xy")
    assert re.search(r"are_dense\(x, y\)", function.source)
    torch.testing.assert_close(function(x, y), x.mT @ y)
