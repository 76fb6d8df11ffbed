"""The strategies as ``--strategy all`` asks them: each with a time of a whole step as its value.

What a strategy minimises by itself can be something else (:mod:`dse.parallel.step_time`).
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Protocol

from dse.parallel import sharded
from dse.parallel.hybrid import strategy as hybrid
from dse.parallel.hybrid.view import view as hybrid_view
from dse.parallel.options import ParallelOptions
from dse.parallel.pipeline import strategy as pipeline
from dse.parallel.pipeline.formats import plan_of
from dse.parallel.pipeline.length import length
from dse.parallel.pipeline.question import PipelineQuestion
from dse.parallel.view import view as sharding_view
from dse.problem import Posed
from dse.report.view import View
from dse.results.result import Result
from dse.run.run import Run


class Strategy(Protocol):
    """What ``all`` needs of a strategy; its value is the time of a whole step."""

    OBJECTIVE: str

    def answer(self, posed: Posed[ParallelOptions, Any], problem: Any, run: Run) -> Result:
        """The best plan with its bound."""
        ...

    def faults(self, result: Result, options: ParallelOptions, problem: Any) -> list[str]:
        """What its own check finds."""
        ...

    def view(self, result: Result, problem: Any) -> View:
        """Its result for people."""
        ...

    def own_value(self, result: Result, problem: Any) -> float:
        """What it minimises by itself, of its plan."""
        ...

    def device_bytes(self, metrics: Mapping[str, Any]) -> float:
        """The most that a device keeps."""
        ...


class _Sharding:
    OBJECTIVE = "step_s"

    def answer(self, posed: Posed[ParallelOptions, Any], problem: Any, run: Run) -> Result:
        return sharded.answer(posed, problem, run)

    def faults(self, result: Result, options: ParallelOptions, problem: Any) -> list[str]:
        return sharded.faults(result, options, problem)

    def view(self, result: Result, problem: Any) -> View:
        return sharding_view(problem, result)

    def own_value(self, result: Result, problem: Any) -> float:
        del problem
        return float(result.metrics["step_s"])

    def device_bytes(self, metrics: Mapping[str, Any]) -> float:
        return float(metrics["peak_bytes"])


class _Pipeline:
    OBJECTIVE = "length_s"

    def answer(self, posed: Posed[ParallelOptions, Any], problem: Any, run: Run) -> Result:
        return pipeline.answer(posed, problem, run)

    def faults(self, result: Result, options: ParallelOptions, problem: Any) -> list[str]:
        del options
        return pipeline.faults(result, problem)

    def view(self, result: Result, problem: Any) -> View:
        return pipeline.view(result, problem)

    def own_value(self, result: Result, problem: PipelineQuestion) -> float:
        without = replace(problem.problem, update_s_per_byte=0.0, shares=None)
        return length(without, plan_of(problem, result.solution, "result")).length_s

    def device_bytes(self, metrics: Mapping[str, Any]) -> float:
        return float(max(stage["device_bytes"] for stage in metrics["stages"]))


class _Hybrid:
    OBJECTIVE = "step_s"

    def answer(self, posed: Posed[ParallelOptions, Any], problem: Any, run: Run) -> Result:
        return hybrid.answer(posed, problem, run)

    def faults(self, result: Result, options: ParallelOptions, problem: Any) -> list[str]:
        del options
        return hybrid.faults(result, problem)

    def view(self, result: Result, problem: Any) -> View:
        return hybrid_view(result, problem)

    def own_value(self, result: Result, problem: Any) -> float:
        del problem
        return float(result.metrics["step_s"])

    def device_bytes(self, metrics: Mapping[str, Any]) -> float:
        return float(max(stage["device_bytes"] for stage in metrics["stages"]))


STRATEGIES: Mapping[str, Strategy] = MappingProxyType(
    {"sharding": _Sharding(), "pipeline": _Pipeline(), "hybrid": _Hybrid()}
)
