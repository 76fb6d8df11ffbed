"""Searches that learn nothing, to compare with: they begin from equally many plans of the same coarse problem.

The shortest plans of each can then be improved alike (:func:`~policies.parallel.pipeline.improvement.improve`). That
prices many more, not equally many for all; all of them count in ``Best.evaluations``.
"""

import numpy as np

from dse.parallel.pipeline.baselines import even_plan
from dse.parallel.pipeline.length import faults
from dse.parallel.pipeline.problem import Integers
from policies.parallel.pipeline.improvement import improve
from policies.parallel.pipeline.inference import LAYOUT, Coarse, InferenceEpisodes
from policies.parallel.pipeline.online import Best

_ROUND = 50

_COOLING = (0.1, 1e-4)
"""Temperature at the beginning and at the end, over the length of the first plan."""


def drawn_plans(seen: Coarse, evaluations: int, seed: int | tuple[int, ...]) -> Best:
    """The best of so many random plans as they are."""
    best, draw = Best(), np.random.default_rng(seed)
    while best.evaluations < evaluations:
        _play(seen, min(_ROUND, evaluations - best.evaluations), best, draw)
    return best


def annealed_as_it_is(seen: Coarse, evaluations: int, seed: int | tuple[int, ...], start: Best | None = None) -> Best:
    """Simulated annealing: one cut moves along the candidates, or one device cut by one.

    Args:
        seen: the problem.
        evaluations: of plans, the first included.
        seed: of all random choices.
        start: has the first plan; None: a random one.
    """
    best, draw = Best(), np.random.default_rng(seed)
    if start is None:
        _play(seen, 1, best, draw)
    else:
        best = Best(start.shortest[:1], 1)
    if best.plan is None:
        return best
    now, now_s = best.plan, best.length_s
    first_s, problem = now_s, seen.pricing.problem
    variables = problem.profile.variables
    for turn in range(evaluations - 1):
        cuts, ranks = np.array(now.cuts), np.array(now.device_cuts)
        which = int(draw.integers(len(cuts)))
        if draw.random() < 0.5 or seen.cutting == "equal":
            place = int(np.searchsorted(seen.cuts, cuts[which])) + int(draw.integers(1, 9)) * int(draw.choice([-1, 1]))
            cuts[which] = seen.cuts[np.clip(place, 0, len(seen.cuts) - 1)]
        else:
            ranks[which] += int(draw.choice([-1, 1]))
        trial = Best()
        if _is_legal(seen, cuts, ranks, variables):
            trial.take(cuts[None], ranks[None], seen.pricing.prices(cuts[None], ranks[None]))
        best.evaluations += 1
        share = turn / max(1, evaluations - 2)
        temperature_s = first_s * _COOLING[0] * (_COOLING[1] / _COOLING[0]) ** share
        if trial.plan is not None and draw.random() < np.exp(min(0.0, (now_s - trial.length_s) / temperature_s)):
            now, now_s = trial.plan, trial.length_s
            best.add(now, now_s)
    return best


def even(seen: Coarse) -> Best:
    """The plan of :func:`even_as_it_is`, improved."""
    best = even_as_it_is(seen)
    improve(seen, best)
    return best


def even_as_it_is(seen: Coarse) -> Best:
    """Stages of about equal computing, cut where little is sent (:func:`dse.parallel.pipeline.baselines.even_plan`).

    Returns:
        Without a plan where that one has faults, as a stage without trained tensors.
    """
    best, problem = Best(), seen.pricing.problem
    plan = even_plan(problem)
    if faults(problem, plan):
        return Best(evaluations=1)
    cuts, ranks = np.array([plan.cuts]), np.array([plan.device_cuts])
    best.take(cuts, ranks, seen.pricing.prices(cuts, ranks))
    return best


def _play(seen: Coarse, count: int, best: Best, draw: np.random.Generator) -> None:
    """So many random episodes."""
    episodes = InferenceEpisodes([seen] * count, [best] * count)
    running = np.ones(count, dtype=bool)
    while running.any():
        masks = LAYOUT.parts(episodes.observations())[2] > 0
        if not masks.any():
            return
        _, ended = episodes.step(np.where(masks, draw.random(masks.shape), -1.0).argmax(1))
        running = ~ended


def _is_legal(seen: Coarse, cuts: Integers, ranks: Integers, variables: Integers) -> bool:
    problem = seen.pricing.problem
    edges, devices = np.array([0, *cuts, len(variables)]), np.array([0, *ranks, problem.devices])
    if (np.diff(edges) < 1).any() or (np.diff(devices) < 1).any():
        return False
    center = problem.devices * np.arange(1, problem.stages) / problem.stages
    return bool((np.abs(ranks - center) <= seen.radius).all() and np.add.reduceat(variables, edges[:-1]).all())
