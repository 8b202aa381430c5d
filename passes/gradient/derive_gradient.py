"""Pass `derive-gradient`: derive the backward of a function, in one body with the forward."""

from collections.abc import Iterable, Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    UnitAttr,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from coda_ir.diagnostics import GradientError, OptionError
from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, is_float, shape_of
from coda_ir.functions import returned_values
from coda_ir.passes.block.drop_detach import drop_detach
from coda_ir.passes.gradient.derivatives import RULES, expose_saved
from coda_ir.passes.gradient.derivatives.activity import (
    Obstacle,
    contributing_to,
    depending_on,
    differentiable_arguments,
    float_results,
    obstacles,
)
from coda_ir.passes.gradient.derivatives.adjoint import Adjoint, Backward
from coda_ir.passes.support.function_pass import NamedPass
from coda_ir.passes.support.joint import JOINT_ATTRIBUTE, SUFFIX, entry_name, entry_of
from coda_ir.passes.support.legality import name_of
from coda_ir.remarks import Remark, emit_remark, format_location
from coda_ir.storage import OWN
from coda_ir.symbolic_shapes import SymbolicShapes, dims_attribute


class NoDerivativeError(GradientError):
    """A function, or an operator in it, without a derivative."""


class DeriveGradientPass(NamedPass):
    """Adds the joint function of a function of the block level, which returns its results and
    gradients.

        @f(x, w) -> (y)    ->    private @f_joint(x, w, d_y) -> (y, d_x, d_w)

    The backward follows the forward in one body, so that rewrites can use both. A rule in
    `passes/gradient/derivatives` differentiates each operator. The gradient of a value with several
    uses is the sum of their contributions. The pass computes only what a requested gradient needs.
    No gradient passes a `coda.detach`, and the joint function contains none. `wrt` names the
    arguments to differentiate: by default, the floating-point ones on which a result depends,
    except the tables of rotary embeddings. A named argument on which no result depends has a
    gradient of zeros.

    Legal iff the function is on the block level and every operator between a named argument and a
    result has a rule. Raises NoDerivativeError otherwise.
    """

    function: str | None = None
    wrt: tuple[str, ...] = ()

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        func = self._function(op)
        joint = _Joint(func, self.wrt).derive()
        Rewriter.insert_op(joint, InsertPoint.after(func))

    def _function(self, module: ModuleOp) -> FuncOp:
        functions = {
            func.sym_name.data: func
            for func in module.ops
            if isinstance(func, FuncOp) and func.body.blocks
        }
        if self.function is None and len(functions) == 1:
            return next(iter(functions.values()))
        if self.function is None or self.function not in functions:
            known = f"the module has {', '.join(functions) or 'none'}"
            if self.function is not None:
                message = f"derive-gradient: unknown function '{self.function}': {known}"
                raise OptionError(message, "pass one of them")
            raise NoDerivativeError(
                f"derive-gradient: no function is named, and {known}",
                f"name one with the option function, as in function={next(iter(functions), 'f')}",
            )
        return functions[self.function]


class _Joint:
    """The joint function under construction: a copy of the function to which code is added."""

    def __init__(self, func: FuncOp, wrt: Sequence[str]):
        self.func = func
        self.joint = func.clone()
        self.joint.sym_name = StringAttr(func.sym_name.data + SUFFIX)
        self.joint.sym_visibility = StringAttr("private")
        if len(self.joint.body.blocks) != 1:
            raise NoDerivativeError(
                f"derive-gradient: @{func.sym_name.data} has several blocks",
                "differentiate a function of one block",
            )
        self.block: Block = self.joint.body.block
        expose_saved(self.block)
        self.arguments: tuple[SSAValue, ...] = tuple(self.block.args)
        self.results: tuple[SSAValue, ...] = tuple(returned_values(self.joint))
        for value in (*self.arguments, *self.results):
            if not isinstance(value.type, TensorType):
                raise NoDerivativeError(
                    f"derive-gradient: {name_of(value)} has type {value.type}, expected a tensor",
                    "pass a scalar as a tensor<f32>",
                )
        self.entries = _entries(self.joint.arg_attrs, self.arguments, "arg")
        self.result_entries = _entries(self.joint.res_attrs, self.results, "result")
        self.shapes = SymbolicShapes(self.joint)
        self.wrt = wrt

    def derive(self) -> FuncOp:
        wanted = self._wanted()
        useful = contributing_to(self.block, float_results(self.block))
        active = depending_on(self.block, wanted) & useful
        for obstacle in obstacles(self.block, active):
            raise _no_derivative(obstacle)
        backward = Backward(self.block, self.shapes, active)
        terminator = self.block.last_op
        assert terminator is not None
        operators = list(self.block.ops)[:-1]
        self.block.erase_op(terminator)
        entries = self._seed(backward)
        for op in reversed(operators):
            _differentiate(op, backward)
        gradients = [self._gradient(argument, backward) for argument in wanted]
        self._finish(wanted, gradients, entries)
        drop_detach(self.block)
        return self.joint

    def _wanted(self) -> list[SSAValue]:
        """Return the arguments whose gradients are requested, in order."""
        floats = [value for value in self.arguments if is_float(element_type_of(value))]
        if not self.wrt:
            wanted = differentiable_arguments(self.block, floats)
            self._report(set(floats) - set(wanted))
            if not wanted:
                raise NoDerivativeError(
                    f"derive-gradient: no result of @{self.func.sym_name.data} depends on an "
                    "argument with a gradient",
                    "give it a floating-point argument that its results depend on",
                )
            return wanted
        by_name = {self._name(value): value for value in floats}
        for name in self.wrt:
            if name not in by_name:
                raise OptionError(
                    f"derive-gradient: unknown argument '{name}': @{self.func.sym_name.data} has "
                    f"{', '.join(by_name) or 'none'} of a floating-point type",
                    "name some of these",
                )
        return [value for name, value in by_name.items() if name in self.wrt]

    def _report(self, constants: Iterable[SSAValue]) -> None:
        names = [self._name(value) for value in self.arguments if value in set(constants)]
        if names:
            function = self.func.sym_name.data
            emit_remark(
                Remark(
                    "analysis",
                    DeriveGradientPass.name,
                    function,
                    self.func.location,
                    f"{', '.join(names)} are treated as constants: no gradient is derived",
                    function=function,
                )
            )

    def _name(self, argument: SSAValue) -> str:
        name = entry_name(self.entries[self.arguments.index(argument)])
        assert name is not None
        return name

    def _seed(self, backward: Backward) -> list[DictionaryAttr]:
        """Add an argument for the gradient of each result; return their attributes."""
        entries: list[DictionaryAttr] = []
        for result, entry in zip(self.results, self.result_entries, strict=True):
            if not is_float(element_type_of(result)):
                continue
            name = f"d_{entry_name(entry)}"
            seed = self.block.insert_arg(result.type, len(self.block.args))
            seed.name_hint = name
            entries.append(DictionaryAttr(_named(name) | self._dims(result, entry)))
            if result in backward.active:
                backward.add(result, seed)
        return entries

    def _dims(self, result: SSAValue, entry: DictionaryAttr) -> dict[str, Attribute]:
        """Return the dimensions of a result, if their names mean the same elsewhere."""
        stated, dims = entry.data.get("coda.dims"), self.shapes.dims(result)
        if stated is None and not self.shapes.are_declared(dims):
            return {}
        return {"coda.dims": stated or dims_attribute(dims)}

    def _gradient(self, argument: SSAValue, backward: Backward) -> SSAValue:
        """Return the gradient of a requested argument; zeros if nothing depends on it."""
        gradient = backward.gradient(argument)
        if gradient is not None:
            return gradient
        zero = backward.insert(coda.ConstantOp(0.0, element_type_of(argument)))
        zeros = coda.BroadcastOp(zero, shape_of(argument), argument)
        return backward.insert(zeros, f"d_{self._name(argument)}")

    def _finish(
        self,
        wanted: Sequence[SSAValue],
        gradients: Sequence[SSAValue],
        seeds: Sequence[DictionaryAttr],
    ) -> None:
        """Add the gradients to the results, and mark the function as a joint."""
        returned = [*self.results, *gradients]
        self.block.add_op(ReturnOp(*returned))
        names = [self._name(argument) for argument in wanted]
        d_entries = [
            _gradient_entry(self.entries[self.arguments.index(argument)], name)
            for argument, name in zip(wanted, names, strict=True)
        ]
        joint = self.joint
        joint.function_type = FunctionType.from_lists(
            [argument.type for argument in self.block.args], [value.type for value in returned]
        )
        joint.arg_attrs = ArrayAttr([*self.entries, *seeds])
        joint.res_attrs = ArrayAttr([*self.result_entries, *d_entries])
        joint.attributes[JOINT_ATTRIBUTE] = DictionaryAttr(
            {
                "arguments": IntegerAttr(len(self.arguments), 64),
                "results": IntegerAttr(len(self.results), 64),
                "wrt": ArrayAttr(map(StringAttr, names)),
            }
        )


def _differentiate(op: Operation, backward: Backward) -> None:
    """Append the backward of `op` if one of its results has a gradient."""
    if not any(result in backward.active for result in op.results):
        return
    backward.location = op.location
    gradients = [
        backward.gradient(result) if result in backward.active else None for result in op.results
    ]
    if any(gradient is not None for gradient in gradients):
        RULES[type(op)](op, Adjoint(op, backward, gradients))


def _no_derivative(obstacle: Obstacle) -> NoDerivativeError:
    op = obstacle.op
    operand = op.operands[obstacle.operand]
    value = f"%{operand.name_hint}" if operand.name_hint else f"operand {obstacle.operand}"
    return NoDerivativeError(
        f"{format_location(op.location)}: {op.name} has no derivative for {value}: "
        f"{obstacle.reason}",
        _AFTER_FUSION
        if op.name.startswith("gemm.")
        else "take no gradient of the tensors that it depends on, or detach them",
    )


_AFTER_FUSION = (
    "in place of an epilogue of your own, write operators, which are fused in the backward as "
    "well, or give the function a backward of your own; in a pipeline, differentiate comes before "
    "coda-to-gemm"
)


def _entries(
    stated: ArrayAttr[DictionaryAttr] | None, values: Sequence[SSAValue], prefix: str
) -> list[DictionaryAttr]:
    """Return the attributes of arguments or results, with unique names."""
    entries: list[DictionaryAttr] = []
    taken: set[str] = set()
    for index, _ in enumerate(values):
        entry = entry_of(stated, index)
        name = entry_name(entry) or f"{prefix}{index}"
        if name in taken:
            name = f"{prefix}{index}"
        taken.add(name)
        entries.append(DictionaryAttr({**entry.data, **_named(name)}))
    return entries


def _named(name: str) -> dict[str, Attribute]:
    return {"coda.name": StringAttr(name)}


def _gradient_entry(entry: DictionaryAttr, name: str) -> DictionaryAttr:
    """Return the attributes of a gradient: the dimensions of the differentiated value."""
    dims = entry.data.get("coda.dims")
    stated = {OWN: UnitAttr()} if dims is None else {"coda.dims": dims, OWN: UnitAttr()}
    return DictionaryAttr(_named(f"d_{name}") | stated)
