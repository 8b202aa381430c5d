"""User settings, from `initializationOptions` and the editor's section `coda`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from json import dumps
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
    def read(value: Any, warn: Callable[[str], object] = str) -> Settings:
        """Read settings from JSON, with or without the section `coda` around them. Missing settings
        keep their default, and so do those with an invalid value, which `warn` receives as a text.
        """
        given = _mapping(value)
        given = _mapping(given["coda"]) if "coda" in given else given

        def read(name: str, default: Any, expected: str, valid: Sequence[object] = ()) -> Any:
            found = default if given.get(name) is None else given[name]
            if type(found) is type(default) and (not valid or found in valid):
                return found
            warn(f"the setting coda.{name} is {dumps(found)}, expected {expected}")
            return default

        default = Settings()
        return Settings(
            read("remarks", default.remarks, ", ".join(SHOWN_REMARKS), SHOWN_REMARKS),
            read("schedule", default.schedule, "options of the pass schedule"),
            read("inlayHints", default.inlay_hints, "true or false"),
        )


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
