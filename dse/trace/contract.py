"""``dse trace`` by the contract of a problem: there is nothing to choose, and one answer, which is checked like any."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from dse.importer.profile.opened import note_profile
from dse.importer.profile.read import read_profile
from dse.problem import Posed, ProblemType, result_of
from dse.report.view import View
from dse.results.result import Objective, Result
from dse.run.run import Run
from dse.run.tables import Tables
from dse.trace.answer import OBJECTIVES, metrics_of, solution_of, value_of
from dse.trace.check import violations
from dse.trace.formats import MetricsDocument, SolutionDocument
from dse.trace.options import TraceOptions
from dse.trace.problem import RecordedRun, recorded_run
from dse.trace.report import PARTS, events_table, typical_steps, view

TracePosed = Posed[TraceOptions, RecordedRun]


class TraceType(ProblemType[TraceOptions, RecordedRun]):
    """Where the time of a recorded run goes."""

    name = "trace"
    help = """Show where the time of a recorded training or inference step goes.

    FILE is a profile of PyTorch (JSON), Nsight Systems (SQLite, CSV) or XLA (xplane.pb), or an execution trace of
    PyTorch or Chakra, also compressed (.gz); several files are the ranks of one run. The time of a step is compute,
    exposed communication, exposed copies and idle time, which add up (docs/method/trace.md).
    """
    examples = (
        "dse trace docs/examples/profiles/rank0.json docs/examples/profiles/rank1.json",
        "dse trace docs/examples/profiles/rank0.json --notes",
        "dse trace docs/examples/profiles/rank0.json --out runs/profile",
    )
    Options = TraceOptions
    Solution = SolutionDocument
    Metrics = MetricsDocument
    parallel = False

    def pose(self, options: TraceOptions) -> TracePosed:
        """The profiles in the files that the options name."""
        digests = [note_profile(path) for path in options.files]
        run = recorded_run([read_profile(path) for path in options.files], digests)
        name, unit = OBJECTIVES[run.timing]
        goal = Objective(name=name, value=None, unit=unit, sense="min")
        return Posed(options, run, run.name, digests, goal)

    def answered_by(self, options: TraceOptions) -> tuple[str, ...]:
        """There is one way."""
        return ("sweep",)

    def answer(self, posed: TracePosed, run: Run) -> Result:
        """The time of every step by what it goes to."""
        started = time.perf_counter()
        solution = solution_of(posed.problem)
        run.tables.put("events", events_table(posed.problem))
        return result_of(
            self.name,
            posed,
            method="sweep",
            value=value_of(posed.problem.timing, solution),
            solution=solution,
            metrics=metrics_of(posed.problem),
            evaluations=1,
            seconds=time.perf_counter() - started,
            seed=run.seed,
        )

    def faults(self, result: Result, posed: TracePosed) -> list[str]:
        """Every figure recomputed from the events."""
        if result.bound is not None:
            return ["bound must be null: nothing is optimised"]
        return violations(result, posed.problem)

    def is_finished(self, result: Result) -> bool:
        """Always: there is nothing that more time would improve."""
        return result.objective.value is not None

    def view(self, result: Result, posed: TracePosed, tables: Tables) -> View:
        """Steps, classes, layers, products and collectives."""
        del tables
        return view(result, posed.problem)

    def compared(self, results: Any) -> Mapping[str, tuple[Any, ...]]:
        """The value and the mean share of each part of the time."""
        steps = [each.solution["steps"] for each in results]
        shares = {f"{name}, share": tuple(_share(each, key) for each in steps) for key, name in PARTS.items()}
        return {"value": tuple(each.objective.value for each in results), **shares}


def _share(steps: Sequence[Mapping[str, Any]], key: str) -> float | None:
    own = typical_steps(steps)
    return sum(step[key] for step in own) / sum(step["window_s"] for step in own) if own else None


PROBLEM = TraceType()
