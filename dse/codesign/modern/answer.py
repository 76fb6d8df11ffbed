"""The answer of a co-search with ``--plans modern``: the best architecture with its plan, checked, or why none fits."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dse.codesign.formats import architecture_solution
from dse.codesign.modern.plan_rows import PlanRows
from dse.codesign.modern.problem import ModernOptimum, ModernProblem, ModernSpace
from dse.codesign.modern.search import Candidates, ModernOutcome, ModernSearch, SizeSearch, chosen_optimum
from dse.codesign.modern.sensitivity import CHANGES, after_changes
from dse.codesign.notes import network_notes, power_notes
from dse.codesign.options import CodesignOptions
from dse.plan.answer import enumerated, none_of, nothing_legal
from dse.plan.bound import min_step_s
from dse.plan.check import violations
from dse.plan.check_costs import PlanCosts, plan_costs
from dse.plan.check_energy import plan_joules
from dse.plan.chip_table import rests_on
from dse.plan.plan_arrays import PlanArrays
from dse.plan.problem import PlanProblem
from dse.plan.recomputation import recompute_code
from dse.plan.training_plan import ORDERS, USUAL_ORDER, TrainingPlan
from dse.problem import Posed, result_of
from dse.report.units import memory_text, needed_memory_text
from dse.report.view import Decisive
from dse.results.infeasibility import Infeasibility
from dse.results.result import FailedCheckError, Result
from dse.run.progress import ProgressCallback, StoppedError, StopSignal, never_stop, silent
from dse.run.remembered import Remembered
from dse.run.run import Run
from hardware.machines import Machines
from hardware.packed_words import WORD_BYTES
from hardware.precisions import ELEMENT_BYTES
from hardware.units import gib_from_bytes

ModernPosed = Posed[CodesignOptions, ModernSpace]

METHOD = "exhaustive"

_ABOUT_STEPS = (
    "Steps are modelled as in dse plan: operators run one at a time on all cores. --plans phaze schedules operators "
    "on single cores and fuses them, so its throughputs are not comparable with these."
)

_ABOUT_DERATING = (
    "Kernel times are derated: ideal times, multiplied by the factors by which ideal times of the same mappings are "
    "too short on A100, H100 and B200. --ideal omits these factors."
)

_ABOUT_FORMATS = (
    "Words of 16 bits hold several operands of products in {precision}. Areas are those of arrays without this format, "
    "and kernels are derated as in 16 bits."
)


@dataclass(frozen=True)
class ModernAnswer:
    """What a search says; ``answer`` is the optimum at the chosen HBM size, ``at_size`` all that is known there."""

    candidates: Candidates
    outcome: ModernOutcome
    at_size: SizeSearch | None

    @property
    def best(self) -> ModernOptimum | None:
        """The answer; None where nothing fits, or nothing was found before the run was stopped."""
        return None if self.at_size is None else self.at_size.best


def _is_whole(searched: ModernAnswer | str) -> bool:
    return not isinstance(searched, str) and searched.outcome.stopped is None


_SEARCHED: Remembered[ModernAnswer | str] = Remembered(4, _is_whole)
_BASELINES: Remembered[list[dict[str, Any]]] = Remembered(4, is_mutable=True)
_SENSITIVITIES: Remembered[dict[str, dict[str, Any]]] = Remembered(
    4, lambda rows: {*rows} == {*CHANGES}, is_mutable=True
)
"""Of the last posed problems, by their digests."""


def search(posed: ModernPosed, run: Run) -> ModernAnswer | str:
    """The optimum at every HBM size and the chosen one; why it was stopped before any plan was priced.

    The last searches are remembered, as a check asks for them again.

    Raises:
        InputError: no plan keeps the rules.
    """
    return _SEARCHED.get(posed.digest, lambda: _search(posed, run))


def _search(posed: ModernPosed, run: Run) -> ModernAnswer | str:
    problem, machines = posed.problem.problem, posed.problem.machines
    searching = ModernSearch(problem, machines, run.stop, run.progress)
    try:
        candidates = searching.candidates()
    except StoppedError as reason:
        return str(reason)
    if not candidates.plans.count:
        raise nothing_legal(problem.plan_problem(machines.one(0), max(problem.hbm_bytes)))
    outcome = searching.outcome(candidates)
    return ModernAnswer(candidates, outcome, chosen_optimum(problem, outcome))


def solve(posed: ModernPosed, run: Run) -> Result:
    """The checked result of a search."""
    started = time.perf_counter()
    searched = search(posed, run)
    if isinstance(searched, str):
        return _unanswered(posed, run, searched, started)
    problem, outcome = posed.problem.problem, searched.outcome
    proof = infeasibility(posed, searched)
    if searched.at_size is None or searched.best is None:
        if proof is None:
            assert outcome.stopped is not None
            return _unanswered(posed, run, outcome.stopped, started)
        return result_of(
            "codesign",
            posed,
            infeasibility=proof,
            seconds=time.perf_counter() - started,
            seed=run.seed,
            method=METHOD,
        )
    solution = solution_of(posed, searched.best, searched.at_size.hbm_bytes)
    asked = problem.plan_problem(posed.problem.machines.one(searched.best.architecture), searched.at_size.hbm_bytes)
    costs = _checked_costs(asked, searched.best)
    value = problem.global_batch / costs.step_s
    figures = model_figures(problem, asked, searched.best.plan, costs)
    metrics = answer_metrics(posed, solution, figures, searched.candidates.plans.count, outcome.stopped)
    if outcome.stopped is None:
        metrics |= search_metrics(posed, outcome)
        metrics |= metrics_beside(posed, searched.best.architecture, run.stop, run.progress)
    else:
        metrics["unfinished"] = wanted_beside(posed)
    cut_short = bool(metrics["unfinished"]) and run.stop() == "interrupted"
    return result_of(
        "codesign",
        posed,
        value=value,
        bound=value if outcome.stopped is None else problem.global_batch / searched.at_size.bound_s,
        status=status_of("interrupted" if cut_short else outcome.stopped),
        solution=solution,
        metrics=metrics,
        evaluations=sum(len(size.evaluated) for size in outcome.sizes.values()),
        seconds=time.perf_counter() - started,
        seed=run.seed,
        method=METHOD,
    )


def status_of(reason: str | None) -> Any:
    """What follows from value and bound, unless the run was stopped before everything was settled."""
    if reason is None:
        return None
    return "interrupted" if reason == "interrupted" else "feasible"


def _unanswered(posed: ModernPosed, run: Run, reason: str, started: float) -> Result:
    return result_of(
        "codesign",
        posed,
        status="interrupted" if reason == "interrupted" else "unknown",
        bound=max_throughput_per_s(posed),
        seconds=time.perf_counter() - started,
        seed=run.seed,
        method=METHOD,
    )


def max_throughput_per_s(posed: ModernPosed) -> float:
    """What no plan exceeds on any architecture: the linear layers alone, on the one with the most elements."""
    problem, machines = posed.problem.problem, posed.problem.machines
    elements = machines.tensor_cores * machines.core_width * machines.core_depth
    largest = machines.one(int(elements.argmax()))
    return problem.global_batch / min_step_s(problem.plan_problem(largest, max(problem.hbm_bytes)))


def solution_of(posed: ModernPosed, best: ModernOptimum, hbm_bytes: int) -> dict[str, Any]:
    """``solution`` of the result."""
    trained = {"hbm_gb": gib_from_bytes(hbm_bytes), "plan": best.plan.document()}
    return {
        "architecture": architecture_solution(posed.problem.machines, best.architecture),
        "models": {posed.problem.problem.name: trained},
    }


def _checked_costs(asked: PlanProblem, best: ModernOptimum) -> PlanCosts:
    """The checker's own costs of a plan.

    Raises:
        FailedCheckError: they are others than the search found (a fault of this program).
    """
    faults = violations(asked, best.plan, best.step_s)
    if faults:
        raise FailedCheckError("; ".join(faults))
    return plan_costs(asked, best.plan)


def notes(problem: ModernProblem, figures: object = None) -> list[str]:
    """Notes on every answer: what its network leaves out, and what its times can be compared with.

    Of ``figures`` of its models, power above the limit of a fixed accelerator is noted.
    """
    fixed = problem.fixed
    estimates: list[str] = []
    if fixed is not None:
        estimates = [Decisive(f"{fixed.name}: {each}.") for each in fixed.estimates] + power_notes(fixed, figures)
    is_ideal, is_narrow = problem.stack.grouped is None, ELEMENT_BYTES[problem.precision] != WORD_BYTES
    return [
        *network_notes(problem.network, problem.accelerators),
        *estimates,
        _ABOUT_STEPS,
        *([] if is_ideal else [_ABOUT_DERATING]),
        *([_ABOUT_FORMATS.format(precision=problem.precision)] if is_narrow else []),
    ]


def answer_metrics(
    posed: ModernPosed, solution: dict[str, Any], figures: dict[str, Any], plans: int, stopped: str | None
) -> dict[str, Any]:
    """What follows from the solution alone; ``figures`` are those of its plan."""
    problem, machines = posed.problem.problem, posed.problem.machines
    area_mm2 = solution["architecture"]["area_mm2"]
    budget_mm2 = problem.area_budget_mm2 or float(machines.area_mm2.max())
    return {
        "architectures_in_space": len(machines),
        "plans_in_vocabulary": plans,
        "area_budget_used": area_mm2 / budget_mm2,
        "interface_mm2": problem.interface_mm2(machines),
        "models": {problem.name: figures},
        "notes": [*map(str, notes(problem, {problem.name: figures}))],
        "stopped": stopped,
    }


def model_figures(problem: ModernProblem, asked: PlanProblem, plan: TrainingPlan, costs: PlanCosts) -> dict[str, Any]:
    """The figures of a plan, by the checker's ``costs`` of it and its own count of joules."""
    throughput, step_s = problem.global_batch / costs.step_s, costs.step_s
    assert asked.machine is not None
    joules = plan_joules(asked, plan, step_s, asked.machine.energy)
    ends = [plan_joules(asked, plan, step_s, end) for end in asked.machine.energy_range or ()]
    peak = asked.devices * asked.system.chip.peak_flops[plan.precision]
    return {
        "throughput_per_s": throughput,
        "step_s": step_s,
        "tokens_per_s": throughput * problem.sequence,
        "model_flops_utilisation": throughput * problem.model.flops_per_sample(problem.sequence) / peak,
        "power_w": joules / (step_s * asked.devices),
        **({"power_interval_w": [end / (step_s * asked.devices) for end in ends]} if ends else {}),
        "joules_per_sample": joules / problem.global_batch,
        "time_s": costs.time_s,
        "memory_bytes": costs.memory,
    }


def search_metrics(posed: ModernPosed, outcome: ModernOutcome) -> dict[str, Any]:
    """What a search that was not stopped has seen."""
    problem, machines = posed.problem.problem, posed.problem.machines
    evaluated = {index for size in outcome.sizes.values() for index in size.evaluated}
    return {
        "architectures_evaluated": len(evaluated),
        "architectures_pruned": len(machines) - len(evaluated),
        "optimum_by_hbm": {
            f"{gib_from_bytes(size):g}": {
                "throughput_per_s": problem.global_batch / best.step_s,
                "architecture": architecture_solution(machines, best.architecture),
                "plan": best.plan.document(),
            }
            for size in problem.hbm_bytes
            if (best := outcome.sizes[size].best) is not None
        },
    }


def wanted_beside(posed: ModernPosed) -> list[str]:
    """What to report in addition to a proven answer, by its key in ``metrics``."""
    return ["baselines", "sensitivity"] if posed.options.sensitivity else ["baselines"]


def metrics_beside(
    posed: ModernPosed, architecture: int, stop: StopSignal = never_stop, progress: ProgressCallback = silent
) -> dict[str, Any]:
    """The baselines, and with ``--sensitivity`` what changes would bring; ``architecture`` is that of the answer.

    ``unfinished`` names those of the two that ``stop`` ended: no baselines are given then, and the changes that were
    finished, if any.
    """
    beside: dict[str, Any] = {}
    try:
        beside["baselines"] = baseline_answers(posed, stop)
    except StoppedError:
        return {"unfinished": wanted_beside(posed)}
    if not posed.options.sensitivity:
        return beside | {"unfinished": []}
    space = posed.problem
    rows = _SENSITIVITIES.get(
        (posed.digest, architecture), lambda: after_changes(space.problem, space.machines, architecture, stop, progress)
    )
    if rows:
        beside["sensitivity"] = rows
    return beside | {"unfinished": ["sensitivity"] if len(rows) < len(CHANGES) else []}


def baseline_answers(posed: ModernPosed, stop: StopSignal = never_stop) -> list[dict[str, Any]]:
    """The same search over the paper's plans, where any has what is fixed; the best plans of the chips to compare with.

    Raises:
        StoppedError: ``stop`` gave a reason.
    """
    return _BASELINES.get(posed.digest, lambda: _baselines(posed, stop))


def _baselines(posed: ModernPosed, stop: StopSignal) -> list[dict[str, Any]]:
    searched = search(posed, Run(stop=stop))
    if isinstance(searched, str):
        raise StoppedError(searched)
    problem, machines = posed.problem.problem, posed.problem.machines
    candidates = searched.candidates
    papers = candidates.part(_papers_plans(candidates))
    rows = []
    if papers.plans.count:  # --plan may hold fixed what the paper's plans lack
        outcome = _whole(problem, machines, papers, stop)
        rows.append(_row("plans of the PHAZE paper's vocabulary", problem, machines, outcome))
    return [*rows, *(_chip_row(each, stop) for each in problem.chips)]


def _chip_row(problem: PlanProblem, stop: StopSignal) -> dict[str, Any]:
    """The best plan of a chip."""
    outcome = enumerated(problem, stop)
    if outcome.stopped is not None:
        raise StoppedError(outcome.stopped)
    chip, best = problem.system.chip, outcome.best
    return {
        "name": f"{chip.title}, best plan ({rests_on(problem)})",
        "throughput_per_s": None if best is None else problem.global_batch / best.step_s,
        "hbm_gb": gib_from_bytes(chip.hbm_bytes),
        "architecture": None,
        "plan": None if best is None else best.plan.document(),
    }


def _papers_plans(candidates: Candidates) -> NDArray[np.int64]:
    """Positions of pipeline × data × tensor, activations stored or recomputed."""
    assert isinstance(candidates.plans, PlanRows), "all plans, whose arrays are not kept"
    chosen = [start + _are_the_papers(plans) for start, plans in candidates.plans.pieces()]
    return np.concatenate(chosen)


def _are_the_papers(plans: PlanArrays) -> NDArray[np.int64]:
    modes = [recompute_code("none"), recompute_code("full")]
    whole = np.isin(plans.recompute, modes) & (plans.sequence_parallel == 0) & (plans.zero == 0)
    whole &= plans.order == ORDERS.index(USUAL_ORDER)
    return np.flatnonzero(whole & (plans.context == 1) & (plans.expert == 1) & (plans.interleave == 1))


def _whole(problem: ModernProblem, machines: Machines, candidates: Candidates, stop: StopSignal) -> ModernOutcome:
    outcome = ModernSearch(problem, machines, stop).outcome(candidates)
    if outcome.stopped is not None:
        raise StoppedError(outcome.stopped)
    return outcome


def _row(name: str, problem: ModernProblem, machines: Machines, outcome: ModernOutcome) -> dict[str, Any]:
    at_size = chosen_optimum(problem, outcome)
    best = None if at_size is None else at_size.best
    if at_size is None or best is None:
        return {"name": name, "throughput_per_s": None, "hbm_gb": None, "architecture": None, "plan": None}
    return {
        "name": name,
        "throughput_per_s": problem.global_batch / best.step_s,
        "hbm_gb": gib_from_bytes(at_size.hbm_bytes),
        "architecture": architecture_solution(machines, best.architecture),
        "plan": best.plan.document(),
    }


def infeasibility(posed: ModernPosed, searched: ModernAnswer) -> Infeasibility | None:
    """The proof that no plan fits: the one that needs the least memory needs too much; None where one fits."""
    candidates, limit = searched.candidates, max(posed.problem.problem.hbm_bytes)
    row = int(np.argmin(candidates.memory_bytes))
    return None if candidates.memory_bytes[row] <= limit else lack(posed, candidates.plans.plan(row))


def lack(posed: ModernPosed, plan: TrainingPlan) -> Infeasibility | None:
    """What ``plan``, which needs the least memory, lacks; None where it fits."""
    problem, limit = posed.problem.problem, max(posed.problem.problem.hbm_bytes)
    costs = plan_costs(problem.plan_problem(posed.problem.machines.one(0), limit), plan)
    if costs.memory_bytes <= limit:
        return None
    need = needed_memory_text(costs.memory_bytes)
    return Infeasibility(
        resource="hbm_bytes",
        demand=costs.memory_bytes,
        limit=float(limit),
        unit="bytes",
        levers=[
            f"--hbm-gb with {need} or more",
            "more accelerators, over which weights and optimizer state are sharded",
        ],
        explanation=f"{none_of(problem.fixed_plan)} fits: the smallest, {plan.text()}, needs {need}, more than the "
        f"{memory_text(limit)} of HBM",
        where={"model": problem.name, "plan": plan.document(), "memory_bytes": costs.memory},
    )
