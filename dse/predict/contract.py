"""``dse predict`` by the contract of a problem: :mod:`dse.plan` with the user's plan compared with the best one."""

from typing import Any, ClassVar, TypeGuard

from pydantic import BaseModel

from dse.plan import batch_answer
from dse.plan.answer import PlanAnswer, compared
from dse.plan.contract import PlanPosed, TableType
from dse.plan.formats import MetricsDocument, SolutionDocument, priced_document
from dse.plan.intervals import faster_probability
from dse.plan.options import PredictOptions, TrainingOptions
from dse.plan.problem import PlanProblem
from dse.plan.search.enumeration import Priced
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


class PredictType(TableType):
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

    def pose(self, options: TrainingOptions) -> Any:
        """The plan and its machine, or those of every row of a table."""
        if not _has_profile(options):
            return super().pose(options)
        if options.batch is not None:
            raise fail("dse predict", "--measured", options.measured[0], "must not be given with --batch")
        return with_measured(super().pose(options), options.measured)

    def answer(self, posed: Any, run: Run) -> Result:
        """What the plan costs, or every plan of a table."""
        result = super().answer(posed, run)
        return compared_result(result, posed) if isinstance(posed, MeasuredPosed) else result

    def faults(self, result: Result, posed: Any) -> list[str]:
        """As of a plan, or of every row of a table."""
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
        shown = super().view(result, posed, tables)
        return with_comparison(shown, result, posed) if isinstance(posed, MeasuredPosed) else shown

    def documents(self, options: TrainingOptions) -> tuple[type[BaseModel] | None, type[BaseModel] | None]:
        """Those of a plan, or of a table."""
        return self.forms[1] if _has_profile(options) else super().documents(options)

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


def _has_profile(options: TrainingOptions) -> TypeGuard[PredictOptions]:
    return isinstance(options, PredictOptions) and bool(options.measured)


PROBLEM = PredictType()
