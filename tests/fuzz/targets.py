"""The fuzzed readers by name: a language, and the check of a text in it."""

from collections.abc import Callable
from dataclasses import dataclass

from fuzz.oracle import check_coda, check_mlir
from fuzz.text_checks import check_expectations, check_pipeline


@dataclass(frozen=True)
class Target:
    """`language` is a folder of the corpus and a set of seeds."""

    name: str
    language: str
    check: Callable[[str], None]


TARGETS = {
    target.name: target
    for target in (
        Target("coda", "coda", check_coda),
        Target("mlir", "mlir", check_mlir),
        Target("pipeline", "pipeline", check_pipeline),
        Target("expectations", "expectations", check_expectations),
    )
}
