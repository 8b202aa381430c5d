"""The contents of the page, as plain data for JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from coda_ir.backends.graphviz.fusion import PREPARED, VIEWS, Fusion, analyze_fusion
from coda_ir.backends.graphviz.fusion_view import kernel_title, part_text
from coda_ir.backends.graphviz.values import Values, short_name
from coda_ir.dialects.coda.weights import is_weight
from coda_ir.functions import returned_values
from coda_ir.remarks import Remark, module_name, source_position
from coda_ir.traffic import total_traffic, traffic_by_operator

Data: TypeAlias = dict[str, Any]


def describe_function(module: ModuleOp, func: FuncOp, sources: Mapping[str, str]) -> Data:
    """One function of a module: operators, kernels, files, and the bytes of both levels."""
    fusion = analyze_fusion(module, func)
    return _Description(fusion, sources).data()


class _Description:
    def __init__(self, fusion: Fusion, sources: Mapping[str, str]):
        self.fusion = fusion
        self.sources = sources
        self.before, self.after = Values(fusion.func), Values(fusion.fused)

    def data(self) -> Data:
        fusion = self.fusion
        operators = [self._operator(index) for index in range(len(fusion.operators))]
        files = dict.fromkeys(op["file"] for op in operators if op["file"] in self.sources)
        return {
            "name": fusion.func.sym_name.data,
            "counts": {
                "operators": sum(not isinstance(op, VIEWS) for op in fusion.operators),
                "kernels": sum(not isinstance(op, PREPARED) for op in fusion.kernels),
            },
            "bytes": {
                "apart": str(total_traffic(fusion.func)),
                "fused": str(total_traffic(fusion.fused)),
            },
            "arguments": [self._value(self.before, value) for value in fusion.func.args],
            "results": [self._value(self.before, v) for v in returned_values(fusion.func)],
            "operators": operators,
            "kernels": list(self._kernels()),
            "files": {file: self.sources[file].splitlines() for file in files},
        }

    def _operator(self, index: int) -> Data:
        op = self.fusion.operators[index]
        position = source_position(op.location)
        file, line, _ = position or ("", 0, 0)
        return {
            "name": short_name(op),
            "results": [self._value(self.before, result) for result in op.results],
            "file": file,
            "line": line,
            "module": module_name(op.location) or "",
            "ir": str(op),
            "kernels": self.fusion.kernels_of[index],
            "view": isinstance(op, VIEWS),
            "refusals": [_refusal(remark) for remark in self.fusion.remarks.get(index, ())],
        }

    def _kernels(self) -> Iterator[Data]:
        traffic = dict(traffic_by_operator(self.fusion.fused))
        for number, op in enumerate(self.fusion.kernels):
            name, size = kernel_title(self.fusion, self.after, number)
            yield {
                "name": name,
                "size": size,
                "kind": op.name,
                "bytes": str(traffic.get(op, "")),
                "operators": [
                    {"id": member, "part": part_text(self.fusion, member, number)}
                    for member in self.fusion.members[number]
                ],
                "reads": [self._value(self.after, value) for value in _distinct(op.operands)],
                "writes": [self._value(self.after, value) for value in op.results],
                "ir": str(op),
            }

    def _value(self, values: Values, value: SSAValue) -> Data:
        return {
            "name": values.name(value),
            "type": values.type(value),
            "weight": is_weight(value),
        }


def _refusal(remark: Remark) -> Data:
    found = remark.to_dict()
    return {
        key: found.get(key, "") for key in ("pass", "message", "condition", "bytes", "suggestion")
    }


def _distinct(values: Sequence[SSAValue]) -> Sequence[SSAValue]:
    return list(dict.fromkeys(values))
