"""Triton's interpreter, without work that it does over and over.

Half of the time of a small kernel goes into three things, whose results are the same each time:

* at each call of a function of the device, all names of `triton.language` are looked through for
  what the launch has replaced already;
* the table of NumPy's types is made anew for each value;
* the shape of each value is given a type, which nobody asks for.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any


def speed_up() -> None:
    """Do these things once; nothing happens where Triton compiles."""
    if os.environ.get("TRITON_INTERPRET") == "1":
        interpreter: Any = import_module("triton.runtime.interpreter")
        if interpreter.GridExecutor.__call__.__module__ == interpreter.__name__:
            _patch_once_per_launch(interpreter)
            _remember_types(interpreter)
            _type_tuples_when_asked(import_module("triton.language.core"))


def _patch_once_per_launch(interpreter: Any) -> None:
    """Functions of one module share their names: these are replaced at the first call of one."""
    launch: Any = interpreter.GridExecutor.__call__
    patched: set[int] = set()

    def launch_anew(self: Any, *args: Any, **kwargs: Any) -> Any:
        patched.clear()
        return launch(self, *args, **kwargs)

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        names = id(self.fn.__globals__)
        if names not in patched:
            interpreter._patch_lang(self.fn)
            patched.add(names)
        function = self.rewrite()
        try:
            return function(*args, **kwargs)
        except Exception as error:
            raise interpreter.InterpreterError(repr(error)) from error

    interpreter.GridExecutor.__call__ = launch_anew
    interpreter.InterpretedFunction.__call__ = call


def _remember_types(interpreter: Any) -> None:
    find: Any = interpreter._get_np_dtype
    known: dict[str, Any] = {}

    def numpy_type(type: Any) -> Any:
        if type.name not in known:
            known[type.name] = find(type)
        return known[type.name]

    interpreter._get_np_dtype = numpy_type


def _type_tuples_when_asked(core: Any) -> None:
    initialize: Any = core.tuple.__init__

    def start(self: Any, args: Any, type: Any = None) -> None:
        if type is None:
            self.values = list(args)
        else:
            initialize(self, args, type)

    def get_type(self: Any) -> Any:
        fields: dict[str, Any] = self.__dict__
        if "type" not in fields:
            fields["type"] = core._type_for_tuple_values(self.values)
        return fields["type"]

    def set_type(self: Any, type: Any) -> None:
        self.__dict__["type"] = type

    core.tuple.__init__, core.tuple.type = start, property(get_type, set_type)
