"""Problems of the IOPDDL contest as ``dse parallel`` answers them: one choice for each node, at the least cost.

Such a problem is what ``dse parallel`` makes of a step and a mesh before it solves it
(:mod:`dse.parallel.choice_graph`), with costs and memory in it; so neither mesh nor machine is asked for. The answer is
also written in the contest's form.
"""

import json
import os
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dse.algorithms.pairwise.evaluate import Evaluation, evaluate
from dse.algorithms.pairwise.iopddl import choices_of, document_of, read_problem
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
from hardware.inputs import fail

if TYPE_CHECKING:
    from dse.algorithms.pairwise.solve import Solution
    from dse.parallel.options import ParallelOptions

METHOD = "exact"
SOLUTION_FILE = "solution.json"

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
    return read_problem(path) if _BEGINNING.match(unpacked(path)) else None


def posed(options: "ParallelOptions", problem: PairwiseProblem) -> Posed["ParallelOptions", Any]:
    """``problem``, where no option asks for what it does not have.

    Raises:
        InputError: an option that belongs to training steps.
    """
    for each in option_fields(type(options)):
        value = getattr(options, each.name)
        if each.name not in _OWN_OPTIONS and value != each.default:
            rule = "belongs to training steps; a problem of the contest has choices, costs and a limit of its own"
            raise fail("dse parallel", each.flag, value, rule)
    if options.method not in ("auto", "exact"):
        raise fail(
            "dse parallel", "--method", options.method, "needs a training step; --method exact solves this problem"
        )
    goal = Objective(name="cost", value=None, unit="1", sense="min")
    return Posed(options, problem, problem.name or "choices", document_of(problem), goal)


def answer(posed: Posed["ParallelOptions", Any], problem: PairwiseProblem, run: Run) -> Result:
    """The best choices, with their proof or bound."""
    from dse.algorithms.pairwise.solve import Status, solve

    started = time.perf_counter()
    solution = solve(problem, seed=run.seed, stop=run.stop)
    if solution.choices is not None and (faults := _broken(problem, evaluate(problem, solution.choices))):
        raise FailedCheckError("; ".join(faults))
    is_infeasible = solution.status is Status.INFEASIBLE
    return result_of(
        "parallel",
        posed,
        value=solution.value,
        bound=solution.bound,
        solution=None if solution.choices is None else {"choices": list(solution.choices)},
        metrics=None if solution.choices is None else _metrics(problem, solution.choices),
        infeasibility=_infeasibility(problem, run.seed) if is_infeasible else None,
        evaluations=1,
        seconds=time.perf_counter() - started,
        seed=run.seed,
        method=METHOD,
    )


def faults(result: Result, problem: PairwiseProblem) -> list[str]:
    """The cost and the memory of the choices, by their definition; the bound is proven again."""
    from dse.algorithms.pairwise.solve import Status, solve

    again = solve(problem, seed=result.seed)
    if not result.solution:
        unasked = differences("metrics", result.metrics, {})
        if result.status != "infeasible":
            return unasked if result.status in ("unknown", "interrupted") else ["choices must be given"]
        if again.status is not Status.INFEASIBLE:
            return ["status infeasible: but there are choices within the limit"]
        stated = None if result.infeasibility is None else result.infeasibility.model_dump()
        return unasked + differences("infeasibility", stated, _infeasibility(problem, result.seed).model_dump())
    if set(result.solution) != {"choices"}:
        return [f"solution must hold choices alone, but holds {', '.join(sorted(result.solution))}"]
    choices = choices_of(result.solution["choices"], problem, "result", "solution.choices")
    of = evaluate(problem, choices)
    if broken := _broken(problem, of):
        return broken
    value = result.objective.value
    stated_value = [] if value == float(of.cost) else [f"objective.value must be {of.cost}, but got {value}"]
    return [
        *stated_value,
        *_bound_faults(of.cost, result.bound, again),
        *differences("metrics", result.metrics, _metrics(problem, choices)),
    ]


def view(result: Result, problem: PairwiseProblem) -> View:
    """What the choices cost, and where."""
    title = f"{result.problem.name}: pairwise choices"
    if result.infeasibility is not None:
        return View(title, f"Proven infeasible: {result.infeasibility.explanation}")
    if not result.solution:
        return View(title, "No choices were found before the run was stopped.")
    metrics = result.metrics
    proof = "proven optimal" if result.status == "optimal" else f"not proven (gap {percent(result.gap or 0.0)})"
    table = Table(("", ""), _rows(problem, metrics))
    return View(
        title=title,
        verdict=f"A cost of {metrics['cost']:,}; {proof} ({time_text(result.seconds)})",
        tables=[table],
        page=lambda: [
            Heading("The problem"),
            Paragraph(f"{SOLUTION_FILE} has the number of the choice of each node, in the contest's form.", True),
            table,
        ],
        files=lambda: {SOLUTION_FILE: json.dumps(result.solution["choices"]) + "\n"},
        cards=lambda: [
            Card(
                figures=[(f"{metrics['cost']:,}", "cost"), (f"{metrics['peak_usage']:,}", "largest usage")],
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
    limit = "no limit" if problem.usage_limit is None else f"the limit is {problem.usage_limit:,}"
    return [
        ("nodes", f"{problem.node_count:,} with {sum(map(len, problem.costs)):,} choices"),
        ("edges", f"{len(problem.edges):,} with {sum(each.size for each in problem.edge_costs):,} costs"),
        ("cost of the nodes", f"{metrics['node_cost']:,}"),
        ("cost of the edges", f"{metrics['edge_cost']:,}"),
        ("largest usage", f"{metrics['peak_usage']:,} at time {metrics['peak_time']:,}; {limit}"),
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
    violations = [f"the choice of node {node} is forbidden" for node in of.forbidden_nodes]
    for edge in of.forbidden_edges:
        u, v = problem.edges[edge].tolist()
        violations.append(f"the choices of nodes {u} and {v} are forbidden together")
    if of.excess_usage:
        violations.append(f"the usage at time {of.peak_time} is {of.peak_usage}, {of.excess_usage} above the limit")
    return violations


def _bound_faults(cost: int, bound: float | None, again: "Solution") -> list[str]:
    """Whether a bound is proven again, and no cost is lower than what is proven."""
    if again.bound is None or cost < again.bound:
        return [f"cost {cost} is lower than what is proven to be possible"]
    if bound is not None and bound > again.bound * (1 + PROOF_TOLERANCE):
        return [f"bound {bound} is more than can be proven"]
    return []


def _infeasibility(problem: PairwiseProblem, seed: int) -> Infeasibility:
    """Why no choices are within the limit, which is proven."""
    from dse.algorithms.pairwise.solve import Status, solve

    limit = problem.usage_limit
    unlimited = replace(problem, usage_limit=None)
    if limit is None or solve(unlimited, seed=seed).status is Status.INFEASIBLE:
        return Infeasibility(
            resource="allowed_choices",
            demand=1,
            limit=0,
            unit="1",
            levers=["fewer forbidden costs"],
            explanation="Whatever is chosen, a node or an edge has a cost of 1e17 or more, which forbids it.",
            where={},
        )
    smallest = [
        int(np.where(costs < FORBIDDEN, usages, usages.max() + 1).argmin())
        for costs, usages in zip(problem.costs, problem.usages, strict=True)
    ]
    of = evaluate(problem, smallest)
    needed = max(of.peak_usage, limit + 1)
    when = f" at time {of.peak_time:,}" if of.peak_usage > limit else ""
    return Infeasibility(
        resource="usage_limit",
        demand=needed,
        limit=limit,
        unit="1",
        levers=[f"a usage_limit of at least {needed}"],
        explanation=f"Allowed choices need a usage_limit of at least {needed:,}{when}, and it is {limit:,}.",
        where={"time": of.peak_time} if when else {},
    )
