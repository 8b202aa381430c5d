"""Programs for the faults of passes: every golden, whole programs, and sums with every sign."""

from collections.abc import Callable
from functools import partial

from support.equivalence import run_checked
from support.goldens import EXAMPLES, goldens, programs, small_example
from support.programs import parse_mlir
from support.signed_sums import signed_sums
from xdsl.dialects.builtin import ModuleOp

from faults.fault import Check

TO_KERNELS = "coda-to-gemm,schedule{target=interpreter},plan-buffers"
NOT_SCHEDULED = {"shapes-symbolic_columns"}


def _check(load: Callable[[], ModuleOp], pipeline: str) -> None:
    run_checked(load(), pipeline)


def pass_checks() -> dict[str, Check]:
    """Return the checks by name, cheap ones first."""
    checks: dict[str, Check] = {}
    for golden in goldens():
        if golden.example is None and golden.keeps_meaning and "large" not in golden.name:
            name = f"{golden.name} {golden.pipeline}"
            assert name not in checks, f"two functions are {name}"
            checks[name] = partial(_check, golden.module, golden.pipeline)
    for name, text in signed_sums():
        checks[f"signed sum: {name}"] = partial(_check, partial(parse_mlir, text), "align-scales")
    for golden in programs():
        pipeline = "coda-to-gemm" if golden.name in NOT_SCHEDULED else TO_KERNELS
        checks[golden.name] = partial(_check, golden.module, pipeline)
    for path in sorted(EXAMPLES.glob("*.coda")):
        checks[path.stem] = partial(_check, partial(small_example, path), TO_KERNELS)
    return checks
