"""Checks of PyTorch calls against the signatures of its operators.

PyTorch is imported by the first check, so that programs without such calls are read without it.
"""

import ast
import inspect
import re
from collections.abc import Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any

from coda_ir.argument_template import ArgumentTemplate
from coda_ir.diagnostics import CodaError, InvalidProgramError

BUILT_IN = ("aten", "prims")
"""Namespaces whose operators are all there; those of others may be registered later."""


def check_call(
    callee: str, arguments: ArgumentTemplate, count: int, positions: Sequence[int] | None
) -> None:
    """Raise CodaError for an operator or an overload that does not exist, for arguments that do not
    fit its signature, and for results that it does not have.

    `count` results are taken: those at `positions`, or all where that is None.
    """
    namespace, name, overload = callee.split(".")
    packet = _packet(namespace, name)
    if packet is None:
        return
    if name.endswith("_") and not name.endswith("__") and _has(namespace, name[:-1]):
        raise InvalidProgramError(
            f"{callee} changes its operand, which the program may use elsewhere",
            f"write {namespace}.{name[:-1]}.{overload}",
        )
    signature = _signature(packet, overload)
    if overload not in packet.overloads():
        raise _wrong_overload(callee, f"{namespace}.{name} has no overload {overload}")
    if signature is None:
        return
    if not _gives_tensors(signature):
        raise _wrong_overload(callee, f"{callee} returns no tensor")
    usage = f"the signature is {callee}{_text(signature)}"
    _bind(callee, signature, arguments, usage)
    _check_results(callee, signature, count, positions)


def callee_remedy(callee: str) -> str | None:
    """Return the names of the operator that a text such as `torch.cumsum` means; None for none."""
    parts = [part for part in callee.split(".") if part.isidentifier()]
    for part in reversed(parts):
        overloads = _overloads("aten", part) if _has("aten", part) else []
        if overloads:
            return f"write {' or '.join(overloads)}"
    return None


def _packet(namespace: str, name: str) -> Any:
    """Return the operator with all its overloads; None if it may be registered later."""
    import torch

    packet = getattr(getattr(torch.ops, namespace), name, None)
    if packet is None and namespace in BUILT_IN:
        similar = [each for each in _names() if _has(namespace, each)]
        close = get_close_matches(name, similar, n=1, cutoff=0.8)
        raise InvalidProgramError(
            f"PyTorch has no operator {namespace}.{name}",
            f"did you mean {' or '.join(_overloads(namespace, close[0]))}?"
            if close
            else f"dir(torch.ops.{namespace}) lists operators",
        )
    return packet


def _names() -> list[str]:
    """Return names of functions that operators may have."""
    import torch

    names = {*dir(torch), *dir(torch.Tensor), *dir(torch.nn.functional), *dir(torch.ops.aten)}
    return sorted(name for name in names if not name.startswith("__") and name[-1] != "_")


def _has(namespace: str, name: str) -> bool:
    import torch

    return hasattr(getattr(torch.ops, namespace), name)


@cache
def _signature(packet: Any, overload: str) -> inspect.Signature | None:
    """Return the signature of an overload; None if it does not exist, or PyTorch states none."""
    from torch.fx.operator_schemas import get_signature_for_torch_op

    if overload not in packet.overloads():
        return None
    found = get_signature_for_torch_op(getattr(packet, overload))
    return found[0] if isinstance(found, list) and found else None


def _gives_tensors(signature: inspect.Signature) -> bool:
    return "torch.Tensor" in inspect.formatannotation(signature.return_annotation)


def _wrong_overload(callee: str, message: str) -> CodaError:
    namespace, name, _ = callee.split(".")
    fitting = _overloads(namespace, name)
    remedy = f"write {' or '.join(fitting)}" if fitting else "it has none with tensors as results"
    return InvalidProgramError(message, remedy)


def _overloads(namespace: str, name: str) -> list[str]:
    """Return the full names of the overloads that make tensors of their operands."""
    import torch

    packet = getattr(getattr(torch.ops, namespace), name)
    made: list[str] = []
    for overload in packet.overloads():
        found = None if overload.endswith("out") else _signature(packet, overload)
        if found is not None and _gives_tensors(found):
            made.append(f"{namespace}.{name}.{overload}")
    return made


def _bind(
    callee: str, signature: inspect.Signature, arguments: ArgumentTemplate, usage: str
) -> None:
    call = arguments.call
    # The signature calls the first operand `input`, PyTorch's own names it `self`.
    renamed = {"self": "input"}
    named = {renamed.get(k.arg, k.arg): k.value for k in call.keywords if k.arg is not None}
    try:
        bound = signature.bind(*call.args, **named)
    except TypeError as error:
        raise InvalidProgramError(f"{callee}: {error}", usage) from error
    for name, node in bound.arguments.items():
        kind = signature.parameters[name].annotation
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and "str" not in inspect.formatannotation(kind):
            raise InvalidProgramError(f"{callee}: {name} is the string {ast.unparse(node)}", usage)


def _check_results(
    callee: str, signature: inspect.Signature, taken: int, positions: Sequence[int] | None
) -> None:
    results: Any = signature.return_annotation
    if not isinstance(results, tuple):
        if positions is None and taken == 1 and "List" in inspect.formatannotation(results):
            raise InvalidProgramError(
                f"{callee} gives a list of tensors", "name one: positions=[0]"
            )
        return
    count = sum(1 for _ in signature.return_annotation)
    if positions is None and taken != count:
        raise InvalidProgramError(
            f"{callee} gives {count} results", "name the one to take: positions=[0]"
        )
    if any(position >= count for position in positions or ()):
        raise InvalidProgramError(
            f"{callee} gives {count} results, but positions is {list(positions or ())}",
            f"positions count from 0 to {count - 1}",
        )


def _text(signature: inspect.Signature) -> str:
    """Return the parameters, as in `(input: Tensor, dim: int, *, dtype: int? = None)`."""
    text = str(signature.replace(return_annotation=inspect.Signature.empty))
    text = re.sub(r"torch\.(?=Tensor)|typing\.|numbers\.", "", text)
    return re.sub(r"Optional\[(\w+)\]|(\w+) \| None", r"\1\2?", text)
