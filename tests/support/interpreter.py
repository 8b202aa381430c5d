"""Triton's interpreter, without work that it does over and over.

Most of the time of a small kernel goes into a few things, whose results are the same each time:

* at each launch, and at each call of a function of the device, all names of `triton.language` are
  looked through for those to replace;
* the table of NumPy's types is made anew for each value, as are constants;
* numbers in bfloat16 are taken apart and put together;
* the shape of each value is given a type, which nobody asks for;
* the shape of each value is checked, and made of constants of the language, as is its size;
* sums of integers are computed again in 64 bits and compared with the limits of their type, for an
  assertion that is left out where Triton does not debug;
* the shapes of two operands are compared element by element, and their types are asked for what
  they are even where they are one type;
* reductions and scans with a function of their own, such as those of sorts, call it for each pair
  of elements;
* functions of the device are rewritten for each module that has a copy of them, after their texts
  were split into tokens to find where they end;
* arrays are filled and given another shape by functions of NumPy in Python, which take longer than
  the work on a small tile.
"""

import ast
import inspect
import linecache
import os
from dataclasses import replace
from importlib import import_module
from math import prod
from types import CodeType
from typing import Any

import numpy as np

from support.replaced_names import are_present

REPLACED_NAMES = {
    "triton.runtime.interpreter": [
        *("GridExecutor.__call__", "InterpretedFunction.rewrite", "InterpreterError"),
        *("_patch_lang", "_patch_builtin", "_get_np_dtype", "_convert_float", "TritonSemantic"),
        *("FunctionRewriter.rewrite_ast", "FunctionRewriter._find_def"),
        *("FunctionRewriter._prepare_source", "FunctionRewriter.ast_transformer"),
        *("InterpreterBuilder.create_splat", "InterpreterBuilder.create_broadcast"),
        *("InterpreterBuilder.create_expand_dims", "TensorHandle"),
        *("ReduceOps.generic_reduce", "ReduceOps.unravel", "ReduceOps.to_tensor"),
        *("ScanOps.generic_scan", "interpreter_builder.options.sanitize_overflow"),
    ],
    "triton.language.core": [
        *("builtin", "is_builtin", "block_type", "tensor", "tuple", "_type_for_tuple_values"),
    ],
    "triton.language.semantic": [
        *("TritonSemantic.broadcast_impl_value", "TritonSemantic.scalar_constant"),
        *("TritonSemantic.computation_type_impl", "TritonSemantic.binary_op_type_checking_impl"),
    ],
}
"""Names of Triton 3.6, few of which are documented, by module."""


def speed_up() -> None:
    """Do these things once; nothing happens where Triton compiles, or has other names."""
    if os.environ.get("TRITON_INTERPRET") == "1" and are_present(REPLACED_NAMES):
        interpreter: Any = import_module("triton.runtime.interpreter")
        if interpreter.GridExecutor.__call__.__module__ == interpreter.__name__:
            _patch_once_per_launch(interpreter)
            _find_builtins_once(interpreter)
            _rewrite_texts_once(interpreter)
            _remember_types(interpreter)
            _convert_bfloat16_at_once(interpreter)
            core: Any = import_module("triton.language.core")
            _type_tuples_when_asked(core)
            _make_shapes_once(core)
            _check_overflows_to_debug(interpreter)
            _combine_slices(interpreter, core)
            _fill_arrays_in_numpy(interpreter)
            semantic: Any = import_module("triton.language.semantic").TritonSemantic
            _broadcast_shapes_once(core, semantic)
            _remember_constants(semantic)
            _check_operands_of_one_type_once(core, semantic)


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
    """Find the built-in functions of modules and classes, and their replacements, once instead of
    at each launch.
    """
    core: Any = import_module("triton.language.core")
    checked: CodeType = core.builtin(len).__code__
    found: dict[Any, dict[str, Any]] = {}

    def interpreted(function: Any, semantic: Any) -> Any:
        while function.__code__ is checked:
            function = function.__wrapped__

        def call(*args: Any, **kwargs: Any) -> Any:
            kwargs["_semantic"] = semantic
            return function(*args, **kwargs)

        return call

    def patch(package: Any, builder: Any, scope: Any) -> None:
        if package not in found:
            semantic = interpreter.TritonSemantic(builder)
            found[package] = {
                name: interpreted(member, semantic)
                for name, member in inspect.getmembers(package)
                if core.is_builtin(member)
            }
        for name, member in found[package].items():
            if core.is_builtin(getattr(package, name)):
                scope.set_attr(package, name, member)

    interpreter._patch_builtin = patch


def _rewrite_texts_once(interpreter: Any) -> None:
    """The code of a text is moved to the file and the line of each function that has it."""
    rewriter: Any = interpreter.FunctionRewriter
    codes: dict[str, CodeType] = {}
    known: dict[str, Any] = interpreter.__dict__

    def rewrite(self: Any) -> Any:
        lines = _source_lines(self.fn)
        if not lines:
            return self.fn
        self.filename = self.fn.__code__.co_filename
        self.def_lineno = self._find_def(lines)
        text = self._prepare_source(lines)
        if text not in codes:
            tree = ast.fix_missing_locations(self.ast_transformer.visit(ast.parse(text)))
            codes[text] = compile(tree, "", "exec")
        line = self.fn.__code__.co_firstlineno + self.def_lineno - 2
        code = _moved(codes[text], self.filename, line)
        names: dict[str, Any] = {**self.kwargs}
        scope: dict[str, Any] = self.fn.__globals__
        for name in known.keys() - scope.keys():
            scope[name] = known[name]
        exec(code, scope, names)
        return names[self.fn.__name__]

    rewriter.rewrite_ast = rewrite


def _source_lines(function: Any) -> list[str]:
    """Return the lines of a function, its decorators first; none where there is no source.

    It ends before the first line with text that is not indented further, after all instructions.
    """
    code: CodeType = function.__code__
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename, function.__globals__)
    first, last = code.co_firstlineno - 1, _last_line(code)
    indent = _indent(lines[first]) if first < len(lines) else 0
    while last < len(lines) and (lines[last].isspace() or _indent(lines[last]) > indent):
        last += 1
    return lines[first:last]


def _last_line(code: CodeType) -> int:
    ends = [end or 0 for _, end, _, _ in code.co_positions()]
    inner = (_last_line(each) for each in code.co_consts if isinstance(each, CodeType))
    return max(*ends, *inner)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


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


def _convert_bfloat16_at_once(interpreter: Any) -> None:
    """It is the upper half of a float32: the interpreter does not round either."""
    convert: Any = interpreter._convert_float
    core: Any = import_module("triton.language.core")

    def converted(data: Any, type: Any, wanted: Any, rounding_mode: Any) -> Any:
        if rounding_mode is None and (type, wanted) == (core.bfloat16, core.float32):
            return data.astype(np.uint32) << 16
        if rounding_mode is None and (type, wanted) == (core.float32, core.bfloat16):
            return (data.view(np.uint32) >> 16).astype(np.uint16)
        return convert(data, type, wanted, rounding_mode)

    interpreter._convert_float = converted


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
    of_shapes: dict[int, Any] = {}
    of_values: dict[int, Any] = {}

    def start_type(self: Any, element_ty: Any, shape: Any) -> None:
        known = of_shapes.get(id(shape))
        if known is None:
            extents = tuple(shape)
            if extents not in of_types:
                initialize(self, element_ty, shape)
                of_types[extents] = of_shapes[id(self.shape)] = self.shape, self.numel
            known = of_types[extents]
        self.element_ty = element_ty
        self.shape, self.numel = known

    def get_name(self: Any) -> str:
        return f"<{self.shape}, {self.element_ty}>"

    def set_name(self: Any, name: str) -> None:
        """It follows from the rest."""

    def start_value(self: Any, handle: Any, type: Any) -> None:
        self.handle, self.type, self.dtype = handle, type, type.scalar
        extents: Any = type.shape if type.is_block() else ()
        if id(extents) not in of_values:
            shape = core.tuple([core.constexpr(extent) for extent in extents])
            # Kept with the extents, whose id no other object may take.
            of_values[id(extents)] = shape, core.constexpr(prod(extents)), extents
        self.shape, self.numel, _ = of_values[id(extents)]

    core.block_type.__init__, core.block_type.name = start_type, property(get_name, set_name)
    core.tensor.__init__ = start_value


def _check_overflows_to_debug(interpreter: Any) -> None:
    options = interpreter.interpreter_builder.options
    interpreter.interpreter_builder.options = replace(options, sanitize_overflow=options.debug)


def _combine_slices(interpreter: Any, core: Any) -> None:
    """A function that combines two elements combines two slices, in the same order."""

    def combine(self: Any, types: Any, first: Any, second: Any) -> list[Any]:
        both = zip([*first, *second], [*types, *types], strict=True)
        found: Any = self.combine_fn.fn(*(self.to_tensor(data, type) for data, type in both))
        results: Any = found
        if not isinstance(found, tuple):
            results = (found,)
        return [like(old, result) for old, result in zip(first, results, strict=True)]

    def like(old: Any, result: Any) -> Any:
        value: Any = result.handle.data if isinstance(result, core.tensor) else np.array(result)
        return np.broadcast_to(value.astype(old.dtype), old.shape or 1).reshape(old.shape)

    def slices(values: Any, axis: int) -> tuple[list[Any], list[list[Any]]]:
        moved: list[Any] = [np.moveaxis(value.handle.data, axis, 0) for value in values]
        types = [value.dtype for value in values]
        return types, [[data[place] for data in moved] for place in range(len(moved[0]))]

    def reduce(self: Any, values: Any) -> list[Any]:
        rank = values[0].handle.data.ndim
        values, axis = self.unravel(values, self.axis)
        types, (found, *rest) = slices(values, axis)
        for items in rest:
            found = combine(self, types, found, items)
        if self.keep_dims:
            axes: Any = tuple(range(rank)) if self.axis is None else axis
            found = [np.expand_dims(data, axes) for data in found]
        return [self.to_tensor(data, type) for data, type in zip(found, types, strict=True)]

    def scan(self: Any, values: Any) -> list[Any]:
        types, (first, *rest) = slices(values, self.axis)
        found = [first]
        for items in rest:
            found.append(combine(self, types, found[-1], items))
        whole: list[Any] = [np.stack(each, self.axis) for each in zip(*found, strict=True)]
        return [self.to_tensor(data, type) for data, type in zip(whole, types, strict=True)]

    interpreter.ReduceOps.generic_reduce = reduce
    interpreter.ScanOps.generic_scan = scan


def _fill_arrays_in_numpy(interpreter: Any) -> None:
    builder: Any = interpreter.InterpreterBuilder
    handle: Any = interpreter.TensorHandle

    def splat(self: Any, ret_ty: Any, arg: Any) -> Any:
        data = np.empty(ret_ty.shape, interpreter._get_np_dtype(arg.dtype))
        data[...] = arg.data
        return handle(data, arg.dtype.scalar)

    def broadcast(self: Any, arg: Any, shape: Any) -> Any:
        data = np.empty(shape, arg.data.dtype)
        data[...] = arg.data
        return handle(data, arg.dtype.scalar)

    def expand_dims(self: Any, arg: Any, axis: int) -> Any:
        shape = arg.data.shape
        return handle(arg.data.reshape(*shape[:axis], 1, *shape[axis:]), arg.dtype.scalar)

    builder.create_splat, builder.create_broadcast = splat, broadcast
    builder.create_expand_dims = expand_dims


def _broadcast_shapes_once(core: Any, semantic: Any) -> None:
    """After `_make_shapes_once`, each shape is one object for good."""
    broadcast: Any = semantic.broadcast_impl_value
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

    semantic.broadcast_impl_value = broadcast_once


def _remember_constants(semantic: Any) -> None:
    """Nothing changes a constant, and the type of a result follows from those of the operands."""
    make: Any = semantic.scalar_constant
    find: Any = semantic.computation_type_impl
    constants: dict[Any, Any] = {}
    types: dict[Any, Any] = {}

    def constant(self: Any, value: Any, dtype: Any) -> Any:
        key: Any = type(value), value, dtype.name
        if key not in constants:
            constants[key] = make(self, value, dtype)
        return constants[key]

    def computation_type(self: Any, *operands: Any) -> Any:
        key = tuple(getattr(operand, "name", operand) for operand in operands)
        if key not in types:
            types[key] = find(self, *operands)
        return types[key]

    semantic.scalar_constant, semantic.computation_type_impl = constant, computation_type


def _check_operands_of_one_type_once(core: Any, semantic: Any) -> None:
    """Two tensors of one type that is the type of the result are only broadcast."""
    check: Any = semantic.binary_op_type_checking_impl
    tensor: Any = core.tensor
    kept: dict[tuple[str, bool], bool] = {}

    def check_once(
        self: Any,
        lhs: Any,
        rhs: Any,
        allow_lhs_ptr: bool = False,
        allow_rhs_ptr: bool = False,
        arithmetic_check: bool = True,
        div_or_mod: bool = False,
    ) -> Any:
        if type(lhs) is tensor and type(rhs) is tensor and lhs.dtype is rhs.dtype:
            type_, key = lhs.dtype, (lhs.dtype.name, div_or_mod)
            if key not in kept:
                kept[key] = not type_.is_ptr() and type_ == self.computation_type_impl(
                    type_, False, type_, False, div_or_mod
                )
            if kept[key]:
                return self.broadcast_impl_value(lhs, rhs)
        return check(self, lhs, rhs, allow_lhs_ptr, allow_rhs_ptr, arithmetic_check, div_or_mod)

    semantic.binary_op_type_checking_impl = check_once
