"""The text of attributes with several parameters."""

from abc import ABC
from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.parser import AttrParser
from xdsl.printer import Printer


class FieldsAttr(ParametrizedAttribute, ABC):
    """An attribute of numbers and strings, in the order of their definitions: `<128, "x", n = 3>`.

    Fields have their names in the text, except those that are `UNNAMED`. A field that has its
    default is left out; a field of `FLAGS` is its name alone, and 0 without it.
    """

    UNNAMED: ClassVar[Collection[str]] = ()
    DEFAULTS: ClassVar[Mapping[str, Attribute]] = {}
    FLAGS: ClassVar[Collection[str]] = ()

    def print_parameters(self, printer: Printer) -> None:
        texts: list[str] = []
        for name in _names(type(self)):
            value = getattr(self, name)
            if name in self.FLAGS:
                texts += [name] if value.data else []
            elif value != self.DEFAULTS.get(name):
                text = f'"{value.data}"' if isinstance(value, StringAttr) else str(value.data)
                texts.append(text if name in self.UNNAMED else f"{name} = {text}")
        with printer.in_angle_brackets():
            printer.print_string(", ".join(texts))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        names, given = _names(cls), dict[str, Attribute]()
        unnamed = iter([name for name in names if name in cls.UNNAMED])

        def parse_field() -> None:
            text = parser.parse_optional_str_literal()
            number = parser.parse_optional_integer(allow_boolean=False) if text is None else None
            name = (
                parser.parse_identifier() if text is None and number is None else next(unnamed, "")
            )
            if name not in names:
                parser.raise_error(f"unknown field '{name}', expected one of {', '.join(names)}")
            if name in cls.FLAGS:
                number = 1
            elif text is None and number is None:
                parser.parse_punctuation("=")
                number = parser.parse_integer(allow_boolean=False)
            given[name] = IntAttr(number) if number is not None else StringAttr(text or "")

        parser.parse_comma_separated_list(parser.Delimiter.ANGLE, parse_field)
        given = {**dict.fromkeys(cls.FLAGS, IntAttr(0)), **cls.DEFAULTS, **given}
        missing = [name for name in names if name not in given]
        if missing:
            parser.raise_error(f"no {', '.join(missing)} in {cls.name}")
        return [given[name] for name in names]


def _names(kind: type[FieldsAttr]) -> list[str]:
    return [name for name, _ in kind.get_irdl_definition().parameters]
