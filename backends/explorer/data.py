"""The contents of the page, as plain data for JSON."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, OpResult, SSAValue

from coda_ir.backends.explorer.machine_code import Emitted
from coda_ir.backends.explorer.options import PageOptions
from coda_ir.backends.graphviz.fusion import PREPARED, VIEWS, Fusion, analyze_fusion, viewed
from coda_ir.backends.graphviz.fusion_view import kernel_title, part_text
from coda_ir.backends.graphviz.values import Values, short_name
from coda_ir.cost_model.memory_times import Sizes
from coda_ir.cost_model.operator_times import OperatorTimes
from coda_ir.dialects.coda import ConstantOp
from coda_ir.dialects.coda.weights import is_weight
from coda_ir.dialects.gemm import TUNED_ATTRIBUTE, FinalizeOp, FusedOp, TunedAttr
from coda_ir.functions import returned_values
from coda_ir.remarks import Remark, module_name, source_position
from coda_ir.symbolic_size import SymbolicSize
from coda_ir.traffic import total_traffic

Data: TypeAlias = dict[str, Any]


def describe_function(
    module: ModuleOp, func: FuncOp, sources: Mapping[str, str], options: PageOptions
) -> Data:
    """Describe one function of a module: tensors, operators, kernels, files and emitted text.

    Times are microseconds, sizes are bytes for the sizes of the page.
    """
    fusion = analyze_fusion(module, func, options.passes())
    return _Description(fusion, sources, options).data()


class _Description:
    def __init__(self, fusion: Fusion, sources: Mapping[str, str], options: PageOptions):
        self.fusion = fusion
        self.sources = sources
        self.options = options
        self.before, self.after = Values(fusion.func), Values(fusion.fused)
        self.sizes = options.sizes_of(_symbols(self.before))
        self._known = Sizes({**self.after.shapes.usual_tiles, **self.sizes})
        self.emitted = Emitted.of(fusion, options)
        self.tensors: list[Data] = []
        self._numbers: dict[SSAValue, int] = {}
        self._remark_numbers: dict[int, int] = {}
        self._kernel_numbers = {op: number for number, op in enumerate(fusion.kernels)}

    def data(self) -> Data:
        fusion = self.fusion
        operators = [self._operator(index) for index in range(len(fusion.operators))]
        kernels = list(self._kernels())
        files = dict.fromkeys(op["file"] for op in operators if op["file"] in self.sources)
        return {
            "name": fusion.func.sym_name.data,
            "counts": {
                "operators": sum(not isinstance(op, VIEWS) for op in fusion.operators),
                "kernels": sum(not isinstance(op, PREPARED) for op in fusion.kernels),
            },
            "bytes": {
                "apart": self._size(total_traffic(fusion.func)),
                "fused": self._size(total_traffic(fusion.fused)),
            },
            "device": self.options.title,
            "sizes": dict(self.sizes),
            "arguments": [self._tensor(self.before, value) for value in fusion.func.args],
            "results": [self._tensor(self.before, v) for v in returned_values(fusion.func)],
            "operators": operators,
            "kernels": kernels,
            "tensors": self.tensors,
            "files": {file: self.sources[file].splitlines() for file in files},
            "triton": self.emitted.triton,
            "machine": self.emitted.machine,
        }

    def _operator(self, index: int) -> Data:
        op = self.fusion.operators[index]
        file, line, column = source_position(op.location) or ("", 0, 0)
        return {
            "name": short_name(op),
            "results": [self._tensor(self.before, result) for result in op.results],
            "file": file,
            "line": line,
            "column": column,
            "module": module_name(op.location) or "",
            "ir": str(op),
            "kernels": self.fusion.kernels_of[index],
            "view": isinstance(op, VIEWS),
            "refusals": [self._refusal(remark) for remark in self.fusion.remarks.get(index, ())],
            **self._traffic(op, self.before),
        }

    def _kernels(self) -> Iterator[Data]:
        after = 0
        for number, op in enumerate(self.fusion.kernels):
            measured = None if number < after else _measured(op)
            if measured is not None:
                after = number + measured["kernels"]
            name, size = kernel_title(self.fusion, self.after, number)
            yield {
                "name": name,
                "size": size,
                "kind": op.name,
                "emitted": self.emitted.names.get(op, ""),
                "operators": [
                    {"id": member, "part": part_text(self.fusion, member, number)}
                    for member in self.fusion.members[number]
                ],
                "applied": self._applied(number, op),
                "ir": str(op),
                "measured": measured,
                **self._traffic(op, self.after),
            }

    def _applied(self, number: int, op: Operation) -> list[int]:
        """Return the operators of other kernels (deferred norms) whose statistics a kernel uses."""
        if isinstance(op, FinalizeOp):
            return []
        owners = [value.owner for value in map(_base, op.operands)]
        finalizes = [self._kernel_numbers[o] for o in owners if isinstance(o, FinalizeOp)]
        members, own = self.fusion.members, self.fusion.members[number]
        applied = dict.fromkeys(member for each in finalizes for member in members[each])
        return [member for member in applied if member not in own]

    def _traffic(self, op: Operation, values: Values) -> Data:
        """Return the tensors that an operator moves through memory, and its time as one kernel."""
        is_free = isinstance(op, (*VIEWS, *PREPARED)) or (
            isinstance(op, FusedOp) and op.schedule is None
        )
        times = OperatorTimes(self.options.device, values.shapes, self._known)
        found = None if is_free else times.roofline(op)
        if found is None:
            return {"reads": [], "looked_up": {}, "writes": [], "roofline": None}
        whole = values.shapes.read_whole(op)
        tables = [self._tensor(values, value) for value in op.operands if value not in whole]
        return {
            "reads": [self._tensor(values, value) for value in _read(op)],
            "looked_up": dict.fromkeys(tables, values.shapes.looked_up(op).evaluate(self._known)),
            "writes": [self._tensor(values, value) for value in op.results],
            "roofline": {
                "us": round(found.us, 2),
                "roof": round(found.roof_us, 3),
                "bound": found.bound,
                "bytes": found.bytes,
                "flops": round(found.flops),
            },
        }

    def _tensor(self, values: Values, value: SSAValue) -> int:
        """Return the number of a tensor; all views of it share one."""
        base = _base(value)
        if base not in self._numbers:
            self._numbers[base] = len(self.tensors)
            size = self._size(values.shapes.bytes(base))
            name = values.name(base) or self._owner_name(base)
            tensor = {"name": name, "type": values.type(base), **size}
            self.tensors.append({**tensor, "weight": is_weight(base)})
        return self._numbers[base]

    def _owner_name(self, value: SSAValue) -> str:
        """Return the name of a value's operator; for a kernel, the name of its last operator."""
        if not isinstance(value, OpResult):
            return ""
        number = self._kernel_numbers.get(value.op)
        members = () if number is None else self.fusion.members[number]
        return short_name(self.fusion.operators[members[-1]] if members else value.op)

    def _size(self, size: SymbolicSize) -> Data:
        """Return the bytes of a tensor: a number for the sizes of the page, and a formula."""
        return {"bytes": size.evaluate(self._known), "symbolic": str(size) if size.symbols else ""}

    def _refusal(self, remark: Remark) -> Data:
        found = remark.to_dict()
        keys = ("pass", "message", "condition", "suggestion")
        cost = remark.bytes if isinstance(remark.bytes, SymbolicSize) else None
        if isinstance(remark.bytes, int | str):
            cost = SymbolicSize.of(remark.bytes)
        size = {"bytes": 0, "symbolic": ""} if cost is None else self._size(cost)
        number = self._remark_numbers.setdefault(id(remark), len(self._remark_numbers))
        return {"number": number, **{key: found.get(key, "") for key in keys}, **size}


def _measured(op: Operation) -> Data | None:
    """Return the time that tuning measured for a kernel or the group that it begins; else None."""
    found = op.attributes.get(TUNED_ATTRIBUTE)
    if not isinstance(found, TunedAttr):
        return None
    return {
        "us": found.measured.data / 1000,
        "device": found.device.data,
        "rows": found.rows.data,
        "kernels": found.kernels.data,
    }


def _symbols(values: Values) -> frozenset[str]:
    dims = [dim for value in values.func.args for dim in values.shapes.dims(value)]
    return frozenset(symbol for dim in dims for symbol in SymbolicSize.of(dim).symbols)


def _base(value: SSAValue) -> SSAValue:
    """Return the tensor that a value is a view of."""
    return [value, *viewed(value)][-1]


def _read(op: Operation) -> Sequence[SSAValue]:
    """The tensors that an operator reads; kernels have constants in their code."""
    bases = dict.fromkeys(map(_base, op.operands))
    return [v for v in bases if not (isinstance(v, OpResult) and isinstance(v.op, ConstantOp))]
