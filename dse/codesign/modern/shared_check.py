"""The independent check of a co-search with ``--plans modern`` for several models, another objective, or with a front.

Area and sizes come from the formula, the costs and joules of every plan from the checker of :mod:`dse.plan`, the score
from these; so do the points of the front. That nothing is better, and that no point of the front is missing, are proven
by searching again, unless the search was stopped: what it had ruled out by then takes as long as the search.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dse.algorithms.dominance import non_dominated
from dse.codesign.check import architecture_faults, fixed_faults
from dse.codesign.modern.answer import lack, model_figures
from dse.codesign.modern.check import machine_of
from dse.codesign.modern.plan_rows import PlanRows
from dse.codesign.modern.shared_answer import (
    SharedPosed,
    SharedSpace,
    answer_metrics,
    max_score,
    of_model,
    score_of,
    search,
    search_metrics,
)
from dse.codesign.modern.shared_search import chosen
from dse.plan.check import cost_faults, illegal
from dse.plan.check_costs import plan_costs
from dse.plan.training_plan import whole_plan
from dse.results.differences import differences
from dse.results.result import PROOF_TOLERANCE, Result
from dse.run.remembered import Remembered
from dse.run.run import Run
from hardware.units import bytes_from_gib, gib_from_bytes

_AFFORDABLE_PLANS = 50_000
"""Of all models: some seconds of search."""

_OF_THE_SEARCH = ("architectures_evaluated", "architectures_pruned", "optimum_by_hbm", "unfinished", "pareto")
"""What of the metrics does not follow from the solution."""

_PLANS: Remembered[int] = Remembered(4)
"""How many there are, by the digests of the last posed problems."""


def is_repeated(result: Result, posed: SharedPosed) -> bool:
    """Whether every check repeats the search: it is short, and was not stopped."""
    return not _was_stopped(result) and _plans(posed) <= _AFFORDABLE_PLANS


def _was_stopped(result: Result) -> bool:
    return bool(result.solution) and bool(result.metrics["stopped"] or result.metrics["unfinished"])


def _plans(posed: SharedPosed) -> int:
    """Plans of all vocabularies."""
    space = posed.problem

    def count() -> int:
        asked = (each.plan_problem(space.machines.one(0), max(each.hbm_bytes)) for each in space.problems)
        return sum(PlanRows(each).count for each in asked)

    return _PLANS.get(posed.digest, count)


def open_claims(result: Result, posed: SharedPosed) -> dict[str, str]:
    """What only a search can say of a result, where not every check repeats it."""
    if is_repeated(result, posed) or not result.solution:
        return {}
    reason = f"bounding {_plans(posed):,} plans takes as long as the search (--prove)"
    if _was_stopped(result):
        reason = "the run was stopped, and what it had ruled out takes as long as the search (--prove)"
    return dict.fromkeys(["bound", *(f"metrics.{key}" for key in _OF_THE_SEARCH if key in result.metrics)], reason)


def faults(result: Result, posed: SharedPosed, prove: bool) -> list[str]:
    """What is wrong with a result, one sentence each; empty where it holds.

    ``prove``: whether the search is repeated, without which nothing is said of the claims that nothing is better.
    """
    space = posed.problem
    if not result.solution:
        return _unanswered_faults(result, posed)
    broken = _solution_faults(space, result.solution)
    if broken:
        return broken
    models = result.solution["models"].values()
    plans, hbm_gb = [each["plan"] for each in models], next(iter(models))["hbm_gb"]
    steps = [result.metrics["models"][problem.name]["step_s"] for problem in space.problems]
    figures, broken = _figures(space, result.solution["architecture"], hbm_gb, plans, steps)
    if broken:
        return broken
    score = score_of(space, figures, result.solution["architecture"]["area_mm2"])
    value = result.objective.value or math.nan
    expected = answer_metrics(space, result.solution, figures, _plans(posed), result.metrics["stopped"])
    own = {key: each for key, each in result.metrics.items() if key not in _OF_THE_SEARCH}
    broken = [*differences("objective.value", value, score), *differences("metrics", own, expected)]
    if "pareto" in result.metrics and not prove:
        broken += _front_faults(space, result.metrics["pareto"])
    return broken if broken or not prove else _proof_faults(result, posed, value)


def _figures(
    space: SharedSpace,
    architecture: dict[str, Any],
    hbm_gb: float,
    plans: Sequence[dict[str, Any]],
    steps: Sequence[float] | None = None,
) -> tuple[list[dict[str, Any]], list[str]]:
    """The figures of each model's plan on an architecture, and what is wrong with the plans and their ``steps``."""
    machine, figures = machine_of(space.first, architecture), []
    for number, (problem, document) in enumerate(zip(space.problems, plans, strict=True)):
        asked, plan = problem.plan_problem(machine, bytes_from_gib(hbm_gb)), whole_plan(document, "result")
        broken = illegal(asked, plan)
        if broken:
            return [], broken
        costs = plan_costs(asked, plan)
        broken = cost_faults(asked, costs, costs.step_s if steps is None else steps[number])
        if broken:
            return [], broken
        figures.append(model_figures(problem, asked, plan, costs))
    return figures, []


def _front_faults(space: SharedSpace, front: dict[str, Any]) -> list[str]:
    """What is wrong with the points of a front: sizes, plans, figures, order, and points that others dominate."""
    largest = gib_from_bytes(max(space.first.hbm_bytes))
    broken = differences("metrics.pareto.hbm_gb", front["hbm_gb"], largest)
    throughput = replace(space.objective, per="throughput")
    for number, point in enumerate(front["points"]):
        place, plans = f"metrics.pareto.points[{number}]", point["models"]
        if list(plans) != [each.name for each in space.problems]:
            return [*broken, f"{place}: models must be {[each.name for each in space.problems]}"]
        faults_ = architecture_faults(space.first, point["architecture"]) if space.first.fixed is None else []
        figures, of_plans = _figures(space, point["architecture"], largest, list(plans.values()))
        if faults_ or of_plans:
            return [*broken, *(f"{place}: {each}" for each in (*faults_, *of_plans))]
        rates, joules = ([each[key] for each in figures] for key in ("throughput_per_s", "joules_per_sample"))
        expected = {
            "score": float(throughput.score(np.array(rates)[:, None])[0]),
            "area_mm2": point["architecture"]["area_mm2"],
            "joules_per_sample": float(np.average(joules, weights=space.objective.weights)),
        }
        broken += differences(place, {key: point[key] for key in expected}, expected)
    columns = [[each[key] for each in front["points"]] for key in ("score", "area_mm2", "joules_per_sample")]
    scores, *costs = (np.array(each, dtype=np.float64) for each in columns)
    if len(scores) and not non_dominated(-scores, *costs).all():
        broken.append("metrics.pareto.points must not dominate each other")
    if (np.diff(scores) > 0).any():
        broken.append("metrics.pareto.points must be in the order of falling scores")
    return broken


def _solution_faults(space: SharedSpace, solution: dict[str, Any]) -> list[str]:
    """What is wrong with the architecture, the models and their HBM size."""
    problem, stated = space.first, solution["architecture"]
    if problem.fixed is not None:
        broken = fixed_faults(problem.fixed.machines, stated)
    else:
        broken = architecture_faults(problem, stated)
    names = [each.name for each in space.problems]
    if list(solution["models"]) != names:
        return [*broken, f"models must be {names}, but got {list(solution['models'])}"]
    sizes = {trained["hbm_gb"] for trained in solution["models"].values()}
    offered = [gib_from_bytes(size) for size in problem.hbm_bytes]
    if len(sizes) > 1 or not sizes <= {*offered}:
        broken.append(f"hbm_gb must be one of {offered} for all models, but got {sorted(sizes)}")
    return broken


def _proof_faults(result: Result, posed: SharedPosed, value: float) -> list[str]:
    """By the search again."""
    space, again = posed.problem, search(posed, Run())
    at_size = chosen(again.outcome, space.first.hbm_bytes)
    assert at_size is not None, "plans fit"
    hbm_bytes = bytes_from_gib(next(iter(result.solution["models"].values()))["hbm_gb"])
    if result.metrics["stopped"] is not None:
        optimum = again.outcome.sizes[hbm_bytes].score
        bound = result.bound or 0.0
        if bound < optimum * (1 - PROOF_TOLERANCE):
            return [f"bound must be at least {optimum!r}, but got {bound!r}"]
        return []
    proven, expected = again.outcome.sizes[hbm_bytes], search_metrics(space, again)
    stated = {key: result.metrics.get(key) for key in expected if key != "pareto" or not result.metrics["unfinished"]}
    return [
        *differences("hbm_gb", hbm_bytes, at_size.hbm_bytes),
        *differences("objective.value", value, proven.score),
        *differences("bound", result.bound, proven.score),
        *differences("metrics", stated, {key: expected[key] for key in stated}),
    ]


def _unanswered_faults(result: Result, posed: SharedPosed) -> list[str]:
    """Of a result without a plan: what was stopped has a bound that needs no search; else the plan that is named is
    said to need the least memory, and does not fit.
    """
    space = posed.problem
    broken = [f"metrics.{key} must not be given without a plan" for key in result.metrics]
    if result.status != "infeasible":
        return [*broken, *differences("bound", result.bound, max_score(space))]
    stated = result.infeasibility
    names = [each.name for each in space.problems]
    if stated is None or stated.where.get("model") not in names:
        return [*broken, f"infeasibility must name one of {names}"]
    again = search(posed, Run()).lack if is_repeated(result, posed) else None
    if again is None:
        single = of_model(posed, names.index(stated.where["model"]))
        asked = single.problem.problem.plan_problem(space.machines.one(0), max(space.first.hbm_bytes))
        plan = whole_plan(stated.where["plan"], "result")
        broken += illegal(asked, plan)
        again = None if broken else lack(replace(single), plan)
    if again is None:
        return broken or ["status must not be infeasible: the plan in infeasibility fits"]
    return [*broken, *differences("infeasibility", stated.model_dump(), again.model_dump())]
