"""The least memory that a device needs for any pipeline: why nothing fits."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from dse.parallel.pipeline.cut_kernels import tails, windows
from dse.parallel.pipeline.exact import Cases, DeviceCuts
from dse.parallel.pipeline.problem import PipelineProblem


def least_memory_bytes(problem: PipelineProblem, device_cuts: Iterable[DeviceCuts]) -> int:
    """The fewest bytes of a device with which some plan has no faults, of those that cut devices in one of the ways.

    Bisection for the first way; of each further one only where it fits in less than that.
    """
    profile = problem.profile
    kept = int(profile.stash_bytes.sum() + profile.cut_bytes.max()) * problem.stages
    shared = sum(each.weight_bytes for each in profile.shared)
    least = int(problem.state_factor * (profile.weight_bytes.sum() + shared)) + kept + 1
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
    """The kernels' cases under the limit that was asked about last."""

    def __init__(self, problem: PipelineProblem) -> None:
        self._problem = problem
        self._limit_bytes = -1
        self._cases = Cases(problem)

    def fits(self, limit_bytes: int, cuts: DeviceCuts) -> bool:
        """Whether a plan fits into so many bytes."""
        if limit_bytes != self._limit_bytes:
            self._limit_bytes = limit_bytes
            self._cases = Cases(replace(self._problem, memory_bytes=limit_bytes))
        case = self._cases.case(cuts)
        window = windows(case, np.inf)
        if (window[0] > window[1]).any():
            return False
        return bool(np.isfinite(tails(case, np.inf, window)[0][0, 0]))
