"""The result of compiling a function as plain data: everything that a call or a report needs
without lowering the function again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from coda_ir.diagnostics import Diagnostic, SourceRange

if TYPE_CHECKING:
    from coda_ir.calls.arguments import Signature, TensorSpec
    from coda_ir.cost_model.comparison import Estimates
    from coda_ir.remarks import Remark


@dataclass(frozen=True)
class Artifact:
    """A function, compiled for one schedule.

    Remarks are stored as data and decoded on demand, because most calls never read them.
    """

    signature: Signature
    used_arguments: tuple[bool, ...]
    """For each argument whether the function needs it."""
    source: str
    """The text of the emitted Triton module."""
    kernels: tuple[str, ...]
    """Names of its kernels in the order of their first launch."""
    operators: Mapping[str, int]
    """The number of operators of each name in the scheduled function, those in regions included."""
    launches: tuple[str, ...] = ()
    """Its kernels are compiled by these ahead of the first call; see `launching/`."""
    remark_data: tuple[Mapping[str, Any], ...] = ()
    """Remarks of the passes of the levels; see `remarks`."""
    origin_remark_data: tuple[Mapping[str, Any], ...] = ()
    """Remarks of making the program of the block level; see `origin_remarks`."""
    warnings: tuple[Diagnostic, ...] = ()
    """Warnings about the text of the program."""
    graph: str = ""
    """The IR of a function that calls programs, which PyTorch runs; empty for a single program."""
    programs: tuple[str, ...] = ()
    """The names of the functions that `graph` calls."""
    comparison: Estimates | None = None
    """None where there are no estimates."""

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """The remarks: what was fused, what was refused, and why."""
        return _decoded(self.remark_data)

    @property
    def origin_remarks(self) -> tuple[Remark, ...]:
        """The remarks of deriving the program, if it is a derived one."""
        return _decoded(self.origin_remark_data)

    def to_data(self) -> dict[str, Any]:
        """Plain data for JSON."""
        signature = self.signature
        specs = [list(map(_spec_data, of)) for of in (signature.arguments, signature.results)]
        warnings = [asdict(warning) for warning in self.warnings]
        fields = [signature.name, *specs, signature.conditions]
        return vars(self) | {"signature": fields, "warnings": warnings}

    @staticmethod
    def from_data(data: Mapping[str, Any]) -> Artifact:
        """Read what `to_data` returns. Raises KeyError, TypeError, ValueError or AttributeError for
        anything else.
        """
        from coda_ir.calls.arguments import Signature

        name, arguments, results, conditions = data["signature"]
        fields: dict[str, Any] = {
            field: tuple(value) if isinstance(value, list) else value  # pyright: ignore
            for field, value in data.items()
        }
        fields["signature"] = Signature(name, _specs(arguments), _specs(results), tuple(conditions))
        fields["warnings"] = tuple(map(_diagnostic, data["warnings"]))
        return Artifact(**fields)


def encoded(remarks: Sequence[Remark]) -> tuple[Mapping[str, Any], ...]:
    """Return remarks as the data that an Artifact stores."""
    from coda_ir.cache.remark_data import encode_remark

    return tuple(map(encode_remark, remarks))


def _decoded(data: Sequence[Mapping[str, Any]]) -> tuple[Remark, ...]:
    from coda_ir.cache.remark_data import decode_remark

    return tuple(decode_remark(dict(fields)) for fields in data)


def _spec_data(spec: TensorSpec) -> list[Any]:
    dtype = str(spec.dtype).removeprefix("torch.")
    return [spec.name, spec.dims, dtype, spec.is_weight]


def _specs(data: Sequence[Sequence[Any]]) -> tuple[TensorSpec, ...]:
    # Looking at what the cache has needs no PyTorch, which takes long to import.
    import torch

    from coda_ir.calls.arguments import TensorSpec

    return tuple(
        TensorSpec(name, tuple(dims), getattr(torch, dtype), bool(is_weight))
        for name, dims, dtype, is_weight in data
    )


def _diagnostic(data: Mapping[str, Any]) -> Diagnostic:
    place = data["range"]
    fields: dict[str, Any] = {**data, "range": None if place is None else SourceRange(**place)}
    return Diagnostic(**fields)
