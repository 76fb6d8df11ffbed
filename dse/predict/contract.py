"""``dse predict`` by the contract of a problem: :mod:`dse.plan` with the user's plan compared with the best one."""

from typing import Any, ClassVar

from dse.plan import batch_answer
from dse.plan.answer import PlanAnswer, compared
from dse.plan.contract import PlanPosed, TableType
from dse.plan.formats import MetricsDocument, SolutionDocument, priced_document
from dse.plan.intervals import faster_probability
from dse.plan.measured import MeasuredMetrics
from dse.plan.options import PredictOptions
from dse.plan.problem import PlanProblem
from dse.plan.search.enumeration import Priced
from dse.run.progress import StoppedError, StopSignal, never_stop


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
        probability = faster_probability(posed.problem, answer.other.step_s, own.step_s)
        return {"best": priced_document(answer.other), "best_is_faster": probability}

    def cut_short(self, best: Priced) -> dict[str, Any]:
        """Nothing: that the plan is the best of all is not known."""
        del best
        return {}


PROBLEM = PredictType()
