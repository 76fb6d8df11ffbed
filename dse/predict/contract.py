"""``dse predict`` by the contract of a problem: :mod:`dse.plan` with the user's plan beside the best one."""

from dataclasses import dataclass
from typing import Any, ClassVar

from dse.plan.contract import PlanType
from dse.plan.formats import MetricsDocument
from dse.plan.options import PlanOptions


@dataclass(frozen=True)
class PredictOptions(PlanOptions):
    """The options of ``dse predict``."""

    COMMAND: ClassVar[str] = "predict"


class PredictType(PlanType):
    """What a training plan costs, whether it fits, and how far it is from the best."""

    name = "predict"
    help = (
        "Predict the step time and the memory of a training plan of MODEL on a machine (docs/plan.md). What --plan "
        "leaves open is chosen; the best plan of the same machine stands beside it."
    )
    Options: ClassVar[type[Any]] = PredictOptions
    Metrics: ClassVar[Any] = MetricsDocument
    has_prices = False


PROBLEM = PredictType()
