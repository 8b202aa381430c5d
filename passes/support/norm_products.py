"""Products of the parameters of a norm and the weights of the GEMMs that it moves past."""

from typing import TypeGuard

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.dialects.gemm import Layout, PackWeightOp
from coda_ir.passes.support.function_pass import OpInserter
from coda_ir.passes.support.matching import Norm
from coda_ir.passes.support.norms import parameters_of


def is_modulated(norm: Norm) -> bool:
    """Return whether a parameter of `norm` has one row for each sample."""
    return any(map(is_table, parameters_of(norm)))


def keeps_vectors(norm: coda.LayerNormOp) -> bool:
    """Return whether a product with a parameter depends on weights alone, so that it is kept."""
    weight, bias = parameters_of(norm)
    return not is_table(weight) or (bias is not None and not is_table(bias))


def is_table(parameter: SSAValue | None) -> TypeGuard[SSAValue]:
    """Return whether a parameter of a norm has one row for each sample."""
    return parameter is not None and len(shape_of(parameter)) > 1


def narrow_parameter(insert: OpInserter, norm: Norm, parameter: SSAValue | None) -> SSAValue | None:
    """Return a parameter in the type in which it scales x: one with a row for each sample gets the
    type of x, in which the GEMM reads it, because the terms of the mean must cancel.
    """
    if parameter is None or not is_table(parameter):
        return parameter
    return insert.cast(parameter, element_type_of(norm.x))


def products(
    insert: OpInserter, norm: coda.LayerNormOp, weight: SSAValue, layout: Layout
) -> tuple[SSAValue, SSAValue | None]:
    """Return W·w, or the sums of W's columns, and W·b, if any: vectors, or one for each sample."""
    scale, shift = parameters_of(norm)
    if is_table(scale) and is_table(shift):
        return _of_both(insert, norm, weight, layout)
    sums = _product(insert, norm, scale, weight, layout)
    return sums, None if shift is None else _product(insert, norm, shift, weight, layout)


def _product(
    insert: OpInserter, norm: Norm, parameter: SSAValue | None, weight: SSAValue, layout: Layout
) -> SSAValue:
    name = "column_sums" if parameter is None else parameter.name_hint
    if parameter is None or not is_table(parameter):
        return insert.insert(PackWeightOp(weight, parameter, layout), name)
    narrow = narrow_parameter(insert, norm, parameter)
    assert narrow is not None
    return _gemm(insert, narrow, weight, layout, name)


def _of_both(
    insert: OpInserter, norm: coda.LayerNormOp, weight: SSAValue, layout: Layout
) -> tuple[SSAValue, SSAValue]:
    """Return the products of the scale and of the shift, by one GEMM that reads the weight once."""
    narrow = [narrow_parameter(insert, norm, value) for value in parameters_of(norm)]
    given = [value for value in narrow if value is not None]
    axis = len(shape_of(given[0])) - 2
    rows = insert.insert(coda.ConcatOp(given, axis), "modulation")
    both = _gemm(insert, rows, weight, layout, "modulation_out")
    first, second = (
        insert.insert(coda.SliceOp(both, axis, row, row + 1), value.name_hint)
        for row, value in enumerate(given)
    )
    return first, second


def _gemm(
    insert: OpInserter, rows: SSAValue, weight: SSAValue, layout: Layout, name: str | None
) -> SSAValue:
    kind = coda.LinearOp if layout == Layout.NK else coda.MatmulOp
    return insert.insert(kind(rows, weight, element_type=f32), name)
