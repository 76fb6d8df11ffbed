"""The independent check of a co-search with ``--plans modern``.

Area and sizes of the architecture come from the formula, rules, memory and step of the plan from the checker of
:mod:`dse.plan`, which shares no code with the search. That no plan is faster on the architecture is proven again by the
exhaustive search of ``dse plan``, which knows no bounds; that no architecture is better, by searching again.
"""

import math
from typing import Any

import numpy as np

from dse.codesign.check import architecture_faults, fixed_faults
from dse.codesign.formats import architecture_solution
from dse.codesign.modern.answer import (
    ModernAnswer,
    ModernPosed,
    answer_metrics,
    infeasibility,
    lack,
    max_throughput_per_s,
    metrics_beside,
    model_figures,
    search,
    search_metrics,
    wanted_beside,
)
from dse.codesign.modern.plan_rows import PlanRows
from dse.codesign.modern.problem import ModernProblem
from dse.codesign.modern.sensitivity import CHANGES
from dse.plan.answer import enumerated
from dse.plan.check import cost_faults, illegal
from dse.plan.check_costs import plan_costs
from dse.plan.training_plan import whole_plan
from dse.results.differences import differences
from dse.results.infeasibility import Infeasibility
from dse.results.result import PROOF_TOLERANCE, Result
from dse.run.remembered import Remembered
from dse.run.run import Run
from hardware.machines import Machines
from hardware.space import template_machines
from hardware.units import MIB, bytes_from_gib, gib_from_bytes

_AFFORDABLE_PLANS = 2_000_000
"""Half a minute of bounding them one by one."""

_OF_THE_SEARCH = (
    "architectures_evaluated",
    "architectures_pruned",
    "optimum_by_hbm",
    "unfinished",
    "baselines",
    "sensitivity",
)
"""What of the metrics does not follow from the solution."""

_PLANS: Remembered[int] = Remembered(4)
"""How many there are, by the digests of the last posed problems."""

_LACKING: Remembered[Infeasibility | None] = Remembered(4, is_mutable=True)
"""What nothing fits of, by the digests of the last posed problems."""


def is_affordable(posed: ModernPosed) -> bool:
    """Whether every check repeats the search."""
    return _plans(posed) <= _AFFORDABLE_PLANS


def open_claims(result: Result, posed: ModernPosed) -> dict[str, str]:
    """What only a search can say of a result, where not every check repeats it."""
    if is_affordable(posed) or not (result.solution or result.status == "infeasible"):
        return {}
    reason = f"bounding {_plans(posed):,} plans takes as long as the search (--prove)"
    if not result.solution:
        return {"infeasibility": reason}
    return dict.fromkeys(["bound", *(f"metrics.{key}" for key in _OF_THE_SEARCH if key in result.metrics)], reason)


def faults(result: Result, posed: ModernPosed, prove: bool) -> list[str]:
    """What is wrong with a result, one sentence each; empty where it holds.

    ``prove``: whether the search is repeated, without which nothing is said of the claims that no plan is better.
    """
    problem = posed.problem.problem
    if not result.solution:
        return _unanswered_faults(result, posed, prove)
    broken = _solution_faults(problem, result)
    if broken:
        return broken
    trained = result.solution["models"][problem.name]
    machine, hbm_bytes = machine_of(problem, result.solution["architecture"]), bytes_from_gib(trained["hbm_gb"])
    asked, plan = problem.plan_problem(machine, hbm_bytes), whole_plan(trained["plan"], "result")
    value = result.objective.value or math.nan
    broken = illegal(asked, plan)
    if broken:
        return broken
    costs = plan_costs(asked, plan)
    broken = cost_faults(asked, costs, problem.global_batch / value)
    figures = model_figures(problem, asked, plan, costs)
    if broken or not prove:
        return broken or _answer_faults(result, posed, figures)
    again = search(posed, Run())
    assert isinstance(again, ModernAnswer), "nothing stops it"
    stopped = result.metrics["stopped"]
    expected = answer_metrics(posed, result.solution, figures, again.candidates.plans.count, stopped)
    if stopped is not None:
        expected["unfinished"] = wanted_beside(posed)
        return [*_stopped_faults(result, again, problem, hbm_bytes), *differences("metrics", result.metrics, expected)]
    stated = again.at_size.best if again.at_size is not None else None
    expected |= search_metrics(posed, again.outcome)
    expected |= _cut(metrics_beside(posed, stated.architecture if stated is not None else 0), result.metrics)
    if result.status != "optimal" and not (result.status == "interrupted" and expected["unfinished"]):
        return [f"status must be optimal, but got {result.status}: the search was not stopped"]
    fastest = enumerated(asked).best
    step_faults = [] if fastest is None else differences("solution: step", costs.step_s, fastest.step_s)
    best = again.outcome.sizes[hbm_bytes].best
    assert best is not None, "a plan fits at this size"
    expected_architecture = architecture_solution(posed.problem.machines, best.architecture)
    sizes = [] if again.at_size is None else differences("hbm_gb", hbm_bytes, again.at_size.hbm_bytes)
    return [
        *step_faults,
        *sizes,
        *differences("objective.value", value, problem.global_batch / best.step_s),
        *differences("bound", result.bound, problem.global_batch / best.step_s),
        *differences("solution.architecture", result.solution["architecture"], expected_architecture),
        *differences("solution.plan", plan.document(), best.plan.document()),
        *differences("metrics", result.metrics, expected),
    ]


def _plans(posed: ModernPosed) -> int:
    """Plans of the vocabulary."""
    problem, machines = posed.problem.problem, posed.problem.machines
    asked = problem.plan_problem(machines.one(0), max(problem.hbm_bytes))
    return _PLANS.get(posed.digest, lambda: PlanRows(asked).count)


def _answer_faults(result: Result, posed: ModernPosed, figures: dict[str, Any]) -> list[str]:
    """What of the metrics does not follow from the solution, the search left out."""
    expected = answer_metrics(posed, result.solution, figures, _plans(posed), result.metrics["stopped"])
    stated = {key: value for key, value in result.metrics.items() if key not in _OF_THE_SEARCH}
    return differences("metrics", stated, expected)


def _cut(whole: dict[str, Any], metrics: dict[str, Any]) -> dict[str, Any]:
    """What ``whole`` would be if the run had been stopped where ``metrics`` say: the first changes and all proofs stay.

    Baselines are given whole or not at all, and without them no changes, as these come after them.
    """
    left = metrics["unfinished"]
    wanted = [key for key in whole if key != "unfinished"]
    if left and left == wanted:
        return {"unfinished": left}
    if left != ["sensitivity"] or "sensitivity" not in whole:
        return whole
    count = min(len(metrics.get("sensitivity", {})), len(CHANGES) - 1)
    rows = {label: whole["sensitivity"][label] for label in list(CHANGES)[:count]}
    return {"baselines": whole["baselines"], "unfinished": left} | ({"sensitivity": rows} if rows else {})


def _solution_faults(problem: ModernProblem, result: Result) -> list[str]:
    """What is wrong with the architecture, the model and the HBM size."""
    stated = result.solution["architecture"]
    if problem.fixed is not None:
        broken = fixed_faults(problem.fixed.machines, stated)
    else:
        broken = architecture_faults(problem, stated)
    models = result.solution["models"]
    if list(models) != [problem.name]:
        return [*broken, f"models must be [{problem.name}], but got {list(models)}"]
    offered = [gib_from_bytes(size) for size in problem.hbm_bytes]
    if models[problem.name]["hbm_gb"] not in offered:
        broken.append(f"hbm_gb must be one of {offered}, but got {models[problem.name]['hbm_gb']}")
    return broken


def machine_of(problem: ModernProblem, stated: dict[str, Any]) -> Machines:
    """The architecture of these sizes."""
    if problem.fixed is not None:
        return problem.fixed.machines
    keys = ("tensor_cores", "vector_cores", "core_width", "core_depth", "global_buffer_bytes")
    tensor_cores, vector_cores, width, depth, buffer_bytes = (np.array([stated[key]]) for key in keys)
    return template_machines(tensor_cores, vector_cores, width, depth, buffer_bytes // MIB, model=problem.cost_model)


def _stopped_faults(result: Result, again: ModernAnswer, problem: ModernProblem, hbm_bytes: int) -> list[str]:
    """Of a run that was cut short: its bound is that on all architectures, or the optimum where that was proven."""
    at_size = again.outcome.sizes[hbm_bytes]
    assert at_size.best is not None, "a plan fits at this size"
    optimum = problem.global_batch / at_size.best.step_s
    bounds = [problem.global_batch / again.candidates.min_s(hbm_bytes)]
    value = result.objective.value
    if value is not None and value >= optimum * (1 - PROOF_TOLERANCE):
        bounds.append(optimum)
    if any(not differences("bound", result.bound, bound) for bound in bounds):
        return []
    return [f"bound must be {bounds[0]!r}, but got {result.bound!r}"]


def _unanswered_faults(result: Result, posed: ModernPosed, prove: bool) -> list[str]:
    """Of a result without a plan: one that was stopped has a bound that needs no search.

    ``prove``: that nothing fits is proven again; else the plan that is said to need the least memory is priced, which
    says whether it does not fit.
    """
    broken = [f"metrics.{key} must not be given without a plan" for key in result.metrics]
    if result.status != "infeasible":
        return [*broken, *differences("bound", result.bound, max_throughput_per_s(posed))]
    if result.bound is not None:
        broken.append("bound must not be given if nothing fits")
    if not prove:
        return [*broken, *_least_plan_faults(result, posed)]
    again = search(posed, Run())
    assert isinstance(again, ModernAnswer), "nothing stops it"
    proof = _LACKING.get(posed.digest, lambda: infeasibility(posed, again))
    if proof is None:
        return ["status must not be infeasible: a plan fits"]
    stated = None if result.infeasibility is None else result.infeasibility.model_dump()
    return [*broken, *differences("infeasibility", stated, proof.model_dump())]


def _least_plan_faults(result: Result, posed: ModernPosed) -> list[str]:
    """What is wrong with the plan that a result without a solution names, or with what it says of it."""
    problem, stated = posed.problem.problem, result.infeasibility
    assert stated is not None, "the status says so"
    machine, limit = posed.problem.machines.one(0), max(problem.hbm_bytes)
    asked, plan = problem.plan_problem(machine, limit), whole_plan(stated.where["plan"], "result")
    broken = illegal(asked, plan)
    if broken:
        return broken
    proof = lack(posed, plan)
    if proof is None:
        return ["status must not be infeasible: the plan in infeasibility fits"]
    return differences("infeasibility", stated.model_dump(), proof.model_dump())
