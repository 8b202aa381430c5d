"""Pass `tune`: schedules that were measured, between the cost model's ranking and emission."""

from collections.abc import Hashable, Mapping, Sequence
from typing import ClassVar

from coda_ir.cache.decision import FORMS, Form
from coda_ir.cost_model import Ranked, described
from coda_ir.cost_model.rows import RowCounts
from coda_ir.diagnostics import OptionError
from coda_ir.dialects.gemm import TUNED_ATTRIBUTE, FusedOp, LibraryOp, MapOp
from coda_ir.passes.layout.schedule import Keyed, SchedulePass, gemm_shape
from coda_ir.passes.layout.unfusing import BY, unfuse
from coda_ir.tuning.candidates import Request
from coda_ir.tuning.context import BUDGET_S
from coda_ir.tuning.measurer import schedule_of
from coda_ir.tuning.problem import Problem
from coda_ir.tuning.tuner import Answer, tune

FUSED: tuple[Form, ...] = ("fused",)

MODES = ("measure", "stored")


class TunePass(SchedulePass):
    """Schedules every `gemm.fused` as the pass `schedule` does, with its options, and chooses among
    the best schedules by measurement (docs/tuning.md).

    In the mode `measure` the best few schedules of the cost model are measured on the GPU for
    `sizes`, within `budget` seconds, and results are stored. The mode `stored` uses stored results
    and measures nothing.
    """

    name: ClassVar[str] = "tune"
    mode: str = "measure"
    budget: int | float = BUDGET_S

    def check_options(self) -> None:
        super().check_options()
        if self.mode not in MODES:
            raise OptionError(f"tune: unknown mode '{self.mode}'", f"use {' or '.join(MODES)}")

    def set_schedules(
        self, gemms: Keyed, choices: Mapping[Hashable, Ranked], rows: RowCounts
    ) -> None:
        """Give each GEMM its measured schedule, or else the choice of the cost model."""
        first: dict[Hashable, FusedOp] = {}
        for key, gemm in gemms:
            first.setdefault(key, gemm)
        answers = self._answers(first, rows)
        for key, gemm in gemms:
            answer = answers.get(key)
            for text in () if answer is None else answer.texts():
                self.remark(gemm, text)
            if answer is None or answer.decision is None:
                self.set_choice(gemm, choices[key])
            else:
                self._set_measured(gemm, answer, rows.of(gemm))

    def _answers(
        self, gemms: Mapping[Hashable, FusedOp], rows: RowCounts
    ) -> dict[Hashable, Answer]:
        """Find the results for the GEMMs whose sizes are known."""
        requests: dict[Hashable, Request] = {}
        for key, gemm in gemms.items():
            problem = Problem.of(gemm, rows)
            if problem is None:
                self.remark(gemm, "not tuned: sizes does not state the number of rows")
                continue
            name, forms = " x ".join(gemm_shape(gemm)), FORMS if self.gemms is None else FUSED
            requests[key] = Request(problem, name, self.space(), self.device, forms)
        answers = tune(list(requests.values()), self.mode, self.budget)
        return dict(zip(requests, answers, strict=True))

    def _set_measured(self, op: FusedOp, answer: Answer, rows: int | None) -> None:
        assert answer.decision is not None, "there is a decision"
        found = answer.decision.chosen
        ops = _in_form(op, found.form)
        for gemm in ops:
            if isinstance(gemm, MapOp):
                continue
            gemm.attributes[TUNED_ATTRIBUTE] = answer.attribute(len(ops))
            if isinstance(gemm, FusedOp):
                self.set_choice(gemm, described(gemm, schedule_of(found), self.device, rows))


def _in_form(op: FusedOp, form: Form) -> Sequence[FusedOp | LibraryOp | MapOp]:
    """Bring `op` into a form; return the resulting kernels in order."""
    return [op] if form == "fused" else unfuse(op, BY[form]).ops
