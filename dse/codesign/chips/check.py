"""The independent check of a co-search over chips.

What a chip takes is calculated a second time (:mod:`dse.codesign.chips.check_silicon`); rules, memory and step of each
plan, on the answer and on real chips, come from the checker of :mod:`dse.plan`, and the score from these: none of it
shares code with the search. That no chip is better, and no plan on real chips, is proven by searching again.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from dse.algorithms.dominance import non_dominated
from dse.codesign.chips.answer import (
    ChipPosed,
    answer_metrics,
    asked_of,
    changed_metrics,
    chip_document,
    front_metrics,
    front_values,
    near_metrics,
    search,
)
from dse.codesign.chips.check_silicon import (
    PackageSizes,
    all_in_kw,
    divisor,
    sizes_of,
    sizes_of_chip,
    usd_per_hour,
)
from dse.codesign.chips.emptiness import emptiness
from dse.codesign.chips.front_figures import FIGURES
from dse.codesign.chips.leaf import ChosenChip
from dse.codesign.chips.problem import ChipProblem, Links
from dse.codesign.chips.real_chips import intervals, real_chips
from dse.codesign.chips.silicon import Realisation
from dse.plan.check import cost_faults, illegal
from dse.plan.check_costs import PlanCosts, plan_costs
from dse.plan.chip_table import rests_on
from dse.plan.problem import PlanProblem
from dse.plan.training_plan import TrainingPlan, whole_plan
from dse.results.differences import differences
from dse.results.result import PROOF_TOLERANCE, Result
from dse.run.run import Run
from hardware.chip_space import Memory
from hardware.silicon.area import PADDING
from hardware.silicon.chips import silicon
from hardware.silicon.tables import nodes
from hardware.units import GIGA, KIB, MIB

_AFFORDABLE_PLANS = 100_000
"""Of all models: a second of search."""

_COUNTED = ("plans_in_vocabulary", "boxes", "plan_bounds", "chips_evaluated", "equally_good")

_OF_THE_SEARCH = (*_COUNTED, "near", "near_count", "sensitivity", "unfinished", "pareto")
"""What of the metrics does not follow from the solution, nor from plans that are stated beside it."""


def is_repeated(result: Result) -> bool:
    """Whether every check repeats the search."""
    plans = result.metrics.get("plans_in_vocabulary", math.inf)
    is_short = plans <= _AFFORDABLE_PLANS and "pareto" not in result.metrics
    return bool(result.solution) and result.metrics["stopped"] is None and is_short


def open_claims(result: Result) -> dict[str, str]:
    """What only a search can say of a result, where not every check repeats it."""
    if is_repeated(result) or not result.solution:
        return {}
    reason = "bounding all chips and plans takes as long as the search (--prove)"
    stated = [f"metrics.{key}" for key in _OF_THE_SEARCH if key in result.metrics]
    faster = "that no plan is faster on these chips is found by searching again (--prove)"
    beside = {"metrics.chips, that plans are the best": faster} if result.metrics["chips"] else {}
    return dict.fromkeys(["bound", *stated], reason) | beside


def faults(result: Result, posed: ChipPosed, prove: bool) -> list[str]:
    """What is wrong with a result, one sentence each; empty where it holds.

    ``prove``: whether the search is repeated, without which nothing is said of the claim that no chip is better.
    """
    problem = posed.problem
    if not result.solution:
        return _unanswered_faults(result, posed)
    if (result.metrics["stopped"] is None) != (result.status == "optimal"):
        return ["metrics.stopped must say why the search ended early, and be null where it is proven"]
    stated, models = result.solution["chip"], result.solution["models"]
    steps = {name: figures["step_s"] for name, figures in result.metrics["models"].items()}
    plans, costs, broken = _trained(problem, stated, models, steps)
    if broken:
        return broken
    chip = chosen_chip(problem, stated)
    expected = answer_metrics(problem, chip, plans, costs, result.metrics["stopped"])
    own = {key: each for key, each in result.metrics.items() if key not in (*_OF_THE_SEARCH, "chips")}
    sizes = _sizes(problem, stated)
    broken = [
        *_limit_faults(problem, stated, sizes),
        *_silicon_faults(problem, sizes, result.metrics),
        *_real_chip_faults(problem, result.metrics["chips"]),
        *differences("objective.value", result.objective.value, expected["score"]),
        *differences("metrics", own, expected),
        *_front_faults(problem, result),
    ]
    return broken if broken or not prove else _proof_faults(result, posed)


def _sizes(problem: ChipProblem, stated: Mapping[str, Any]) -> PackageSizes:
    """The package of a stated chip under the power cap, by the second calculation of silicon."""
    cap_w = problem.limits.power_w
    return sizes_of_chip(problem.space, stated, None if math.isinf(cap_w) else cap_w)


def _trained(
    problem: ChipProblem, stated: Mapping[str, Any], models: Mapping[str, Any], steps: Mapping[str, float]
) -> tuple[tuple[TrainingPlan, ...], list[PlanCosts], list[str]]:
    """The plans of each model on a chip, the checker's costs of them, and what is wrong with chip, plans or steps."""
    broken, names = _chip_faults(problem, stated), [model.name for model, _ in problem.models]
    if list(models) != names:
        broken.append(f"models must be {names}, but got {list(models)}")
    if broken:
        return (), [], broken
    plans = tuple(whole_plan(each["plan"], "result") for each in models.values())
    chip, costs = chosen_chip(problem, stated), []
    for number, (name, plan) in enumerate(zip(names, plans, strict=True)):
        if plan.precision not in problem.precisions:
            return (), [], [f"the plan of {name} must be in one of {problem.precisions}, but is in {plan.precision}"]
        if plan.precision not in stated["formats"]:
            rule = f"must be in a format of the chip {stated['formats']}, but is in {plan.precision}"
            return (), [], [f"the plan of {name} {rule}"]
        asked = asked_of(problem, chip, number, plan.precision)
        broken = illegal(asked, plan)
        if broken:
            return (), [], broken
        costs.append(plan_costs(asked, plan))
        broken = cost_faults(asked, costs[-1], steps[name])
        if broken:
            return (), [], broken
    return plans, costs, []


def _front_faults(problem: ChipProblem, result: Result) -> list[str]:
    """What is wrong with the points of a front: chips, limits, plans, steps, values, order, dominated points."""
    front = result.metrics.get("pareto")
    if front is None:
        wanted = bool(problem.pareto) and result.metrics["stopped"] is None
        return ["metrics.pareto must be given"] if wanted else []
    broken, values = differences("metrics.pareto.figures", front["figures"], list(problem.pareto)), []
    for place, point in enumerate(front["points"]):
        steps = {name: each["step_s"] for name, each in point["models"].items()}
        _, costs, faults_ = _trained(problem, point["chip"], point["models"], steps)
        if not faults_:
            chip = chosen_chip(problem, point["chip"])
            rates = np.array([[problem.global_batch / each.step_s] for each in costs])
            expected = front_values(problem, chip, float(problem.objective.score(rates)[0]))
            sizes = _sizes(problem, point["chip"])
            faults_ = [*_limit_faults(problem, point["chip"], sizes)]
            faults_ += differences("values", point["values"], expected)
            values.append([each if FIGURES[name].per else -each for name, each in expected.items()])
        if faults_:
            return [*broken, *(f"metrics.pareto.points[{place}]: {each}" for each in faults_)]
    gap = front["gap"]
    if (gap is None) != (not values) or (gap or np.inf) < problem.pareto_gap * (1 - PROOF_TOLERANCE):
        broken.append(f"metrics.pareto.gap must be at least {problem.pareto_gap:g}, but got {gap}")
    if front["stopped"] is None and gap != problem.pareto_gap:
        broken.append(f"metrics.pareto.gap must be {problem.pareto_gap:g}, as asked, but got {gap}")
    if values:
        columns = -np.array(values).T
        if not non_dominated(*columns, *np.zeros((3 - len(columns), len(values)))).all():
            broken.append("metrics.pareto.points must not dominate each other")
        if (np.diff(columns[0]) < 0).any():
            broken.append("metrics.pareto.points must be in the order of the first figure")
    return broken


def chosen_chip(problem: ChipProblem, stated: Mapping[str, Any]) -> ChosenChip:
    """The chip of a solution."""
    formats = stated["formats"]
    precision = next(
        each for each in reversed(problem.precisions) if problem.formats_of(each) == len(formats)
    )  # the formats are those of one of them
    return ChosenChip(
        width=stated["array_width"],
        depth=stated["array_depth"],
        units=stated["units"],
        lanes=stated["lanes"],
        local_kib=stated["local_kib"],
        shared_mib=stated["shared_mib"],
        clock_hz=stated["clock_hz"],
        memory=Memory(stated["memory"], stated["stacks"], stated["stack_gb"]),
        links=Links(stated["link_bytes_per_s"], stated["domain"]),
        how=Realisation(stated["node"], stated["dies"]),
        precision=precision,
    )


def _chip_faults(problem: ChipProblem, stated: Mapping[str, Any]) -> list[str]:
    """Sizes that the space does not have."""
    space = problem.space
    axes: dict[str, Any] = {
        "node": space.nodes.values,
        "dies": space.dies.values,
        "units": space.units.values,
        "lanes": space.lanes.values,
        "local_kib": space.local_kib.values,
        "shared_mib": space.shared_mib.values,
        "clock_hz": space.clock_hz.values,
        "link_bytes_per_s": space.scale_up.bytes_per_s.values,
        "domain": space.scale_up.domains.values,
        "style": [space.style.value],
        "formats": [list(space.formats.values[: problem.formats_of(each)]) for each in problem.precisions],
    }
    broken = [
        f"chip.{name} must be one of {values}, but got {stated[name]}"
        for name, values in axes.items()
        if stated[name] not in values
    ]
    array = stated["array_width"], stated["array_depth"]
    if array not in space.arrays.values:
        broken.append(f"chip: an array must be one of {space.arrays.values}, but got {array}")
    memory = Memory(stated["memory"], stated["stacks"], stated["stack_gb"])
    if memory not in space.choices:
        broken.append(f"chip: the memory must be one of the space, but got {memory.text}")
    return broken


def _limit_faults(problem: ChipProblem, chip: Mapping[str, Any], sizes: PackageSizes) -> list[str]:
    """Limits that a chip exceeds."""
    limits, space, (die,) = problem.limits, problem.space, sizes.dies
    watts, usd, area = sizes.demand_w(), sum(sizes.bill_usd().values()), die.area_mm2()
    long, short = sorted((chip["array_width"], chip["array_depth"]), reverse=True)
    local, shared, margin = chip["local_kib"] * KIB, chip["shared_mib"] * MIB, 1 + PROOF_TOLERANCE
    heads = [model.key_width + model.context_width for model, _ in problem.models]
    tile = 2 * ((long + 2 * short) * max(heads) + long * short) if problem.stack.attention.value == "fused" else 0
    rules = {
        f"chip.clock_hz must be at most that of {chip['node']} nm": chip["clock_hz"]
        <= nodes()[chip["node"]].clock * GIGA * margin,
        f"the die must be at most {space.largest_mm2:g} mm², but has {area:g}": area <= space.largest_mm2 * margin,
        "dies must share out units and shared_mib evenly": not (
            chip["units"] % chip["dies"] or chip["shared_mib"] % chip["dies"]
        ),
        f"the package must draw at most {limits.power_w:g} W, but draws {watts:g}": watts <= limits.power_w * margin,
        f"the package must cost at most {limits.usd:g} $, but costs {usd:g}": usd <= limits.usd * margin,
        "local_kib must hold the edges of an array twice": local >= 4 * (long + short),
        "local_kib must hold a tile of fused attention": local >= tile,
        "shared_mib must hold the operands of an array twice": shared >= 4 * (long * short + long + short),
    }
    return [rule for rule, holds in rules.items() if not holds]


def _silicon_faults(problem: ChipProblem, sizes: PackageSizes, metrics: Mapping[str, Any]) -> list[str]:
    """Figures of silicon, and the score, that a second calculation does not find; intervals are compared elsewhere."""
    (die,), demand, bill = sizes.dies, sizes.demand_w(), sizes.bill_usd()
    sustained = demand if sizes.cap_w is None else min(demand, sizes.cap_w)
    areas, area, usd = die.blocks_mm2(), die.area_mm2(), sum(bill.values())
    padding = area - sum(areas.values())
    expected = {
        "die_mm2": area,
        "blocks_mm2": areas | ({PADDING: padding} if padding > PROOF_TOLERANCE * area else {}),
        "sold_share": die.sold_share(),
        "power_w": demand,
        "kw_all_in": all_in_kw(sustained),
        "bill_usd": bill,
        "usd": usd,
        "usd_per_hour": usd_per_hour(usd, sustained, at_price=False),
        "usd_per_hour_at_price": usd_per_hour(usd, sustained, at_price=True),
        "co2e_kg": sizes.carbon_kg(),
    }
    stated = {name: _values(each) for name, each in metrics["silicon"].items()}
    throughputs = [problem.global_batch / each["step_s"] for each in metrics["models"].values()]
    score = _score(problem, throughputs, sizes, sizes.clock_hz)
    broken = differences("metrics.silicon", stated, expected) + differences("metrics.score", metrics["score"], score)
    for name, each in metrics["models"].items():
        parts = math.fsum(each["time_s"].values())
        if not math.isclose(parts, each["step_s"], rel_tol=PROOF_TOLERANCE):
            broken.append(f"the parts of a step of {name} must add up to {each['step_s']!r} s, but are {parts!r} s")
    return broken


def _values(figure: Any) -> Any:
    """The first entry of each [value, low, high]."""
    return {name: each[0] for name, each in figure.items()} if isinstance(figure, dict) else figure[0]


def _score(problem: ChipProblem, throughputs: list[float], sizes: PackageSizes, clock_hz: float) -> float:
    """The mean over models of throughput, over what the objective divides by."""
    goal = problem.objective
    weights = [1.0] * len(throughputs) if goal.weights is None else list(goal.weights)
    pairs = list(zip(weights, throughputs, strict=True))
    if goal.mean == "arithmetic":
        mean = sum(weight * each for weight, each in pairs) / sum(weights)
    else:
        mean = math.exp(sum(weight * math.log(each) for weight, each in pairs) / sum(weights))
    return mean / divisor(goal.per, sizes, clock_hz, problem.accelerators)


def _real_chip_faults(problem: ChipProblem, rows: list[dict[str, Any]]) -> list[str]:
    """Of real chips: plans by the rules and costs of the checker of ``dse plan``, silicon by the second calculation."""
    names = [chip[0].system.chip.name for chip in problem.chips]
    if [each["name"] for each in rows] != names:
        return [f"metrics.chips must be {names}, but got {[each['name'] for each in rows]}"]
    return [fault for chip, row in zip(problem.chips, rows, strict=True) for fault in _row_faults(problem, chip, row)]


def _row_faults(problem: ChipProblem, chip: tuple[PlanProblem, ...], row: dict[str, Any]) -> list[str]:
    where, throughputs = f"metrics.chips of {row['name']}", dict[str, float | None]()
    for model, _ in problem.models:
        stated = row["plans"].get(model.name)
        if stated is None:
            throughputs[model.name] = None
            continue
        plan = whole_plan(stated, "result")
        asked = next((each for each in chip if each.model == model and each.precision == plan.precision), None)
        if asked is None:
            return [f"{where}: the plan of {model.name} must be in a precision of the search, not {plan.precision}"]
        if broken := illegal(asked, plan):
            return [f"{where}: {fault}" for fault in broken]
        costs = plan_costs(asked, plan)
        if broken := cost_faults(asked, costs, costs.step_s):
            return [f"{where}: {fault}" for fault in broken]
        throughputs[model.name] = problem.global_batch / costs.step_s
    made = silicon(row["name"])
    expected: dict[str, Any] = {"throughputs": throughputs, "basis": rests_on(chip[0]), "power_w": None, "usd": None}
    known = [each for each in throughputs.values() if each is not None]
    expected |= {"score": None, **intervals(row["name"])}
    if made is not None:
        sizes = sizes_of(made)
        clock_hz = sizes.highest_hz()
        expected |= {"power_w": sizes.demand_w(clock_hz), "usd": sum(sizes.bill_usd().values())}
        if len(known) == len(throughputs):
            expected["score"] = _score(problem, known, sizes, clock_hz)
    elif len(known) == len(throughputs) and problem.objective.per == "throughput":
        expected["score"] = _score(problem, known, PackageSizes((), 0.0, "none", 0.0, 0.0, 0.0, None), 0.0)
    return differences(where, {key: row[key] for key in expected}, expected)


def _proof_faults(result: Result, posed: ChipPosed) -> list[str]:
    """By the search again."""
    again = search(posed, Run())
    if result.metrics["stopped"] is not None:
        bound = result.bound
        return (
            [f"bound must be at least {again.score!r}, but got {bound!r}"]
            if bound is not None and bound < again.score * (1 - PROOF_TOLERANCE)
            else []
        )
    counts = again.counts.boxes, again.counts.pairs, again.counts.priced
    expected: dict[str, Any] = dict(zip(_COUNTED, (again.plans, *counts, len(again.best)), strict=True))
    expected |= near_metrics(posed.problem, again)
    if result.metrics.get("pareto", {}).get("stopped", "") is None:
        expected |= front_metrics(posed, Run())
    if "sensitivity" not in result.metrics.get("unfinished", []):
        expected |= changed_metrics(posed, again.best[0].chip, Run())
    expected["chips"] = real_chips(posed.problem)
    return [
        *differences("objective.value", result.objective.value, again.score),
        *differences("bound", result.bound, again.score),
        *differences("solution.chip", result.solution["chip"], chip_document(posed.problem, again.best[0].chip)),
        *differences("metrics", {key: result.metrics.get(key) for key in expected}, expected),
    ]


def _unanswered_faults(result: Result, posed: ChipPosed) -> list[str]:
    """Of a result without a chip: why there is none follows again; what was stopped claims nothing."""
    broken = [f"metrics.{key} must not be given without a chip" for key in result.metrics]
    if result.status != "infeasible":
        return broken
    again = search(posed, Run())
    if again.best:
        return ["status must not be infeasible: there is a chip"]
    stated = None if result.infeasibility is None else result.infeasibility.model_dump()
    return [*broken, *differences("infeasibility", stated, emptiness(posed.problem).model_dump())]
