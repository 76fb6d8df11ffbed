"""``dse predict`` by the contract of a problem: :mod:`dse.plan` with the user's plan compared with the best one."""

from collections.abc import Sequence
from typing import Any, ClassVar, TypeGuard

from pydantic import BaseModel

from dse.plan.answer import PlanAnswer, compared
from dse.plan.contract import PlanPosed, PlanType
from dse.plan.formats import MetricsDocument, SolutionDocument, priced_document
from dse.plan.intervals import faster_probability
from dse.plan.options import PredictOptions, TrainingOptions
from dse.plan.problem import PlanProblem
from dse.plan.search.enumeration import Priced
from dse.predict import batch_answer
from dse.predict.measured import (
    MeasuredMetrics,
    MeasuredPosed,
    compared_result,
    with_comparison,
    with_measured,
    without_comparison,
)
from dse.report.view import View
from dse.results.differences import differences
from dse.results.result import Result
from dse.run.progress import StoppedError, StopSignal, never_stop
from dse.run.run import Run
from dse.run.tables import Tables
from hardware.inputs import fail


class PredictType(PlanType):
    """What a training plan costs, whether it fits, and how far it is from the best."""

    name = "predict"
    help = (
        "Predict the step time and memory of a training plan for MODEL, and compare it with the best plan.\n\nMODEL "
        "is a name (`dse models`), a config.json of transformers, or a YAML file of hyper-parameters. Keys that "
        "--plan leaves open are chosen for the shortest step (docs/method/plan.md)."
    )
    examples: ClassVar[tuple[str, ...]] = (
        "dse predict llama3-8b --accelerators 64 --plan tensor=8,zero=1 --notes",
        "dse predict llama3-8b --on a100-sxm --stack megatron-2022 --plan data=8,zero=3",
        "dse predict llama3-8b --accelerators 64 --batch docs/examples/plans.csv",
    )
    Options: ClassVar[type[Any]] = PredictOptions
    Metrics: ClassVar[Any] = MetricsDocument
    forms = (
        (batch_answer.BatchSolution, batch_answer.BatchMetrics),
        (SolutionDocument, MeasuredMetrics),
    )

    # Each of these is another question where a table of plans is given: what all of its rows cost.

    def pose(self, options: TrainingOptions) -> Any:
        """The plan and its machine, or those of every row of a table."""
        if _has_table(options):
            if _has_profile(options):
                raise fail("dse predict", "--measured", options.measured[0], "must not be given with --batch")
            if options.export is not None:
                rule = "must not be given with --batch: give the keys of one row to --plan"
                raise fail("dse predict", "--export", options.export, rule)
            return batch_answer.posed(options)
        posed = super().pose(options)
        return with_measured(posed, options.measured) if _has_profile(options) else posed

    def answer(self, posed: Any, run: Run) -> Result:
        """What the plan costs, or every plan of a table."""
        if _has_table(posed.options):
            return batch_answer.answer(self.name, posed, run)
        result = super().answer(posed, run)
        return compared_result(result, posed) if isinstance(posed, MeasuredPosed) else result

    def faults(self, result: Result, posed: Any) -> list[str]:
        """As of a plan, or of every row of a table."""
        if _has_table(posed.options):
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
        """As of a plan, or the rows of a table."""
        if _has_table(posed.options):
            return batch_answer.view(result, posed)
        shown = super().view(result, posed, tables)
        return with_comparison(shown, result, posed) if isinstance(posed, MeasuredPosed) else shown

    def side_by_side_row(self, result: Result, posed: Any) -> tuple[str, ...]:
        """As of a plan, or the fastest of a table."""
        if _has_table(posed.options):
            return batch_answer.side_by_side_row(result)
        return super().side_by_side_row(result, posed)

    def side_by_side_notes(self, posed: Sequence[Any]) -> list[str]:
        """As of a plan; none of tables."""
        return [] if _has_table(posed[0].options) else super().side_by_side_notes(posed)

    def documents(self, options: TrainingOptions) -> tuple[type[BaseModel] | None, type[BaseModel] | None]:
        """Those of a plan, or of a table."""
        if _has_table(options):
            return self.forms[0]
        return self.forms[1] if _has_profile(options) else super().documents(options)

    def answered_by(self, options: TrainingOptions) -> tuple[str, ...]:
        """The one method that prices a plan, or a table."""
        return (batch_answer.METHOD,) if _has_table(options) else super().answered_by(options)

    def searched(self, problem: PlanProblem, stop: StopSignal) -> PlanAnswer:
        """The user's plan and the best one of the same machine."""
        return compared(problem, stop)

    def beside(self, posed: PlanPosed, answer: PlanAnswer, stop: StopSignal = never_stop) -> dict[str, Any]:
        """The best plan of the same machine."""
        del stop
        if answer.every is not None and answer.every.stopped is not None:
            raise StoppedError(answer.every.stopped)
        assert answer.other is not None, "a plan that fits is one of these"
        own = answer.matching.best
        assert own is not None, "only called if a plan fits"
        probability = faster_probability(answer.other.step_s, own.step_s)
        return {"best": priced_document(answer.other), "best_is_faster": probability}

    def cut_short(self, best: Priced) -> dict[str, Any]:
        """Nothing: that the plan is the best of all is not known."""
        del best
        return {}


def _has_table(options: TrainingOptions) -> TypeGuard[PredictOptions]:
    return isinstance(options, PredictOptions) and options.batch is not None


def _has_profile(options: TrainingOptions) -> TypeGuard[PredictOptions]:
    return isinstance(options, PredictOptions) and bool(options.measured)


PROBLEM = PredictType()
