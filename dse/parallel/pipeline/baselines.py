"""Pipelines that need no search, to compare with."""

import itertools
from dataclasses import replace

import numpy as np

from dse.parallel.pipeline.exact import solve
from dse.parallel.pipeline.length import faults
from dse.parallel.pipeline.problem import PipelinePlan, PipelineProblem
from dse.parallel.pipeline.question import PipelineQuestion

DATA_PARALLEL, EVEN, GIVEN = "one stage", "equal stages", "cuts from the profile"


def baselines(question: PipelineQuestion) -> dict[str, tuple[PipelineProblem, PipelinePlan]]:
    """By name, each with the problem that it answers, without a limit of memory; those that there are.

    ``one stage``: data parallelism over all devices. ``equal stages``: as many devices in each, if they divide evenly,
    and about as much computing (:func:`even_plan`). ``cuts from the profile``: the plan of another planner that is in
    the profile, with the devices that are best for its cuts.
    """
    unlimited = replace(question.problem, memory_bytes=None)
    baselines = {DATA_PARALLEL: (replace(unlimited, stages=1), PipelinePlan((), ()))}
    plan = even_plan(unlimited)
    if not faults(unlimited, plan):
        baselines[EVEN] = (unlimited, plan)
    given = question.source.given
    if given is not None and len(given) == unlimited.stages - 1:
        places = [range(cut, cut + 1) for cut in given]
        best = solve(unlimited, question.context().device_cuts(), places=places).plan
        if best is not None:
            baselines[GIVEN] = (unlimited, best)
    return baselines


def even_plan(problem: PipelineProblem) -> PipelinePlan:
    """Stages of about equal computing on equally many devices; it may have faults where points are few.

    Each cut is the one that sends least of those at which the computing so far is within :data:`_SLACK` of a stage of
    its share; of equal ones the nearest.
    """
    profile = problem.profile
    work_s = np.concatenate(([0.0], np.cumsum(profile.forward_s + problem.backward_s)))
    edges = [round(problem.devices * stage / problem.stages) for stage in range(problem.stages + 1)]
    cuts = []
    for device in edges[1:-1]:
        away_s = np.abs(work_s - work_s[-1] * device / problem.devices)
        away_s[[0, -1]] = np.inf
        near = np.flatnonzero(away_s <= max(float(work_s[-1]) * _SLACK / problem.stages, float(away_s.min())))
        cuts.append(min(near.tolist(), key=lambda cut: (int(profile.cut_bytes[cut]), float(away_s[cut]))))
    return PipelinePlan(_rising(cuts), tuple(edges[1:-1]))


_SLACK = 0.1


def _rising(cuts: list[int]) -> tuple[int, ...]:
    """The same cuts, each at least one behind the one before."""
    return tuple(itertools.accumulate(cuts, lambda before, cut: max(cut, before + 1)))
