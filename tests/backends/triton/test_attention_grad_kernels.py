"""The backward of attention as kernels with epilogues, compared with float64."""

import re
from collections.abc import Sequence
from functools import partial

import pytest
import torch
from support.attention_heads import (
    LEARNED,
    NORM,
    Heads,
    RandomProgram,
    attend,
    gradients,
    interleaved,
    pointwise_kernels,
    rotated,
    rotated_inputs,
    rotated_text,
)
from support.daily import daily
from support.emitted import load_module
from support.joints import function_of

import coda_ir
from coda_ir.api import parse
from coda_ir.backends.reference import run_function
from coda_ir.backends.triton import emit_module, emit_program
from coda_ir.backends.triton.aot import compile_kernels
from coda_ir.context import make_context
from coda_ir.float64 import relative_error
from coda_ir.frontends.coda_text import parse_text
from coda_ir.functions import find_entry
from coda_ir.lowering import Lowering
from coda_ir.options import CompileOptions
from coda_ir.passes.gradient.derive_gradient import DeriveGradientPass
from coda_ir.passes.pipelines.differentiate import DifferentiatePass
from coda_ir.training.functions import TrainableFunction

PROGRAMS = {
    "causal": Heads(),
    "all keys": Heads(options="causal=false"),
    "one head of keys": Heads(3, 1, options="causal=true, scale=0.5"),
    "as many heads of keys": Heads(2, 2, 32, element="f16"),
    "window": Heads(options="causal=true, window=21"),
    "window on both sides": Heads(options="window=18"),
    "narrow window": Heads(options="causal=true, window=1"),
    "capped": Heads(options="causal=true, softcap=1.5"),
    "capped in a window": Heads(options="causal=true, window=49, scale=0.3, softcap=0.7"),
    "no batch": Heads(batches=""),
    "heads of 24": Heads(4, 2, 24),
    "heads of 56": Heads(2, 2, 56, "window=48"),
    "heads of 80": Heads(2, 1, 80, "causal=true, softcap=1.5"),
    "heads of 136": Heads(2, 1, 136),
}

SIZES = [(64, 64), (33, 90), (90, 33), (1, 40), (50, 50)]


def trained(text: str) -> TrainableFunction:
    return coda_ir.compile(text, device="cpu", training=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize(("queries", "keys"), SIZES)
def test_agrees_with_float64(name: str, queries: int, keys: int):
    of = PROGRAMS[name]
    compiled = trained(of.text)
    assert "dq_of_tile(" in compiled.source and "attention_grad(" not in compiled.source
    tensors = of.inputs(queries, keys, batch=2 if queries < keys else 1)
    d_y = torch.randn_like(tensors[0])
    wanted = gradients(partial(attend, of), [x.double() for x in tensors], d_y.double())
    found = gradients(compiled, tensors, d_y)
    for one, other in zip(found, wanted, strict=True):
        assert relative_error(one, other) < 1e-2


def test_a_window_of_all_keys_agrees_with_float64():
    """Also where the sum of a position and the window has more than 32 bits."""
    of = Heads(options=f"causal=false, window={2**31 - 1}")
    compiled = trained(of.text)
    assert "dq_of_tile(" in compiled.source and "attention_grad(" not in compiled.source
    tensors = of.inputs(33, 40, batch=1)
    d_y = torch.randn_like(tensors[0])
    wanted = gradients(partial(attend, of), [x.double() for x in tensors], d_y.double())
    for one, other in zip(gradients(compiled, tensors, d_y), wanted, strict=True):
        assert relative_error(one, other) < 1e-2


ROTATED = {
    "rotated": Heads(),
    "rotated, wide heads": Heads(2, 1, 64, options="causal=true, window=40"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ROTATED)
def test_epilogues_agree_with_float64(name: str):
    of = ROTATED[name]
    compiled = trained(rotated_text(of, 48))
    assert "_rope_sum(" in compiled.source
    assert pointwise_kernels(compiled.source) == [NORM], "no kernel reads the gradients again"
    tensors = rotated_inputs(of, 48, 2, 45)
    d_y = torch.randn_like(tensors[0])
    wide = [x.double() for x in tensors]
    wanted = gradients(partial(rotated, of), wide, d_y.double(), LEARNED)
    eager = gradients(partial(rotated, of), tensors, d_y, LEARNED)
    found = gradients(compiled, tensors, d_y, LEARNED)
    for one, decomposed, exact in zip(found, eager, wanted, strict=True):
        assert relative_error(one, exact) <= 1.25 * relative_error(decomposed, exact)


@pytest.mark.slow
@daily(lambda seed: seed < 3)
@pytest.mark.parametrize("seed", range(12))
def test_random_programs_agree_with_float64(seed: int):
    """Projections with and without biases, norms of heads and rotations, of any heads and rows."""
    program = RandomProgram(seed)
    module = parse_text(program.text)
    DeriveGradientPass().apply(make_context(), module)
    inputs, d_y = program.inputs, program.d_y
    joint, arguments = function_of(module, "f_joint"), [*inputs, d_y]
    _, *exact = run_function(joint, arguments)
    _, *rounded = run_function(joint, arguments, precision="stated")
    compiled = trained(program.text)
    assert "dq_of_tile(" in compiled.source and "dkv_of_tile(" in compiled.source
    found = gradients(compiled, inputs, d_y, program.learned)
    for one, decomposed, wanted in zip(found, rounded, exact, strict=True):
        assert relative_error(one, wanted) < max(1e-2, 1.25 * relative_error(decomposed, wanted))


MASKS = {
    "padding": "[B, 1, 1, S]",
    "of batches": "[B, 1, T, S]",
    "padding of heads": "[4, 1, S]",
    "of all": "[T, S]",
    "of queries": "[B, 4, T, 1]",
}


@pytest.mark.slow
@pytest.mark.parametrize("options", ["causal=false", "causal=true, window=30", "softcap=1.5"])
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_masks_agree_with_float64(mask: str, options: str):
    of = Heads(options=f"{options}, mask=m")
    text = of.text.replace(") {", f", m: bool{mask}) {{", 1)
    compiled = trained(text)
    assert "dq_of_tile(" in compiled.source and "attention_grad(" not in compiled.source
    is_own = "1, S" in mask or options != "causal=false"
    assert ("o_of_tile(" in compiled.source) == is_own
    tensors = of.inputs(45, 52)
    sizes = {"B": 2, "T": 45, "S": 52}
    shape = [sizes.get(n) or int(n) for n in mask.strip("[]").split(", ")]
    seen = torch.rand(shape) < 0.7
    # Some queries may see no key.
    hidden = seen[:1] if shape[-2] == 1 else seen[..., :1, :]
    hidden.fill_(False)
    check_masked(compiled, Heads(options=options), tensors, seen)


def check_masked(
    compiled: TrainableFunction, of: Heads, tensors: Sequence[torch.Tensor], mask: torch.Tensor
) -> None:
    """The gradients of attention with a mask agree with float64."""
    d_y = torch.randn_like(tensors[0])
    exact = partial(attend, of, mask=mask if mask.dtype == torch.bool else mask.double())
    wanted = gradients(exact, [x.double() for x in tensors], d_y.double())
    found = gradients(lambda *x: compiled(*x, mask), tensors, d_y)
    for one, other in zip(found, wanted, strict=True):
        assert relative_error(one, other) < 1e-2


@pytest.mark.slow
@pytest.mark.parametrize("element", ["bf16", "f32"])
@pytest.mark.parametrize("options", ["causal=true", "window=30, softcap=1.5"])
@pytest.mark.parametrize("far", [-1e4, float(torch.finfo(torch.bfloat16).min), -torch.inf])
def test_added_masks_agree_with_float64(options: str, element: str, far: float):
    """Slopes, and padding: also of queries whose keys are all far."""
    of = Heads(options=f"{options}, mask=detach(m)")
    compiled = trained(of.text.replace(") {", f", m: {element}[B, 4, T, S]) {{", 1))
    assert "dq_of_tile(" in compiled.source and "attention_grad(" not in compiled.source
    mask = torch.randn(2, 4, 45, 52)
    mask[1, :, :, 20:] = far
    mask[0, :, 7] = far
    dtype = {"bf16": torch.bfloat16, "f32": torch.float32}[element]
    check_masked(compiled, Heads(options=options), of.inputs(45, 52), mask.to(dtype))


@pytest.mark.slow
@pytest.mark.parametrize("options", ["causal=true", "window=12, softcap=2.0"])
def test_sinks_agree_with_float64(options: str):
    """They are keys of their own scores, with values of 0."""
    of = Heads(options=f"{options}, sinks=s")
    compiled = trained(of.text.replace(") {", ", s: bf16[4]) {", 1))
    assert "dq_of_tile(" in compiled.source and "attention_grad(" not in compiled.source
    without = Heads(options=options)
    tensors = [*without.inputs(45, 52), torch.randn(4).bfloat16()]
    d_y = torch.randn_like(tensors[0])

    def exact(*x: torch.Tensor) -> torch.Tensor:
        return attend(without, *x[:3], sinks=x[3])

    wanted = gradients(exact, [x.double() for x in tensors], d_y.double())
    found = gradients(compiled, tensors, d_y)
    for one, other in zip(found, wanted, strict=True):
        # The gradients of the sinks are four sums of both signs, of many rows each.
        assert relative_error(one, other) < (4e-2 if one.numel() == 4 else 1e-2)


@pytest.mark.slow
@pytest.mark.parametrize(("keys", "values"), [(24, 16), (16, 32), (40, 24)])
def test_heads_of_values_may_have_other_columns(keys: int, values: int):
    compiled = trained(f"""
        fn f(q: bf16[B, T, {4 * keys}], k: bf16[B, S, {2 * keys}], v: bf16[B, S, {2 * values}]) {{
            return attention(q, k, v, head_dim={keys}, value_dim={values}, causal=true)
        }}""")
    assert "dkv_of_tile(" in compiled.source and "attention_grad(" not in compiled.source
    shapes = [(45, 4 * keys), (52, 2 * keys), (52, 2 * values)]
    tensors = [torch.randn(2, *shape).bfloat16() for shape in shapes]
    d_y = torch.randn(2, 45, 4 * values).bfloat16()

    def exact(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Values of zeros fill the columns that keys have more, or those of zeros that of keys."""
        width = max(keys, values)
        q, k, v = (
            torch.nn.functional.pad(x.reshape(*x.shape[:2], -1, n), (0, width - n)).flatten(2)
            for x, n in ((q, keys), (k, keys), (v, values))
        )
        of = Heads(4, 2, width, f"causal=true, scale={keys**-0.5}")
        y = attend(of, q, k, v)
        return y.reshape(*y.shape[:2], -1, width)[..., :values].flatten(2)

    wanted = gradients(exact, [x.double() for x in tensors], d_y.double())
    for one, other in zip(gradients(compiled, tensors, d_y), wanted, strict=True):
        assert relative_error(one, other) < 1e-2


@pytest.mark.slow
def test_what_is_done_with_parts_of_heads_agrees_with_float64():
    """Heads of 24 columns after a rotation, which no epilogue undoes."""
    of = Heads(4, 2, 24)
    compiled = trained(rotated_text(of, 48))
    assert "dq_of_tile(" in compiled.source and "pointwise over" in compiled.source.lower()
    tensors = rotated_inputs(of, 48, 2, 45)
    d_y = torch.randn_like(tensors[0])
    wide = [x.double() for x in tensors]
    wanted = gradients(partial(rotated, of), wide, d_y.double(), LEARNED)
    eager = gradients(partial(rotated, of), tensors, d_y, LEARNED)
    found = gradients(compiled, tensors, d_y, LEARNED)
    for one, decomposed, exact in zip(found, eager, wanted, strict=True):
        assert relative_error(one, exact) <= 1.25 * relative_error(decomposed, exact)


@pytest.mark.slow
@pytest.mark.parametrize("of", [Heads(6, 1, 16, "window=21"), Heads(4, 1, 32), Heads(2, 1, 80)])
def test_programs_share_the_heads_of_queries(of: Heads):
    """If few heads of keys have many of queries, each program sums over some of those."""
    compiled = trained(of.text.replace("B, T", "1, 50").replace("B, S", "1, 61"))
    assert "sum_of_partials(" in compiled.source
    tensors = of.inputs(50, 61, batch=1)
    d_y = torch.randn_like(tensors[0])
    wanted = gradients(partial(attend, of), [x.double() for x in tensors], d_y.double())
    found = gradients(compiled, tensors, d_y)
    for one, other in zip(found, wanted, strict=True):
        assert relative_error(one, other) < 1e-2
    for one, other in zip(gradients(compiled, tensors, d_y), found, strict=True):
        assert torch.equal(one, other)


@pytest.mark.slow
def test_epilogues_of_shared_tiles_agree_with_float64():
    of = Heads(4, 1)
    compiled = trained(rotated_text(of, 48).replace("B, T", "1, 45").replace("[T,", "[45,"))
    assert "sum_of_partials(" in compiled.source
    assert pointwise_kernels(compiled.source) == [NORM]
    tensors = rotated_inputs(of, 48, 1, 45)
    d_y = torch.randn_like(tensors[0])
    wide = [x.double() for x in tensors]
    wanted = gradients(partial(rotated, of), wide, d_y.double(), LEARNED)
    eager = gradients(partial(rotated, of), tensors, d_y, LEARNED)
    found = gradients(compiled, tensors, d_y, LEARNED)
    for one, decomposed, exact in zip(found, eager, wanted, strict=True):
        assert relative_error(one, exact) <= 1.25 * relative_error(decomposed, exact)


@pytest.mark.slow
def test_one_tensor_for_queries_keys_and_values():
    of = Heads(2, 2, 32)
    text = "fn f(x: bf16[B, T, 64]) { return attention(x, x, x, head_dim=32, causal=true) }"
    x, d_y = torch.randn(2, 45, 64).bfloat16(), torch.randn(2, 45, 64).bfloat16()

    def same(x: torch.Tensor) -> torch.Tensor:
        return attend(of, x, x, x)

    (wanted,) = gradients(same, [x.double()], d_y.double())
    (found,) = gradients(trained(text), [x], d_y)
    assert relative_error(found, wanted) < 1e-2


@pytest.mark.slow
def test_batches_do_not_see_each_other():
    of = PROGRAMS["causal"]
    tensors = of.inputs(50, 50)
    d_y = torch.randn_like(tensors[0])
    compiled = trained(of.text)
    found = gradients(compiled, tensors, d_y)
    for x in (*tensors, d_y):
        x[1] = float("nan")
    for one, other in zip(gradients(compiled, tensors, d_y), found, strict=True):
        assert torch.equal(one[0], other[0]) and one[1].isnan().all()


@pytest.mark.slow
def test_keys_past_the_end_have_no_weight():
    """Scores of about -200 in all heads: a key of zeros would have an infinite weight."""
    of = PROGRAMS["all keys"]
    q, k, v = of.inputs(33, 41)
    q[..., :: of.width], k[..., :: of.width] = 100, -8
    d_y = torch.randn_like(q)
    wanted = gradients(partial(attend, of), [x.double() for x in (q, k, v)], d_y.double())
    for one, other in zip(gradients(trained(of.text), [q, k, v], d_y), wanted, strict=True):
        assert one.isfinite().all() and relative_error(one, other) < 2e-2


def backward_of_transposed_rows(rows: int, *, are_stored: bool) -> str:
    """Both kernels, of 2 heads of 16 columns: q, k and v are thirds of the columns of z, and dO and
    O have other rows, too, as those of PyTorch's own attention (T x B), and if `are_stored` so that
    they are read, the results.
    """
    own, given, packed = (
        f"tensor<{x}xf32>" for x in (f"2x{rows}x32", f"{rows}x2x32", f"{rows}x2x96")
    )
    lse, order = f"tensor<2x2x{rows}xf32>", "{perm = [1 : i64, 0 : i64, 2 : i64]}"
    ranges = {"q": (0, 32), "k": (32, 64), "v": (64, 96)}
    slices = "".join(
        f"%{name}s = coda.slice %z {{dim = 2 : i64, start = {start} : i64, stop = {stop} : i64}}"
        f" : ({packed}) -> {given}\n"
        for name, (start, stop) in ranges.items()
    )
    transposes = "".join(
        f"%{name} = coda.transpose %{name}s {order} : ({given}) -> {own}\n"
        for name in (*ranges, "d", "o")
    )
    results, result = ("%dq, %dk, %dv", own)
    transposed = ""
    if are_stored:
        results, result = ("%tq, %tk, %tv", given)
        transposed = "".join(
            f"%t{name} = coda.transpose %d{name} {order} : ({own}) -> {given}\n" for name in ranges
        )
    options = """{head_dim = 16 : i64, causal = true}
        schedule<tma, "16x16x16", warps = 4, stages = 1, group_m = 1>"""
    inputs = f"%lse : {lse}, %q : {own}, %k : {own}, %v : {own}) {options}"
    return f"""
    func.func @f(%z: {packed}, %ds: {given}, %os: {given}, %lse: {lse})
        -> ({result}, {result}, {result}) {{
      {slices}{transposes}
      %moment, %dq = gemm.attention_dq (%d : {own}, %o : {own}, {inputs} -> (tile : {own}) {{
      ^bb0(%a: f32):
        gemm.yield %a : f32
      }}
      %dk, %dv = gemm.attention_dkv (%d : {own}, %moment : {lse}, {inputs}
          -> (tile : {own}, tile : {own}) {{
      ^bb0(%a: f32, %b: f32):
        gemm.yield %a, %b : f32, f32
      }}
      {transposed}func.return {results} : {result}, {result}, {result}
    }}"""


@pytest.mark.parametrize(("rows", "are_stored"), [(17, False), (17, True), (20, False)])
def test_descriptors_of_transposed_rows_agree_with_float64(rows: int, are_stored: bool):
    """The strides of a batch and of a row change places; the last tiles are cut. Results that are
    read with transposed rows are stored so. Rows of 17 numbers are copied to multiples of 16 bytes.
    """
    module = parse(backward_of_transposed_rows(rows, are_stored=are_stored))
    source = emit_module(module)
    inputs = [torch.randn(rows, 2, columns) for columns in (96, 32, 32)]
    inputs.append(3 + torch.rand(2, 2, rows))
    found = load_module(source).run(*inputs)
    wanted = run_function(find_entry(module), inputs)
    for one, other in zip(found, wanted, strict=True):
        assert relative_error(one, other) < 2e-6
        assert one.is_contiguous()
    assert source.count(" * BATCHES + batch)") == 2 * are_stored
    strides = re.findall(
        r"TensorDescriptor\((?:aligned_rows\()?(\w+)\)?, \[.*?\], (\[.*?\])", source
    )
    of_z, of_others = "[96, 16, 192, 1]", "[32, 16, 64, 1]"
    inputs = [("q", of_z), ("k", of_z), ("v", of_z)]
    numbers = [(name, "[(q.shape[1]") for name in ("moment", "lse")]
    of_dkv = [("d", of_others), *numbers, *inputs]
    assert strides == [("d", of_others), ("o", of_others), *inputs, *of_dkv]


AHEAD_OF_A_DAY = {
    64: ("sm_80", None),
    80: ("sm_90", None),
    128: ("gfx942", None),
    256: ("sm_90", 50.0),
}


@pytest.mark.slow
@daily(lambda target, of: AHEAD_OF_A_DAY.get(of.width) == (target, of.numbers.get("softcap")))
@pytest.mark.parametrize("target", ["sm_80", "sm_90", "gfx942"])
@pytest.mark.parametrize(
    "of",
    [
        *(Heads(4, 2, width) for width in (64, 128, 256)),
        Heads(4, 4, 128, "causal=true, window=1024"),
        *(Heads(4, 2, width, "causal=true, softcap=50.0") for width in (128, 256)),
        *(Heads(4, 4, width) for width in (72, 80, 192)),
    ],
    ids=lambda of: f"{of.heads}-{of.kv_heads}-{of.width}-{of.options}",
)
def test_compiles_ahead_of_time(target: str, of: Heads):
    module = parse_text(rotated_text(of, 256))
    DifferentiatePass().apply(make_context(), module)
    options = " mainloop=warp_specialized" if target == "sm_90" else ""
    lowered = Lowering(module, CompileOptions(f"target={target}{options}")).module("scheduled")
    kernels = emit_program(lowered, "f_backward").kernels
    of_attention = [kernel for kernel in kernels if kernel.name.startswith("attention_d")]
    assert [("tensordesc" in k.arguments[0].type) for k in of_attention] == [target == "sm_90"] * 2
    for kernel in compile_kernels(of_attention, target, level="ttgir"):
        # Registers that are spilled are those of the epilogue, which runs once for a tile.
        most = 256 if of.width < 256 and target != "gfx942" else 400
        assert kernel.resources.fits and kernel.resources.spills <= most
        assert not divisions_in_loops(kernel.text)


@pytest.mark.parametrize("width", [16, 128])
def test_epilogues_of_neighbours_compile_ahead_of_time(width: int):
    """Triton 3.6 aborts where it has to infer the layout of a tile that is split."""
    module = parse_text(interleaved(rotated_text(Heads(4, 2, width), 256)))
    DifferentiatePass().apply(make_context(), module)
    lowered = Lowering(module, CompileOptions("target=sm_90 mainloop=warp_specialized"))
    kernels = emit_program(lowered.module("scheduled"), "f_backward").kernels
    of_attention = [kernel for kernel in kernels if kernel.name.startswith("attention_d")]
    assert all("_rope_sum" in x.name and x.language == "gluon" for x in of_attention)
    for kernel in compile_kernels(of_attention, "sm_90"):
        assert kernel.resources.fits and kernel.resources.spills <= 256


@pytest.mark.slow
@pytest.mark.parametrize("main_loop", ["tma", "warp_specialized"])
@pytest.mark.parametrize(("width", "options"), [(64, "causal=false"), (256, "causal=true")])
def test_products_do_not_wait_for_one_another(width: int, options: str, main_loop: str):
    """ptxas makes each product wait for the one before where a sum may be undefined."""
    module = parse_text(rotated_text(Heads(4, 2, width, options), 256))
    DifferentiatePass().apply(make_context(), module)
    lowered = Lowering(module, CompileOptions(f"target=sm_90 mainloop={main_loop}")).module(
        "scheduled"
    )
    kernels = emit_program(lowered, "f_backward").kernels
    of_attention = [kernel for kernel in kernels if kernel.name.startswith("attention_d")]
    for kernel in compile_kernels(of_attention, "sm_90", level="sass"):
        assert 0 < 2 * kernel.text.count("WARPGROUP.DEPBAR") < kernel.text.count("HGMMA")


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100", "gfx942"])
@pytest.mark.parametrize("width", [64, 256])
def test_masks_compile_ahead_of_time(target: str, width: int):
    of = Heads(8, 1, width, "causal=true, mask=m")
    text = of.text.replace(") {", ", m: bool[B, 1, T, S]) {", 1)
    text = text.replace("B, ", "2, ").replace("T, ", "1024, ").replace("S,", "1024,")
    module = parse_text(text.replace("S]", "1024]"))
    DifferentiatePass().apply(make_context(), module)
    scheduled = {"sm_90": "sm_90 mainloop=warp_specialized", "sm_100": "portable"}
    options = CompileOptions(f"target={scheduled.get(target, target)}")
    lowered = Lowering(module, options).module("scheduled")
    kernels = emit_program(lowered, "f_backward").kernels
    of_attention = [kernel for kernel in kernels if kernel.name.startswith("attention_d")]
    assert [kernel.shared_tiles is not None for kernel in of_attention] == [False, True]
    for kernel in compile_kernels(of_attention, target, level="ttgir"):
        # Tiles with spills are faster than smaller ones without.
        assert kernel.resources.fits and kernel.resources.spills <= 700
        assert not divisions_in_loops(kernel.text)


def divisions_in_loops(ttgir: str) -> list[str]:
    """Those by numbers that are no constants.

    Pipelining computes the places of a loop's first loads ahead of it, also where the loop has no
    steps. A division by their number among that tells LLVM that it is not 0: the loads are issued.
    """
    loops = re.findall(r"^( *)\S.*scf\.for .*\n((?:\1 .*\n)*)", ttgir, re.MULTILINE)
    assert loops
    of_loops = re.findall(r".*= arith\.(?:div|rem)[su]i .*", "".join(body for _, body in loops))
    return [line for line in of_loops if not re.search(r", %c\d+_i32\w* :", line)]
