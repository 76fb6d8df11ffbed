"""The answer of a co-search with ``--plans modern`` for several models, another objective, or with a front."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dse.codesign.formats import architecture_solution
from dse.codesign.modern.answer import METHOD, lack, model_figures, notes, status_of
from dse.codesign.modern.problem import ModernProblem, ModernSpace
from dse.codesign.modern.shared_search import SharedFront, SharedOutcome, SharedSearch, chosen, joules_per_sample
from dse.codesign.objective import Objective
from dse.codesign.options import CodesignOptions
from dse.plan.check import violations
from dse.plan.check_costs import plan_costs
from dse.plan.training_plan import TrainingPlan
from dse.problem import Posed, result_of
from dse.results.infeasibility import Infeasibility
from dse.results.result import FailedCheckError, Result
from dse.run.progress import StoppedError
from dse.run.remembered import Remembered
from dse.run.run import Run
from hardware.machines import Machines
from hardware.units import gib_from_bytes


@dataclass(frozen=True)
class SharedSpace:
    """Models that share one accelerator, what is maximised, and the architectures.

    Attributes:
        problems: of each model; they differ in model and sequence alone.
        objective: over the models.
        machines: the architectures.
        has_front: whether the front is requested.
    """

    problems: tuple[ModernProblem, ...]
    objective: Objective
    machines: Machines
    has_front: bool

    @property
    def first(self) -> ModernProblem:
        """The first problem, for what all have in common."""
        return self.problems[0]

    def document(self) -> dict[str, Any]:
        """Everything that decides the answer, in JSON types."""
        weights = None if self.objective.weights is None else list(self.objective.weights)
        return {
            "models": [each.document() for each in self.problems],
            "objective": {"per": self.objective.per, "mean": self.objective.mean, "weights": weights},
            "front": self.has_front,
        }


SharedPosed = Posed[CodesignOptions, SharedSpace]


@dataclass(frozen=True)
class SharedAnswer:
    """What a search says; ``lack`` of what no plan of a model fits, ``front`` where one is requested."""

    outcome: SharedOutcome
    lack: Infeasibility | None = None
    front: SharedFront | None = None


_SEARCHED: Remembered[SharedAnswer] = Remembered(2, lambda answer: _reason(answer) is None)
"""Of the last posed problems, by their digests."""


def _reason(answer: SharedAnswer) -> str | None:
    """Why a search ended early."""
    return answer.outcome.stopped or (answer.front.stopped if answer.front is not None else None)


def search(posed: SharedPosed, run: Run) -> SharedAnswer:
    """The optimum at every HBM size, and the front where one is requested."""
    return _SEARCHED.get(posed.digest, lambda: _search(posed, run))


def _search(posed: SharedPosed, run: Run) -> SharedAnswer:
    space = posed.problem
    searching = SharedSearch(space.problems, space.objective, space.machines, run.stop, run.progress)
    try:
        lacking = searching.lacking()
    except StoppedError as reason:
        return SharedAnswer(SharedOutcome(searching.plans, {}, str(reason)))
    if lacking is not None:
        plan = searching.model(lacking).plan_of_least_memory()
        return SharedAnswer(SharedOutcome(searching.plans, {}), lack(of_model(posed, lacking), plan))
    outcome = searching.outcome()
    if not space.has_front or outcome.stopped is not None:
        return SharedAnswer(outcome)
    throughput = replace(space.objective, per="throughput")
    fronts = SharedSearch(space.problems, throughput, space.machines, run.stop, run.progress)
    return SharedAnswer(outcome, front=fronts.front(max(space.first.hbm_bytes)))


def of_model(posed: SharedPosed, number: int) -> Posed[CodesignOptions, ModernSpace]:
    """The problem of one model alone."""
    space = posed.problem
    return Posed(
        posed.options, ModernSpace(space.problems[number], space.machines), posed.name, posed.document, posed.objective
    )


def solve(posed: SharedPosed, run: Run) -> Result:
    """The checked result of a search."""
    started, space = time.perf_counter(), posed.problem
    searched = search(posed, run)
    at_size = chosen(searched.outcome, space.first.hbm_bytes)
    if at_size is None or at_size.best is None:
        reason = searched.outcome.stopped
        return result_of(
            "codesign",
            posed,
            infeasibility=searched.lack,
            bound=None if searched.lack is not None else max_score(space),
            status=None if searched.lack is not None else "interrupted" if reason == "interrupted" else "unknown",
            seconds=time.perf_counter() - started,
            seed=run.seed,
            method=METHOD,
        )
    plans = [each.plan for each in at_size.priced[at_size.best].plans]
    steps = [each.step_s for each in at_size.priced[at_size.best].plans]
    solution = {
        "architecture": architecture_solution(space.machines, at_size.best),
        "models": {
            problem.name: {"hbm_gb": gib_from_bytes(at_size.hbm_bytes), "plan": plan.document()}
            for problem, plan in zip(space.problems, plans, strict=True)
        },
    }
    machine = space.machines.one(at_size.best)
    figures = checked_figures(space, machine, at_size.hbm_bytes, plans, steps)
    stopped, front = searched.outcome.stopped, searched.front
    metrics = answer_metrics(space, solution, figures, searched.outcome.plans, stopped)
    is_cut = space.has_front and (front is None or front.stopped is not None)
    metrics["unfinished"] = ["pareto"] if is_cut else []
    if stopped is None:
        metrics |= search_metrics(space, searched)
    score, interrupted = metrics["score"], front is not None and front.stopped == "interrupted"
    return result_of(
        "codesign",
        posed,
        value=score,
        bound=score if stopped is None else max(at_size.bound, score),
        status=status_of("interrupted" if interrupted else stopped),
        solution=solution,
        metrics=metrics,
        evaluations=sum(len(size.priced) for size in searched.outcome.sizes.values()) * len(space.problems),
        seconds=time.perf_counter() - started,
        seed=run.seed,
        method=METHOD,
    )


def max_score(space: SharedSpace) -> float:
    """What no architecture exceeds, without a look at any plan."""
    return SharedSearch(space.problems, space.objective, space.machines).max_score()


def checked_figures(
    space: SharedSpace, machine: Machines, hbm_bytes: int, plans: list[TrainingPlan], steps: list[float]
) -> list[dict[str, Any]]:
    """The figures of each model's plan, by the checker's own costs.

    Raises:
        FailedCheckError: a plan breaks a rule, or takes another time than the search found (a fault of this program).
    """
    figures = []
    for problem, plan, step_s in zip(space.problems, plans, steps, strict=True):
        asked = problem.plan_problem(machine, hbm_bytes)
        faults = violations(asked, plan, step_s)
        if faults:
            raise FailedCheckError("; ".join(faults))
        figures.append(model_figures(problem, asked, plan, plan_costs(asked, plan)))
    return figures


def score_of(space: SharedSpace, figures: list[dict[str, Any]], area_mm2: float) -> float:
    """The objective, by the figures of each model."""
    die_mm2 = area_mm2 + space.first.interface_mm2(space.machines)
    values = {
        "throughput": [each["throughput_per_s"] for each in figures],
        "per-watt": [1.0 / each["joules_per_sample"] for each in figures],
        "per-mm2": [each["throughput_per_s"] / die_mm2 for each in figures],
    }[space.objective.per]
    return float(space.objective.score(np.array(values)[:, None])[0])


def answer_metrics(
    space: SharedSpace, solution: Mapping[str, Any], figures: list[dict[str, Any]], plans: int, stopped: str | None
) -> dict[str, Any]:
    """What follows from the solution alone; ``figures`` are those of its plans."""
    area_mm2, machines = solution["architecture"]["area_mm2"], space.machines
    budget_mm2 = space.first.area_budget_mm2 or float(machines.area_mm2.max())
    models = {problem.name: each for problem, each in zip(space.problems, figures, strict=True)}
    return {
        "architectures_in_space": len(machines),
        "plans_in_vocabulary": plans,
        "score": score_of(space, figures, area_mm2),
        "area_budget_used": area_mm2 / budget_mm2,
        "interface_mm2": space.first.interface_mm2(machines),
        "models": models,
        "notes": [*map(str, notes(space.first, models))],
        "stopped": stopped,
    }


def search_metrics(space: SharedSpace, searched: SharedAnswer) -> dict[str, Any]:
    """What a search has seen whose optimum is proven."""
    sizes = searched.outcome.sizes
    priced = {index for size in sizes.values() for index in size.priced}
    found: dict[str, Any] = {
        "architectures_evaluated": len(priced),
        "architectures_pruned": len(space.machines) - len(priced),
        "optimum_by_hbm": {
            f"{gib_from_bytes(size):g}": {
                "score": sizes[size].score,
                "architecture": architecture_solution(space.machines, best),
            }
            for size in space.first.hbm_bytes
            if size in sizes and (best := sizes[size].best) is not None
        },
    }
    return found | ({} if searched.front is None else {"pareto": front_document(space, searched.front)})


def front_document(space: SharedSpace, front: SharedFront) -> dict[str, Any]:
    """The front by falling score: each point with its architecture and the plan of each model."""
    throughput = replace(space.objective, per="throughput")
    points = []
    for index in front.points:
        priced = front.priced[index]
        joules = [plan.joules for plan in priced.plans]
        points.append(
            {
                "score": priced.score,
                "area_mm2": float(space.machines.area_mm2[index]),
                "joules_per_sample": joules_per_sample(space.problems, throughput, joules),
                "architecture": architecture_solution(space.machines, index),
                "models": {
                    problem.name: plan.plan.document()
                    for problem, plan in zip(space.problems, priced.plans, strict=True)
                },
            }
        )
    return {
        "hbm_gb": gib_from_bytes(front.hbm_bytes),
        "mean": space.objective.mean,
        "architectures_evaluated": len(front.priced),
        "stopped": front.stopped,
        "points": points,
    }
