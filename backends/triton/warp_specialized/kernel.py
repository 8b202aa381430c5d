"""`gemm.fused` as a persistent, warp-specialized kernel: `emit_warp_specialized`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from textwrap import wrap

from coda_ir.backends.triton.gemm_names import describe_segment, gemm_kernel_name
from coda_ir.backends.triton.kernel import (
    EmittedKernel,
    KernelArgument,
    NameAllocator,
    indented,
    location_comment,
    tl_type,
)
from coda_ir.backends.triton.ports import ArgumentList
from coda_ir.backends.triton.prelude import helper_names
from coda_ir.backends.triton.warp_specialized.gluon import (
    IMPORTS,
    NAMES,
    layout_constant,
    layout_name,
    own_helper_names,
    translated,
)
from coda_ir.backends.triton.warp_specialized.loads import BoxDescriptors, LoadEmitter
from coda_ir.backends.triton.warp_specialized.segment import GroupSegmentEmitter, slots_name
from coda_ir.diagnostics import CodaError
from coda_ir.dialects.coda.shapes import element_type_of
from coda_ir.dialects.gemm import FusedOp, Layout, ScheduleAttr
from coda_ir.dialects.gemm.tiling import column_ranges
from coda_ir.dialects.gemm.warp_specialized import (
    GROUP_ROWS,
    GROUPS,
    Staging,
    stage_bytes,
    staging,
)
from coda_ir.remarks import format_location

REGISTERS = (240, 24)
"""Of the second group that computes, and of the warp that loads; the first gets the rest."""

_SHARED = ("a_stages", "b_stages", "full", "empty")
_RESERVED = (
    *("M", "K", "STAGES", "STAGE_BYTES", "STEPS", "GROUP", "LAYOUT", "TILES_N"),
    *("tile", "tile_m", "tile_n", "tiles", "program", "step", "stage", "k", "acc", "part"),
    *("part_tile", "rows", "row", "row_mask", "first_row", "loaded", "slots"),
    *_SHARED,
)


def emit_warp_specialized(
    op: FusedOp, schedule: ScheduleAttr, names: NameAllocator
) -> EmittedKernel:
    """The kernel of `op`; `names` are the function names of the module.

    Raises CodaError where `op` cannot run so (see `coda_ir.dialects.gemm.warp_specialized`).
    """
    where = format_location(op.location)
    try:
        found = staging(op, schedule)
    except ValueError as error:
        raise CodaError(f"{where}: gemm.fused: {error}") from error
    if isinstance(found, str):
        raise CodaError(
            f"{where}: gemm.fused cannot run warp-specialized: {found}",
            "schedule it with the tma or the pointer main loop",
        )
    return _Emitter(op, schedule, found, names).emit()


class _Emitter:
    def __init__(
        self, op: FusedOp, schedule: ScheduleAttr, staged: Staging, module_names: NameAllocator
    ):
        self.op = op
        self.schedule = schedule
        self.staging = staged
        self.name = module_names.fresh(gemm_kernel_name(op))
        self.load_name = module_names.fresh(f"{self.name}_load")
        self.compute_name = module_names.fresh(f"{self.name}_compute")
        slots = [slots_name(staged, shape) for shape in staged.stores]
        ports = [
            f"port{index}_{what}"
            for index in range(len(staged.loads))
            for what in ("slots", "ready")
        ]
        self.slot_names = [*ports, *slots]
        self.names = NameAllocator(
            (*_RESERVED, *ports, *slots, *helper_names(), *own_helper_names(), *NAMES, self.name)
        )
        self.helpers = {"grouped_tile", "accumulate"}
        self.arguments = ArgumentList(op, self.names)
        self.descriptors = BoxDescriptors(op, self.arguments)
        self.ranges = [
            (segment, columns)
            for segment in op.segments()
            for columns in column_ranges(segment, schedule, op.order)
        ]

    @property
    def tiles_n(self) -> int:
        return sum(columns.programs for _, columns in self.ranges)

    def emit(self) -> EmittedKernel:
        load, compute = self._emit_load(), self._emit_compute()
        words = set(re.findall(r"\w+", "\n".join([*load, *compute])))
        named = [argument for argument in self.arguments.arguments if argument.name in words]
        arguments = (*named, KernelArgument("M", "i32", "{rows}"))
        sections = [
            self._function(self.load_name, load, arguments, ()),
            self._function(self.compute_name, compute, arguments, ("GROUP: tl.constexpr",)),
            self._entry(load, compute, arguments),
        ]
        tiles = f"triton.cdiv({{rows}}, {self.schedule.block_m.data}) * {self.tiles_n}"
        device = "torch.cuda.get_device_properties({operands[0]}.device)"
        multiprocessors = f"{device}.multi_processor_count"
        return EmittedKernel(
            name=self.name,
            source=translated("\n\n\n".join(sections)),
            arguments=arguments,
            grid=f"min({tiles}, {multiprocessors})",
            helpers=frozenset(self.helpers),
            num_warps=4,
            num_stages=self.schedule.stages.data,
            description=self._summary(),
            imports=IMPORTS,
            constants=frozenset(
                layout_constant(element, box) for element, box in self.descriptors.layouts
            ),
            language="gluon",
        )

    # Loading

    def _emit_load(self) -> list[str]:
        loads = LoadEmitter(self.op, self.schedule, self.descriptors)
        branches = [
            loads.emit(segment, columns, self._tile(index))
            for index, (segment, columns) in enumerate(self.ranges)
        ]
        return [
            '"""Load the operands of tile after tile, as many steps ahead as there are stages."""',
            *self._constants(),
            "step = 0",
            *self._tile_loop(self._branches(branches)),
        ]

    @staticmethod
    def _tile(index: int) -> str:
        """The number of a tile within range number `index`."""
        return "tile" if index else "tile_n"

    def _constants(self) -> list[str]:
        return [
            f"STAGES: tl.constexpr = {self.schedule.stages.data}",
            f"STAGE_BYTES: tl.constexpr = {stage_bytes(self.schedule)}",
        ]

    def _tile_loop(self, body: Sequence[str]) -> list[str]:
        bm, group_m = self.schedule.block_m.data, self.schedule.group_m.data
        return [
            f"tiles = tl.cdiv(M, {bm}) * {self.tiles_n}",
            "for program in range(tl.program_id(0), tiles, tl.num_programs(0)):",
            *indented(
                [
                    f"tile_m, tile_n = grouped_tile("
                    f"program, tl.cdiv(M, {bm}), {self.tiles_n}, {group_m})",
                    *body,
                ]
            ),
        ]

    def _branches(self, bodies: Sequence[Sequence[str]]) -> list[str]:
        """The statements of each range under its condition, with `tile` its own tile number."""
        lines: list[str] = []
        start = 0
        for (segment, columns), body in zip(self.ranges, bodies, strict=True):
            end = start + columns.programs
            number = [f"tile = tile_n - {start}"] if start else []
            if body and columns.programs == self.tiles_n:
                lines += body
            elif body:
                weights = ", ".join(segment.weights[i].name_hint or "w" for i in columns.weights)
                lines.append(f"# {weights}: tiles {start} to {end - 1} of {self.tiles_n}")
                lines += [f"if {self._condition(start, end)}:", *indented([*number, *body])]
            start = end
        return lines

    def _condition(self, start: int, end: int) -> str:
        if start == 0:
            return f"tile_n < {end}"
        if end == self.tiles_n:
            return f"tile_n >= {start}"
        return f"(tile_n >= {start}) & (tile_n < {end})"

    # Computing

    def _emit_compute(self) -> list[str]:
        bm, _, bk = self.schedule.tile
        emitters: list[GroupSegmentEmitter] = []
        bodies: list[list[str]] = []
        first: dict[int, int] = {}
        for index, (segment, columns) in enumerate(self.ranges):
            key = id(segment)
            total = sum(c.tiles for s, c in self.ranges if s is segment)
            emitter = GroupSegmentEmitter(
                segment=segment,
                columns=columns,
                first_tile=first.get(key, 0),
                segment_tiles=total,
                arguments=self.arguments,
                main_loop=None,
                names=self.names.scope(),
                helpers=self.helpers,
                staging=self.staging,
                descriptors=self.descriptors,
            )
            bodies.append(emitter.emit(self._tile(index)))
            emitters.append(emitter)
            first[key] = first.get(key, 0) + columns.tiles
        steps = sum(-(-self.op.depth(term) // bk) for term in range(len(self.op.inputs)))
        b_axis = 0 if self.ranges[0][0].layout == Layout.NK else 1
        product = f"accumulate({', '.join(_SHARED)}, step, {steps}, GROUP, 0, {b_axis})"
        return [
            f'"""Compute {GROUP_ROWS} rows of tile after tile: products, then the epilogue."""',
            "step = 0",
            *(["loaded = 0"] if self.staging.loads else []),
            *self._tile_loop(
                [
                    f"first_row = tile_m * {bm} + GROUP * {GROUP_ROWS}",
                    *self._branches([each.first_fetches() for each in emitters]),
                    f"acc, step = {product}",
                    *self._branches(bodies),
                ]
            ),
            "tma.store_wait(0)",
        ]

    # Functions

    def _function(
        self,
        name: str,
        body: Sequence[str],
        arguments: Sequence[KernelArgument],
        more: Sequence[str],
    ) -> str:
        parameters = [*self._used(body, arguments), *more]
        return "\n".join(["@triton.jit", *_signature(name, parameters), *indented(body)])

    def _used(self, body: Sequence[str], arguments: Sequence[KernelArgument]) -> list[str]:
        """What a function takes: shared memory, then parameters of the kernel that it names."""
        words = set(re.findall(r"\w+", "\n".join(body)))
        candidates = [*_SHARED, *self.slot_names, *(argument.name for argument in arguments)]
        return [name for name in candidates if name in words]

    def _entry(
        self, load: Sequence[str], compute: Sequence[str], arguments: Sequence[KernelArgument]
    ) -> str:
        fixed = ", ".join(f'"{a.name}"' for a in arguments if a.type == "i32")
        computed = self._used(compute, arguments)
        loaded = self._used(load, arguments)
        body = [
            *self._docstring(),
            *self._shared_memory(),
            "tl.warp_specialize(",
            "    [",
            *indented(
                [
                    *_partition(self.compute_name, [*computed, "0"]),
                    *_partition(self.compute_name, [*computed, "1"]),
                    *_partition(self.load_name, loaded),
                ],
                2,
            ),
            "    ],",
            "    [4, 1],",
            f"    [{', '.join(map(str, REGISTERS))}],",
            ")",
        ]
        head = f"@triton.jit(do_not_specialize=[{fixed}])"
        signature = _signature(self.name, [argument.name for argument in arguments])
        return "\n".join([head, *signature, *indented(body)]) + "\n"

    def _summary(self) -> str:
        n = sum(segment.columns for segment in self.op.segments())
        depths = [self.op.depth(index) for index in range(len(self.op.inputs))]
        k = " + ".join(map(str, depths))
        tile = " x ".join(map(str, self.schedule.tile))
        product = f"M x {n} x {f'({k})' if len(depths) > 1 else k} GEMM"
        return f"{product} in tiles of {tile}, warp-specialized"

    def _docstring(self) -> list[str]:
        place = location_comment(self.op.location)
        lines = [f'"""{self._summary()}, with its epilogue.', ""]
        lines += [describe_segment(segment) for segment in self.op.segments()]
        if place is not None:
            lines.append(f"Source: {place.removeprefix('# ')}")
        return [*lines, '"""']

    def _shared_memory(self) -> list[str]:
        bm, bn, bk = self.schedule.tile
        stages, element = self.schedule.stages.data, element_type_of(self.op.x)
        is_nk = self.ranges[0][0].layout == Layout.NK
        b_box = (bn, bk) if is_nk else (bk, bn)
        lines = [
            _memory(
                "a_stages", tl_type(element), (stages, bm, bk), self._layout(element, (bm, bk))
            ),
            _memory("b_stages", tl_type(element), (stages, *b_box), self._layout(element, b_box)),
            _barriers("full", stages),
            _barriers("empty", stages),
        ]
        depth = self.staging.depth
        inits = [(stages, [("full", 1), ("empty", GROUPS)])]
        for index, (lanes, type) in enumerate(self.staging.loads):
            box = (GROUP_ROWS, lanes)
            shape = (GROUPS * depth, *box)
            lines.append(
                _memory(f"port{index}_slots", tl_type(type), shape, self._layout(type, box))
            )
            lines.append(_barriers(f"port{index}_ready", GROUPS * depth))
            inits.append((GROUPS * depth, [(f"port{index}_ready", 1)]))
        for (lanes, type), count in self.staging.stores.items():
            box = (GROUP_ROWS, lanes)
            name = slots_name(self.staging, (lanes, type))
            lines.append(
                _memory(name, tl_type(type), (GROUPS * count, *box), self._layout(type, box))
            )
        for count, barriers in inits:
            lines.append(f"for index in tl.static_range({count}):")
            lines += [
                f"    mbarrier.init({name}.index(index), count={arrivals})"
                for name, arrivals in barriers
            ]
        return [*lines, "fence_async_shared()"]

    def _layout(self, element: object, box: tuple[int, int]) -> str:
        self.descriptors.layouts.add((element, box))  # pyright: ignore[reportArgumentType]
        return layout_name(element, box)  # pyright: ignore[reportArgumentType]


def _memory(name: str, type: str, shape: Sequence[int], layout: str) -> str:
    extents = ", ".join(map(str, shape))
    return f"{name} = tl.allocate_shared_memory({type}, [{extents}], {layout})"


def _barriers(name: str, count: int) -> str:
    layout = "mbarrier.MBarrierLayout()"
    return f"{name} = tl.allocate_shared_memory(tl.int64, [{count}, 1], {layout})"


def _signature(name: str, parameters: Sequence[str]) -> list[str]:
    line = f"def {name}({', '.join(parameters)}):"
    if len(line) <= 96:
        return [line]
    return [f"def {name}(", *(f"    {parameter}," for parameter in parameters), "):"]


def _partition(function: str, arguments: Sequence[str]) -> list[str]:
    """What a group of warps runs: a function and its arguments."""
    line = f"({function}, ({', '.join(arguments)})),"
    if len(line) <= 84:
        return [line]
    names = wrap(", ".join(arguments) + ",", 80, break_long_words=False)
    return ["(", f"    {function},", "    (", *indented(names, 2), "    ),", "),"]
