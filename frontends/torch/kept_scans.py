"""Functions of transformers that torch.compile traces in a different form.

Each scan is one operator, whatever its length. The loss that balances experts has no size that
depends on values.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from inspect import signature
from types import ModuleType
from typing import Any, TypeGuard, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from coda_ir.diagnostics import ModelError
from coda_ir.frontends.torch.checkpoints import function_of_transformers
from coda_ir.frontends.torch.state_spaces import DELTA_RULE, HEADS, SCAN, state_space

MODULE, FUNCTION = "transformers.utils.import_utils", "is_torchdynamo_exporting"


def keep_scans() -> None:
    """Make torch.compile trace each state-space model of transformers as one operator.

    The models' own functions loop over time or over chunks, or compute products over chunks that
    need many times the memory. After this call, torch.compile traces `coda_ir::state_space`
    instead, for every backend, also in models that are imported later; untraced code is unchanged.
    The call has two more effects. The load-balancing losses of experts are traced without
    `bincount`, at which TorchDynamo breaks the graph. Within torch.compile, models that ask whether
    they are being exported get the answer no, whereas PyTorch 2.11 would answer yes; `torch.export`
    with `strict=False` still asks PyTorch. The backend `coda` calls this function if transformers
    has been imported. It is public for functions that are compiled before that. Raises CodaError
    for a version of transformers without this query.
    """
    _substitute(function_of_transformers(MODULE, FUNCTION), _is_exporting)
    for module in filter(_is_file_of_models, list(sys.modules.values())):
        _substitute_in(module)
    if not any(isinstance(finder, _ModelFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _ModelFinder())


def _substitute_in(module: ModuleType) -> None:
    for function, substitute in SUBSTITUTES.items():
        _substitute(getattr(module, function, None), substitute)


class _ModelFinder(MetaPathFinder):
    """Finds the files of models that are imported later; to import all of them takes 0.4 s."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not _is_name_of_models(fullname):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _ModelLoader(spec.loader.name, spec.loader.path)
        return spec


class _ModelLoader(SourceFileLoader):
    """Loads the file of a model and substitutes its functions."""

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        _substitute_in(module)


def keep_scans_of(model: torch.nn.Module) -> bool:
    """Make TorchDynamo trace `coda_ir::state_space`, for any length, in place of the scans of
    transformers that the files of the classes in `model` name; return whether there are any. Models
    in float64 have none: that operator takes no such numbers.
    """
    if any(tensor.dtype == torch.float64 for tensor in model.state_dict().values()):
        return False
    names = {type(module).__module__ for module in model.modules()}
    files = [sys.modules[name] for name in names if name in sys.modules]
    named = [value for file in files for value in vars(file).values() if _is_file_of_models(value)]
    functions = [
        (getattr(file, name, None), substitute)
        for file in (*files, *named)
        for name, substitute in STATE_SPACES.items()
    ]
    for function, substitute in functions:
        _substitute(function, substitute)
    return any(_has_parameters_of(function, substitute) for function, substitute in functions)


def _is_file_of_models(value: object) -> TypeGuard[ModuleType]:
    if not issubclass(type(value), ModuleType):  # isinstance may load a lazy module
        return False
    return _is_name_of_models(getattr(value, "__name__", ""))


def _is_name_of_models(name: str) -> bool:
    return name.startswith("transformers.models.") and ".modeling_" in name


def _has_parameters_of(function: Any, substitute: Callable[..., Any]) -> bool:
    return callable(function) and [*signature(function).parameters] == [
        *signature(substitute).parameters
    ]


def _substitute(function: Any, substitute: Callable[..., Any]) -> None:
    """Substitute a function whose parameters are the ones that are known."""
    # Otherwise it is none, or has other parameters, or has been substituted.
    with suppress(TypeError, ValueError):
        torch.compiler.substitute_in_graph(function)(substitute)


def _is_exporting() -> bool:
    return False


def _times(dt: Tensor, bias: Tensor | None, softplus: bool) -> Tensor:
    if bias is not None:
        dt = dt + bias.to(dt.dtype)
    return F.softplus(dt) if softplus else dt


# Mamba: the states of each channel decay by themselves


def _selective_scan(
    hidden_states: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    z: Tensor | None = None,
    delta_bias: Tensor | None = None,
    delta_softplus: bool = False,
    return_last_state: bool = False,
    use_mambapy: bool = False,
    use_associative_scan: bool = False,
    **kwargs: Any,
) -> Any:
    x, dt, b, c = (tensor.transpose(1, 2) for tensor in (hidden_states, dt, B, C))
    dt = _times(dt, delta_bias, delta_softplus)
    y, last = state_space(SCAN, (x, dt, A, b, c), A.shape[-1])
    y = _gated(y, x, D, None if z is None else z.transpose(1, 2)).transpose(1, 2)
    return (y, last) if return_last_state else y


def _selective_state_update(
    state: Tensor,
    hidden_states: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    dt_bias: Tensor | None = None,
    dt_softplus: bool = False,
    z: Tensor | None = None,
    **kwargs: Any,
) -> Tensor:
    x, dt, b, c = (tensor.unsqueeze(1) for tensor in (hidden_states, dt, B, C))
    dt = _times(dt, dt_bias, dt_softplus)
    y, last = state_space(SCAN, (x, dt, A, b, c, state), A.shape[-1])
    state.copy_(last)
    return _gated(y, x, D, None if z is None else z.unsqueeze(1)).squeeze(1).to(x.dtype)


# Mamba 2: all states of a head decay alike


def _chunk_scan(
    hidden_states: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    chunk_size: int,
    D: Tensor | None = None,
    dt_bias: Tensor | None = None,
    initial_states: Tensor | None = None,
    dt_softplus: bool = False,
    dt_limit: tuple[float, float] = (0.0, float("inf")),
    return_final_states: bool = False,
    **kwargs: Any,
) -> Any:
    dt = torch.clamp(_times(dt, dt_bias, dt_softplus), min=dt_limit[0], max=dt_limit[1])
    operands = [hidden_states.flatten(2), dt, A, B.flatten(2), C.flatten(2)]
    if initial_states is not None:
        operands.append(initial_states)
    y, last = state_space(HEADS, operands, B.shape[-1])
    y = y.view(hidden_states.shape)
    if D is not None:
        y = y + D[..., None] * hidden_states.float()
    return (y, last) if return_final_states else y


def _head_state_update(
    state: Tensor,
    hidden_states: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    dt_bias: Tensor | None = None,
    dt_softplus: bool = False,
    z: Tensor | None = None,
    **kwargs: Any,
) -> Tensor:
    """Compute one position. The columns and states of a head share A, dt and its bias."""
    if A.stride()[1:] != (0, 0) or dt.stride(-1):
        raise ModelError(
            "the columns of a head differ in dt or A", "expand one dt and one A for each head"
        )
    dt = _times(dt[..., 0], None if dt_bias is None else dt_bias[..., 0], dt_softplus)
    x, dt, b, c = (tensor.flatten(1).unsqueeze(1) for tensor in (hidden_states, dt, B, C))
    y, last = state_space(HEADS, (x, dt, A[:, 0, 0], b, c, state), B.shape[-1])
    state.copy_(last)
    skip = D if D is None or D.stride(-1) else D[..., :1]
    return _gated(y.view(hidden_states.shape), hidden_states, skip, z).to(hidden_states.dtype)


# Convolutions with the positions before, which are in a cache


def _causal_conv1d_update(
    hidden_states: Tensor,
    conv_state: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    activation: str | None = None,
) -> Tensor:
    """Convolve the new positions; one copy joins them with only those cached ones that are read or
    kept. The window of a single new position is a sum of products, which takes no kernel of its
    own.
    """
    channels, length = hidden_states.shape[1:]
    held, before = conv_state.shape[-1], weight.shape[-1] - 1
    unused = max(0, held + length - max(held, length + before))
    window = torch.cat([conv_state[..., unused:], hidden_states], -1).to(weight.dtype)
    if length == 1:
        read = [*conv_state[..., held - before :].unbind(-1), hidden_states[..., 0]]
        taps = weight.unbind(-1)
        wide = torch.promote_types(weight.dtype, torch.float32)
        terms = [x.to(weight.dtype) * tap.to(wide) for x, tap in zip(read, taps, strict=True)]
        total: Any = sum(terms if bias is None else [*terms, bias.to(wide)])
        y: Tensor = total.to(weight.dtype)
    else:
        y = F.conv1d(window, weight.unsqueeze(1), bias, groups=channels)[..., -length:]
    conv_state.copy_(window[..., -held:])
    if activation is not None:
        from transformers.activations import ACT2FN

        functions: Any = ACT2FN
        y = functions[activation](y)
    return y.to(hidden_states.dtype).view(hidden_states.shape)


# Linear attention


def _chunk_gated_delta_rule(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    g: Tensor,
    beta: Tensor,
    chunk_size: int = 64,
    initial_state: Tensor | None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    given = (query, key, value, g, beta, initial_state)
    return _gated_delta_rule(*given, output_final_state, use_qk_l2norm_in_kernel)


def _recurrent_gated_delta_rule(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    g: Tensor,
    beta: Tensor,
    initial_state: Tensor | None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    given = (query, key, value, g, beta, initial_state)
    return _gated_delta_rule(*given, output_final_state, use_qk_l2norm_in_kernel)


def _gated_delta_rule(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    g: Tensor,
    beta: Tensor,
    initial: Tensor | None,
    is_final_read: bool,
    is_normalized: bool,
) -> tuple[Tensor, Tensor | None]:
    """Compute the rule, whose operands are B x T x heads x columns, or x heads."""
    query, key = query.float(), key.float()
    if is_normalized:
        query, key = (x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6) for x in (query, key))
    head_dim = key.shape[-1]
    operands = [x.flatten(2) for x in (query * head_dim**-0.5, key, value)]
    operands += [beta.float(), g.float(), *([] if initial is None else [initial])]
    y, last = state_space(DELTA_RULE, operands, head_dim)
    return y.view(value.shape), last if is_final_read else None


# Losses of experts


def _load_balancing_loss(
    gate_logits: Any,
    num_experts: int | None = None,
    top_k: int = 2,
    attention_mask: Tensor | None = None,
) -> Any:
    """Equations (4) to (6) of the Switch Transformer (https://arxiv.org/abs/2101.03961), over all
    layers. Assignments are counted by comparisons, in one kernel over tokens x experts.
    """
    if not isinstance(gate_logits, tuple):
        return 0
    logits = cast(tuple[Tensor, ...], gate_logits)
    count, device = num_experts or 0, logits[0].device
    numbers = torch.arange(count, device=device)
    assigned, probabilities = torch.zeros((2, count), device=device)
    weights = None if attention_mask is None else attention_mask.reshape(-1, 1).to(device).float()
    for scores in logits:
        routing = torch.softmax(scores.to(device), -1)
        chosen = torch.topk(routing, top_k, -1)[1]
        hits = torch.zeros_like(routing, dtype=torch.float32)
        for place in range(top_k):
            hits = hits + (chosen[:, place, None] == numbers)
        if weights is not None:
            hits, routing = hits * weights, routing * weights
        assigned = assigned + hits.sum(0)
        probabilities = probabilities + routing.float().sum(0)
    # All layers have equally many rows.
    rows: Any = logits[0].shape[0] if weights is None else weights.sum()
    return torch.sum(assigned * probabilities) * count / (rows * len(logits)) ** 2


def _gated(y: Tensor, x: Tensor, D: Tensor | None, z: Tensor | None) -> Tensor:
    """y with a skip connection, and a gate, where there are any."""
    if D is not None:
        y = y + x * D
    return y if z is None else y * F.silu(z)


STATE_SPACES: Mapping[str, Callable[..., Any]] = {
    "mamba_selective_scan": _selective_scan,
    "mamba_selective_state_update": _selective_state_update,
    "mamba2_chunk_scan": _chunk_scan,
    "mamba2_selective_state_update": _head_state_update,
    "torch_chunk_gated_delta_rule": _chunk_gated_delta_rule,
    "torch_recurrent_gated_delta_rule": _recurrent_gated_delta_rule,
}
"""Replacements, by name, for functions of transformers that compute a state-space model."""

SUBSTITUTES: Mapping[str, Callable[..., Any]] = {
    **STATE_SPACES,
    "causal_conv1d_update": _causal_conv1d_update,
    "load_balancing_loss_func": _load_balancing_loss,
}
"""Replacements, by name, for functions of transformers while a graph is traced."""
