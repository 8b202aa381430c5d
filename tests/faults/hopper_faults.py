"""Faults of warp-specialized kernels: who may use which memory when, and what goes where."""

from functools import partial

from faults.fault import Fault

W = "coda_ir.backends.triton.warp_specialized."
SEGMENT = f"{W}segment:GroupSegmentEmitter."
ORDER = f"{W}part_order:"

_Kernel = partial(Fault, corpus="kernels")

HOPPER_FAULTS = (
    _Kernel(
        "hopper: a stage is handed back while it is read",
        f"{W}gluon:_HELPERS[accumulate]",
        "(step + STAGES - 1) % STAGES), pred=RESUMES or k > 0",
        "stage), pred=RESUMES or k > 0",
    ),
    _Kernel(
        "hopper: the last stage of a tile is not handed back",
        f"{W}gluon:_HELPERS[finish]",
        "(step + STAGES - 1) % STAGES), pred=STEPS > 0",
        "(step + STAGES - 1) % STAGES), pred=False",
    ),
    _Kernel(
        "hopper: a slot is written while it is stored",
        "coda_ir.dialects.gemm.slots:Staging.pending",
        "max(count - 1",
        "max(count",
    ),
    _Kernel(
        "hopper: a slot of one shape is written while it is stored",
        "coda_ir.dialects.gemm.slots:Staging._between",
        "number - 1 - after",
        "number - after",
    ),
    _Kernel(
        "hopper: a slot is filled while it is stored",
        f"{SEGMENT}_main_loop",
        '["tma.store_wait(0)", *fetches]',
        "fetches",
    ),
    _Kernel(
        "hopper: ports of a part are those of the part before",
        f"{SEGMENT}_take_ahead",
        "ahead.call(f'{place} + 1')",
        "ahead.call(place)",
    ),
    _Kernel(
        "hopper: parts follow each other that need different ports",
        f"{ORDER}PartOrder.loops",
        "({PLACE}, {self.parts}, {self.period})",
        "({self.repeats} * {PLACE}, {self.repeats} * {PLACE} + {self.repeats})",
    ),
    _Kernel(
        "hopper: parts of two heads are joined",
        f"{ORDER}PartOrder.held",
        "{self.repeats * number} + {first}",
        "{self.repeats * number}",
    ),
    _Kernel(
        "hopper: stores are counted in the order of parts",
        f"{SEGMENT}__post_init__",
        "order=self.order.numbers",
        "order=tuple(sorted(self.order.numbers))",
    ),
    _Kernel(
        "hopper: the last stage before a pause is not handed back",
        f"{W}kernel:_Emitter._products",
        "resumes=True",
        "resumes=False",
    ),
    _Kernel(
        "hopper: a slot is stored before all of it is seen",
        f"{W}gluon:_HELPERS[put]",
        "    fence_async_shared()\n",
        "",
    ),
    _Kernel(
        "hopper: a tile takes turns in slots that do not divide it",
        "coda_ir.dialects.gemm.slots:_store_slots",
        "if count % n == 0",
        "",
    ),
    _Kernel(
        "hopper: a port is taken for that of the tile before",
        f"{SEGMENT}_load_port",
        "(loaded + part // {depth}) & 1",
        "(part // {depth}) & 1",
    ),
    _Kernel(
        "hopper: a port is loaded for the wrong part",
        f"{SEGMENT}_load_port",
        "(part_tile + {depth})",
        "(part_tile + {depth + 1})",
    ),
    _Kernel(
        "hopper: both groups take the same tiles",
        f"{W}kernel:_Emitter._tile_loop",
        'f"{first} + GROUP * {distance}"',
        "first",
    ),
    _Kernel(
        "hopper: a group multiplies when it is not its turn",
        f"{W}kernel:_Emitter._products",
        "(turn & 1) ^ (1 - GROUP)",
        "(turn & 1) ^ 1",
    ),
    _Kernel(
        "hopper: a group takes the stages of the other",
        f"{W}kernel:_Emitter._products",
        '"step += steps"',
        '"step += 0"',
    ),
    _Kernel(
        "hopper: the second half is stored over the first",
        f"{SEGMENT}_first_column",
        'return f"{start} + {half}" if is_second else start',
        "return start",
    ),
    _Kernel(
        "hopper: two weights land in the same columns of a stage",
        f"{W}loads:weight_rows",
        "WeightRows(weights[half], first, count, half * count)",
        "WeightRows(weights[half], first, count, 0)",
    ),
    _Kernel(
        "hopper: halves of a head come from its first half",
        f"{W}loads:_place_in_group",
        'f" + {half * group // 2}" if half else ""',
        '""',
    ),
    _Kernel(
        "hopper: fewer bytes are waited for than are loaded",
        "coda_ir.dialects.gemm.slots:stage_bytes",
        "2 * (bm + bn) * bk",
        "2 * (bm + bn) * bk - 128",
    ),
    _Kernel(
        "hopper: a transposed tile is not turned",
        f"{SEGMENT}_store_tile",
        'corner, value = corner[::-1], f"tl.permute({value}, (1, 0))"',
        'value = f"tl.permute({value}, (1, 0))"',
    ),
)
