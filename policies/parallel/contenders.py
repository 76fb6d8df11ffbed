"""Searches without learning over the same pivots, to compare with at equal evaluations."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from dse.parallel.pipeline.exact import Answer
from dse.parallel.pipeline.methods import PipelineContext
from policies.parallel.environment import PivotEnvironment
from policies.parallel.online import AT_A_TIME, Best, environment_of, whole

Integers = npt.NDArray[np.int64]

COOLING = 1e-3
"""Last temperature of annealing over the first."""


def random(environment: PivotEnvironment, evaluations: int, seed: int) -> Best:
    """Each cut at an allowed pivot, all equally likely."""
    draw, best = np.random.default_rng(seed), Best()
    while environment.prices.evaluations < evaluations:
        count = min(AT_A_TIME, evaluations - environment.prices.evaluations)
        _keep(environment, best, _drawn(environment, count, draw))
    return best


def greedy(environment: PivotEnvironment, evaluations: int, seed: int) -> Best:
    """One cut after the other to its best pivot, the others held, until none moves; then again from a random plan."""
    draw, best, used = np.random.default_rng(seed), Best(), environment.prices
    while used.evaluations < evaluations:
        plan = _drawn(environment, 1, draw)
        cost_s = _keep(environment, best, plan)[0]
        improved = True
        while improved and used.evaluations < evaluations:
            improved = False
            for stage in range(environment.stages - 1):
                others = _neighbours(environment, plan[0], stage)[: evaluations - used.evaluations]
                if not len(others):
                    continue
                costs_s = _keep(environment, best, others)
                place = int(costs_s.argmin())
                if costs_s[place] < cost_s:
                    plan, cost_s, improved = others[place : place + 1], costs_s[place], True
    return best


def annealing(environment: PivotEnvironment, evaluations: int, seed: int) -> Best:
    """One cut is moved at a time, by a number of pivots whose scale falls with the temperature (Kirkpatrick et al.,
    1983); the first temperature is the spread of random plans, and it falls geometrically."""
    draw, best, used = np.random.default_rng(seed), Best(), environment.prices
    plans = _drawn(environment, max(1, min(AT_A_TIME, evaluations // 2)), draw)
    costs_s = _keep(environment, best, plans)
    plan, cost_s = plans[costs_s.argmin()], float(costs_s.min())
    finite = costs_s[np.isfinite(costs_s)]
    start_s = float(finite.std()) if len(finite) > 1 else environment.ideal_s
    first = used.evaluations
    while used.evaluations < evaluations:
        done = (used.evaluations - first) / max(1, evaluations - first)
        temperature_s = max(start_s, environment.ideal_s * COOLING) * COOLING**done
        stage = int(draw.integers(environment.stages - 1))
        others = _neighbours(environment, plan, stage)
        if not len(others):
            # No cut can move: nothing is left to try.
            if not any(len(_neighbours(environment, plan, each)) for each in range(environment.stages - 1)):
                break
            continue
        away = np.abs(others[:, stage] - plan[stage])
        nearby = np.exp(-away / max(1.0, environment.actions / 8 * (1 - done)))
        other = others[draw.choice(len(others), p=nearby / nearby.sum())]
        new_s = float(_keep(environment, best, other[None])[0])
        if new_s <= cost_s or draw.random() < np.exp((cost_s - new_s) / temperature_s):
            plan, cost_s = other, new_s
    return best


CONTENDERS: Mapping[str, Callable[[PivotEnvironment, int, int], Best]] = MappingProxyType(
    {"random": random, "greedy": greedy, "annealing": annealing}
)


def contend(name: str, context: PipelineContext, evaluations: int) -> Answer:
    """The shortest of so many plans by a contender's name."""
    if context.problem.stages == 1:
        return whole(context.problem)
    environment = environment_of(context)
    if environment is None:
        return Best().answer(0)
    best = CONTENDERS[name](environment, evaluations, context.seed)
    return best.answer(environment.prices.evaluations)


def _keep(environment: PivotEnvironment, best: Best, plans: Integers) -> npt.NDArray[np.float64]:
    """What plans cost, infinite where they do not fit; the best is kept."""
    priced = environment.priced(plans)
    best.consider(environment.prices.problem, environment.pivots.cuts[plans], priced)
    return priced.costs_s


def _drawn(environment: PivotEnvironment, count: int, draw: np.random.Generator) -> Integers:
    plans = np.zeros((count, environment.stages - 1), dtype=np.int64)
    for stage in range(environment.stages - 1):
        previous = plans[:, stage - 1] if stage else np.full(count, -1)
        mask = environment.mask(stage, previous)
        plans[:, stage] = (draw.random(mask.shape) * mask).argmax(1)
    return plans


def _neighbours(environment: PivotEnvironment, plan: Integers, stage: int) -> Integers:
    """The same plan with cut ``stage`` at every other pivot where both stages beside it stay legal, [n, K - 1]."""
    pivots = environment.pivots
    previous = plan[stage - 1 : stage] if stage else np.full(1, -1)
    mask = environment.mask(stage, previous)[0]
    if stage + 1 < len(plan):
        mask = mask & environment.mask(stage + 1, np.arange(pivots.count))[:, plan[stage + 1]]
    mask[plan[stage]] = False
    places = np.flatnonzero(mask)
    plans = np.repeat(plan[None], len(places), axis=0)
    plans[:, stage] = places
    return plans
