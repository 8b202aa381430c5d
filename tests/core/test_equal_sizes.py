"""Sizes that operators require to be equal are conditions of a signature, which calls check."""

import pytest
import torch
from support.gemm_programs import residual_norm
from support.programs import parse_mlir

import coda_ir
from coda_ir.calls.arguments import ArgumentError
from coda_ir.functions import find_entry
from coda_ir.options import Target
from coda_ir.signatures import signature_of

ROTATION = '{head_dim = 8, layout = "half_split"}'
HEADS = "{head_dim = 4, causal = false}"


def program(arguments: str, operator: str, result: str) -> str:
    """Return a function of one operator; `a=TxS` is an argument with symbols, and `a=?` has none.

    `operator` is its name and operands, and perhaps its properties in braces.
    """
    dims = {name: of.split("x") for name, of in (each.split("=") for each in arguments.split())}
    types = {name: type_of(of) for name, of in dims.items()}
    stated = {
        name: ", ".join(extent if extent.isdigit() else f'"{extent}"' for extent in of)
        for name, of in dims.items()
        if "?" not in of
    }
    entries = {name: f", coda.dims = [{of}]" for name, of in stated.items()}
    operands = ", ".join(type for name, type in types.items() if f"%{name}" in operator)
    parameters = (
        f'%{name}: {type} {{coda.name = "{name}"{entries.get(name, "")}}}'
        for name, type in types.items()
    )
    result = type_of(result.split("x"))
    return (
        f"func.func @f({', '.join(parameters)}) -> {result} {{\n"
        f"  %r = {operator} : ({operands}) -> {result}\n"
        f"  func.return %r : {result}\n}}"
    )


def type_of(dims: list[str]) -> str:
    return f"tensor<{'x'.join(dim if dim.isdigit() else '?' for dim in dims)}xf32>"


@pytest.mark.parametrize(
    ("arguments", "operator", "result", "conditions"),
    [
        ("a=Tx8 b=Tx8", "coda.add %a, %b", "Tx8", ()),
        ("a=Tx8 b=Sx8", "coda.add %a, %b", "Tx8", ("T == S",)),
        ("a=Tx8 b=?x8", "coda.add %a, %b", "Tx8", ("T == d0",)),
        ("a=Tx8 b=4x8", "coda.add %a, %b", "4x8", ("T == 4",)),
        ("a=BxTxN b=BxSxM", "coda.concat %a, %b {dim = 2}", "BxTxK", ("T == S",)),
        ("a=Tx8 b=Sx4", 'coda.reshape %a {coda.dims = ["S", 4]}', "Sx4", ("8*T == 4*S",)),
        ("x=4xK w=8xL", "coda.linear %x, %w", "4x8", ("K == L",)),
        ("x=4xK w=8xK b=8", "coda.linear %x, %w, %b", "4x8", ()),
        ("x=BxTx8 w=?x1x8", "coda.rms_norm %x, %w {eps = 1.0e-5}", "BxTx8", ("B == d0",)),
        ("q=2xTx8 k=2xSx8 v=2xUx8", f"coda.attention %q, %k, %v {HEADS}", "2xTx8", ("S == U",)),
        (
            *("q=2xTxQ k=2xTxK v=2xTxK", f"coda.attention %q, %k, %v {HEADS}", "2xTxQ"),
            ("K % 4 == 0", "Q % 4 == 0"),
        ),
        ("x=MxK", "coda.rms_norm %x {eps = 1.0e-5, group = 8}", "MxK", ("K % 8 == 0",)),
        ("x=MxK", 'coda.glu %x {activation = "silu"}', "Mx?", ("K % 2 == 0",)),
        (
            *("x=MxK c=MxC s=MxC", f"coda.rope %x, %c, %s {ROTATION}", "MxK"),
            ("K % 8 == 0", "C == 4"),
        ),
        ("a=Tx8 b=Sx8", 'coda.silu %a {coda.dims = ["S", 8]}', "Sx8", ("T == S",)),
    ],
)
def test_of_operators(arguments: str, operator: str, result: str, conditions: tuple[str, ...]):
    module = coda_ir.parse(program(arguments, operator, result))
    assert signature_of(find_entry(module)).conditions == conditions


def test_of_a_gemm_with_partials():
    """Their number, which follows from a schedule, is open in the type."""
    gemm = 'pointer, "16x32x16", warps = 4, stages = 3, group_m = 2'
    module = parse_mlir(residual_norm("f32", 40, 72, gemm))
    assert signature_of(find_entry(module)).conditions == ("d0 == d1", "d0 == d2")


@pytest.mark.parametrize("target", ["triton", "reference"])
def test_in_calls(target: Target):
    """Rows that PyTorch would broadcast are outside of the tensor for a kernel."""
    text = program("a=Tx8 b=Sx8", "coda.add %a, %b", "Tx8")
    add = coda_ir.compile(text, target=target, device="cpu")
    a = torch.randn(3, 8)
    assert torch.equal(add(a, a), a + a)
    message = r"with T == S, .* T is 3 \(dimension 0 of a\), S is 1 \(dimension 0 of b\)"
    with pytest.raises(ArgumentError, match=message):
        add(a, a[:1])
