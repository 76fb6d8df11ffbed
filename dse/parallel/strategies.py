"""The strategies as ``--strategy all`` asks them: each with a time of a whole step as its value.

What a strategy minimises by itself can be something else (:mod:`dse.parallel.step_time`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from dse.parallel import sharded
from dse.parallel.hybrid import strategy as hybrid
from dse.parallel.hybrid.strategy import HybridQuestion
from dse.parallel.hybrid.view import view as hybrid_view
from dse.parallel.options import ParallelOptions
from dse.parallel.pipeline import strategy as pipeline
from dse.parallel.pipeline.formats import plan_of
from dse.parallel.pipeline.length import length
from dse.parallel.pipeline.question import PipelineQuestion
from dse.parallel.problem import ParallelProblem
from dse.parallel.view import view as sharding_view
from dse.problem import Posed
from dse.report.view import View
from dse.results.result import Result
from dse.run.run import Run


@dataclass(frozen=True)
class Strategy:
    """What ``all`` needs of a strategy; its value is the time of a whole step.

    Attributes:
        objective: what it minimises by itself.
        answer: the best plan with its bound.
        faults: what its own check finds.
        view: its result for people.
        own_value: of the objective, of its plan.
        device_bytes: the most that a device keeps, of its metrics.
    """

    objective: str
    answer: Callable[[Posed[ParallelOptions, Any], Any, Run], Result]
    faults: Callable[[Result, ParallelOptions, Any], list[str]]
    view: Callable[[Result, Any], View]
    own_value: Callable[[Result, Any], float]
    device_bytes: Callable[[Mapping[str, Any]], float]


def _step_s(result: Result, _problem: Any) -> float:
    return float(result.metrics["step_s"])


def _length_s(result: Result, problem: PipelineQuestion) -> float:
    without = replace(problem.problem, update_s_per_byte=0.0, shares=None)
    return length(without, plan_of(problem, result.solution, "result")).length_s


def _fullest_stage_bytes(metrics: Mapping[str, Any]) -> float:
    return float(max(stage["device_bytes"] for stage in metrics["stages"]))


STRATEGIES: Mapping[str, Strategy] = MappingProxyType(
    {
        "sharding": Strategy(
            "step_s",
            sharded.answer,
            sharded.faults,
            lambda result, problem: sharding_view(problem, result),
            _step_s,
            lambda metrics: float(metrics["peak_bytes"]),
        ),
        "pipeline": Strategy(
            "length_s",
            pipeline.answer,
            lambda result, _options, problem: pipeline.faults(result, problem),
            pipeline.view,
            _length_s,
            _fullest_stage_bytes,
        ),
        "hybrid": Strategy(
            "step_s",
            hybrid.answer,
            lambda result, _options, problem: hybrid.faults(result, problem),
            hybrid_view,
            _step_s,
            _fullest_stage_bytes,
        ),
    }
)


def strategy_of(problem: ParallelProblem | PipelineQuestion | HybridQuestion) -> Strategy:
    """The strategy that a problem is posed for."""
    if isinstance(problem, PipelineQuestion):
        return STRATEGIES["pipeline"]
    return STRATEGIES["hybrid" if isinstance(problem, HybridQuestion) else "sharding"]
