"""Attributes of the GEMM level: text, equality, and what cannot be built."""

import pytest
from xdsl.dialects.builtin import IntAttr, NoneAttr
from xdsl.ir import Attribute
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from coda_ir.context import make_context
from coda_ir.dialects.gemm import (
    Combiner,
    CombinerAttr,
    PairingAttr,
    PortKind,
    ResultKind,
    ResultKindAttr,
    ResultPortAttr,
    ScheduleAttr,
)


@pytest.mark.parametrize(
    "text",
    [
        "#gemm.result<tile>",
        "#gemm.result<half>",
        "#gemm.result<partial_row<add>>",
        "#gemm.result<partial_col<lse>>",
        "#gemm.result<select<3>>",
        "#gemm.pair<adjacent>",
        "#gemm.pair<halves>",
        "#gemm.pair<halves, 128>",
        "#gemm.segment<2, kn, pair<halves>, [half_row, col], [half, partial_row<max>]>",
        "#gemm.segment<0, nk, [], []>",
        '#gemm.schedule<tma, "128x256x64", warps = 8, stages = 3, group_m = 4>',
        '#gemm.schedule<tma, "16x64x64", warps = 4, stages = 3, group_m = 4, split_k = 6>',
        "#gemm<combiner max>",
        "#gemm<layout kn>",
        "#gemm<port half_table>",
    ],
)
def test_text_of_an_attribute_round_trips(text: str):
    attribute: Attribute = Parser(make_context(), text).parse_attribute()
    assert str(attribute) == text


def test_schedule_fields():
    schedule = ScheduleAttr.get("pointer", (64, 128, 32), warps=4, stages=2, group_m=1)
    assert schedule.mainloop == "pointer"
    assert schedule.tile == (64, 128, 32)
    assert schedule != ScheduleAttr.get("tma", (64, 128, 32), warps=4, stages=2, group_m=1)


def test_one_program_for_a_tile_is_not_printed():
    schedule = ScheduleAttr.get("pointer", (64, 128, 32), warps=4, stages=2)
    assert schedule.split_k.data == 1 and "split_k" not in str(schedule)
    split = schedule.with_split(4)
    assert split != schedule and split.with_split(1) == schedule


def test_result_ports():
    assert ResultPortAttr.partial_row(Combiner.ADD).is_partial
    assert not ResultPortAttr.tile().is_partial
    assert ResultPortAttr.select(2).index == IntAttr(2)


@pytest.mark.parametrize("kind", [ResultKind.TILE, ResultKind.HALF, ResultKind.SELECT])
def test_a_combiner_is_for_partials_only(kind: ResultKind):
    with pytest.raises(
        VerifyException,
        match=f"result port {kind.value}: a combiner is expected for partials and only for them",
    ):
        ResultPortAttr(
            ResultKindAttr(kind), CombinerAttr(Combiner.ADD), NoneAttr(), NoneAttr(), NoneAttr()
        )


def test_a_partial_needs_a_combiner():
    with pytest.raises(VerifyException, match="result port partial_row: a combiner is expected"):
        ResultPortAttr(
            ResultKindAttr(ResultKind.PARTIAL_ROW), NoneAttr(), NoneAttr(), NoneAttr(), NoneAttr()
        )


@pytest.mark.parametrize(
    ("kind", "index"),
    [
        (ResultKind.SELECT, NoneAttr()),
        (ResultKind.ACCUMULATE, NoneAttr()),
        (ResultKind.TILE, IntAttr(0)),
        (ResultKind.TILE_T, IntAttr(0)),
    ],
)
def test_results_that_name_a_port(kind: ResultKind, index: IntAttr | NoneAttr):
    expected = "the number of a port is expected for select, accumulate and runs that it numbers"
    with pytest.raises(VerifyException, match=expected):
        ResultPortAttr(ResultKindAttr(kind), NoneAttr(), index, NoneAttr(), NoneAttr())


def test_pairings():
    assert PairingAttr.adjacent_columns().is_adjacent
    assert PairingAttr.halves().group_size is None
    assert PairingAttr.halves(8).group_size == 8


@pytest.mark.parametrize(
    ("kind", "halved"),
    [
        (PortKind.TILE, PortKind.HALF_TILE),
        (PortKind.ROW, PortKind.HALF_ROW),
        (PortKind.TABLE, PortKind.HALF_TABLE),
        (PortKind.GROUP, PortKind.HALF_GROUP),
        (PortKind.COL, PortKind.COL),
        (PortKind.SCALAR, PortKind.SCALAR),
    ],
)
def test_halved_ports(kind: PortKind, halved: PortKind):
    assert kind.halved() == halved
    assert halved.is_half == (kind != halved)
    assert kind.has_columns == (kind != halved)
