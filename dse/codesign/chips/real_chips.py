"""Real chips that train the same, each with its best plans, by the same objective."""

from typing import Any

import numpy as np

from dse.codesign.chips.problem import ChipProblem
from dse.codesign.chips.silicon import Silicon, taken_by
from dse.plan.answer import enumerated
from dse.plan.chip_table import rests_on
from dse.plan.problem import PlanProblem
from hardware.silicon.chips import silicon
from hardware.silicon.power import power


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
    }
    taken: Silicon | None = None
    clock_hz = 0.0
    if made is not None:
        taken = taken_by(made)
        clock_hz = float(
            made.clock_hz if made.cap_w is None else power(made).capped_clock_hz(made.clock_hz, made.cap_w)
        )
        row |= {"power_w": float(taken.watts(clock_hz)[0]), "usd": float(taken.usd[0])}
    throughputs = [each[0] for each in fastest.values() if each is not None]
    if len(throughputs) == len(fastest) and (taken is not None or problem.objective.per == "throughput"):
        mean = float(problem.objective.score(np.array(throughputs)[:, None])[0])
        row["score"] = mean if taken is None else mean / float(np.asarray(problem.divisor(taken, clock_hz))[0])
    return row
