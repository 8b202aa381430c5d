"""Triton's interpreter, without work that it does over and over.

Most of the time of a small kernel goes into a few things, whose results are the same each time:

* at each launch, and at each call of a function of the device, all names of `triton.language` are
  looked through for those to replace;
* the table of NumPy's types is made anew for each value;
* the shape of each value is given a type, which nobody asks for;
* the shape of each value is checked, and made of constants of the language, as is its size;
* sums of integers are computed again in 64 bits and compared with the limits of their type, for an
  assertion that is left out where Triton does not debug;
* the shapes of two operands are compared element by element;
* functions of the device are rewritten for each module that has a copy of them.
"""

import inspect
import os
from dataclasses import replace
from importlib import import_module
from math import prod
from types import CodeType
from typing import Any


def speed_up() -> None:
    """Do these things once; nothing happens where Triton compiles."""
    if os.environ.get("TRITON_INTERPRET") == "1":
        interpreter: Any = import_module("triton.runtime.interpreter")
        if interpreter.GridExecutor.__call__.__module__ == interpreter.__name__:
            _patch_once_per_launch(interpreter)
            _find_builtins_once(interpreter)
            _rewrite_texts_once(interpreter)
            _remember_types(interpreter)
            core: Any = import_module("triton.language.core")
            _type_tuples_when_asked(core)
            _make_shapes_once(core)
            _check_overflows_to_debug(interpreter)
            _broadcast_shapes_once(core, import_module("triton.language.semantic"))


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


def _find_builtins_once(interpreter: Any) -> None:
    """What a module or class has of them is the same whenever it is looked through."""
    is_builtin: Any = import_module("triton.language.core").is_builtin
    names: dict[Any, list[str]] = {}

    def patch(package: Any, builder: Any, scope: Any) -> None:
        if package not in names:
            members = inspect.getmembers(package)
            names[package] = [name for name, member in members if is_builtin(member)]
        for name in names[package]:
            member = getattr(package, name)
            if is_builtin(member):
                interpreter._patch_attr(package, name, member, builder, scope)

    interpreter._patch_builtin = patch


def _rewrite_texts_once(interpreter: Any) -> None:
    """The code of a text is moved to the file and the line of each function that has it."""
    rewriter: Any = interpreter.FunctionRewriter
    codes: dict[str, CodeType] = {}
    known: dict[str, Any] = interpreter.__dict__

    def rewrite(self: Any) -> Any:
        try:
            lines, first_line = inspect.getsourcelines(self.fn)
        except OSError:
            return self.fn
        self.filename = self.fn.__code__.co_filename
        self.def_lineno = self._find_def(lines)
        text = self._prepare_source(lines)
        if text not in codes:
            self.def_file_lineno = 1
            codes[text] = compile(self._transform_ast(text), "", "exec")
        code = _moved(codes[text], self.filename, first_line + self.def_lineno - 2)
        names: dict[str, Any] = {**self.kwargs}
        scope: dict[str, Any] = self.fn.__globals__
        for name in known.keys() - scope.keys():
            scope[name] = known[name]
        exec(code, scope, names)
        return names[self.fn.__name__]

    rewriter.rewrite_ast = rewrite


def _moved(code: CodeType, filename: str, lines: int) -> CodeType:
    constants = tuple(
        _moved(constant, filename, lines) if isinstance(constant, CodeType) else constant
        for constant in code.co_consts
    )
    line = code.co_firstlineno + lines
    return code.replace(co_filename=filename, co_firstlineno=line, co_consts=constants)


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


def _make_shapes_once(core: Any) -> None:
    """Types and values of one shape share it: nothing changes a shape."""
    initialize: Any = core.block_type.__init__
    of_types: dict[tuple[Any, ...], Any] = {}
    of_values: dict[tuple[Any, ...], Any] = {}

    def start_type(self: Any, element_ty: Any, shape: Any) -> None:
        extents = tuple(shape)
        if extents not in of_types:
            initialize(self, element_ty, shape)
            of_types[extents] = self.shape, self.numel
        self.element_ty = element_ty
        self.shape, self.numel = of_types[extents]

    def get_name(self: Any) -> str:
        return f"<{self.shape}, {self.element_ty}>"

    def set_name(self: Any, name: str) -> None:
        """It follows from the rest."""

    def start_value(self: Any, handle: Any, type: Any) -> None:
        self.handle, self.type, self.dtype = handle, type, type.scalar
        extents = tuple(type.shape) if type.is_block() else ()
        if extents not in of_values:
            shape = core.tuple([core.constexpr(extent) for extent in extents])
            of_values[extents] = shape, core.constexpr(prod(extents))
        self.shape, self.numel = of_values[extents]

    core.block_type.__init__, core.block_type.name = start_type, property(get_name, set_name)
    core.tensor.__init__ = start_value


def _check_overflows_to_debug(interpreter: Any) -> None:
    options = interpreter.interpreter_builder.options
    interpreter.interpreter_builder.options = replace(options, sanitize_overflow=options.debug)


def _broadcast_shapes_once(core: Any, semantic: Any) -> None:
    """After `_make_shapes_once`, each shape is one object for good."""
    broadcast: Any = semantic.TritonSemantic.broadcast_impl_value
    shapes: dict[tuple[int, int], Any] = {}

    def broadcast_once(self: Any, lhs: Any, rhs: Any) -> Any:
        if not (lhs.type.is_block() and rhs.type.is_block()):
            return broadcast(self, lhs, rhs)
        if lhs.type.shape is rhs.type.shape:
            return lhs, rhs
        both = id(lhs.type.shape), id(rhs.type.shape)
        if both not in shapes:
            results = broadcast(self, lhs, rhs)
            if len(lhs.type.shape) == len(rhs.type.shape):
                shapes[both] = results[0].type.shape
            return results
        return expanded(self, lhs, shapes[both]), expanded(self, rhs, shapes[both])

    def expanded(self: Any, value: Any, shape: Any) -> Any:
        if value.type.shape is shape:
            return value
        handle = self.builder.create_broadcast(value.handle, shape)
        return self.tensor(handle, core.block_type(value.type.scalar, shape))

    semantic.TritonSemantic.broadcast_impl_value = broadcast_once
