"""Real chips that train the same, each with its best plans, by the same objective."""

from typing import Any

import numpy as np

from dse.codesign.chips.problem import ChipProblem
from dse.codesign.chips.silicon import Silicon, taken_by
from dse.plan.answer import enumerated
from dse.plan.chip_table import rests_on
from dse.plan.problem import PlanProblem
from dse.report.chip_silicon import priced_chip
from hardware.silicon.chips import silicon
from hardware.silicon.interval import total


def real_chips(problem: ChipProblem) -> list[dict[str, Any]]:
    """A row for each, in JSON types."""
    return [_row(problem, asked) for asked in problem.chips]


def _row(problem: ChipProblem, asked: tuple[PlanProblem, ...]) -> dict[str, Any]:
    name = asked[0].system.chip.name
    fastest: dict[str, tuple[float, Any] | None] = {}
    for model, _ in problem.models:
        best = [found for each in asked if each.model.name == model.name and (found := enumerated(each).best)]
        chosen = min(best, key=lambda priced: priced.step_s, default=None)
        fastest[model.name] = None if chosen is None else (problem.global_batch / chosen.step_s, chosen.plan.document())
    made = silicon(name)
    row: dict[str, Any] = {
        "name": name,
        "score": None,
        "throughputs": {model: None if each is None else each[0] for model, each in fastest.items()},
        "plans": {model: None if each is None else each[1] for model, each in fastest.items()},
        "power_w": None,
        "usd": None,
        "basis": rests_on(asked[0]),
    } | intervals(name)
    taken: Silicon | None = None
    clock_hz = 0.0
    if made is not None:
        taken, clock_hz = taken_by(made), priced_chip(name, made).clock_hz
        row |= {"power_w": float(taken.watts(clock_hz)[0]), "usd": float(taken.usd[0])}
    throughputs = [each[0] for each in fastest.values() if each is not None]
    if len(throughputs) == len(fastest) and (taken is not None or problem.objective.per == "throughput"):
        mean = float(problem.objective.score(np.array(throughputs)[:, None])[0])
        row["score"] = mean if taken is None else mean / float(np.asarray(problem.divisor(taken, clock_hz))[0])
    return row


def intervals(name: str) -> dict[str, list[float] | None]:
    """The lowest and highest power and cost that the sources allow; None where it is not known what the chip is of."""
    made = silicon(name)
    if made is None:
        return {"power_interval_w": None, "usd_interval": None}
    shown = priced_chip(name, made)
    watts, usd = shown.sustained_w, total(shown.lines.values())
    return {
        "power_interval_w": [float(watts.low), float(watts.high)],
        "usd_interval": [float(usd.low), float(usd.high)],
    }
