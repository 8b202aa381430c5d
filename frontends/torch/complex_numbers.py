"""Complex numbers of a captured graph as pairs of real ones, which the IR has."""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch.fx import Graph, Node
from torch.fx.node import map_arg

from coda_ir.frontends.torch.types import is_operator, tensors_in, viewed_by

aten = torch.ops.aten

REAL_TYPES = {torch.complex64: torch.float32, torch.complex128: torch.float64}


@dataclass(frozen=True)
class Parts:
    """A complex value as its real and its imaginary part; None is 0."""

    real: Any
    imaginary: Any = None


def is_complex(node: object) -> bool:
    """Return whether a node gives complex tensors."""
    return isinstance(node, Node) and any(x.is_complex() for x in tensors_in(node.meta.get("val")))


def without_complex_numbers(graph: Graph, inputs: Sequence[Node]) -> dict[Node, Node]:
    """Let a graph compute with the parts of complex numbers wherever the rules below know how.

    Gives the node of its pairs, `view_as_real` of it, for each complex one of `inputs` of which
    nothing else is read. What has no rule stays, with what it reads, and so do results that are
    views of an input: AOTAutograd makes them anew from the strides of what the graph returns.
    """
    rewriter, kept = _Rewriter(graph), _returned_views(graph)
    pairs = {
        node: rewriter.take(node) for node in inputs if is_complex(node) and not _is_lazy(node)
    }
    for node in list(graph.nodes):
        if node.op == "call_function" and node not in pairs.values() and node not in kept:
            rewriter.rewrite(node)
    for node in reversed(list(graph.nodes)):
        if node in rewriter.rewritten and not node.users:
            graph.erase_node(node)
    return {node: pair for node, pair in pairs.items() if set(node.users) == {pair}}


def _returned_views(graph: Graph) -> set[Node]:
    """Return the nodes through which a graph returns views of its inputs."""
    found: set[Node] = set()
    for leaf in graph.output_node().all_input_nodes:
        views, node = [leaf], leaf
        while (source := viewed_by(node)) is not None:
            views.append(node := source)
        found |= {*views} if node.op == "placeholder" else set()
    return found


def _is_lazy(node: Node) -> bool:
    """Return whether a tensor is a conjugate that is computed where it is read: it has no pairs."""
    return any(x.is_conj() for x in tensors_in(node.meta.get("val")))


class _Rewriter:
    """Rewrites the nodes of one graph in order."""

    def __init__(self, graph: Graph):
        self._graph = graph
        self._parts: dict[Node, Parts] = {}
        self.rewritten: set[Node] = set()

    def take(self, node: Node) -> Node:
        """The pairs of an input."""
        placeholders = [n for n in self._graph.nodes if n.op == "placeholder"]
        last = node if node.op == "get_attr" else placeholders[-1]
        with self._graph.inserting_after(last):
            pair = self._call(node, aten.view_as_real.default, node)
        with self._graph.inserting_after(pair):
            imaginary = self._call(node, aten.select.int, pair, -1, 1)
            real = self._call(node, aten.select.int, pair, -1, 0)
        self._parts[node] = Parts(real, imaginary)
        self.rewritten |= {real, imaginary}
        return pair

    def rewrite(self, node: Node) -> None:
        """Add the parts of what a complex node gives, or replace a real one that reads some."""
        read = [given for given in node.all_input_nodes if is_complex(given)]
        if not (read or is_complex(node)) or any(given not in self._parts for given in read):
            return
        if _name(node) in ASSERTIONS:
            self.rewritten.add(node)
            return
        with self._graph.inserting_before(node):
            found = self._apply(node)
        if found is None:
            return
        self.rewritten.add(node)
        if isinstance(found, Parts):
            self._parts[node] = found
        else:
            node.replace_all_uses_with(found)

    def _apply(self, node: Node) -> Parts | Node | None:
        if node.target is operator.getitem or (_name(node) in MOVES and _moves_alike(node)):
            return Parts(*(self._moved(node, part) for part in ("real", "imaginary")))
        if _name(node) in ("full", "full_like") and is_complex(node) and _is_known(node):
            return self._filled(node)
        rule = RULES.get(_name(node))
        if rule is None or (node.kwargs and rule is not _converted) or not _is_known(node):
            return None

        def call(target: Any, *args: Any) -> Any:
            return self._call(node, target, *args)

        found = rule(call, *(self._given(argument) for argument in node.args))
        return self._fitted(node, found) if isinstance(found, Parts) else found

    def _given(self, argument: object) -> Any:
        if isinstance(argument, complex):
            return Parts(argument.real or None, argument.imag or None)
        return self._parts.get(argument, argument) if isinstance(argument, Node) else argument

    def _moved(self, node: Node, part: str) -> Node:
        def of(given: Node) -> Any:
            return getattr(self._parts[given], part) if given in self._parts else given

        args, kwargs = map_arg(node.args, of), map_arg(node.kwargs, of)
        return self._call(node, node.target, *args, **kwargs)

    def _filled(self, node: Node) -> Parts | None:
        """The parts of a tensor of equal elements. None if the graph computes the element."""
        like, number = node.args
        if not isinstance(number, int | float | complex):
            return None
        if isinstance(like, Node) and like in self._parts:
            like = self._parts[like].real
        value: torch.Tensor = node.meta["val"]
        part = value.new_empty(value.shape, dtype=REAL_TYPES[value.dtype])
        settings = {**node.kwargs, "dtype": part.dtype}

        def filled(element: float) -> Node:
            full = self._graph.call_function(node.target, (like, element), settings)
            full.meta = {**node.meta, "val": part}
            return full

        return Parts(filled(complex(number).real), filled(complex(number).imag))

    def _fitted(self, node: Node, parts: Parts) -> Parts | None:
        """Return parts with the shape and the type of a node's value; both may be numbers. None for
        an operator that reads numbers alone.
        """
        both = (parts.real, parts.imaginary)
        fitted = [self._fit(node, part) if isinstance(part, Node) else part for part in both]
        read = [self._parts[n].real if n in self._parts else n for n in node.all_input_nodes]
        like = next((part for part in (*fitted, *read) if isinstance(part, Node)), None)
        if like is None:
            return None

        def tensor(part: Any) -> Node:
            if isinstance(part, Node):
                return part
            return self._fit(node, self._call(node, aten.full_like.default, like, part or 0.0))

        return Parts(*map(tensor, fitted))

    def _fit(self, node: Node, part: Node) -> Node:
        value: torch.Tensor = node.meta["val"]
        type = REAL_TYPES[value.dtype]
        if part.meta["val"].dtype != type:
            part = self._call(node, aten._to_copy.default, part, dtype=type)
        if part.meta["val"].shape != value.shape:
            part = self._call(node, aten.expand.default, part, list(value.shape))
        return part

    def _call(self, like: Node, target: Any, *args: Any, **kwargs: Any) -> Node:
        def value_of(given: Node) -> Any:
            return given.meta["val"]

        node = self._graph.call_function(target, args, kwargs)
        node.meta = {**like.meta}
        with torch.no_grad():
            node.meta["val"] = target(*map_arg(args, value_of), **map_arg(kwargs, value_of))
        return node


def _name(node: Node) -> str:
    target: Any = node.target
    return target.overloadpacket.__name__ if is_operator(node) else ""


def _is_known(node: Node) -> bool:
    """Return whether all tensors are on one device, and complex ones have known types."""
    values = [node, *node.all_input_nodes]
    tensors = [x for each in values for x in tensors_in(each.meta.get("val"))]
    is_known = all(not x.is_complex() or x.dtype in REAL_TYPES for x in tensors)
    return is_known and len({x.device for x in tensors}) == 1


def _moves_alike(node: Node) -> bool:
    """Return whether all numbers are complex, and stay of one type."""
    read = [x for each in node.all_input_nodes for x in tensors_in(each.meta.get("val"))]
    is_alike = not any(x.is_floating_point() for x in read) and "dtype" not in node.kwargs
    return is_alike and _is_known(node)


Call: TypeAlias = Callable[..., Any]


def _product(call: Call, x: Any, y: Any) -> Parts:
    (a, b), (c, d) = _both(x), _both(y)
    real = _combined(call, aten.sub.Tensor, _times(call, a, c), _times(call, b, d))
    return Parts(real, _combined(call, aten.add.Tensor, _times(call, b, c), _times(call, a, d)))


def _sum(call: Call, x: Any, y: Any) -> Parts:
    (a, b), (c, d) = _both(x), _both(y)
    return Parts(*(_combined(call, aten.add.Tensor, *pair) for pair in ((a, c), (b, d))))


def _difference(call: Call, x: Any, y: Any) -> Parts:
    return _sum(call, x, _negative(call, y))


def _negative(call: Call, x: Any) -> Parts:
    return Parts(*(_minus(call, part) for part in _both(x)))


def _quotient(call: Call, x: Any, y: Any) -> Parts | None:
    if isinstance(y, Parts):
        return None
    return Parts(*(None if part is None else call(aten.div.Tensor, part, y) for part in _both(x)))


def _conjugate(call: Call, x: Any) -> Parts:
    real, imaginary = _both(x)
    return Parts(real, _minus(call, imaginary))


def _exponential(call: Call, x: Parts) -> Parts:
    return _polar(call, call(aten.exp.default, x.real), x.imaginary)


def _polar(call: Call, length: Node, angle: Node) -> Parts:
    cos, sin = (call(function, angle) for function in (aten.cos.default, aten.sin.default))
    if _is_one(length):
        return Parts(cos, sin)
    return Parts(_times(call, length, cos), _times(call, length, sin))


def _from_pairs(call: Call, x: Any) -> Parts:
    return Parts(*(call(aten.select.int, x, -1, part) for part in (0, 1)))


def _pairs(call: Call, x: Parts) -> Node:
    parts = [call(aten.unsqueeze.default, part, -1) for part in (x.real, x.imaginary)]
    return call(aten.cat.default, parts, -1)


def _converted(call: Call, x: Any) -> Parts:
    return Parts(*_both(x))


def _padded(call: Call, x: Parts, widths: Sequence[Any], number: Any = 0.0) -> Parts | None:
    if isinstance(number, Parts):
        return None
    parts = ((x.real, number), (x.imaginary, 0.0))
    return Parts(*(call(aten.constant_pad_nd.default, part, widths, fill) for part, fill in parts))


def _padded_in_mode(
    call: Call, x: Parts, widths: Sequence[Any], mode: str = "constant", number: Any = None
) -> Parts | None:
    return _padded(call, x, widths, number or 0.0) if mode == "constant" else None


def _chosen(call: Call, mask: Any, x: Any, y: Any) -> Parts | None:
    pairs = tuple(zip(_both(x), _both(y), strict=True))
    if not all(isinstance(part, Node) for pair in pairs for part in pair):
        return None
    return Parts(*(call(aten.where.self, mask, *pair) for pair in pairs))


def _of_parts(call: Call, real: Any, imaginary: Any) -> Parts:
    return Parts(real, imaginary)


RULES: Mapping[str, Callable[..., Any]] = {
    "mul": _product,
    "add": _sum,
    "sub": _difference,
    "neg": _negative,
    "div": _quotient,
    "_conj": _conjugate,
    "_conj_physical": _conjugate,
    "conj_physical": _conjugate,
    "exp": _exponential,
    "polar": _polar,
    "complex": _of_parts,
    "constant_pad_nd": _padded,
    "pad": _padded_in_mode,
    "where": _chosen,
    "_to_copy": _converted,
    "view_as_complex": _from_pairs,
    "view_as_real": _pairs,
}
"""The parts of what an operator gives, or the real tensor, by its arguments in order."""

ASSERTIONS = ("_assert_tensor_metadata",)
"""Operators that check what the capture has checked."""

MOVES = frozenset(
    {
        *("view", "reshape", "_unsafe_view", "expand", "permute", "transpose", "t"),
        *("unsqueeze", "squeeze", "select", "slice", "cat", "stack", "index", "index_select"),
        *("clone", "alias", "detach", "repeat", "split", "split_with_sizes", "unbind", "flip"),
        *("resolve_conj", "lift_fresh_copy", "sum", "mean"),
    }
)
"""Operators that do the same to both parts."""


def _both(x: Any) -> tuple[Any, Any]:
    return (x.real, x.imaginary) if isinstance(x, Parts) else (x, None)


def _times(call: Call, a: Any, b: Any) -> Any:
    if a is None or b is None:
        return None
    if not isinstance(a, Node):
        a, b = b, a
    return call(aten.mul.Tensor, a, b) if isinstance(a, Node) else a * b


def _combined(call: Call, target: Any, a: Any, b: Any) -> Any:
    """The sum or the difference of terms, of which None is 0."""
    if b is None:
        return a
    if a is None:
        return b if target is aten.add.Tensor else _minus(call, b)
    if isinstance(a, Node):
        return call(target, a, b)
    return call(aten.add.Tensor, b if target is aten.add.Tensor else _minus(call, b), a)


def _minus(call: Call, x: Any) -> Any:
    if isinstance(x, Node):
        return call(aten.neg.default, x)
    return None if x is None else -x


def _is_one(x: Any) -> bool:
    """Return whether a node makes ones, such as `ones_like` in its decomposed form."""
    name = _name(x) if isinstance(x, Node) else ""
    return name in ("ones", "ones_like") or (name in ("full", "full_like") and bool(x.args[1] == 1))
