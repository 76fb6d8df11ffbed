"""The answer of a co-search over chips: the best chip with a plan of each model, checked, or why there is none."""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from dse.codesign.chips.emptiness import emptiness
from dse.codesign.chips.front_figures import FIGURES
from dse.codesign.chips.front_search import FrontOutcome, FrontSearch
from dse.codesign.chips.leaf import ChosenChip, Priced
from dse.codesign.chips.problem import ChipProblem
from dse.codesign.chips.real_chips import real_chips
from dse.codesign.chips.search import ChipOutcome, ChipSearch
from dse.codesign.chips.sensitivity import after_changes
from dse.codesign.chips.silicon import package
from dse.codesign.options import CodesignOptions
from dse.plan.check import violations
from dse.plan.check_costs import PlanCosts, plan_costs
from dse.plan.problem import PlanProblem
from dse.plan.training_plan import TrainingPlan
from dse.problem import Posed, result_of
from dse.report.chip_silicon import PricedChip, priced_chip
from dse.results.result import FailedCheckError, Result
from dse.run.executor import Executor
from dse.run.journal import Journal
from dse.run.progress import ProgressCallback, StoppedError, StopSignal
from dse.run.remembered import Remembered
from dse.run.run import Run
from hardware.precisions import ELEMENT_BYTES
from hardware.silicon.area import die_parts
from hardware.silicon.edges import needed_edge, perimeter_mm
from hardware.silicon.interval import Interval, total
from hardware.silicon.money import all_in_kw, die_price, hourly_usd

ChipPosed = Posed[CodesignOptions, ChipProblem]

METHOD = "exhaustive"

_CHANGED: Remembered[dict[str, tuple[Priced | None, float | None]]] = Remembered(2)
"""Of the last posed problems, by their digests and chips."""

_LISTED = 100
"""Chips near the best that a result lists."""

_FRONTS: Remembered[FrontOutcome] = Remembered(2, lambda outcome: outcome.stopped is None)
"""Of the last posed problems, by their digests."""

_SEARCHED: Remembered[ChipOutcome] = Remembered(2, lambda outcome: outcome.stopped is None)
"""Of the last posed problems, by their digests."""

_ABOUT_TIMES = "Steps, capacities and rates are those of dse plan on the chip's template."

_ABOUT_SILICON = (
    "Areas, powers and prices are estimates with the intervals shown; the answer is the best by their values. Power is "
    "demand with all units, memory and links at work."
)

_ABOUT_ATTENTION = {
    "fused": "Attention is fused, as on real chips: scores stay on chip. Chips whose units have too little SRAM for a "
    "tile of it are left out; --attention unfused passes scores through memory.",
    "unfused": "Attention is unfused, as asked: scores pass through memory. Real chips have it fused.",
}

_ABOUT_FORMATS = "Plans in {formats} are taken to train as well as in 16 bits; --plan precision=bf16 leaves them out."


def search(posed: ChipPosed, run: Run) -> ChipOutcome:
    """The best chip; the last searches are remembered, as a check asks for them again."""
    return _SEARCHED.get(posed.digest, lambda: ChipSearch(posed.problem, *_means(run)).run())


def solve(posed: ChipPosed, run: Run) -> Result:
    """The checked result of a search."""
    with run.executor as executor:
        return _solved(posed, replace(run, executor=executor))


def _solved(posed: ChipPosed, run: Run) -> Result:
    started, problem = time.perf_counter(), posed.problem
    outcome = search(posed, run)
    stopped = outcome.stopped
    if not outcome.best:
        proof = emptiness(problem) if stopped is None else None
        return result_of(
            "codesign",
            posed,
            infeasibility=proof,
            status=None if proof is not None else "interrupted" if stopped == "interrupted" else "unknown",
            bound=outcome.bound if proof is None and np.isfinite(outcome.bound) else None,
            seconds=time.perf_counter() - started,
            seed=run.seed,
            method=METHOD,
        )
    best = outcome.best[0]
    solution = {
        "chip": chip_document(problem, best.chip),
        "models": {
            model.name: {"plan": plan.document()} for (model, _), plan in zip(problem.models, best.plans, strict=True)
        },
    }
    costs = [_checked_costs(problem, best, number) for number in range(len(best.plans))]
    metrics = answer_metrics(problem, best.chip, best.plans, costs, stopped) | {"chips": real_chips(problem)}
    metrics |= {
        "plans_in_vocabulary": outcome.plans,
        "boxes": outcome.counts.boxes,
        "plan_bounds": outcome.counts.pairs,
        "chips_evaluated": outcome.counts.priced,
        "equally_good": len(outcome.best),
    }
    metrics |= near_metrics(problem, outcome)
    if stopped is None:
        metrics |= front_metrics(posed, run)
        metrics |= changed_metrics(posed, best.chip, run)
        if "pareto" in metrics and metrics["pareto"]["stopped"] is not None:
            metrics["unfinished"] = ["pareto", *metrics.get("unfinished", [])]
    # Roots that no one has bounded yet leave no bound of the whole.
    bound = outcome.bound if np.isfinite(outcome.bound) else None
    return result_of(
        "codesign",
        posed,
        value=metrics["score"],
        bound=metrics["score"] if stopped is None else bound,
        status=None if stopped is None else "interrupted" if stopped == "interrupted" else "feasible",
        solution=solution,
        metrics=metrics,
        evaluations=outcome.counts.priced,
        seconds=time.perf_counter() - started,
        seed=run.seed,
        method=METHOD,
    )


def near_metrics(problem: ChipProblem, outcome: ChipOutcome) -> dict[str, Any]:
    """The chips within the asked share of the best."""
    near = outcome.near(problem.within) if problem.within else []
    listed = [
        {"score": each.score, "chip": chip_document(problem, each.chip), "usd": each.usd} for each in near[:_LISTED]
    ]
    return {"near": listed, "near_count": len(near)}


def _means(run: Run) -> tuple[StopSignal, ProgressCallback, Executor, Journal | None]:
    """What a search takes of a run."""
    return run.stop, run.progress, run.executor, run.journal


def changed_metrics(posed: ChipPosed, chip: ChosenChip, run: Run) -> dict[str, Any]:
    """What changes would bring, where that is asked."""
    if not posed.options.sensitivity:
        return {}
    problem = posed.problem
    try:
        found = _CHANGED.get((posed.digest, chip), lambda: after_changes(problem, chip, *_means(run)))
    except StoppedError:
        return {"unfinished": ["sensitivity"]}
    rows = {
        label: {
            "score": None if best is None else best.score,
            "chip": None if best is None else chip_document(problem, best.chip),
            "regret": regret,
        }
        for label, (best, regret) in found.items()
    }
    return {"sensitivity": rows, "unfinished": []}


def front_metrics(posed: ChipPosed, run: Run) -> dict[str, Any]:
    """The front, where that is asked."""
    problem = posed.problem
    if not problem.pareto:
        return {}
    outcome = _FRONTS.get(posed.digest, lambda: FrontSearch(problem, run.stop, run.progress).run())
    points = [
        {
            "values": front_values(problem, each.priced.chip, each.priced.score),
            "chip": chip_document(problem, each.priced.chip),
            "models": {
                model.name: {"plan": plan.document(), "step_s": step_s}
                for (model, _), plan, step_s in zip(problem.models, each.priced.plans, each.priced.steps_s, strict=True)
            },
        }
        for each in sorted(outcome.points, key=lambda point: point.values, reverse=True)
    ]
    front = {
        "figures": list(problem.pareto),
        "gap": outcome.gap if np.isfinite(outcome.gap) else None,
        "stopped": outcome.stopped,
        "boxes": outcome.counts.boxes,
        "chips_evaluated": outcome.counts.priced,
        "points": points,
    }
    return {"pareto": front}


def front_values(problem: ChipProblem, chip: ChosenChip, throughput: float) -> dict[str, float]:
    """The figures of a front by name, of a chip with this mean of throughputs."""
    made = problem.silicon(chip.cores, chip.how, chip.memory, chip.links, chip.precision)
    return {
        each: FIGURES[each].value(throughput, float(np.asarray(FIGURES[each].taken(problem, made, chip.clock_hz))[0]))
        for each in problem.pareto
    }


def chip_document(problem: ChipProblem, chip: ChosenChip) -> dict[str, Any]:
    """A chip in JSON types."""
    space = problem.space
    return {
        "node": chip.how.node,
        "style": space.style.value,
        "dies": chip.how.dies,
        "units": chip.units,
        "array_width": chip.width,
        "array_depth": chip.depth,
        "lanes": chip.lanes,
        "local_kib": chip.local_kib,
        "shared_mib": chip.shared_mib,
        "formats": list(space.formats.values[: problem.formats_of(chip.precision)]),
        "clock_hz": chip.clock_hz,
        "memory": chip.memory.kind,
        "stacks": chip.memory.stacks,
        "stack_gb": chip.memory.gb,
        "link_bytes_per_s": chip.links.bytes_per_s,
        "domain": chip.links.domain,
    }


def asked_of(problem: ChipProblem, chip: ChosenChip, number: int, precision: str) -> PlanProblem:
    """The training plan of one model on a chip."""
    machine = problem.machines(chip.cores, chip.clock_hz, chip.memory, chip.how.dies)
    return problem.plan_problem(number, precision, chip.links, machine, chip.memory)


def priced(problem: ChipProblem, chip: ChosenChip) -> PricedChip:
    """What a chip takes of area, power, money and carbon."""
    formats = problem.formats_of(chip.precision)
    made = package(problem.space, chip.cores, chip.how, chip.memory, chip.links.bytes_per_s, formats)
    die, count = made.dies[0]
    one = replace(
        die,
        cores=int(np.asarray(die.cores)[0]),
        spare_cores=int(np.asarray(die.spare_cores)[0]),
        macs_per_core=chip.width * chip.depth,
        lanes_per_core=chip.lanes,
        local_mib_per_core=float(np.asarray(die.local_mib_per_core)[0]),
        shared_mib=chip.shared_mib / chip.how.dies,
    )
    cap_w = None if np.isinf(problem.limits.power_w) else problem.limits.power_w
    whole = replace(made, dies=((one, count),), clock_hz=chip.clock_hz, cap_w=cap_w)
    return priced_chip("the chip", whole)


def _checked_costs(problem: ChipProblem, best: Priced, number: int) -> PlanCosts:
    """The checker's own costs of a plan.

    Raises:
        FailedCheckError: they are others than the search found (a fault of this program).
    """
    plan = best.plans[number]
    asked = asked_of(problem, best.chip, number, plan.precision)
    faults = violations(asked, plan, best.steps_s[number])
    if faults:
        raise FailedCheckError("; ".join(faults))
    return plan_costs(asked, plan)


def answer_metrics(
    problem: ChipProblem,
    chip: ChosenChip,
    plans: tuple[TrainingPlan, ...],
    costs: list[PlanCosts],
    stopped: str | None,
) -> dict[str, Any]:
    """What follows from the solution alone."""
    figures = {
        model.name: model_figures(problem, chip, number, plans[number], costs[number])
        for number, (model, _) in enumerate(problem.models)
    }
    shown = priced(problem, chip)
    return {
        "chips_in_space": problem.space.points,
        "score": score_of(problem, chip, [each["throughput_per_s"] for each in figures.values()]),
        "models": figures,
        "silicon": silicon_figures(shown),
        "limits": limits_of(problem, chip, shown),
        "notes": notes(problem),
        "stopped": stopped,
    }


def silicon_figures(shown: PricedChip) -> dict[str, Any]:
    """Area, power, money and carbon, each as [value, low, high]."""
    (die, _), price = shown.package.dies[0], die_price(shown.package.dies[0][0])
    bill, all_in = total(shown.lines.values()), all_in_kw(shown.sustained_w)
    hourly = hourly_usd(bill, all_in)
    return {
        "die_mm2": _triple(price.area),
        "blocks_mm2": {name: _triple(each) for name, each in die_parts(die).items()},
        "sold_share": _triple(price.sold),
        "power_w": _triple(shown.drawn.demand(shown.package.clock_hz)),
        "kw_all_in": _triple(all_in),
        "bill_usd": {name: _triple(each) for name, each in shown.lines.items()},
        "usd": _triple(bill),
        "usd_per_hour": _triple(hourly.at_cost),
        "usd_per_hour_at_price": _triple(hourly.at_price),
        "co2e_kg": {name: _triple(each) for name, each in shown.kg.items()},
    }


def _triple(figure: Interval) -> list[float]:
    return [float(figure.value), float(figure.low), float(figure.high)]


def score_of(problem: ChipProblem, chip: ChosenChip, throughputs: list[float]) -> float:
    """The objective."""
    made = problem.silicon(chip.cores, chip.how, chip.memory, chip.links, chip.precision)
    mean = float(problem.objective.score(np.array(throughputs)[:, None])[0])
    return mean / float(np.asarray(problem.divisor(made, chip.clock_hz))[0])


def limits_of(problem: ChipProblem, chip: ChosenChip, shown: PricedChip) -> dict[str, dict[str, float]]:
    """What the chip takes of everything that is limited."""
    made = problem.silicon(chip.cores, chip.how, chip.memory, chip.links, chip.precision)
    (die, _), area = shown.package.dies[0], float(made.die_mm2[0])
    taken = {
        "die_mm2": (area, problem.space.largest_mm2),
        "edge_mm": (float(needed_edge(die).value), float(perimeter_mm(area))),
    }
    if np.isfinite(problem.limits.power_w):
        taken["power_w"] = float(shown.drawn.demand(chip.clock_hz).value), problem.limits.power_w
    if np.isfinite(problem.limits.usd):
        taken["usd"] = float(total(shown.lines.values()).value), problem.limits.usd
    return {name: {"taken": each, "limit": limit} for name, (each, limit) in taken.items()}


def model_figures(
    problem: ChipProblem, chip: ChosenChip, number: int, plan: TrainingPlan, costs: PlanCosts
) -> dict[str, Any]:
    """The figures of a plan, by the checker's costs of it."""
    model, sequence = problem.models[number]
    asked = asked_of(problem, chip, number, plan.precision)
    throughput = problem.global_batch / costs.step_s
    peak = problem.accelerators * asked.system.chip.peak_flops[plan.precision]
    return {
        "throughput_per_s": throughput,
        "step_s": costs.step_s,
        "tokens_per_s": throughput * sequence,
        "model_flops_utilisation": throughput * model.flops_per_sample(sequence) / peak,
        "time_s": costs.time_s,
        "memory_bytes": costs.memory,
    }


def notes(problem: ChipProblem) -> list[str]:
    """On every answer."""
    narrow = [each for each in problem.precisions if ELEMENT_BYTES[each] < max(ELEMENT_BYTES.values())]
    formats = [_ABOUT_FORMATS.format(formats=", ".join(narrow))] if narrow else []
    return [_ABOUT_SILICON, _ABOUT_TIMES, _ABOUT_ATTENTION[problem.stack.attention.value], *formats]


def solution_text(chip: Mapping[str, Any]) -> str:
    """A chip in one line."""
    dies = f"{chip['dies']} dies of " if chip["dies"] > 1 else ""
    return (
        f"{dies}{chip['node']} nm, {chip['units']} arrays of {chip['array_width']} × {chip['array_depth']} at "
        f"{chip['clock_hz'] / 1e9:g} GHz, {chip['lanes']} lanes each, {chip['local_kib']:,} KiB each and "
        f"{chip['shared_mib']} MiB shared, {chip['stacks']} × {chip['stack_gb']} GB {chip['memory'].upper()}, "
        f"{chip['link_bytes_per_s'] / 1e9:g} GB/s to {chip['domain']}"
    )
