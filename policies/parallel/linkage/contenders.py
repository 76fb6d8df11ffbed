"""Searches that learn nothing, to compare with at equal numbers of episodes; all decide the same dimensions in the same
order.
"""

import numpy as np

from dse.algorithms.cp_sat import solved
from dse.results.result import FailedCheckError
from policies.parallel.episodes import Masks
from policies.parallel.linkage.dimensions import Decided, Dimensions, Integers
from policies.parallel.linkage.episodes import OPEN, DecisionSource, SplitPlan

_PROOF_TIME = 300.0
"""CP-SAT's deterministic seconds for the proof."""


def max_dimensions(of: Dimensions) -> int:
    """The most dimensions that can be split without a conflict, proven by CP-SAT.

    Raises:
        FailedCheckError: it proved none.
    """
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    taken = [model.new_bool_var("") for _ in of.numbers]
    for one, other in np.argwhere(np.triu(of.excludes)).tolist():
        model.add_at_most_one(taken[one], taken[other])
    for group in np.flatnonzero(~of.splittable).tolist():
        model.add(taken[group] == 0)
    model.maximize(sum(int(weight) * each for weight, each in zip(of.weights, taken, strict=True)))
    solver, status = solved(model, _PROOF_TIME)
    if status != cp_model.OPTIMAL:
        raise FailedCheckError(f"CP-SAT ended with {solver.status_name(status)}, not with a proven optimum")
    return round(solver.objective_value)


def random_decisions(of: Dimensions, decided: Decided, episodes: int, seed: int) -> int:
    """The most dimensions that random decisions split without a conflict."""
    source, draw = DecisionSource(of, decided == "variables"), np.random.default_rng(seed)
    while source.evaluations + source.conflicts < episodes:
        count = min(16, episodes - source.evaluations - source.conflicts)
        running, ended = source.episodes(0, count), np.zeros(count, dtype=bool)
        while not ended.all():
            _, ended = running.step(draw.integers(0, 2, count))
    return source.best.dimensions if source.best else 0


def greedy(of: Dimensions, _decided: Decided, _episodes: int, _seed: int) -> int:
    """The dimensions of :func:`greedy_plan`: one episode."""
    return greedy_plan(of).dimensions


def greedy_plan(of: Dimensions) -> SplitPlan:
    """Groups in their order, each split unless a split one excludes it."""
    split = _split(of, of.first.argsort(), np.ones(len(of.numbers), dtype=bool))
    return SplitPlan(tuple(sorted(split)), int(of.weights[split].sum()))


def annealed(of: Dimensions, _decided: Decided, episodes: int, seed: int) -> int:
    """Groups are requested or dropped in turn; requested groups are split in order, where possible."""
    draw, order = np.random.default_rng(seed), of.first.argsort()
    wanted = draw.random(len(of.numbers)) < 0.5
    now = best = _value(of, order, wanted)
    start = max(1.0, float(of.weights.max(initial=1)) / 2)
    for turn in range(1, episodes):
        other = wanted.copy()
        other[draw.integers(len(wanted))] ^= True
        value = _value(of, order, other)
        if value >= now or draw.random() < np.exp((value - now) / (start * 0.01 ** (turn / episodes))):
            wanted, now, best = other, value, max(best, value)
    return best


def _value(of: Dimensions, order: Integers, wanted: Masks) -> int:
    return int(of.weights[_split(of, order, wanted)].sum())


def _split(of: Dimensions, order: Integers, wanted: Masks) -> list[int]:
    """The groups that are split where so many are wanted."""
    statuses, split = np.full(len(of.numbers), OPEN), list[int]()
    for group in order.tolist():
        if wanted[group] and statuses[group] == OPEN and of.splittable[group]:
            statuses[of.excludes[group]] = 0
            split.append(group)
    return split
