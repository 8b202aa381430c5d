"""A page about each graph that `torch.compile` captures, in the folder of the option `explore`."""

from __future__ import annotations

import logging
from itertools import count
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

logger = logging.getLogger(__name__)


def write_page(folder: str, module: ModuleOp) -> None:
    """Write the page of a graph on the block level to the first free name in `folder`.

    A folder that cannot be written is a warning: the model runs nonetheless.
    """
    from coda_ir.backends.explorer import explore_module

    page = explore_module(module)
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
