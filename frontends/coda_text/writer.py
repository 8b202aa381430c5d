"""The writer: a block-level module as .coda text, which parses to the same module."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.traits import is_side_effect_free

from coda_ir.diagnostics import DiagnosticError, ModelError
from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.dialects.coda.weights import is_weight
from coda_ir.dialects.torch import CallOp
from coda_ir.frontends.coda_text.formatter import format_text
from coda_ir.frontends.coda_text.operator_text import (
    ATOM,
    Inexpressible,
    OperatorWriter,
    Text,
    is_known,
    type_text,
)
from coda_ir.frontends.coda_text.operators import OPERATORS
from coda_ir.frontends.coda_text.program import RESERVED
from coda_ir.remarks import format_location, module_name, source_position
from coda_ir.signatures import entry_name, entry_of
from coda_ir.symbolic_shapes import SymbolicShapes, declared_symbols

KEYWORDS = frozenset({"import", "const", "fn", "epilogue", "return", "weight"})

_USUAL = {
    "q_proj": "wq",
    "k_proj": "wk",
    "v_proj": "wv",
    "o_proj": "wo",
    "gate_proj": "w_gate",
    "up_proj": "w_up",
    "down_proj": "w_down",
    "lm_head": "w_head",
    "embed_tokens": "table",
    "input_layernorm": "norm_in",
    "post_attention_layernorm": "norm_out",
}
"""Usual names in papers for the weights of modules with these names."""


class NameTable:
    """Allocates unique names."""

    def __init__(self, taken: Iterable[str] = ()):
        self._taken = {*taken, *RESERVED, *KEYWORDS, *OPERATORS}
        self._counts = Counter[str]()

    def first_free(self, candidates: Iterable[str]) -> str:
        """Return the first free candidate, or the last one with a number."""
        name = "value"
        for candidate in candidates:
            name = identifier(candidate)
            if name not in self._taken:
                self._taken.add(name)
                return name
        return self.numbered(f"{name}_")

    def numbered(self, base: str) -> str:
        """Return `base` with the next free number, from 1."""
        while True:
            self._counts[base] += 1
            name = f"{base}{self._counts[base]}"
            if name not in self._taken:
                self._taken.add(name)
                return name


def identifier(text: str) -> str:
    """Return `text` with characters that names cannot have replaced."""
    name = re.sub(r"\W", "_", text, flags=re.ASCII).strip("_") or "value"
    return f"n{name}" if name[0].isdigit() else name


def short_names(names: Sequence[str], taken: Iterable[str]) -> list[str]:
    """Return short names for parameters such as `model.layers.0.mlp.gate_proj.weight`, in order.

    A name that several would have gets the numbers of the path (`w_gate_0`), then its words.
    """
    stems = Counter(map(_stem, names))
    table = NameTable(taken)
    return [table.first_free(_candidates(name, stems)) for name in names]


def _candidates(name: str, stems: Counter[str]) -> list[str]:
    *path, _ = name.split(".")
    stem = _stem(name)
    numbers = "_".join(part for part in path if part.isdigit())
    words = [part for part in path[:-1] if not part.isdigit()]
    short = f"{stem}_{numbers}" if numbers and stems[stem] > 1 else stem
    longer = ["_".join([*words[-count:], short]) for count in range(1, len(words) + 1)]
    return [short, *longer]


def _stem(name: str) -> str:
    """Return the name without its path: `wq` for `layers.0.attention.q_proj.weight`."""
    *path, last = name.split(".")
    if not path:
        return last
    module = next((part for part in reversed(path) if not part.isdigit()), path[-1])
    usual = _USUAL.get(module)
    match last:
        case "weight" if usual is not None:
            return usual
        case "bias" if usual is not None and usual.startswith("w"):
            return "b" + usual.removeprefix("w")
        case "bias":
            return f"b_{module}"
        case "weight":
            return module if "norm" in module or module.startswith("ln") else f"w_{module}"
        case _:
            return last


LONGEST_INLINED = 64
"""Characters of an expression that is written where it is used rather than named."""

_BASES = {
    "coda.rms_norm": "h",
    "coda.layer_norm": "h",
    "coda.linear": "y",
    "coda.matmul": "y",
    "coda.attention": "y",
    "coda.add": "x",
    "coda.sub": "x",
    "coda.mul": "a",
    "coda.div": "a",
    "coda.glu": "a",
    "coda.embedding": "x",
    "coda.softmax": "p",
}
"""Names of the results of an operator, to which a number is added."""


class UnwritableError(ModelError):
    """A module that the language cannot express."""


@dataclass(frozen=True)
class WrittenModule:
    """The text, and for each function the new names of its parameters by the old ones."""

    text: str
    parameters: dict[str, dict[str, str]]


def write_text(module: ModuleOp) -> str:
    """Return the text of a block-level module. Raises UnwritableError like `write_module`."""
    return write_module(module).text


def write_module(module: ModuleOp) -> WrittenModule:
    """Write a block-level module: readable, formatted, and exact.

    Weights get short names (`w_gate_0` for `layers.0.mlp.gate_proj.weight`); operators without
    an effect whose results are not used are left out. Raises UnwritableError where the module has
    something that the language lacks: calls of PyTorch, operators of other levels, element types.
    """
    functions: list[str] = []
    parameters: dict[str, dict[str, str]] = {}
    live: Counter[tuple[str, ...]] = Counter()
    for op in module.ops:
        if not isinstance(op, FuncOp) or op.is_declaration:
            raise UnwritableError(f"{op.name} cannot be written as .coda", "write .mlir")
        writer = FunctionWriter(op)
        functions.append(writer.run())
        parameters[op.sym_name.data] = writer.parameters
        live += Counter(map(_fingerprint, writer.written))
    text = format_text("\n".join(functions), "<written>")
    _check(text, live)
    return WrittenModule(text, parameters)


def _check(text: str, live: Counter[tuple[str, ...]]) -> None:
    """Raise UnwritableError if the text does not read back as the written operators."""
    from coda_ir.frontends.coda_text import parse_text

    try:
        module = parse_text(text, "<written>")
    except DiagnosticError as error:
        first = error.diagnostics[0]
        raise UnwritableError(
            f"the module cannot be written as .coda: {first.message}", "write .mlir"
        ) from error
    skipped = (ModuleOp, FuncOp, ReturnOp, coda.ConstantOp)
    found = Counter(_fingerprint(op) for op in module.walk() if not isinstance(op, skipped))
    if found != live:
        name, *_ = next(iter((live - found) + (found - live)))
        raise UnwritableError(
            f"the module cannot be written as .coda: {name} would not be read back unchanged",
            "write .mlir",
        )


def _fingerprint(op: Operation) -> tuple[str, ...]:
    """Return the properties of an operator that must survive writing and reading."""
    properties = sorted(f"{name} = {value}" for name, value in op.properties.items())
    types = [str(element_type_of(value)) for value in (*op.operands, *op.results)]
    return (op.name, *properties, *types)


class FunctionWriter:
    """Writes one function, in the order of its operators; values used once are inlined."""

    def __init__(self, func: FuncOp):
        self._func = func
        self._shapes = SymbolicShapes(func)
        self._texts: dict[SSAValue, Text] = {}
        self._lines: list[str] = []
        self._module: str | None = None
        self.written: list[Operation] = []
        self._symbols = declared_symbols(func.arg_attrs or ())
        entries = (entry_of(func.arg_attrs, index) for index in range(len(func.args)))
        named = [entry_name(entry) or f"arg{index}" for index, entry in enumerate(entries)]
        short = short_names(named, self._symbols)
        self.parameters = dict(zip(named, short, strict=True))
        self._names = NameTable([*self._symbols, *short])
        # Before any name is made up, so that these stay what they were.
        self._own = {
            op: self._names.first_free([name])
            for op in func.body.block.ops
            if (name := _own_name(op)) is not None
        }
        self._weights = set(filter(is_weight, func.args))
        for argument, name in zip(func.args, short, strict=True):
            self._texts[argument] = Text(name, ATOM)
        self._modules = Modules(func.body.block.ops)

    def run(self) -> str:
        """Write the text of the function. Raises UnwritableError for what the language lacks."""
        header = self._header()
        operators = list(self._func.body.block.ops)
        for op in operators:
            if isinstance(op, ReturnOp):
                self._return(op)
            elif _is_live(op) and not any(result in self._texts for result in op.results):
                self._write(op)
        return "\n".join([f"{header} {{", *self._lines, "}", ""])

    def _header(self) -> str:
        parameters = [self._parameter(argument) for argument in self._func.args]
        # A comma before the bracket keeps one parameter in each line.
        inner = "".join(f"\n{parameter}," for parameter in parameters)
        name = identifier(self._func.sym_name.data)
        if name != self._func.sym_name.data:
            raise UnwritableError(
                f"the function {self._func.sym_name.data} has a name that .coda does not allow",
                f"call it {name}",
            )
        return f"fn {name}({inner}\n){self._results()}"

    def _parameter(self, argument: SSAValue) -> str:
        kind = "weight " if argument in self._weights else ""
        try:
            type = type_text(argument, self._shapes)
        except Inexpressible as error:
            raise UnwritableError(
                f"parameter {self._texts[argument].text} cannot be written as .coda: {error}",
                "write .mlir",
            ) from error
        return f"{kind}{self._texts[argument].text}: {type}"

    def _results(self) -> str:
        """Return the types of the results, if symbols of the parameters determine their extents."""
        returned = self._func.body.block.last_op
        assert returned is not None, "a function has a terminator"
        dims = [dim for value in returned.operands for dim in self._shapes.dims(value)]
        if not all(is_known(dim, self._symbols) for dim in dims):
            return ""
        try:
            types = [type_text(value, self._shapes) for value in returned.operands]
        except Inexpressible:
            return ""
        return f" -> {types[0]}" if len(types) == 1 else f" -> ({', '.join(types)})"

    def _return(self, op: ReturnOp) -> None:
        if not op.operands:
            raise UnwritableError("a function without a result cannot be written as .coda")
        writer = OperatorWriter(self._texts, self._shapes, self._symbols)
        texts = [writer.tensor(value).text for value in op.operands]
        self._lines.append(f"return {', '.join(texts)}")

    def _write(self, op: Operation) -> None:
        parts = split_parts(op) if isinstance(op, coda.SliceOp) else ()
        if parts:
            self._write_split(parts)
            return
        writer = OperatorWriter(self._texts, self._shapes, self._symbols)
        try:
            text = writer.write(op)
        except Inexpressible as error:
            name = op.callee.data if isinstance(op, CallOp) else op.name
            raise UnwritableError(
                f"{_place(op)}{name} cannot be written as .coda: {error}", "write .mlir"
            ) from error
        result = op.results[0]
        if isinstance(op, coda.ConstantOp):
            self._texts[result] = text
            return
        self.written.append(op)
        if len(op.results) == 1 and self._is_inlined(op, text):
            self._texts[result] = text
            return
        names = [self._name(op)] if len(op.results) == 1 else self._names_of(op)
        self._comment(op)
        self._lines.append(f"{', '.join(names)} = {text.text}")
        for value, name in zip(op.results, names, strict=True):
            self._texts[value] = Text(name, ATOM)

    def _write_split(self, parts: Sequence[coda.SliceOp]) -> None:
        """Write `q, k, v = split(x, [64, 64, 64])` for slices that fill a dimension."""
        names = [self._name(part) for part in parts]
        self._comment(parts[0])
        sizes = [stop - start for _, start, stop in (part.range for part in parts)]
        x = parts[0].x
        dim = parts[0].range[0]
        where = "" if dim == len(self._shapes.dims(x)) - 1 else f", dim={dim}"
        self._lines.append(f"{', '.join(names)} = split({self._texts[x].text}, {sizes}{where})")
        for part, name in zip(parts, names, strict=True):
            self._texts[part.result] = Text(name, ATOM)
            self.written.append(part)

    def _comment(self, op: Operation) -> None:
        """Write a comment where a part of a PyTorch model begins: `# layers.0.mlp`."""
        module = self._modules.around(op)
        if module is not None and module != self._module:
            self._lines.append(f"# {module}")
            self._module = module

    def _is_inlined(self, op: Operation, text: Text) -> bool:
        (result,) = op.results
        uses = list(result.uses)
        if len(uses) != 1 or op in self._own:
            return False
        user = uses[0].operation
        if isinstance(user, ReturnOp):
            return len(user.operands) == 1
        return len(text.text) <= LONGEST_INLINED

    def _name(self, op: Operation) -> str:
        if op in self._own:
            return self._own[op]
        source = _unmoved(op)
        if isinstance(source, coda.LinearOp):
            weight = self._texts[source.weight].text.split("_")
            # The projection by wq is q, by w_gate it is gate.
            if len(weight[0]) == 2 and weight[0][0] == "w":
                return self._names.numbered(weight[0][1])
            if weight[0] == "w" and len(weight) > 1:
                return self._names.numbered(weight[1])
        if isinstance(op, CallOp):
            return self._names.numbered(identifier(op.callee.data.split(".")[1]))
        return self._names.numbered(_BASES.get(op.name, op.name.rpartition(".")[2][0]))

    def _names_of(self, op: Operation) -> list[str]:
        """Return the names of several results: `_` for an unused one."""
        bases = [self._name(op), *(self._names.numbered("ids") for _ in op.results[1:])]
        return [name if value.uses else "_" for name, value in zip(bases, op.results, strict=True)]


class Modules:
    """The modules of a PyTorch model that have others in them, of those that operators are in."""

    def __init__(self, operators: Iterable[Operation]):
        names = {module_name(op.location) for op in operators} - {None}
        self._outer = {name.rpartition(".")[0] for name in names if name is not None}

    def around(self, op: Operation) -> str | None:
        """The innermost of them that `op` is in: `layers.0.mlp` for its `gate_proj`."""
        name = module_name(op.location)
        while name and name not in self._outer:
            name = name.rpartition(".")[0]
        return name or None


def split_parts(op: coda.SliceOp) -> Sequence[coda.SliceOp]:
    """Return the slices that fill a dimension of `op.x` and are its only uses; () otherwise."""
    users = [use.operation for use in op.x.uses]
    parts = [user for user in users if isinstance(user, coda.SliceOp) and user.result.uses]
    parts.sort(key=lambda part: part.range[1])
    dim = op.range[0]
    stops = [0, *(part.range[2] for part in parts)]
    fits = all(part.range[:2] == (dim, stop) for part, stop in zip(parts, stops, strict=False))
    whole = stops[-1] == shape_of(op.x)[dim]
    return parts if fits and whole and len(parts) == len(users) > 1 else ()


def _is_live(op: Operation) -> bool:
    return any(result.uses for result in op.results) or not is_side_effect_free(op)


def _unmoved(op: Operation) -> Operation:
    """Return the operator before those that only move, rotate or normalize by heads."""
    moves = coda.RopeOp | coda.ReshapeOp | coda.TransposeOp
    while isinstance(op, moves) or (isinstance(op, coda.RMSNormOp) and op.group is not None):
        owner = op.operands[0].owner
        if not isinstance(owner, Operation):
            break
        op = owner
    return op


def _own_name(op: Operation) -> str | None:
    """Return the name of the variable that the result had in a .coda program."""
    position = source_position(op.location)
    if position is None or not position[0].endswith(".coda") or not op.results:
        return None
    return op.results[0].name_hint


def _place(op: Operation) -> str:
    return "" if source_position(op.location) is None else f"{format_location(op.location)}: "
