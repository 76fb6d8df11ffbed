"""``dse plan`` by the contract of a problem."""

import math
import time
from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import BaseModel

from dse.plan import batch_answer, chip_table
from dse.plan.answer import (
    PlanAnswer,
    after_changes,
    checked,
    infeasibility,
    metrics,
    solve,
    without_constraints,
    without_parts,
)
from dse.plan.bound import min_step_s
from dse.plan.check import violations
from dse.plan.export.requested import with_exports
from dse.plan.formats import PlanMetricsDocument, SolutionDocument, priced_document
from dse.plan.measured import (
    MeasuredPlanMetrics,
    MeasuredPosed,
    compared_result,
    with_comparison,
    with_measured,
    without_comparison,
)
from dse.plan.model_sources import TRANSFORMER, transformer
from dse.plan.options import PlanOptions, TrainingOptions, export_names, posed_problem
from dse.plan.problem import PlanProblem
from dse.plan.report import view
from dse.plan.search.enumeration import Priced
from dse.plan.training_plan import whole_plan
from dse.problem import Posed, ProblemType, result_of
from dse.report.view import View
from dse.results.differences import differences
from dse.results.result import Result
from dse.run.progress import StoppedError, StopSignal, never_stop
from dse.run.remembered import Remembered, Same
from dse.run.run import Run
from dse.run.tables import Tables
from dse.sources.describe import ModelSummary
from dse.sources.kinds import ProblemInput
from hardware.inputs import fail

METHOD = "enumeration"

_METRICS: Remembered[dict[str, Any]] = Remembered(4)
"""Of the problems that were checked last; nobody alters what a check compares with."""

PlanPosed = Posed[TrainingOptions, PlanProblem]


class PlanType(ProblemType[TrainingOptions, PlanProblem]):
    """The best training plan of a machine, proven by pricing or ruling out every one."""

    name = "plan"
    additions = ("sensitivity", "constraints")
    steering: ClassVar[tuple[str, ...]] = ("export",)
    help = (
        "Find the fastest training plan for MODEL that fits a machine, and prove that it is optimal.\n\n"
        "MODEL is a name (`dse models`), a config.json of transformers, or a YAML file of hyper-parameters. The proof "
        "covers tensor, sequence, context, expert, data and pipeline parallelism, interleaving, ZeRO, recomputation "
        "and the order of the axes (docs/method/plan.md)."
    )
    examples: ClassVar[tuple[str, ...]] = (
        "dse plan llama3-8b --accelerators 64 --global-batch 256 --out runs/plan",
        "dse plan mixtral-8x7b --on h100-sxm,h200-sxm,mi300x --accelerators 16",
        "dse plan llama3-8b --plan zero=3 --constraints --sensitivity",
    )
    side_by_side = "on"
    side_by_side_headers = chip_table.HEADERS
    Options: ClassVar[type[Any]] = PlanOptions
    Solution = SolutionDocument
    Metrics: ClassVar[Any] = PlanMetricsDocument
    models = (TRANSFORMER,)
    parallel = False

    def pose(self, options: TrainingOptions) -> PlanPosed:
        """The model, the machine and the fixed part of the plan that the options name."""
        return posed_problem(options)

    def side_by_side_row(self, result: Result, posed: PlanPosed) -> tuple[str, ...]:
        """Step, tokens per second, MFU, memory, what its rates rest on, and the plan."""
        return chip_table.row(posed.problem, result)

    def side_by_side_notes(self, posed: Sequence[PlanPosed]) -> list[str]:
        """That rates which rest on different measurements cannot be compared."""
        return chip_table.notes([each.problem for each in posed])

    def searched(self, problem: PlanProblem, stop: StopSignal) -> PlanAnswer:
        """The best plan, and the others that the result needs."""
        return solve(problem, stop)

    def beside(self, posed: PlanPosed, answer: PlanAnswer, stop: StopSignal = never_stop) -> dict[str, Any]:
        """What the metrics hold in addition to those of the best plan."""
        problem, best = posed.problem, answer.matching.best
        assert best is not None, "only called if a plan fits"
        more: dict[str, Any] = {
            "pareto": [priced_document(priced) for priced in answer.matching.front],
            "without": without_parts(problem, best, stop),
        }
        if getattr(posed.options, "constraints", False):
            free = without_constraints(problem, best, stop)
            more["constraints"] = {key: priced_document(each) for key, each in free.items()}
        if getattr(posed.options, "sensitivity", False):
            after = after_changes(problem, stop)
            more["sensitivity"] = {key: None if each is None else priced_document(each) for key, each in after.items()}
        return more

    def _metrics(self, posed: PlanPosed, answer: PlanAnswer) -> dict[str, Any]:
        best = answer.matching.best
        return {} if best is None else metrics(posed.problem, best) | self.beside(posed, answer)

    def _answered(self, posed: PlanPosed, answer: PlanAnswer, stop: StopSignal) -> dict[str, Any]:
        """The metrics of a run that may be cut short."""
        best, reason = answer.matching.best, answer.matching.stopped
        if best is None:
            return {}
        if reason is None:
            try:
                return metrics(posed.problem, best) | self.beside(posed, answer, stop)
            except StoppedError as stopped:
                reason = str(stopped)
        return self._stopped_metrics(posed.problem, best, reason)

    def described(self, source: ProblemInput, sequence: int | None) -> ModelSummary:
        """Its sizes."""
        model = transformer(source.where)
        tokens = sequence or model.sequence
        sizes = {"layers": model.layers, "hidden width": model.hidden, "attention heads": model.heads}
        facts = {**sizes, "sequence": tokens, "source": model.source}
        work = f"training on a sample of {tokens:,} tokens"
        flops = model.flops_per_sample(tokens)
        return ModelSummary(model.name, "a transformer", (), model.parameters, flops, work, facts)

    def answered_by(self, options: TrainingOptions) -> tuple[str, ...]:
        """Complete enumeration alone."""
        return (METHOD,)

    def answer(self, posed: PlanPosed, run: Run) -> Result:
        """The fastest plan that fits, or why there is none."""
        started = time.perf_counter()
        problem = posed.problem
        answer = self.searched(problem, run.stop)
        checked(problem, answer)
        best = answer.matching.best
        value = None if best is None else best.step_s
        is_whole = answer.matching.stopped is None
        return result_of(
            self.name,
            posed,
            value=value,
            bound=value if is_whole else min_step_s(problem),
            status="interrupted" if answer.matching.stopped == "interrupted" else None,
            solution=None if best is None else {"plan": best.plan.document()},
            metrics=self._answered(posed, answer, run.stop),
            infeasibility=infeasibility(problem, answer) if best is None and is_whole else None,
            evaluations=answer.evaluations,
            seconds=time.perf_counter() - started,
            seed=run.seed,
            method=METHOD,
        )

    def faults(self, result: Result, posed: PlanPosed) -> list[str]:
        """The plan's own rules and costs; what is said to be best or infeasible is solved again."""
        problem = posed.problem
        if not result.solution and result.status != "infeasible":
            return self._unanswered_faults(result, problem)
        if not result.solution:
            return self._infeasible_faults(result, problem, self.searched(problem, never_stop))
        plan, value = whole_plan(result.solution["plan"], "result"), result.objective.value
        broken = violations(problem, plan, math.nan if value is None else value)
        if broken:
            return broken
        if result.metrics.get("stopped") is not None:
            return self._stopped_faults(result, problem, Priced(plan, value or math.nan, math.nan))
        again = self.searched(problem, never_stop)
        best = again.matching.best
        if best is None:
            return ["status must be infeasible: no plan fits"]
        return [
            *differences("solution.plan", result.solution["plan"], best.plan.document()),
            *differences("bound", result.bound, best.step_s),
            *differences("metrics", result.metrics, _METRICS.get(Same(posed), lambda: self._metrics(posed, again))),
        ]

    def _unanswered_faults(self, result: Result, problem: PlanProblem) -> list[str]:
        return [
            *differences("bound", result.bound, min_step_s(problem)),
            *(f"metrics.{key} must not be given without a plan" for key in result.metrics),
        ]

    def _infeasible_faults(self, result: Result, problem: PlanProblem, again: PlanAnswer) -> list[str]:
        if again.matching.best is not None:
            return ["status must not be infeasible: a plan fits"]
        stated = None if result.infeasibility is None else result.infeasibility.model_dump()
        # A run that was stopped while it looked for other plans, which would fit, names none.
        answers = [again, PlanAnswer(again.matching, None)]
        faults = [differences("infeasibility", stated, infeasibility(problem, each).model_dump()) for each in answers]
        return min(faults, key=len) + [f"metrics.{key} must not be given without a plan" for key in result.metrics]

    def cut_short(self, best: Priced) -> dict[str, Any]:
        """What the metrics hold in addition to those of the plan, where the run was cut short."""
        return {"pareto": [priced_document(best)], "without": {}}

    def _stopped_metrics(self, problem: PlanProblem, best: Priced, reason: str) -> dict[str, Any]:
        """The metrics of a run that was cut short: what follows from its plan alone."""
        own = metrics(problem, best)
        priced = Priced(best.plan, own["step_s"], sum(own["memory_bytes"].values()))
        return own | self.cut_short(priced) | {"stopped": reason}

    def _stopped_faults(self, result: Result, problem: PlanProblem, claimed: Priced) -> list[str]:
        """Of a run that was cut short: its bound is that of all plans, or its own step, where it had priced all."""
        faults = differences("bound", result.bound, min_step_s(problem))
        if faults and result.bound == result.objective.value:
            best = self.searched(problem, never_stop).matching.best
            is_best = best is not None and result.bound is not None and result.bound <= best.step_s * (1 + 1e-9)
            faults = [] if is_best else faults
        expected = self._stopped_metrics(problem, claimed, str(result.metrics["stopped"]))
        return [*faults, *differences("metrics", result.metrics, expected)]

    def view(self, result: Result, posed: PlanPosed, tables: Tables) -> View:
        """Step time, where it goes, memory."""
        shown = view(posed.problem, result, f"Training plan of {posed.name}")
        return with_exports(shown, posed.problem, result, export_names(posed.options))


class TableType(PlanType):
    """The same of every row of a table, or beside a profile, where one is given: other forms of result."""

    forms: ClassVar[tuple[tuple[type[BaseModel], type[BaseModel]], ...]] = (
        (batch_answer.BatchSolution, batch_answer.BatchMetrics),
        (SolutionDocument, MeasuredPlanMetrics),
    )

    def pose(self, options: TrainingOptions) -> Any:
        """The model, the machine and the fixed part of the plan, or those of every row."""
        if options.batch is None:
            posed = super().pose(options)
            return with_measured(posed, options.measured) if options.measured else posed
        if options.measured:
            raise fail(f"dse {self.name}", "--measured", options.measured[0], "must not be given with --batch")
        if options.export is not None:
            rule = "must not be given with --batch: give the keys of one row to --plan"
            raise fail(f"dse {self.name}", "--export", options.export, rule)
        for name in self.additions:
            if getattr(options, name, False):
                raise fail(f"dse {self.name}", f"--{name}", "", "must not be given with --batch")
        return batch_answer.posed(options)

    def answer(self, posed: Any, run: Run) -> Result:
        """As of a plan, or of every row."""
        if posed.options.batch is not None:
            return batch_answer.answer(self.name, posed, run)
        result = super().answer(posed, run)
        return compared_result(result, posed) if isinstance(posed, MeasuredPosed) else result

    def faults(self, result: Result, posed: Any) -> list[str]:
        """As of a plan, or of every row."""
        if posed.options.batch is not None:
            return batch_answer.faults(result, posed)
        if not isinstance(posed, MeasuredPosed):
            return super().faults(result, posed)
        plain = without_comparison(result)
        expected = compared_result(plain, posed).metrics.get("measured")
        return [
            *super().faults(plain, posed),
            *differences("metrics.measured", result.metrics.get("measured"), expected),
        ]

    def view(self, result: Result, posed: Any, tables: Tables) -> View:
        """As of a plan, or the rows."""
        if posed.options.batch is not None:
            return batch_answer.view(result, posed)
        shown = super().view(result, posed, tables)
        return with_comparison(shown, result, posed) if isinstance(posed, MeasuredPosed) else shown

    def side_by_side_row(self, result: Result, posed: Any) -> tuple[str, ...]:
        """As of a plan, or the fastest row."""
        if posed.options.batch is not None:
            return batch_answer.side_by_side_row(result)
        return super().side_by_side_row(result, posed)

    def side_by_side_notes(self, posed: Sequence[Any]) -> list[str]:
        """As of a plan; of tables, whether any row is answered for the chips of ``--on`` at all."""
        if posed[0].options.batch is None:
            return super().side_by_side_notes(posed)
        return ["every row names its own chip, so --on changes nothing"] if len({e.digest for e in posed}) == 1 else []

    def documents(self, options: TrainingOptions) -> tuple[type[BaseModel] | None, type[BaseModel] | None]:
        """Those of a plan, of a table, or beside a profile."""
        if options.batch is not None:
            return self.forms[0]
        return self.forms[1] if options.measured else super().documents(options)

    def answered_by(self, options: TrainingOptions) -> tuple[str, ...]:
        """The one method of a plan, or of a table."""
        return (batch_answer.METHOD,) if options.batch is not None else super().answered_by(options)


PROBLEM = TableType()
