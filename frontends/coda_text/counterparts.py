"""Names of PyTorch and Python that .coda lacks, and their equivalents in .coda.

Errors and the completion of the language server use these tables. The texts have fields:

    $x, $y, $z       the arguments of a call; `${y|-1}` is -1 where there is no such argument
    $X, $Y, $Z       the same as tensors: `cast(0, f32)` for the number 0
    $all, $integer   all arguments that are no numbers, and the first one that is an integer
    $rest            the arguments after the first one
    $dtype, $shape   the element type and the extents of the result of an elementwise operator
    $rows, $lead     the extents of x but for the last one, and the same with a comma after
    $chunks          the sizes of y equal parts of dimension z of x
    $squeezed        the extents of x without those that are 1
    $unsqueezed      the extents of x with a new one at y
    $product         the extents of the product of the matrices x and y
"""

from collections.abc import Mapping

from coda_ir.dialects import coda

_OPERATORS: Mapping[str, type[coda.ElementwiseOp]] = {
    **coda.REAL_FUNCTIONS,
    **coda.FUNCTIONS_OF_TWO,
}


def _by_name(texts: Mapping[str, str]) -> dict[str, str]:
    return {name: text for text, names in texts.items() for name in names.split()}


def _pytorch(
    call: str, operands: str = "$X", dtype: str = "$dtype", shape: str = "$shape", more: str = ""
) -> str:
    """A call of PyTorch; by default, its result has the type of an elementwise operator's."""
    return f'torch("aten.{call}", {operands}, dtype={dtype}, shape=[{shape}]{more})'


_ALIASES: dict[str, str] = {
    alias.partition(".")[0]: f"{name}($x)" if name in coda.REAL_FUNCTIONS else f"{name}($x, $y)"
    for name, operator in _OPERATORS.items()
    if operator.ELEMENTS != coda.Elements.BOOLEANS
    for alias in operator.ALIASES
    if alias.partition(".")[0] not in _OPERATORS
}
"""Other names of ATen for operators of the language."""

ELEMENTWISE: dict[str, str] = _ALIASES | _by_name(
    {
        "silu($x)": "swish",
        "gelu_tanh($x)": "gelu_new gelu_fast gelu_approx gelu_pytorch_tanh tanh_gelu",
        "$x * sigmoid(1.702 * $x)": "quick_gelu",
        "relu2($x)": "squared_relu relu_squared",
        "sigmoid($x)": "logistic expit",
        "abs($x)": "absolute",
        "sign($x)": "sgn",
        "$x * $x": "square",
        "1 / $x": "reciprocal",
        "-$x": "neg negative",
        "$x": "identity contiguous clone",
        "$x + $y": "add",
        "$x - $y": "sub subtract",
        "$x * $y": "mul multiply",
        "$x / $y": "div divide true_divide",
        "minimum(maximum($x, $y), $z)": "clip",
        "maximum($x, $y)": "clamp_min",
        "minimum($x, $y)": "clamp_max",
        "clamp($x, 0, 6)": "relu6",
        "clamp($x, -1, 1)": "hardtanh",
        "clamp($x / 6 + 0.5, 0, 1)": "hardsigmoid",
        "$x * clamp($x / 6 + 0.5, 0, 1)": "hardswish",
        "$x * tanh(softplus($x))": "mish",
        "-softplus(-$x)": "log_sigmoid",
        "maximum($x, ${y|0.01} * $x)": "leaky_relu",
        "$x / (1 + abs($x))": "softsign",
        "cast($x, f32)": "float",
        "cast($x, bf16)": "bfloat16",
        "cast($x, f16)": "half",
    }
)
"""Counterparts without an operator of PyTorch."""

ELEMENTS: dict[str, str] = {
    **ELEMENTWISE,
    "max": "maximum($x, $y)",
    "min": "minimum($x, $y)",
    "detach": "$x",
}
"""Counterparts of functions of elements, for the body of an epilogue."""

_TENSORS: dict[str, str] = _by_name(
    {
        "lt($x, $y)": "less",
        "le($x, $y)": "less_equal",
        "gt($x, $y)": "greater",
        "ge($x, $y)": "greater_equal",
        "ne($x, $y)": "not_equal",
        "logical_not(logical_or(isnan($x), isinf($x)))": "isfinite",
        "where($y, ${z|0}, $x)": "masked_fill",
        "broadcast($x, [${rest|$shape}])": "expand",
        "concat(${all|x, y}, dim=${integer|-1})": "cat concatenate",
        "reshape($x, [${rest|$shape}])": "view",
        "reshape($x, [-1])": "flatten ravel",
        "detach($x)": "detach_copy",
        "reshape($x, [$unsqueezed])": "unsqueeze expand_dims",
        "reshape($x, [$squeezed])": "squeeze",
        "transpose($x, [${rest|1, 0}])": "permute",
        "transpose($x)": "t",
        "cast($x, ${y|f32})": "to astype",
        "cast($x, f64)": "double",
        "cast($x, i64)": "long",
        "cast($x, i32)": "int",
        "max($x)": "amax",
        "-max(-$x)": "min amin",
        "sum($x) > 0": "any",
        "sum(logical_not($x)) == 0": "all",
        "sum($x != 0)": "count_nonzero",
        "minimum($x, $y)": "min/2",
        "sqrt(sum($x * $x))": "norm vector_norm",
        "$x + ($y - $x) * $z": "lerp",
        "$x / maximum(sqrt(sum($x * $x)), 1e-12)": "normalize",
        "index($x, $z, ${y|0})": "index_select",
        "convolution($x, $y)": "conv2d conv3d",
        "broadcast(cast(0, f32), [${items|M, 64}])": "zeros",
        "broadcast(cast(1, f32), [${items|M, 64}])": "ones",
        "$x @ $y": "mm dot",
        "$y @ $z + $x": "addmm",
        "attention($x, $y, $z, head_dim=64)": "scaled_dot_product_attention sdpa flash_attention "
        "flash_attn_func",
        "rope($x, $y, $z, head_dim=64)": "rotary rotary_embedding apply_rotary_emb "
        "apply_rotary_pos_emb",
    }
)

_SAME_TYPE = (
    "tan asin acos atan sinh cosh asinh acosh atanh arcsin arccos arctan arcsinh arccosh arctanh "
    "erfc frac log10 selu celu logit nan_to_num tril triu zeros_like ones_like"
)

_PYTORCH: dict[str, str] = {
    **{name: _pytorch(f"{name}.default({{0}})") for name in _SAME_TYPE.split()},
    **{name: _pytorch(f"{name}.default({{0}}, ${{y|-1}})") for name in ("cumprod", "logcumsumexp")},
    "logaddexp": _pytorch("logaddexp.default({0}, {1})", "$X, $Y"),
    "fmod": _pytorch("fmod.Tensor({0}, {1})", "$X, $Y"),
    "signbit": _pytorch("signbit.default({0})", dtype="bool"),
    **{
        name: _pytorch(f"{name}.default({{0}}, -1)", dtype="i64", shape="$rows")
        for name in ("argmax", "argmin")
    },
    **{
        name: _pytorch(f"{name}.correction({{0}}, [-1], keepdim=True)", shape="${lead}1")
        for name in ("var", "std")
    },
    **{
        name: _pytorch(f"{name}.default({{0}}, {{1}})", "$X, $Y", shape="")
        for name in ("mse_loss", "l1_loss")
    },
    "flip": _pytorch("flip.default({0}, [${y|-1}])"),
    "roll": _pytorch("roll.default({0}, [${y|1}], [${z|-1}])"),
    "log_softmax": _pytorch("log_softmax.int({0}, -1)"),
    "dropout": _pytorch("dropout.default({0}, ${y|0.5}, True)", more=", random=true"),
    "prod": _pytorch("prod.dim_int({0}, -1, True)", shape="${lead}1"),
    "median": _pytorch("median.dim({0}, -1, True)", shape="${lead}1", more=", positions=[0]"),
    "stack": _pytorch("stack.default([{0}, {1}])", "$X, $Y", shape="2, $shape"),
    "bmm": _pytorch("bmm.default({0}, {1})", "$X, $Y", shape="$product"),
}

FUNCTIONS: dict[str, str] = {
    name: text
    for name, text in {**ELEMENTWISE, **_TENSORS, **_PYTORCH}.items()
    if name not in _OPERATORS
}
"""Counterparts of functions of tensors; `name/2` is a call with two tensors or a float."""

NOTES: dict[str, str] = {
    **dict.fromkeys(
        (FUNCTIONS[name] for name in ("amax", "amin", "any", "all", "count_nonzero")),
        ", which reduces the last dimension to 1",
    ),
    FUNCTIONS["conv2d"]: ", then the bias; stride=[2, 2] and padding=[1, 1] are lists",
}
"""Notes that remedies append to counterparts with other options."""

SIZES = "sizes are the names in the types of the parameters: M and 64 for x: f32[M, 64]"

WITHOUT_COUNTERPART: dict[str, str] = _by_name(
    {
        SIZES: "len size dim ndim numel shape",
        "write broadcast(cast(0, f32), [M, 64]), with the number in all elements": "full empty",
        "write a @ b, with reshape and transpose before and after": "einsum tensordot",
        "add a dimension with reshape, broadcast it, and join both with reshape": (
            "repeat repeat_interleave tile interpolate upsample upsample_nearest1d "
            "upsample_nearest2d"
        ),
        "write reshape, transpose and reshape": "pixel_shuffle pixel_unshuffle",
        "compare positions: reshape(arange(M), [M, 1]) == reshape(arange(M), [1, M])": "eye",
        "write cross_entropy(logits, target), which takes logits": "nll_loss",
    }
)
"""Remedies for functions that no single expression replaces."""

_OTHERS = (
    "amp angle argwhere batch_norm bilinear binary_cross_entropy broadcast_shapes "
    "broadcast_tensors broadcast_to cond conv_transpose1d conv_transpose2d conv_transpose3d cross "
    "cudnn_convolution dsplit einsum embedding_bag fmax fmin frexp geqrf ger grouped_mm hsplit "
    "iinfo index_add index_put inf inner instance_norm isin isneginf isposinf ldexp len "
    "linear_cross_entropy lu miopen_convolution mkldnn_convolution msort nan nanmean nansum "
    "native_group_norm native_layer_norm new nonzero nuclear_norm os prelu print quantized_gru "
    "quantized_lstm randperm range real renorm reshape_as rrelu scatter_add scatter_add_ "
    "select_scatter shape short signal signbit sinc slice_scatter soft_margin_loss softmin "
    "threshold transpose_copy unique upsample_bilinear vsplit xlogy"
)

OTHERS = frozenset(_OTHERS.split())
"""Names with another meaning than the operators of .coda with the same names."""

CALLS: dict[str, str] = {
    "reshape": "reshape($x, [${rest|$shape}])",
    "transpose": "transpose($x) for the last two dimensions, transpose($x, [0, 2, 1]) for others",
    "split": "split($x, [32, 32], dim=-1)",
    "gather": "gather($x, $z, $y)",
    "scatter": "scatter($x, $z, values, $y)",
}
"""Methods whose names are those of operators with other arguments."""

INFIX: dict[str, str] = {
    "**": "pow($x, $y)",
    "%": "remainder($x, $y)",
    "&": "logical_and($x, $y)",
    "|": "logical_or($x, $y)",
    "^": "logical_xor($x, $y)",
    "&&": "logical_and($x, $y)",
    "||": "logical_or($x, $y)",
    "and": "logical_and($x, $y)",
    "or": "logical_or($x, $y)",
    "not": "logical_not($x)",
}
"""Operators of Python and C."""

ELEMENT_NAMES: dict[str, str] = _by_name(
    {
        "bf16": "bfloat16",
        "f16": "float16 half fp16",
        "f32": "float32 float fp32 single",
        "f64": "float64 double fp64",
        "f8e4m3": "float8_e4m3fn e4m3 fp8 float8",
        "f8e5m2": "float8_e5m2 e5m2",
        "i8": "int8",
        "u8": "uint8 byte",
        "i32": "int32 int",
        "i64": "int64 long",
        "bool": "boolean bool_ i1",
    }
)

VALUES: dict[str, str] = {
    **dict.fromkeys(("None", "none", "null", "nil"), "leave the argument out"),
    "True": "true",
    "False": "false",
    "inf": "numbers are finite: write a large number, such as 1e30",
    "pi": "write the number, 3.141592653589793",
    **{name: f'a choice is a string, "{name}"' for name in coda.ROPE_LAYOUTS},
}
"""Names of values in Python: what they are called, or what to write."""

CHOICES: dict[str, dict[str, str]] = {
    "activation": {
        **{
            name: text.removesuffix("($x)")
            for name, text in ELEMENTWISE.items()
            if text.removesuffix("($x)") in coda.ACTIVATIONS
        },
        **_by_name({"identity": "none linear", "silu": "swiglu", "gelu": "geglu gelu_none"}),
    },
    "layout": _by_name(
        {"half_split": "neox rotate_half half", "interleaved": "gptj gpt-j complex adjacent"}
    ),
    "reduction": {"avg": "mean", "average": "mean"},
    "combiner": {"sum": "add", "plus": "add", "maximum": "max", "logsumexp": "lse"},
    "port": _by_name(
        {
            "tile": "matrix full tensor residual",
            "row": "bias vector",
            "col": "column",
            "scalar": "float number",
        }
    ),
}
"""Strings that other libraries use for the choices of an argument."""

PARAMETERS: dict[str, tuple[str, ...]] = {
    "weight": ("w", "table"),
    "bias": ("b", "mask"),
    "attn_bias": ("mask",),
    "gamma": ("w",),
    "beta": ("b",),
    "input": ("x", "ids", "logits"),
    "is_causal": ("causal",),
    "attn_mask": ("mask",),
    "attention_mask": ("mask",),
    "sliding_window": ("window",),
    "window_size": ("window",),
    "softmax_scale": ("scale",),
    "sm_scale": ("scale",),
    "logit_cap": ("softcap",),
    "epsilon": ("eps",),
    "group_size": ("depth", "group"),
    "target_dtype": ("dtype",),
    "dims": ("axes",),
    "perm": ("axes",),
    "axis": ("dim",),
    "size": ("shape",),
    "split_size_or_sections": ("sizes",),
    "end": ("stop",),
    "labels": ("target",),
    "act": ("activation",),
    "act_fn": ("activation",),
}
"""Names that other libraries give to parameters."""

_LAST_DIMENSION = "it works on the last dimension: leave it out, or transpose x before and after"


def _of(operators: str, **texts: str) -> dict[tuple[str, str], str]:
    return {(op, name): text for op in operators.split() for name, text in texts.items()}


KEYWORDS: dict[tuple[str, str], str] = {
    **_of("glu", dim=_LAST_DIMENSION, axis=_LAST_DIMENSION),
    **_of(
        "sum mean max logsumexp",
        **dict.fromkeys(
            ("keepdim", "keepdims"),
            "the dimension stays, with extent 1: leave it out, or drop it with reshape",
        ),
    ),
    **_of(
        "rms_norm layer_norm",
        groups="write group=..., the number of columns divided by that of groups",
    ),
    **_of("rms_norm layer_norm", normalized_shape="leave it out: " + _LAST_DIMENSION),
    **_of("silu relu sigmoid tanh gelu", inplace="leave it out: operators return new values"),
    **_of("gelu", approximate="the form with tanh is gelu_tanh(x)"),
    **_of("attention", dropout_p="leave it out: attention drops nothing"),
    **_of(
        "cross_entropy",
        label_smoothing="write torch("
        '"aten.cross_entropy_loss.default({0}, {1}, None, 1, -100, 0.1)", logits, target, '
        "dtype=f32, shape=[])",
    ),
    **_of("selective_scan", delta_softplus="write softplus(dt)"),
    **_of("rope", interleaved='write layout="interleaved"'),
    **_of(
        "attention rope",
        **dict.fromkeys(
            ("heads", "n_heads", "num_heads", "n_head", "head_size"),
            "write head_dim=..., the number of columns divided by that of heads",
        ),
    ),
}
"""Parameters that operators of other libraries have, and what is written instead."""

SUPERFLUOUS: dict[str, str] = {
    "arange": "the first argument counts the numbers: arange(8, start=1) is 1 to 8",
    "max": "write max(x, dim=-1); maximum(a, b) is the larger of two tensors",
    "rms_norm": "write rms_norm(x, w, eps=...)",
    "layer_norm": "write layer_norm(x, w, b, eps=...)",
    "group_norm": "write group_norm(x, w, b, groups=..., eps=...)",
    "transpose": "transpose(x) exchanges the last two dimensions; for others, list all of them in "
    "order: transpose(x, [0, 2, 1])",
    "reshape": "write the sizes in brackets, as in reshape(x, [-1, 64])",
    "split": "write split(x, [32, 32], dim=-1)",
}
"""Remedies for too many arguments by position."""
