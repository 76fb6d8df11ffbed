"""Where pipelines may be cut: candidate pivots, and which of them leave room for the stages that follow.

A model has thousands of points, and most of them are not places to cut: among neighbours the one that sends the fewest
bytes is better. So points are taken in runs, and each run is represented by that one, where the paper takes every n-th
instruction (4.5.1). A candidate is a cut of the points, so that plans come back to instructions by themselves.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dse.parallel.pipeline.problem import RADIUS, DeviceCutting, Floats, Integers, PipelineProblem
from policies.parallel.episodes import Masks
from policies.parallel.pipeline.pricing import prefix

GRANULARITY = 128
"""Candidates at most (paper, 4.5.1)."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """Pivots of a problem, rising.

    Attributes:
        cuts: of the points, [P].
        devices: the device cut in front of which each stands, by its share of the computing, [P] (paper, 3.4).
        legal: whether a pivot may be cut s, with every later stage possible behind it, [K - 1, P].
        follows: whether one pivot may be the next cut behind another, for any stages, [P, P]; the first index is the
            earlier one.
    """

    cuts: Integers
    devices: Integers
    legal: Masks
    follows: Masks


def coarse_cuts(problem: PipelineProblem, granularity: int = GRANULARITY) -> Integers:
    """One cut of each of ``granularity`` even runs of the points, [P ≤ granularity]; fewer where points are fewer."""
    profile = problem.profile
    inner = np.arange(1, profile.points)
    if len(inner) <= granularity:
        return inner
    runs = np.array_split(inner, granularity)
    return np.array([run[np.argmin(profile.cut_bytes[run])] for run in runs])


def candidates(problem: PipelineProblem, cutting: DeviceCutting, granularity: int = GRANULARITY) -> Candidates:
    """The pivots that imply a device cut within the paper's radius of the centre solution, even parts (4.4, 5.2.3).

    Where they are many, one of each even share of the computing, the one that sends the fewest bytes.
    """
    stages, devices, profile = problem.stages, problem.devices, problem.profile
    work = prefix(profile.forward_s + problem.backward_s)
    center = [round(devices * cut / stages) for cut in range(1, stages)]
    inner = np.arange(1, profile.points)
    near = _near(_implied(work, inner, devices), center)
    cuts = _thinned(profile.cut_bytes, work, inner[near.any(0)], granularity)
    implied = _implied(work, cuts, devices)
    legal = _near(implied, center)
    variables = prefix(profile.variables)
    follows: Masks = variables[cuts][None, :] > variables[cuts][:, None]
    if cutting != "equal":
        follows &= implied[None, :] > implied[:, None]
    if stages > 1:
        legal[0] &= variables[cuts] > 0
        legal[-1] &= variables[cuts] < variables[-1]
    for stage in range(stages - 3, -1, -1):
        legal[stage] &= (follows & legal[stage + 1][None, :]).any(1)
    return Candidates(cuts, implied, legal, follows)


def _implied(work: Floats, cuts: Integers, devices: int) -> Integers:
    """Devices in front of each cut, shared by computing."""
    devices_before: Integers = np.clip(np.round(work[cuts] / work[-1] * devices), 1, devices - 1).astype(np.int64)
    return devices_before


def _near(devices: Integers, center: Sequence[int]) -> Masks:
    """Whether device cuts [P] are within the radius of each of the centre's, [K - 1, P]."""
    return np.array([np.abs(devices - each) <= RADIUS for each in center]).reshape(len(center), len(devices))


def _thinned(cut_bytes: Integers, work: Floats, cuts: Integers, granularity: int) -> Integers:
    """At most so many of the cuts: of each even share of the computing the one that sends the fewest bytes."""
    if len(cuts) <= granularity:
        return cuts
    shares, bins = work[cuts], 2 * granularity
    while True:
        run = np.minimum((shares - shares[0]) / (shares[-1] - shares[0] or 1.0) * bins, bins - 1).astype(np.int64)
        _, first = np.unique(run, return_index=True)
        if len(first) <= granularity:
            return np.array([each[np.argmin(cut_bytes[each])] for each in np.split(cuts, first[1:])])
        bins = bins * granularity // (len(first) + 1)
