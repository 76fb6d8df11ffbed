"""Why a space of chips has no answer: which limit empties it, and by how much."""

from typing import NamedTuple

import numpy as np

from dse.codesign.chips.boxes import BoxFigures
from dse.codesign.chips.plan_lists import PlanList, all_families, expanded
from dse.codesign.chips.problem import ChipProblem, Links
from dse.codesign.chips.silicon import highest_clock_hz
from dse.plan.answer import nothing_legal
from dse.plan.problem import PlanProblem
from dse.plan.template_kernels import RooflineKernels
from dse.report.units import memory_text, needed_memory_text
from dse.results.infeasibility import Infeasibility
from hardware.chip_space import CoreDesigns, Memory
from hardware.units import bytes_from_gib

_FAMILIES = 16
"""Whose members are compared at a time, from the least memory on."""


_MORE_MEMORY = ["more or larger stacks", "more accelerators, over which weights and optimizer state are sharded"]

_MORE_SRAM = ["more SRAM", "smaller arrays"]


class _Figure(NamedTuple):
    """One limit, what is below it, in words, and how it is written."""

    limit: float
    what: str
    unit: str
    lever: str


def emptiness(problem: ChipProblem) -> Infeasibility:
    """The limit that leaves no chip, or the memory that no plan fits.

    Raises:
        InputError: no plan keeps the rules.
    """
    figures = BoxFigures(problem)
    memories = [each for each in figures.memories if _within(problem, figures, each, skipped="") is not None]
    if not memories:
        return _limit(problem, figures)
    return _memory(problem, figures, max(memories, key=lambda memory: memory.total_gb))


def _names(problem: ChipProblem) -> dict[str, _Figure]:
    limits = problem.limits
    return {
        "die_mm2": _Figure(
            problem.space.largest_mm2, "the smallest die", "mm²", "--area-budget, smaller units or fewer stacks"
        ),
        "power_w": _Figure(limits.power_w, "the least demand of a package", "W", "--power-cap, or a lower clock"),
        "usd": _Figure(limits.usd, "the cheapest package", "$", "--cost-limit, or less memory"),
    }


def _within(problem: ChipProblem, figures: BoxFigures, memory: Memory, skipped: str) -> dict[str, float] | None:
    """The least of each figure among chips with a memory that are within all limits but one; None where none is."""
    number, clock = figures.memories.index(memory), float(figures.clocks_hz[0])
    names, least = _names(problem), dict.fromkeys(_names(problem), np.inf)
    for place, how in enumerate(figures.realisations):
        if highest_clock_hz(how.node) < clock:
            continue
        links = Links(figures.links[0], 1)
        made = problem.silicon(
            figures.cores, how, figures.memories[number], links, problem.precisions[0], any_sram=True
        )
        values = {"die_mm2": made.die_mm2, "power_w": made.watts(clock), "usd": made.usd}
        fits = figures.cores.units % figures.realisations[place].dies == 0
        if skipped != "die_mm2":
            fits = fits & made.fits
        for name, each in values.items():
            if name not in (skipped, "die_mm2"):
                fits = fits & (each <= names[name].limit)
        if fits.any():
            least = {name: min(least[name], float(each[fits].min())) for name, each in values.items()}
    return least if np.isfinite(list(least.values())).all() else None


def _limit(problem: ChipProblem, figures: BoxFigures) -> Infeasibility:
    """The limit without which there are chips; where each of several leaves none, the one that is exceeded most."""
    exceeded = {}
    for name, figure in _names(problem).items():
        found = [_within(problem, figures, memory, skipped=name) for memory in figures.memories]
        demands = [each[name] for each in found if each is not None]
        if demands and min(demands) > figure.limit:
            exceeded[name] = min(demands)
    if not exceeded:
        return _several(problem, figures)
    name = max(exceeded, key=lambda each: exceeded[each] / _names(problem)[each].limit)
    figure, demand = _names(problem)[name], exceeded[name]
    return Infeasibility(
        resource=name,
        demand=demand,
        limit=figure.limit,
        unit=figure.unit,
        levers=[f"a higher limit: {figure.lever}"],
        explanation=(
            f"no chip is within the limits: {figure.what} that is within all others takes {demand:,.0f} {figure.unit}, "
            f"{demand / figure.limit - 1:.0%} above the {figure.limit:,.0f} {figure.unit} that are allowed"
        ),
        where={},
    )


def _several(problem: ChipProblem, figures: BoxFigures) -> Infeasibility:
    """Of limits that leave nothing only together, or of an edge that is too short."""
    names = {name: each for name, each in _names(problem).items() if np.isfinite(each.limit)}
    least = dict.fromkeys(names, np.inf)
    clock = float(figures.clocks_hz[0])
    for how in figures.realisations:
        for memory in figures.memories:
            links = Links(figures.links[0], 1)
            made = problem.silicon(figures.cores, how, memory, links, problem.precisions[0], any_sram=True)
            values = {"die_mm2": made.die_mm2, "power_w": made.watts(clock), "usd": made.usd}
            least = {name: min(least[name], float(values[name].min())) for name in names}
    name = max(names, key=lambda each: least[each] / names[each].limit)
    listed = ", ".join(f"{least[each]:,.0f} {names[each].unit} of {names[each].limit:,.0f}" for each in names)
    return Infeasibility(
        resource=name,
        demand=least[name],
        limit=names[name].limit,
        unit=names[name].unit,
        levers=["higher limits", "fewer stacks or slower links, where the edge of a die is too short"],
        explanation=f"no chip is within all limits and has the edge for its memory and links; least each: {listed}",
        where={},
    )


def _memory(problem: ChipProblem, figures: BoxFigures, memory: Memory) -> Infeasibility:
    """The plan that needs the least memory, of the model that needs the most."""
    needs = []
    for model in range(len(problem.models)):
        least = []
        for precision in problem.precisions:
            asked, every = _families(problem, figures, model, precision, memory)
            if every.count:
                least.append(_least_bytes(asked, every))
        if not least:
            raise nothing_legal(asked)
        needs.append(min(least))
    number = int(np.argmax(needs))
    name, limit = problem.models[number][0].name, bytes_from_gib(memory.total_gb)
    return Infeasibility(
        resource="hbm_bytes",
        demand=needs[number],
        limit=float(limit),
        unit="bytes",
        levers=_MORE_MEMORY if needs[number] > limit else _MORE_SRAM,
        explanation=(
            f"no plan of {name} fits: the smallest needs {needed_memory_text(needs[number])} on its fullest rank, and "
            f"no chip within the limits has more than {memory_text(limit)}"
            if needs[number] > limit
            else f"plans of {name} fit, but no chip has the SRAM for its arrays and a tile of attention"
        ),
        where={"model": name},
    )


def _families(
    problem: ChipProblem, figures: BoxFigures, model: int, precision: str, memory: Memory
) -> tuple[PlanProblem, PlanList]:
    one = CoreDesigns(*(np.ones(1, dtype=np.int64) for _ in range(6)))
    machine = problem.machines(one, float(figures.clocks_hz[0]), memory)
    links = Links(figures.links[0], min(problem.space.scale_up.domains.values))
    asked = problem.plan_problem(model, precision, links, machine, memory)
    return asked, all_families(asked, RooflineKernels(asked, machine, np.ones(1), np.ones(1)))


def _least_bytes(asked: PlanProblem, every: PlanList) -> float:
    """Of the plans of families, the least memory."""
    order, least = np.argsort(every.memory_bytes, kind="stable"), np.inf
    for start in range(0, len(order), _FAMILIES):
        chosen = order[start : start + _FAMILIES]
        if every.memory_bytes[chosen[0]] >= least:
            break
        few = expanded(asked, every.part(chosen), 2**62, always=True)
        least = min(least, float(few.memory_bytes.min(initial=np.inf)))
    return least
