"""``dse serve`` by the contract of a problem."""

import math
import time
from collections.abc import Sequence
from typing import Any, ClassVar

from dse.problem import Posed, ProblemType, result_of
from dse.report.view import View
from dse.results.differences import differences
from dse.results.result import Result
from dse.run.progress import never_stop
from dse.run.remembered import Remembered, Same
from dse.run.run import Run
from dse.run.tables import Tables
from dse.serve import chip_table
from dse.serve.answer import ServeAnswer, beside, checked, infeasibility, metrics, solve
from dse.serve.check_disaggregated import violations
from dse.serve.formats import MetricsDocument, SolutionDocument
from dse.serve.options import ServeOptions, posed_problem
from dse.serve.problem import ServeProblem
from dse.serve.report import view
from dse.serve.search import choice_of
from dse.serve.serving_plan import plan_in

METHOD = "enumeration"

ServePosed = Posed[ServeOptions, ServeProblem]

_ANSWERS: Remembered[ServeAnswer] = Remembered(4, lambda answer: answer.stopped is None)
_METRICS: Remembered[dict[str, Any]] = Remembered(8)
"""Of the problems that were answered last, as a check asks for them again; nobody alters what it compares with."""


class ServeType(ProblemType[ServeOptions, ServeProblem]):
    """The best configuration to serve a model, proven by pricing or ruling out every one."""

    name = "serve"
    help = (
        "Find the best configuration to serve MODEL on a machine: latency, throughput, memory and price of a million "
        "tokens, and the proof that no other in the vocabulary is better.\n\n"
        "MODEL is a name (`dse models`), a config.json of transformers, or a YAML file of hyper-parameters. The proof "
        "covers tensor, pipeline, expert and attention-data parallelism, replicas, batch and chunk sizes, formats of "
        "keys and values, and workers for prompts and for tokens apart (docs/method/serving.md)."
    )
    examples: ClassVar[tuple[str, ...]] = (
        "dse serve llama3-70b --prompt 4096 --output 512 --concurrency 64 --tpot 0.05",
        "dse serve llama3-70b --rate 20 --tpot 0.04 --minimum-devices",
        "dse serve gpt-oss-120b --on b200,mi300x --concurrency 64 --mode both",
    )
    side_by_side = "on"
    side_by_side_headers = chip_table.HEADERS
    Options: ClassVar[type[Any]] = ServeOptions
    Solution = SolutionDocument
    Metrics = MetricsDocument
    parallel = False

    def pose(self, options: ServeOptions) -> ServePosed:
        """The model, the machine, the load and the fixed part of the configuration that the options name."""
        return posed_problem(options)

    def answered_by(self, options: ServeOptions) -> tuple[str, ...]:
        """Complete enumeration alone."""
        return (METHOD,)

    def answer(self, posed: ServePosed, run: Run) -> Result:
        """The best configuration, or why there is none."""
        started = time.perf_counter()
        problem = posed.problem
        answer = solve(problem, run.stop, run.seed)
        checked(problem, answer)
        best, is_whole = answer.best, answer.stopped is None
        if is_whole:
            _ANSWERS.get((Same(posed), run.seed), lambda: answer)
        value = None if best is None else best.value(problem.fewest)
        limit = answer.bound
        return result_of(
            self.name,
            posed,
            value=value,
            bound=limit.value(problem.fewest) if is_whole and best is not None and limit is not None else None,
            status="interrupted" if answer.stopped == "interrupted" else None,
            solution=None if best is None else {"plan": best.plan.document()},
            metrics=self._metrics(posed, answer, run.seed),
            infeasibility=infeasibility(problem, answer) if best is None and is_whole else None,
            evaluations=answer.evaluations,
            seconds=time.perf_counter() - started,
            seed=run.seed,
            method=METHOD,
        )

    def _metrics(self, posed: ServePosed, answer: ServeAnswer, seed: int) -> dict[str, Any]:
        problem, best = posed.problem, answer.best
        if best is None:
            return {}
        own = metrics(problem, best, seed)
        if answer.stopped is not None:
            return own | {"stopped": answer.stopped}
        return own | beside(problem, answer, seed)

    def faults(self, result: Result, posed: ServePosed) -> list[str]:
        """The configuration's own rules and costs; what is said to be best or infeasible is solved again."""
        problem = posed.problem
        if result.solution:
            plan, value = plan_in(result.solution["plan"], "result"), result.objective.value
            if broken := violations(problem, plan, math.nan if value is None else value):
                return broken
            if result.metrics.get("stopped") is not None:
                return self._stopped_faults(result, problem)
        elif result.status != "infeasible":
            bound = [] if result.bound is None else ["bound must be null: the search was not finished"]
            return bound + [f"metrics.{key} must not be given without a configuration" for key in result.metrics]
        again = _ANSWERS.get((Same(posed), result.seed), lambda: solve(problem, never_stop, result.seed))
        best, limit = again.best, again.bound
        if best is None or limit is None or not result.solution:
            return self._infeasible_faults(result, problem, again)
        expected = _METRICS.get((Same(posed), result.seed), lambda: self._metrics(posed, again, result.seed))
        return [
            *differences("solution.plan", result.solution["plan"], best.plan.document()),
            *differences("bound", result.bound, limit.value(problem.fewest)),
            *differences("metrics", result.metrics, expected),
        ]

    def _stopped_faults(self, result: Result, problem: ServeProblem) -> list[str]:
        """Of a run that was cut short: what follows from its configuration alone."""
        plan = plan_in(result.solution["plan"], "result")
        own = metrics(problem, choice_of(problem, plan), result.seed)
        expected = own | {"stopped": result.metrics["stopped"]}
        bound = [] if result.bound is None else ["bound must be null: the search was not finished"]
        return [*bound, *differences("metrics", result.metrics, expected)]

    def _infeasible_faults(self, result: Result, problem: ServeProblem, again: ServeAnswer) -> list[str]:
        if again.best is not None:
            return ["status must not be infeasible: a configuration keeps the limits"]
        if result.solution:
            return ["status must be infeasible: no configuration keeps the limits"]
        stated = None if result.infeasibility is None else result.infeasibility.model_dump()
        expected = [infeasibility(problem, each).model_dump() for each in (again, ServeAnswer(again.matching, None))]
        faults = min((differences("infeasibility", stated, each) for each in expected), key=len)
        return faults + [f"metrics.{key} must not be given without a configuration" for key in result.metrics]

    def is_finished(self, result: Result) -> bool:
        """Whether the search was not stopped; with limits on percentiles an answer need not be proven."""
        is_whole = result.objective.value is not None and result.metrics.get("stopped") is None
        return is_whole or super().is_finished(result)

    def view(self, result: Result, posed: ServePosed, tables: Tables) -> View:
        """Latency, throughput, memory, price, the front."""
        del tables
        return view(posed.problem, result)

    def side_by_side_row(self, result: Result, posed: ServePosed) -> tuple[str, ...]:
        """Output, latency, price and the configuration."""
        return chip_table.row(posed.problem, result)

    def side_by_side_notes(self, posed: Sequence[ServePosed]) -> list[str]:
        """That times which rest on different measurements cannot be compared."""
        return chip_table.notes([each.problem for each in posed])


PROBLEM = ServeType()
