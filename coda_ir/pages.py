"""Pages to explore programs: one about an exported model, or one for each graph in a folder."""

from __future__ import annotations

import logging
from itertools import count
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

logger = logging.getLogger(__name__)


def page_of(module: ModuleOp) -> str:
    """The page about a module on the block level (`coda_ir.backends.explorer`)."""
    from coda_ir.backends.explorer import explore_module

    return explore_module(module)


def add_page(folder: str, module: ModuleOp) -> None:
    """Write the page of a graph on the block level to the first free name in `folder`.

    A folder that cannot be written is a warning: the model runs nonetheless.
    """
    page = page_of(module)
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
