"""Problems of the IOPDDL contest as ``dse parallel`` answers them: one choice for each node, at the least cost.

Such a problem is what ``dse parallel`` makes of a step and a mesh before it solves it
(:mod:`dse.parallel.choice_graph`), with costs and memory in it; so neither mesh nor machine is needed. The answer is
also written in the contest's form.
"""

import json
import math
import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dse.algorithms.pairwise.evaluate import Evaluation, evaluate
from dse.algorithms.pairwise.iopddl import MAX_BYTES, choices_of, identity_of, problem_in
from dse.algorithms.pairwise.problem import FORBIDDEN, PairwiseProblem
from dse.problem import Posed, result_of
from dse.report.units import time_text
from dse.report.view import Breakdown, Card, Heading, Paragraph, Row, Share, Table, View
from dse.results.differences import differences
from dse.results.infeasibility import Infeasibility
from dse.results.result import PROOF_TOLERANCE, FailedCheckError, Objective, Result, percent
from dse.run.options import option_fields
from dse.run.run import Run
from hardware.documents import unpacked
from hardware.input_files import is_file
from hardware.inputs import fail, shown

if TYPE_CHECKING:
    from dse.parallel.options import ParallelOptions

METHOD = "exact"
SOLUTION_FILE = "solution.json"

PASSES = "passes"
"""In the metrics of a problem whose optimum is not proven: passes of messages, from which its bound follows."""

_EXACT_SHARE = 0.5
"""Of the time, which the exact search may take."""

_BEGINNING = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"problem"\s*:')
_OWN_OPTIONS = ("step", "method")


def contest_problem(source: object) -> PairwiseProblem | None:
    """The problem that ``source`` is or names, where it is one of the contest; None for anything else.

    Args:
        source: a problem, or the path of a file, which may be packed by gzip. ``problem`` is the one key of such a
            file.

    Raises:
        InputError: whatever is wrong with a file that begins as one of the contest.
    """
    if isinstance(source, PairwiseProblem):
        return source
    if not isinstance(source, str | os.PathLike) or not is_file(path := os.fsdecode(source)):
        return None
    content = unpacked(path, MAX_BYTES)
    return problem_in(content, path) if _BEGINNING.match(content) else None


def posed(options: "ParallelOptions", problem: PairwiseProblem) -> Posed["ParallelOptions", Any]:
    """``problem``, where no option asks for what it does not have.

    Raises:
        InputError: an option that belongs to training steps.
    """
    for each in option_fields(type(options)):
        value = getattr(options, each.name)
        if each.name not in _OWN_OPTIONS and value != each.default:
            rule = "must not be given with a contest problem, only with a training step"
            raise fail("dse parallel", each.flag, value, rule)
    if options.method not in ("auto", "exact"):
        raise fail("dse parallel", "--method", options.method, "must be exact or auto for a contest problem")
    goal = Objective(name="cost", value=None, unit="1", sense="min")
    return Posed(options, problem, problem.name or "choices", identity_of(problem), goal)


@dataclass(frozen=True)
class _Found:
    """What a search found.

    Attributes:
        choices: the best; None if none were found.
        bound: no choices cost less; None if that is not known.
        is_infeasible: whether there are none, which is proven.
        passes: of messages, from which the bound follows; None where the exact search ended with a proof.
    """

    choices: tuple[int, ...] | None
    bound: int | None
    is_infeasible: bool = False
    passes: int | None = None


def _search(problem: PairwiseProblem, run: Run) -> _Found:
    """The best choices: proven, where the exact search ends in time, and the better the longer it runs elsewhere."""
    from dse.algorithms.pairwise.anytime import anytime, is_large
    from dse.algorithms.pairwise.contraction import contracted
    from dse.algorithms.pairwise.solve import Status, solve

    small = contracted(problem)
    exact: _Found | None = None
    if small is None or not is_large(problem, small):
        stop = run.with_share(_EXACT_SHARE).stop
        solution = solve(problem, seed=run.seed, stop=stop)
        is_infeasible = solution.status is Status.INFEASIBLE
        # A bound of a search that was stopped could not be proven again.
        exact = _Found(solution.choices, 0 if stop() else solution.bound, is_infeasible)
        if small is None or is_infeasible or solution.status is Status.OPTIMAL:
            return _Found(solution.choices, solution.bound, is_infeasible)

    def spent() -> float:
        return min(1.0, run.spent_s / run.time_limit_s)

    is_limited = math.isfinite(run.time_limit_s)
    found = anytime(small, run.seed, run.stop, spent if is_limited else None, progress=run.progress)
    if found.bound >= FORBIDDEN:
        return _Found(None, None, True)
    plans = [] if found.choices is None else [tuple(small.expand(found.choices).tolist())]
    if exact is not None and exact.choices is not None:
        plans.append(exact.choices)
    bound = max(found.bound, 0 if exact is None else exact.bound or 0)
    best = min(plans, key=lambda plan: evaluate(problem, plan).cost, default=None)
    return _Found(best, bound, passes=found.passes)


def answer(posed: Posed["ParallelOptions", Any], problem: PairwiseProblem, run: Run) -> Result:
    """The best choices, with their proof or bound."""
    started = time.perf_counter()
    found = _search(problem, run)
    value = None
    metrics: dict[str, Any] = {} if found.passes is None else {PASSES: found.passes}
    if found.choices is not None:
        of = evaluate(problem, found.choices)
        if faults := _broken(problem, of):
            raise FailedCheckError("; ".join(faults))
        value = of.cost
        metrics |= _metrics(problem, found.choices)
    return result_of(
        "parallel",
        posed,
        value=value,
        bound=found.bound,
        solution=None if found.choices is None else {"choices": list(found.choices)},
        metrics=metrics,
        infeasibility=_infeasibility(problem, run.seed) if found.is_infeasible else None,
        evaluations=1,
        seconds=time.perf_counter() - started,
        seed=run.seed,
        method=METHOD,
    )


def faults(result: Result, problem: PairwiseProblem) -> list[str]:
    """The cost and the memory of the choices, by their definition; the bound is proven again."""
    stated = {key: value for key, value in result.metrics.items() if key != PASSES}
    if result.status == "infeasible":
        if not _is_infeasible(problem, result.seed):
            return ["status must not be infeasible, because there are choices within the limit"]
        why = None if result.infeasibility is None else result.infeasibility.model_dump()
        return differences("metrics", result.metrics, {}) + differences(
            "infeasibility", why, _infeasibility(problem, result.seed).model_dump()
        )
    from dse.algorithms.pairwise.anytime import MAX_PASSES

    passes = result.metrics.get(PASSES, 0)
    if type(passes) is not int or not 0 <= passes <= MAX_PASSES:
        return [f"metrics.{PASSES} must be a whole number from 0 to {MAX_PASSES:,}, but got {shown(passes)}"]
    if not result.solution:
        if result.status not in ("unknown", "interrupted"):
            return ["choices must be given"]
        bound = _bound_faults(None, result.bound, _proven(problem, result, passes)) if passes else []
        return bound + differences("metrics", stated, {})
    if set(result.solution) != {"choices"}:
        return [f"solution must contain only choices, but contains {', '.join(sorted(result.solution))}"]
    choices = choices_of(result.solution["choices"], problem, "result", "solution.choices")
    of = evaluate(problem, choices)
    if broken := _broken(problem, of):
        return broken
    value = result.objective.value
    stated_value = [] if value == float(of.cost) else [f"objective.value must be {of.cost}, but got {value}"]
    return [
        *stated_value,
        *_bound_faults(of.cost, result.bound, _proven(problem, result, passes)),
        *differences("metrics", stated, _metrics(problem, choices)),
    ]


def _is_infeasible(problem: PairwiseProblem, seed: int) -> bool:
    """Whether it is proven, again, that no choices are within the limit."""
    from dse.algorithms.pairwise.anytime import first_plan, is_large
    from dse.algorithms.pairwise.contraction import contracted
    from dse.algorithms.pairwise.solve import Status, solve

    small = contracted(problem)
    if small is not None and first_plan(small).needed > small.limit:
        return True
    if small is not None and is_large(problem, small):
        return False
    return solve(problem, seed=seed).status is Status.INFEASIBLE


def _proven(problem: PairwiseProblem, result: Result, passes: int) -> int:
    """The bound, proven again as far as is stated; :data:`FORBIDDEN` where there are no choices within the limit."""
    from dse.algorithms.pairwise.anytime import bound_after, is_large
    from dse.algorithms.pairwise.contraction import contracted
    from dse.algorithms.pairwise.solve import solve

    small = contracted(problem)
    if small is not None and PASSES in result.metrics:
        proven = bound_after(small, passes)
        if proven >= (result.bound or 0) or is_large(problem, small):
            return proven
    again = solve(problem, seed=result.seed)
    return FORBIDDEN if again.bound is None else again.bound


def view(result: Result, problem: PairwiseProblem) -> View:
    """What the choices cost, and where."""
    title = f"{result.problem.name}: pairwise choices"
    if result.infeasibility is not None:
        return View(title, f"Proven infeasible: {result.infeasibility.explanation}")
    if not result.solution:
        if passes := result.metrics.get(PASSES, 0):
            return View(
                title,
                "Neither choices within the limit nor a proof that there are none were found: least usage, prices over "
                f"time, and {passes:,} passes of messages with repair were tried.",
            )
        return View(title, "The run was stopped before any choices were found.")
    metrics = result.metrics
    proof = "proven optimal" if result.status == "optimal" else f"gap {percent(result.gap or 0.0)}"
    table = Table(("", ""), _rows(problem, metrics))
    return View(
        title=title,
        verdict=f"Cost {metrics['cost']:,}; {proof} ({time_text(result.seconds)})",
        tables=[table],
        page=lambda: [
            Heading("The problem"),
            Paragraph(f"{SOLUTION_FILE} lists the chosen index of every node in the contest's format.", True),
            table,
        ],
        files=lambda: {SOLUTION_FILE: json.dumps(result.solution["choices"]) + "\n"},
        cards=lambda: [
            Card(
                figures=[(f"{metrics['cost']:,}", "cost"), (f"{metrics['peak_usage']:,}", "peak usage")],
                breakdowns=[
                    Breakdown(
                        "Cost",
                        "",
                        [
                            Share("nodes", metrics["node_cost"], "time"),
                            Share("edges", metrics["edge_cost"], "transfer"),
                        ],
                    )
                ],
            )
        ],
    )


def _rows(problem: PairwiseProblem, metrics: dict[str, Any]) -> list[Row]:
    limit = "no limit" if problem.usage_limit is None else f"limit {problem.usage_limit:,}"
    return [
        ("nodes", f"{problem.node_count:,}, with {sum(map(len, problem.costs)):,} choices"),
        ("edges", f"{len(problem.edges):,}, with {sum(each.size for each in problem.edge_costs):,} costs"),
        ("node cost", f"{metrics['node_cost']:,}"),
        ("edge cost", f"{metrics['edge_cost']:,}"),
        ("peak usage", f"{metrics['peak_usage']:,} at time {metrics['peak_time']:,}; {limit}"),
    ]


def _metrics(problem: PairwiseProblem, choices: Sequence[int]) -> dict[str, Any]:
    of = evaluate(problem, choices)
    nodes = sum(int(costs[choice]) for costs, choice in zip(problem.costs, choices, strict=True))
    return {
        "cost": of.cost,
        "node_cost": nodes,
        "edge_cost": of.cost - nodes,
        "peak_usage": of.peak_usage,
        "peak_time": of.peak_time,
    }


def _broken(problem: PairwiseProblem, of: Evaluation) -> list[str]:
    """The rules that choices break."""
    violations = [f"node {node} must not have a forbidden choice" for node in of.forbidden_nodes]
    for edge in of.forbidden_edges:
        u, v = problem.edges[edge].tolist()
        violations.append(f"nodes {u} and {v} must not have a forbidden pair of choices")
    if of.excess_usage:
        violations.append(
            f"usage at time {of.peak_time} must be at most {of.peak_usage - of.excess_usage}, but is {of.peak_usage}"
        )
    return violations


def _bound_faults(cost: int | None, bound: float | None, proven: int) -> list[str]:
    """Whether a bound is proven again, and no cost is lower than what is proven."""
    if cost is not None and cost < proven:
        return [f"cost must be at least the proven bound {proven}, but got {cost}"]
    if bound is not None and bound > proven * (1 + PROOF_TOLERANCE):
        return [f"bound must be at most the proven {proven}, but got {bound}"]
    return []


def _infeasibility(problem: PairwiseProblem, seed: int) -> Infeasibility:
    """Why no choices are within the limit, which is proven."""
    from dse.algorithms.pairwise.anytime import first_plan, is_large
    from dse.algorithms.pairwise.contraction import contracted
    from dse.algorithms.pairwise.solve import Status, solve

    limit = problem.usage_limit
    small = contracted(problem)
    if limit is not None and small is not None and is_large(problem, small):
        return _too_little(limit, first_plan(small).needed, {})
    unlimited = replace(problem, usage_limit=None)
    # What contraction leaves without forbidden pairs has choices, where memory does not matter.
    is_tied = small is None or any(int(each.max()) >= FORBIDDEN for each in small.edge_costs)
    if limit is None or (is_tied and solve(unlimited, seed=seed).status is Status.INFEASIBLE):
        return Infeasibility(
            resource="allowed_choices",
            demand=1,
            limit=0,
            unit="1",
            levers=["fewer forbidden costs"],
            explanation="Every assignment has a node or an edge with a cost of 1e17 or more, which forbids it.",
            where={},
        )
    smallest = [
        int(np.where(costs < FORBIDDEN, usages, usages.max() + 1).argmin())
        for costs, usages in zip(problem.costs, problem.usages, strict=True)
    ]
    of = evaluate(problem, smallest)
    where = {"time": of.peak_time} if of.peak_usage > limit else {}
    return _too_little(limit, max(of.peak_usage, limit + 1), where)


def _too_little(limit: int, needed: int, where: dict[str, int]) -> Infeasibility:
    when = f" at time {where['time']:,}" if where else ""
    return Infeasibility(
        resource="usage_limit",
        demand=needed,
        limit=limit,
        unit="1",
        levers=[f"a usage_limit of at least {needed}"],
        explanation=f"Allowed choices need a usage_limit of at least {needed:,}{when}, but it is {limit:,}.",
        where=where,
    )
