"""Sizes of symbols as text: `B=2,T=8192`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from coda_ir.diagnostics import CodaError

_SIZE = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*(\d{1,12})\s*")


def parse_sizes(text: str | None) -> dict[str, int]:
    """`B=2,T=8192` as numbers by symbol. Raises CodaError for other texts."""
    sizes: dict[str, int] = {}
    for part in filter(None, (text or "").split(",")):
        match = _SIZE.fullmatch(part)
        if match is None:
            raise CodaError(f"schedule: sizes has '{part}'", 'write sizes as "B=2,T=8192"')
        sizes[match[1]] = int(match[2])
    return sizes


def format_sizes(sizes: Mapping[str, int]) -> str:
    """Return what `parse_sizes` reads."""
    return ",".join(f"{symbol}={size}" for symbol, size in sorted(sizes.items()))
