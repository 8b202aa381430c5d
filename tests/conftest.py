"""Settings that every test needs before anything imports triton."""

import gc
import logging
import os
import sys

# The tests run on all cores already, and their tensors are small. NumPy reads it when imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from support.daily import (
    SLOW_SHARES,
    run_daily,
    set_nightly,
    share_of_slow_tests,
    share_of_the_day,
)
from support.interpreter import speed_up as speed_up_interpreter
from support.one_compiler import use_one_compiler
from support.tracing import speed_up as speed_up_tracing

# Each worker, and each process that a test starts, would compile the package anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Importing and collecting the tests makes few cycles and many objects that stay.
gc.disable()

# A pool of processes that compile would import PyTorch for the few kernels that Inductor has here.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

# TorchDynamo would collect garbage after each graph.
os.environ.setdefault("TORCH_DYNAMO_RUN_GC_AFTER_COMPILE", "0")

ON_GPU = os.environ.get("CODA_TEST_GPU", "0") != "0"
"""Compile kernels, and run the tests marked `gpu` or `any_device` alone."""

if not ON_GPU:
    # Triton decides when it is imported; see coda_ir.devices.
    os.environ["TRITON_INTERPRET"] = "1"
    # The same tests pass on machines with a GPU.
    os.environ |= {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}

speed_up_interpreter()
use_one_compiler()


@pytest.fixture(autouse=True, scope="session")
def temporary_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Generated modules go to a directory of this run, so that no test sees those of another.

    Programs are compiled by every test anew: some tests change the compiler while it runs.
    """
    os.environ["CODA_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))
    os.environ["CODA_CACHE_LIMIT"] = "0"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-goldens",
        action="store_true",
        help="rewrite failing goldens with the current output of the tools; see `make goldens`",
    )

    parser.addoption(
        "--nightly",
        action="store_true",
        help="run all tests with all combinations of their parameters; see tests/support/daily.py",
    )
    parser.addoption(
        "--slow",
        choices=("all", *map(str, range(SLOW_SHARES))),
        help="which share of the slow tests runs; by default that of the day, or all where the "
        "command line names or selects tests",
    )


def pytest_configure(config: pytest.Config) -> None:
    set_nightly(bool(config.getoption("nightly")))
    if config.option.slow is None:  # pytest-xdist passes the value on to workers
        config.option.slow = "all" if ON_GPU or _names_tests(config) else str(share_of_the_day())


def _names_tests(config: pytest.Config) -> bool:
    selects = any(config.getoption(option) for option in ("nightly", "keyword", "markexpr"))
    return selects or config.args_source is not pytest.Config.ArgsSource.TESTPATHS


def pytest_report_header(config: pytest.Config) -> str:
    return f"slow tests: {config.option.slow} of 0 to {SLOW_SHARES - 1} (--slow, --nightly)"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Select tests, of those that the command line selects."""
    if ON_GPU:
        _select(config, items, {item for item in items if _runs_on_gpu(item)})
    if not config.getoption("nightly"):
        _select(config, items, run_daily(items))
    if config.option.slow != "all":
        _select(config, items, share_of_slow_tests(items, int(config.option.slow)))
    if ON_GPU:
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="needs a GPU, and CODA_TEST_GPU=1"))


def _runs_on_gpu(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) for name in ("gpu", "any_device"))


def _select(config: pytest.Config, items: list[pytest.Item], selected: set[pytest.Item]) -> None:
    config.hook.pytest_deselected(items=[item for item in items if item not in selected])
    items[:] = [item for item in items if item in selected]


def pytest_collection_finish() -> None:
    """Collect garbage rarely, because operators and graphs of PyTorch are many small objects."""
    if "torch" in sys.modules:
        speed_up_tracing()
    # PyTorch puts together what it logs for tlparse if somebody listens, and pytest listens to all
    # loggers that do not propagate.
    logging.getLogger("torch.__trace").propagate = True
    gc.freeze()
    gc.set_threshold(20_000, 20)
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Exempt from collections what there is after each file of tests, such as caches of PyTorch.

    A worker comes to have millions of objects, and a collection that visits all takes seconds.
    """
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()
