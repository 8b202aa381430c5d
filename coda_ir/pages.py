"""HTML pages that show programs: one for an exported model, or one for each graph in a folder."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp

from coda_ir.diagnostics import OptionError

if TYPE_CHECKING:
    import torch

    from coda_ir.backends.explorer import PageOptions

logger = logging.getLogger(__name__)


def page_of(
    module: ModuleOp, arch: str | None = None, sizes: Mapping[str, int] | None = None
) -> str:
    """Return the page about a block-level module (`coda_ir.backends.explorer`).

    `arch` is the GPU to schedule for, such as `sm_90`, whose machine code is then on the page;
    `sizes` are those of symbols. Times that tuning has stored for the current GPU are on the page,
    where the sizes say how many rows there are. Raises CodaError for an unknown GPU, and for the
    size of a symbol that no function has.
    """
    from coda_ir.backends.explorer import explore_module

    check_sizes(module, sizes or {})
    return explore_module(module, options=page_options(arch, sizes))


def check_sizes(module: ModuleOp, sizes: Mapping[str, int]) -> None:
    """Raise CodaError for a size of an unknown symbol, or one that is not a positive number."""
    from coda_ir.random_inputs.draw import expect_symbols

    expect_symbols(module, sizes)
    for symbol, size in sizes.items():
        if size < 1:
            raise OptionError(f"the size of {symbol} is {size}", "pass an integer, 1 or more")


def page_options(arch: str | None, sizes: Mapping[str, int] | None) -> PageOptions:
    """Return the options of a page, with stored times. Raises CodaError for an unknown GPU."""
    from coda_ir.backends.explorer import PageOptions
    from coda_ir.tuning.stage import TunePass

    options = PageOptions(arch, dict(sizes or {}), schedule=partial(TunePass, mode="stored"))
    _ = options.architecture
    return options


def graph_options(arch: str | None, sizes: Mapping[str, int], device: torch.device) -> PageOptions:
    """Return the options of a page about a graph that runs on `device`; estimates are for it unless
    `arch` names another GPU. Raises CodaError for an unknown `arch`.
    """
    options = page_options(arch, sizes)
    if arch is not None:
        return options
    from coda_ir.backends.triton.architectures import ARCHITECTURES
    from coda_ir.devices import architecture_name

    name = architecture_name(device)
    return replace(options, arch=name, compiles=False) if name in ARCHITECTURES else options


def add_page(folder: str, module: ModuleOp, options: PageOptions) -> None:
    """Write the page of a block-level graph to the first free name in `folder`.

    A folder that cannot be written is a warning: the model runs nonetheless.
    """
    from coda_ir.backends.explorer import explore_module

    page = explore_module(module, options=options)
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        for number in count(1):
            path = Path(folder) / f"graph{number}.html"
            try:
                with path.open("x", encoding="utf-8") as file:
                    file.write(page)
            except FileExistsError:
                continue
            logger.info("the page of a graph is %s", path)
            return
    except OSError as error:
        logger.warning("the page of a graph is not written to %s: %s", folder, error)
