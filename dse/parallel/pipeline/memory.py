"""The least memory that a device needs for any pipeline: why nothing fits."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from dse.parallel.pipeline.cut_kernels import Case
from dse.parallel.pipeline.exact import Cases, DeviceCuts
from dse.parallel.pipeline.problem import PipelineProblem


def min_memory_bytes(problem: PipelineProblem, device_cuts: Iterable[DeviceCuts]) -> int:
    """The fewest bytes of a device with which some plan has no faults, of those that cut devices in one of the ways.

    Bisection for the first way; of each further one only where it fits in less than that.
    """
    profile = problem.profile
    activation_bytes = int(profile.stash_bytes.sum() + profile.cut_bytes.max()) * problem.stages
    shared = sum(each.weight_bytes for each in profile.shared)
    least = int(problem.state_factor * (profile.weight_bytes.sum() + shared)) + activation_bytes + 1
    limited = _Limited(problem)
    for cuts in device_cuts:
        if limited.fits(least - 1, cuts):
            low = 0
            while low < least:
                middle = (low + least) // 2
                if limited.fits(middle, cuts):
                    least = middle
                else:
                    low = middle + 1
    return least


class _Limited:
    """The kernels' cases under the last memory limit."""

    def __init__(self, problem: PipelineProblem) -> None:
        self._problem = problem
        self._limit_bytes = -1
        self._cases = Cases(problem)

    def fits(self, limit_bytes: int, cuts: DeviceCuts) -> bool:
        """Whether a plan fits into so many bytes."""
        if limit_bytes != self._limit_bytes:
            self._limit_bytes = limit_bytes
            self._cases = Cases(replace(self._problem, memory_bytes=limit_bytes))
        return _has_plan(self._cases.case(cuts))


def _has_plan(case: Case) -> bool:
    """Whether some cuts leave every stage with a variable and in its memory; O(K · N).

    Of each cut whether a stage can begin there, stage after stage: one that begins at a cut may end at any from the
    first with more variables to the last that fits. :func:`.cut_kernels.tails` does not tell: where stages keep their
    inputs, one that begins later need not fit as far, and it takes the furthest of all starts.
    """
    points = len(case.variables) - 1
    first_end = np.searchsorted(case.variables, case.variables, side="right")
    begins = np.arange(points + 1) == 0
    for stage, fits in enumerate(case.fits):
        starts = np.flatnonzero(begins & (first_end <= fits))
        steps = np.zeros(points + 2, dtype=np.int64)
        np.add.at(steps, first_end[starts], 1)
        np.add.at(steps, fits[starts] + 1, -1)
        begins = steps[:-1].cumsum() > 0
        begins[: case.places[0, stage + 1]] = False
        begins[case.places[1, stage + 1] + 1 :] = False
    return bool(begins[points])
