"""The operators of .coda: their signatures, shape rules and lowering to the coda dialect."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from xdsl.dialects.builtin import f32
from xdsl.ir import Block, Operation, Region

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import broadcast_shapes
from coda_ir.dialects.gemm import FinalizeOp, YieldOp
from coda_ir.dialects.torch import CallOp
from coda_ir.frontends.coda_text.arguments import Mistake, Signature, signature
from coda_ir.frontends.coda_text.attention import ATTENTION, attention
from coda_ir.frontends.coda_text.elementwise import (
    COMPARISONS,
    NUMBER_UNARY,
    UNARY,
    applied,
    binary_call,
    cast,
    clamp,
    compare,
    power,
    selection,
    unary,
)
from coda_ir.frontends.coda_text.invocation import Invocation
from coda_ir.frontends.coda_text.library_calls import CONVOLUTIONS, LIBRARY_CALLS
from coda_ir.frontends.coda_text.scaled_linear import (
    LOW_BIT_LINEAR,
    QUANTIZED_LINEAR,
    SCALED_LINEAR,
    low_bit_linear,
    quantized_linear,
    scaled_linear,
)
from coda_ir.frontends.coda_text.scan import (
    DELTA_RULE,
    SELECTIVE_SCAN,
    SSD,
    delta_rule,
    selective_scan,
    ssd,
)
from coda_ir.frontends.coda_text.shape_operators import SHAPE_OPERATORS
from coda_ir.frontends.coda_text.torch_calls import TORCH_CALL, torch_call
from coda_ir.frontends.coda_text.values import (
    INDEX_TYPES,
    RANGES,
    Dim,
    PartialValue,
    TensorType,
    TensorValue,
    Value,
    describe,
    divided,
    ir_type,
)


def finalize(call: Invocation) -> TensorValue:
    """A column [..., 1] of a partial_row, a row [N] of a partial_col, in float32."""
    partial = call.value("partial")
    if not isinstance(partial, PartialValue):
        what = "missing" if partial is None else describe(partial)
        raise call.wrong(
            "partial",
            "expected a partial_row or partial_col of an epilogue",
            "a tensor needs no finalize; sum(x), mean(x), max(x) and logsumexp(x) reduce it",
            "E0301",
            given=what,
        )
    dims = (*partial.kept, 1) if partial.axis == "row" else partial.kept
    body = Block(arg_types=[f32])
    body.add_op(YieldOp(body.args[0]))
    type = TensorType("f32", dims)
    op = FinalizeOp(
        [(partial.combiner, partial.ssa)], [], [ir_type(type)], Region(body), axis=partial.axis
    )
    call.add(op)
    return TensorValue(type, op.outputs[0])


Rule = Callable[[Invocation], Value]


class Operator(NamedTuple):
    signature: Signature
    rule: Rule


def expect_depth(call: Invocation, x: TensorValue, w: TensorValue, depth: Dim, remedy: str) -> None:
    """Raises Mistake where K of the weight is another one than that of x."""
    if x.dims[-1] != depth:
        raise Mistake(
            f"{call.name}: x is {x.type}, but w is {w.type}: K is {x.dims[-1]} in x "
            f"and {depth} in w",
            remedy,
            "E0503",
            argument="w",
        )


def linear(call: Invocation) -> TensorValue:
    x, w = call.factors()
    rows, columns = w.dims
    other = "a weight stored as K x N goes with x @ w" if x.dims[-1] == rows else "w is N x K"
    expect_depth(call, x, w, columns, other)
    b = call.optional_tensor("b")
    return call.make(coda.LinearOp, x, w, b, element_type=call.float_type("dtype"))


def matmul(call: Invocation) -> TensorValue:
    if len(call.tensor("w").dims) > 2:
        return _matmul_in_batches(call)
    x, w = call.factors()
    rows, columns = w.dims
    stored = "a weight stored as N x K goes with linear(x, w)"
    expect_depth(call, x, w, rows, stored if x.dims[-1] == columns else "w is K x N")
    return call.make(coda.MatmulOp, x, w, element_type=call.float_type("dtype"))


def _matmul_in_batches(call: Invocation) -> TensorValue:
    """Products of matrices, which are the last two dimensions; the others broadcast."""
    x, w = call.float_tensor("x", least_rank=2), call.float_tensor("w")
    call.expect_element("w", w, x.type.element)
    expect_depth(call, x, w, w.dims[-2], "exchange dimensions, as in x @ transpose(w)")
    batches = broadcast_shapes(x.dims[:-2], w.dims[:-2])
    if batches is None:
        raise call.wrong(
            "w",
            f"but x is {x.type}: the dimensions before the last two do not broadcast",
            "extents must be equal or 1",
            "E0502",
        )
    if call.given("dtype"):
        remedy = f"convert the operands, as in cast($x, {call.element_type('dtype')})"
        why = f"but w is {call.tensor('w').type}: only products with a weight of rank 2 take it"
        raise call.wrong("dtype", why, remedy, "E0501", given=call.element_type("dtype"))
    dims = (*batches, x.dims[-2], w.dims[-1])
    type = ir_type(TensorType(x.type.element, dims))
    return call.emit_stated(CallOp("aten.matmul.default", [x.ssa, w.ssa], "{0}, {1}", [type]), dims)


def grouped(kind: type[coda.GroupedLinearMap], call: Invocation) -> TensorValue:
    """A linear map with a weight for each group of rows."""
    x, w = call.factors(rank=3)
    call.tensor("x", rank=2)
    layouts = ("groups x K x N", "groups x N x K")
    expect_depth(call, x, w, w.dims[1 + kind.K_AXIS], f"w is {layouts[kind.K_AXIS]}")
    ends, b = call.tensor("offsets"), call.optional_tensor("b")
    return call.make(kind, x, w, ends, b, element_type=call.float_type("dtype"))


def _norm_parameter(call: Invocation, name: str, x: TensorValue) -> TensorValue | None:
    """The weight or bias of a norm, which has the element type of x."""
    value = call.optional_tensor(name)
    if value is not None:
        call.expect_element(name, value, x.type.element)
    return value


def rms_norm(call: Invocation) -> TensorValue:
    x = call.float_tensor("x", least_rank=1)
    group = call.integer("group", 0) if call.given("group") else None
    w = _norm_parameter(call, "w", x)
    return call.make(coda.RMSNormOp, x, w, eps=call.epsilon(1e-6), group=group)


def layer_norm(call: Invocation) -> TensorValue:
    x = call.float_tensor("x", least_rank=1)
    dims = x.dims
    if call.given("group"):
        x = _in_groups(call, x, call.integer("group", 0))
    weight, bias = (_norm_parameter(call, name, x) for name in ("w", "b"))
    given = [param for param in (weight, bias) if param is not None]
    bias_only = weight is None and bias is not None
    eps = call.epsilon(1e-5)
    normalized = call.make(coda.LayerNormOp, x, given, eps=eps, bias_only=bias_only)
    return normalized if dims == x.dims else call.emit_reshape(normalized, dims)


def _in_groups(call: Invocation, x: TensorValue, group: int) -> TensorValue:
    """x with each run of `group` columns as a row."""
    count = divided(x.dims[-1], group) if group > 0 else None
    if count is None:
        columns = f"expected a divisor of the {x.dims[-1]} columns"
        raise call.wrong("group", columns, given=group)
    return x if count == 1 else call.emit_reshape(x, (*x.dims[:-1], count, group))


def softmax(call: Invocation) -> TensorValue:
    return _along_rows(call, partial(call.make, coda.SoftmaxOp))


_OF_INTEGERS = {"sum": "aten.sum.dim_IntList", "max": "aten.amax.default"}
"""PyTorch's operators for exact reductions of integers."""


def reduction(kind: str, call: Invocation) -> TensorValue:
    """Reduces a dimension to 1."""
    x = call.tensor("x", least_rank=1)
    is_counted = x.type.element == "bool" and kind == "sum"
    if kind in _OF_INTEGERS and (x.type.element in RANGES or is_counted):
        return _integer_reduction(kind, call, x)
    type = call.float_type("dtype")
    return _along_rows(call, lambda x: call.make(coda.ReduceOp, x, kind, type))


def _integer_reduction(kind: str, call: Invocation, x: TensorValue) -> TensorValue:
    """The sum in i64, as in PyTorch, or the largest element."""
    if call.given("dtype"):
        raise call.wrong("dtype", f"but {kind} of integers is exact", "cast the result", "E0501")
    dim = call.axis("dim", len(x.dims), -1)
    dims = (*x.dims[:dim], 1, *x.dims[dim + 1 :])
    element = "i64" if kind == "sum" else None
    return call.emit_call(_OF_INTEGERS[kind], x, f"{{0}}, [{dim}], True", dims, element=element)


def _along_rows(call: Invocation, rule: Callable[[TensorValue], TensorValue]) -> TensorValue:
    """Apply `rule`, which is for the last dimension of a tensor, to the dimension `dim` of x: the
    two are exchanged before and after.
    """
    x = call.float_tensor("x", least_rank=1)
    last = len(x.dims) - 1
    dim = call.axis("dim", len(x.dims), -1)
    axes = list(range(len(x.dims)))
    axes[dim], axes[last] = last, dim
    return call.transposed(rule(call.transposed(x, axes)), axes)


def glu(activation: str | None, call: Invocation) -> TensorValue:
    """A packed gate; where `activation` is None, the call says which one."""
    x = call.float_tensor("x", least_rank=1)
    half = divided(x.dims[-1], 2)
    if half is None:
        raise call.wrong(
            "x",
            "expected an even number of columns: the gate, then the up projection",
            None if isinstance(x.dims[-1], int) else "give x a constant number of columns",
            "E0507",
        )
    name = activation or call.choice("activation", "silu", coda.ACTIVATIONS)
    op = coda.GluOp(x.ssa, name, adjacent=call.flag("adjacent"))
    return call.emit(op, (*x.dims[:-1], half))


def activated(call: Invocation, x: TensorValue, name: str) -> TensorValue:
    """An activation function by its name."""
    return x if name == "identity" else call.make(UNARY[name], x)


def activate(call: Invocation) -> TensorValue:
    name = call.choice("activation", "silu", coda.ACTIVATIONS)
    return activated(call, call.float_tensor("x"), name)


def rope(call: Invocation) -> TensorValue:
    x = call.float_tensor("x", least_rank=2)
    cos, sin = (call.float_tensor(name, least_rank=2) for name in ("cos", "sin"))
    return call.make(
        coda.RopeOp,
        x,
        cos,
        sin,
        head_dim=call.integer("head_dim", 0),
        layout=call.choice("layout", "half_split", coda.ROPE_LAYOUTS),
        table_heads=call.integer("table_heads", 1),
        per_column=call.flag("per_column"),
    )


def cross_entropy(call: Invocation) -> TensorValue:
    logits, target = call.float_tensor("logits", least_rank=1), call.index_tensor("target")
    reduction = call.choice("reduction", "mean", coda.LOSS_REDUCTIONS)
    ignored = call.integer("ignore_index", -100)
    return call.make(coda.CrossEntropyOp, logits, target, ignore_index=ignored, reduction=reduction)


def embedding(call: Invocation) -> TensorValue:
    is_swapped = call.tensor("table").type.element in INDEX_TYPES
    remedy = "the ids come first: embedding(ids, table)" if is_swapped else None
    ids, table = call.index_tensor("ids", remedy), call.tensor("table", rank=2)
    padding = call.integer("padding_idx", 0) if call.given("padding_idx") else None
    return call.make(coda.EmbeddingOp, ids, table, padding_idx=padding)


NAMED_BY: Mapping[type[Operation], tuple[str, Mapping[str, str]]] = {
    coda.CompareOp: ("relation", {relation: relation for relation in COMPARISONS}),
    coda.GluOp: (
        "activation",
        {"silu": "swiglu", "gelu": "geglu", "gelu_tanh": "geglu_tanh", "relu": "reglu"},
    ),
    coda.ReduceOp: ("kind", {"sum": "sum", "mean": "mean", "max": "max", "lse": "logsumexp"}),
}
"""Operators for which the language has a separate name for each value of a property."""


def _named(op: type[Operation], parameters: str, rule: Callable[..., Value]) -> dict[str, Rule]:
    """The names of an operator in the language: `rule` takes the value of a name."""
    _, names = NAMED_BY[op]
    return {f"{name}({parameters})": partial(rule, value) for value, name in names.items()}


def _call_of(name: str) -> str:
    """The signature of a function of one tensor and numbers."""
    numbers = (
        f", {number}: number{'' if default is None else f' = {default}'}"
        for number, default in UNARY[name].NUMBERS.items()
    )
    return f"{name}(x{''.join(numbers)})"


ELEMENTWISE: dict[str, Rule] = {
    **{_call_of(name): unary for name in UNARY if name != "detach"},
    **{f"{name}(a, b)": binary_call for name in coda.FUNCTIONS_OF_TWO},
    "clamp(x, min: number?, max: number?)": clamp,
    "pow(x, exponent: number)": power,
    **{f"{name}(condition, a, b)": selection for name in coda.SELECTIONS},
    **{f"{name}(a, b)": compare for name in COMPARISONS},
    "logical_not(x)": partial(applied, coda.LogicalNotOp),
    "cast(x, dtype: type, *, rounding: string?, saturate: boolean = false)": cast,
}
"""Operators on tensors that elements of epilogues have, too."""

_RULES: dict[str, Rule] = {
    "linear(x, w, b?, *, dtype: type?)": linear,
    "matmul(x, w, *, dtype: type?)": matmul,
    "grouped_linear(x, w, offsets, b?, *, dtype: type?)": partial(grouped, coda.GroupedLinearOp),
    "grouped_matmul(x, w, offsets, b?, *, dtype: type?)": partial(grouped, coda.GroupedMatmulOp),
    SCALED_LINEAR: scaled_linear,
    LOW_BIT_LINEAR: low_bit_linear,
    QUANTIZED_LINEAR: quantized_linear,
    "rms_norm(x, w?, *, eps: number = 1e-6, group: integer?)": rms_norm,
    "layer_norm(x, w?, b?, *, eps: number = 1e-5, group: integer?)": layer_norm,
    "softmax(x, dim: integer = -1)": softmax,
    "sum(x, dim: integer = -1, *, dtype: type?)": partial(reduction, "sum"),
    "mean(x, dim: integer = -1, *, dtype: type?)": partial(reduction, "mean"),
    "max(x, *, dim: integer = -1, dtype: type?)": partial(reduction, "max"),
    "logsumexp(x, dim: integer = -1, *, dtype: type?)": partial(reduction, "lse"),
    'glu(x, *, activation: string = "silu", adjacent: boolean = false)': partial(glu, None),
    "activate(x, activation: string)": activate,
    **_named(coda.GluOp, "x", glu),
    **ELEMENTWISE,
    "detach(x)": unary,
    'rope(x, cos, sin, *, head_dim: integer, layout: string = "half_split", '
    "table_heads: integer = 1, per_column: boolean = false)": rope,
    ATTENTION: attention,
    SELECTIVE_SCAN: selective_scan,
    SSD: ssd,
    DELTA_RULE: delta_rule,
    'cross_entropy(logits, target, *, reduction: string = "mean", '
    "ignore_index: integer = -100)": cross_entropy,
    "embedding(ids, table, *, padding_idx: integer?)": embedding,
    "finalize(partial)": finalize,
    TORCH_CALL: torch_call,
}


def _table() -> dict[str, Operator]:
    operators = [Operator(signature(text), rule) for text, rule in _RULES.items()]
    more = {**LIBRARY_CALLS, **CONVOLUTIONS, **SHAPE_OPERATORS}
    operators += [Operator(signature(text), rule) for text, rule in more.items()]
    return {operator.signature.name: operator for operator in operators}


OPERATORS: dict[str, Operator] = _table()

CONSTANT_FUNCTIONS = frozenset({*NUMBER_UNARY, "maximum", "minimum"})
"""The operators that numbers have too."""
