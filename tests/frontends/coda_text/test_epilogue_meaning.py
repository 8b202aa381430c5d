"""Epilogues compute what the same program without them computes, on the reference backend."""

from textwrap import dedent

import pytest
import torch
from support.inputs import random_inputs
from xdsl.dialects.func import FuncOp

from coda_ir.backends.reference import run_function
from coda_ir.frontends.coda_text import parse_text

PROGRAMS = {
    "bias, activation, residual, row maximum": (
        """\
        epilogue e(acc, bias: row, res: tile) -> (y: tile, amax: partial_row<max>) {
            z = acc + bias
            y = gelu(z) + res
            amax = abs(z)
        }
        fn f(x: f32[M, 24], w: f32[300, 24], b: f32[300], r: f32[M, 300]) {
            y, amax = e(linear(x, w), b, r)
            return y, finalize(amax)
        }
        """,
        """\
        fn f(x: f32[M, 24], w: f32[300, 24], b: f32[300], r: f32[M, 300]) {
            z = linear(x, w, b)
            return gelu(z) + r, max(abs(z))
        }
        """,
    ),
    "row and column reductions": (
        """\
        epilogue e(acc) -> (a: partial_row<add>, l: partial_row<lse>, s: partial_col<add>) {
            a = acc
            l = acc
            s = acc * acc
        }
        fn f(x: f32[M, 24], w: f32[24, 300]) {
            a, l, s = e(x @ w)
            return finalize(a), finalize(l), finalize(s)
        }
        """,
        """\
        fn f(x: f32[M, 24], w: f32[24, 300]) {
            y = x @ w
            return sum(y), logsumexp(y), reshape(sum(transpose(y * y)), [300])
        }
        """,
    ),
    "cross-entropy": (
        """\
        epilogue scores(acc, target: col) -> (lse: partial_row<lse>, picked: select<target>) {
            lse = acc
            picked = acc
        }
        fn f(x: f32[M, 24], w: f32[300, 24], t: i64[M]) {
            lse, picked = scores(linear(x, w), t)
            return reshape(finalize(lse), [M]) - picked
        }
        """,
        """\
        fn f(x: f32[M, 24], w: f32[300, 24], t: i64[M]) {
            return cross_entropy(linear(x, w), t, reduction="none", ignore_index=-1)
        }
        """,
    ),
    "columns, scalars and tables": (
        """\
        epilogue e(acc, c: col, s: scalar, t: table) -> (y: tile) {
            y = -acc * c / s + maximum(t, 0.25)
        }
        fn f(x: f32[B, T, 24], w: f32[32, 24], c: f32[B, T, 1], s: f32[1], t: f32[T, 32]) {
            return e(linear(x, w), c, s, t)
        }
        """,
        """\
        fn f(x: f32[B, T, 24], w: f32[32, 24], c: f32[B, T, 1], s: f32[1], t: f32[T, 32]) {
            return -linear(x, w) * c / s + maximum(t, 0.25)
        }
        """,
    ),
    "gate of two weights": (
        """\
        epilogue gate(g, u, b: row) -> (y: half, z: tile) {
            b0, b1 = b
            y = silu(g + b0) * (u + b1)
            z = (g, u)
        }
        fn f(x: f32[M, 24], w: f32[40, 24], v: f32[40, 24], b: f32[80]) {
            return gate(linear(x, w), linear(x, v), b)
        }
        """,
        """\
        fn f(x: f32[M, 24], w: f32[40, 24], v: f32[40, 24], b: f32[80]) {
            z = concat(linear(x, w), linear(x, v))
            return swiglu(z + b), z
        }
        """,
    ),
    "packed gate": (
        """\
        epilogue gate(g, u) -> (y: half) { y = gelu_tanh(g) * u }
        fn f(x: f32[M, 24], w: f32[24, 40]) { return gate(pairs(x @ w)) }
        """,
        "fn f(x: f32[M, 24], w: f32[24, 40]) { return geglu_tanh(x @ w) }",
    ),
    "rotary embedding, half-split": (
        """\
        epilogue rotate(a, b, cos: half_table, sin: half_table) -> (y: tile) {
            y = (a * cos - b * sin, b * cos + a * sin)
        }
        fn f(x: f32[B, T, 24], w: f32[32, 24], cos: f32[T, 4], sin: f32[T, 4]) {
            return rotate(pairs(linear(x, w), group=8), cos, sin)
        }
        """,
        """\
        fn f(x: f32[B, T, 24], w: f32[32, 24], cos: f32[T, 4], sin: f32[T, 4]) {
            return rope(linear(x, w), cos, sin, head_dim=8)
        }
        """,
    ),
    "rotary embedding, interleaved": (
        """\
        epilogue rotate(a, b, cos: half_table, sin: half_table) -> (y: tile) {
            y = (a * cos - b * sin, b * cos + a * sin)
        }
        fn f(x: f32[B, T, 24], w: f32[32, 24], cos: f32[T, 4], sin: f32[T, 4]) {
            return rotate(pairs(linear(x, w), adjacent=true), cos, sin)
        }
        """,
        """\
        fn f(x: f32[B, T, 24], w: f32[32, 24], cos: f32[T, 4], sin: f32[T, 4]) {
            return rope(linear(x, w), cos, sin, head_dim=8, layout="interleaved")
        }
        """,
    ),
    "norm of heads": (
        """\
        epilogue norm(acc, w: table) -> (y: tile) {
            y = acc * rsqrt(group_sum(acc * acc, group=8) / 8 + 1e-6) * w
        }
        fn f(x: f32[M, 24], w: f32[32, 24], g: f32[8]) { return norm(linear(x, w), g) }
        """,
        """\
        fn f(x: f32[M, 24], w: f32[32, 24], g: f32[8]) {
            return rms_norm(linear(x, w), g, group=8)
        }
        """,
    ),
    "pointwise": (
        """\
        epilogue affine(x: tile, scale: row) -> (y: tile) { y = softcap(x, 2) * scale }
        fn f(x: f32[M, 24], scale: f32[24]) { return affine(x, scale) }
        """,
        "fn f(x: f32[M, 24], scale: f32[24]) { return softcap(x, 2) * scale }",
    ),
}


def function(text: str) -> FuncOp:
    module = parse_text(dedent(text))
    module.verify()
    (func,) = module.body.block.ops
    assert isinstance(func, FuncOp)
    return func


@pytest.mark.parametrize("name", PROGRAMS)
def test_epilogue_means_the_same(name: str):
    with_epilogue, plain = map(function, PROGRAMS[name])
    assert any(op.name in ("gemm.fused", "gemm.map") for op in with_epilogue.body.block.ops)
    arguments = random_inputs(plain, {"M": 5, "B": 2, "T": 3})
    arguments = [x.clamp(min=0) if not x.is_floating_point() else x for x in arguments]
    results = run_function(with_epilogue, arguments)
    expected = run_function(plain, arguments)
    assert len(results) == len(expected)
    for result, reference in zip(results, expected, strict=True):
        torch.testing.assert_close(result, reference, rtol=1e-12, atol=1e-12)
