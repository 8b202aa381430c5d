"""Candidates for measuring a GEMM: schedules of a fused kernel, and other forms."""

from dataclasses import dataclass, replace

from xdsl.dialects.builtin import Float32Type

from coda_ir.cache.decision import FORMS, Form
from coda_ir.cost_model import MAIN_LOOPS, Device, Ranked, Space, rank
from coda_ir.devices import library_rounds_float32
from coda_ir.diagnostics import LoweringError
from coda_ir.dialects.coda.shapes import element_type_of
from coda_ir.dialects.gemm import FusedOp, MapOp, ScheduleAttr
from coda_ir.functions import find_entry
from coda_ir.passes.layout.schedule import TOO_WIDE_GROUPS
from coda_ir.passes.layout.unfusing import is_bare
from coda_ir.symbolic_shapes import SymbolicShapes
from coda_ir.tuning.measurer import Candidate
from coda_ir.tuning.problem import ENTRY, Problem

MAX_SHAPES = 5
"""Fused candidates of a GEMM that differ in tile, warps or main loop, with the model's choice."""

OTHER_SPLITS = 2
"""Numbers of programs for a tile that are measured beside that of the best shape."""

NEARLY = 1.15
"""The best of another main loop is measured if it is below this multiple of the best's time."""

UNLIKELY = 1.5
"""The same for an unfused kernel of ours, which has the same main loop, and more bytes."""


@dataclass(frozen=True)
class Request:
    """A GEMM for which a form and a schedule are to be found."""

    problem: Problem
    name: str
    """A readable name."""
    space: Space
    """Choices that the options leave to the cost model; its own stands unless another is faster."""
    device: Device
    forms: tuple[Form, ...] = FORMS
    """Those that may be chosen."""


def candidates_of(request: Request) -> list[Candidate]:
    """Return the candidates worth measuring: the model's choice, the next best shapes, the other
    forms, and for the best shape other stages, orders of tiles and numbers of programs per tile.

    Raises CodaError where no tile fits.
    """
    problem = request.problem
    ranking = rank(problem.op, request.space, request.device, problem.rows)
    if not ranking:
        raise LoweringError("no tile fits", TOO_WIDE_GROUPS)
    wider = rank(problem.op, _wide(request), request.device, problem.rows)
    chosen = _most_likely(_shapes([ranking[0], *wider]))
    best = min(chosen, key=lambda ranked: ranked.us)
    taken = {ranked.schedule for ranked in chosen}
    variants = [each for each in _variants(request, best) if each.schedule not in taken]
    return [
        *_fused(problem, chosen),
        *_other_forms(request, best.us),
        *_fused(problem, variants),
    ]


def _shapes(ranking: list[Ranked]) -> list[Ranked]:
    """Return the best of the ranking for each main loop, tile and number of warps, in its order."""
    shapes: dict[tuple[object, ...], Ranked] = {}
    for ranked in ranking:
        schedule = ranked.schedule
        shapes.setdefault((schedule.mainloop, schedule.tile, schedule.warps.data), ranked)
    return list(shapes.values())


def _shape(schedule: ScheduleAttr) -> tuple[str, tuple[int, int, int]]:
    return schedule.mainloop, schedule.tile


def _most_likely(shapes: list[Ranked]) -> list[Ranked]:
    """Return the first, which is the model's choice, and the best `MAX_SHAPES`, including the best
    of each main loop if its estimate is close: main loops are what the model predicts worst.
    """
    first, *ranked = shapes
    of_loop = {each.schedule.mainloop: each for each in reversed(ranked)}
    limit = NEARLY * min(each.us for each in shapes)
    wanted = [each for each in of_loop.values() if each.us < limit]
    by_rank = [each for each in ranked if each not in wanted]
    taken = [*wanted, *by_rank][: MAX_SHAPES - 1]
    return [first, *sorted(taken, key=ranked.index)]


def _fused(problem: Problem, found: list[Ranked]) -> list[Candidate]:
    return [Candidate(problem, ranked.schedule, ranked.us) for ranked in found]


def _other_forms(request: Request, fused_us: float) -> list[Candidate]:
    """Return the other forms: products by the library, and by the best kernel without epilogue."""
    problem = request.problem
    products = _products(request)
    if products is None:
        return []
    found: list[Candidate] = []
    if "library" in request.forms and problem.has_form("library") and not _may_round(problem):
        # The library is taken to be as fast as the best of our main loops.
        predicted = products.us + _maps_us(problem, "library", request.device)
        found.append(Candidate(problem, None, predicted, "library"))
    is_fused = not all(map(is_bare, problem.op.segments()))
    if "unfused" in request.forms and is_fused:
        predicted = products.us + _maps_us(problem, "unfused", request.device)
        if predicted < UNLIKELY * fused_us:
            found.append(Candidate(problem, products.schedule, predicted, "unfused"))
    return found


def _products(request: Request) -> Ranked | None:
    """Return the best kernel without an epilogue; None if the epilogue cannot be separated."""
    problem = request.problem
    if not problem.has_form("unfused"):
        return None
    module = problem.in_form("unfused")
    bare = next(op for op in module.walk() if isinstance(op, FusedOp))
    space = replace(_wide(request), all_warps=False)
    ranking = rank(bare, space, request.device, problem.rows)
    return ranking[0] if ranking else None


def _may_round(problem: Problem) -> bool:
    """Return whether PyTorch may multiply float32 with reduced precision, unlike our kernels."""
    is_f32 = isinstance(element_type_of(problem.op.x), Float32Type)
    return is_f32 and library_rounds_float32()


def _maps_us(problem: Problem, form: Form, device: Device) -> float:
    """Return the microseconds of a form's pointwise kernels: those of their bytes and launches."""
    func = find_entry(problem.in_form(form), ENTRY)
    shapes, total = SymbolicShapes(func), 0.0
    for op in func.body.block.ops:
        if isinstance(op, MapOp):
            sizes = [shapes.bytes(value) for value in dict.fromkeys((*op.operands, *op.results))]
            # Partials have as many columns as there are tiles, which is little.
            known = [size for size in sizes if size.symbols <= problem.sizes.keys()]
            moved = sum(size.evaluate(problem.sizes) for size in known)
            total += device.pointwise_us(moved)
    return total


def _wide(request: Request) -> Space:
    """Return the space without the restrictions that exist for the cost model."""
    space = request.space
    if space.tile is not None:
        return space
    loops = [name for name, loop in MAIN_LOOPS.items() if loop.runs_on(request.device)]
    return replace(
        space, main_loops=tuple(loops), rows_of_tiles=(256, *space.rows_of_tiles), all_warps=True
    )


def _variants(request: Request, best: Ranked) -> list[Ranked]:
    """Return variants with one more stage, with twice the row tiles that share columns in L2, and
    with both; if few tiles may share K among programs, also the best other numbers of programs.
    """
    space, schedule = request.space, best.schedule
    stages = space.stages or (schedule.stages.data, schedule.stages.data + 1)
    groups = (schedule.group_m.data, 2 * schedule.group_m.data)
    narrow = replace(
        space,
        main_loops=(schedule.mainloop,),
        warps=schedule.warps.data,
        stages=stages if request.device.stages > 1 else (request.device.stages,),
        group_m=groups,
        rows_of_tiles=(schedule.block_m.data,),
        columns_of_tiles=(schedule.block_n.data,),
        split_k=(schedule.split_k.data,),
    )
    same = replace(narrow, stages=stages[:1], group_m=groups[:1], split_k=space.split_k)
    problem, device = request.problem, request.device
    shape = schedule.mainloop, schedule.tile
    by_stages, by_splits = (
        [r for r in rank(problem.op, s, device, problem.rows) if _shape(r.schedule) == shape]
        for s in (narrow, same)
    )
    return [*by_stages, *by_splits[: 1 + OTHER_SPLITS]]
