"""The independent check of a co-search over chips.

What a chip takes comes from :mod:`hardware.silicon`, rules, memory and step of each plan from the checker of
:mod:`dse.plan`, which shares no code with the search, and the score from these. That no chip is better is proven by
searching again.
"""

import math
from typing import Any

from dse.codesign.chips.answer import (
    ChipPosed,
    answer_metrics,
    asked_of,
    changed_metrics,
    chip_document,
    near_metrics,
    search,
)
from dse.codesign.chips.emptiness import emptiness
from dse.codesign.chips.leaf import ChosenChip
from dse.codesign.chips.problem import ChipProblem, Links
from dse.codesign.chips.silicon import Realisation, highest_clock_hz
from dse.plan.check import cost_faults, illegal
from dse.plan.check_costs import plan_costs
from dse.plan.training_plan import whole_plan
from dse.results.differences import differences
from dse.results.result import PROOF_TOLERANCE, Result
from dse.run.run import Run
from hardware.chip_space import Memory
from hardware.units import KIB, MIB

_AFFORDABLE_PLANS = 100_000
"""Of all models: a second of search."""

_COUNTED = ("plans_in_vocabulary", "boxes", "plan_bounds", "chips_evaluated", "equally_good")

_OF_THE_SEARCH = (*_COUNTED, "near", "near_count", "sensitivity", "unfinished")
"""What of the metrics does not follow from the solution."""


def is_repeated(result: Result) -> bool:
    """Whether every check repeats the search."""
    plans = result.metrics.get("plans_in_vocabulary", math.inf)
    return bool(result.solution) and result.metrics["stopped"] is None and plans <= _AFFORDABLE_PLANS


def open_claims(result: Result) -> dict[str, str]:
    """What only a search can say of a result, where not every check repeats it."""
    if is_repeated(result) or not result.solution:
        return {}
    reason = "bounding all chips and plans takes as long as the search (--prove)"
    stated = [f"metrics.{key}" for key in _OF_THE_SEARCH if key in result.metrics]
    return dict.fromkeys(["bound", *stated], reason)


def faults(result: Result, posed: ChipPosed, prove: bool) -> list[str]:
    """What is wrong with a result, one sentence each; empty where it holds.

    ``prove``: whether the search is repeated, without which nothing is said of the claim that no chip is better.
    """
    problem = posed.problem
    if not result.solution:
        return _unanswered_faults(result, posed)
    stated = result.solution["chip"]
    broken = _chip_faults(problem, stated)
    names = [model.name for model, _ in problem.models]
    if (result.metrics["stopped"] is None) != (result.status == "optimal"):
        broken.append("metrics.stopped must say why the search ended early, and be null where it is proven")
    if list(result.solution["models"]) != names:
        broken.append(f"models must be {names}, but got {list(result.solution['models'])}")
    if broken:
        return broken
    plans = tuple(whole_plan(each["plan"], "result") for each in result.solution["models"].values())
    chip, costs = chosen_chip(problem, stated), []
    for number, (name, plan) in enumerate(zip(names, plans, strict=True)):
        if plan.precision not in problem.precisions:
            return [f"the plan of {name} must be in one of {problem.precisions}, but is in {plan.precision}"]
        if plan.precision not in stated["formats"]:
            rule = f"must be in a format of the chip {stated['formats']}, but is in {plan.precision}"
            return [f"the plan of {name} {rule}"]
        asked = asked_of(problem, chip, number, plan.precision)
        broken = illegal(asked, plan)
        if broken:
            return broken
        costs.append(plan_costs(asked, plan))
        broken = cost_faults(asked, costs[-1], result.metrics["models"][name]["step_s"])
        if broken:
            return broken
    expected = answer_metrics(problem, chip, plans, costs, result.metrics["stopped"])
    own = {key: each for key, each in result.metrics.items() if key not in _OF_THE_SEARCH}
    broken = [
        *_limit_faults(problem, chip),
        *differences("objective.value", result.objective.value, expected["score"]),
        *differences("metrics", own, expected),
    ]
    return broken if broken or not prove else _proof_faults(result, posed)


def chosen_chip(problem: ChipProblem, stated: dict[str, Any]) -> ChosenChip:
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


def _chip_faults(problem: ChipProblem, stated: dict[str, Any]) -> list[str]:
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


def _limit_faults(problem: ChipProblem, chip: ChosenChip) -> list[str]:
    """Limits that a chip exceeds."""
    made = problem.silicon(chip.cores, chip.how, chip.memory, chip.links, chip.precision)
    watts, limits, sides = float(made.watts(chip.clock_hz)[0]), problem.limits, chip.width + chip.depth
    rules = {
        f"chip.clock_hz must be at most that of {chip.how.node} nm": chip.clock_hz <= highest_clock_hz(chip.how.node),
        "the die must be within its limit and have the edge for its memory and links": bool(made.fits[0]),
        f"the package must draw at most {limits.power_w:g} W, but draws {watts:g}": watts
        <= limits.power_w * (1 + PROOF_TOLERANCE),
        f"the package must cost at most {limits.usd:g} $, but costs {float(made.usd[0]):g}": bool(
            made.usd[0] <= limits.usd * (1 + PROOF_TOLERANCE)
        ),
        "local_kib must hold the edges of an array twice": chip.local_kib * KIB >= 4 * sides,
        "shared_mib must hold the operands of an array twice": chip.shared_mib * MIB
        >= 4 * (chip.width * chip.depth + sides),
    }
    return [rule for rule, holds in rules.items() if not holds]


def _proof_faults(result: Result, posed: ChipPosed) -> list[str]:
    """By the search again."""
    again = search(posed, Run())
    if result.metrics["stopped"] is not None:
        bound = result.bound or 0.0
        return (
            [f"bound must be at least {again.score!r}, but got {bound!r}"]
            if bound < again.score * (1 - PROOF_TOLERANCE)
            else []
        )
    counts = again.counts.boxes, again.counts.pairs, again.counts.priced
    expected: dict[str, Any] = dict(zip(_COUNTED, (again.plans, *counts, len(again.best)), strict=True))
    expected |= near_metrics(posed.problem, again)
    if result.metrics.get("unfinished") != ["sensitivity"]:
        expected |= changed_metrics(posed, again.best[0].chip)
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
