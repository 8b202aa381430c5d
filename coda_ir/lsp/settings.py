"""User settings, from `initializationOptions` and the editor's section `coda`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

ShownRemarks: TypeAlias = Literal["none", "missed", "all"]

SHOWN_REMARKS: tuple[ShownRemarks, ...] = ("none", "missed", "all")


@dataclass(frozen=True)
class Settings:
    """`remarks` selects the remarks of the passes that are shown as hints; `schedule` has options
    of the pass `schedule`; `inlay_hints` shows types after assigned names.
    """

    remarks: ShownRemarks = "missed"
    schedule: str = ""
    inlay_hints: bool = True

    @staticmethod
    def read(value: Any) -> Settings:
        """Read settings from JSON, with or without the section `coda` around them; missing
        settings, and those of another type, keep their default.
        """
        given = _mapping(value)
        given = _mapping(given["coda"]) if "coda" in given else given
        default = Settings()
        remarks, schedule = given.get("remarks"), given.get("schedule")
        hints = given.get("inlayHints")
        return Settings(
            _one_of(SHOWN_REMARKS, remarks, default.remarks),
            schedule if isinstance(schedule, str) else default.schedule,
            hints if isinstance(hints, bool) else default.inlay_hints,
        )


def _one_of(kinds: tuple[ShownRemarks, ...], value: Any, default: ShownRemarks) -> ShownRemarks:
    return kinds[kinds.index(value)] if value in kinds else default


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
