"""The shortest chain of stages, when it is known what each stage can take: a dynamic program over cuts and devices.

Chains grow from the last stage to the first. A label of a chain that begins at a cut and a device has

    through = Σ (F + B + 2 X)                           of its stages
    slowest = max(F + B, 2 X)
    exposed = max over s of (C_s - Σ (B_t + X_t))       over its stages t in front of s

and with all stages the step takes ``through + (M - 1) · slowest + max(0, exposed)``, which falls in none of them. So a
label is dropped where another one of the same state (cut, device, stages, devices of the first stage) is no larger in
all three; and where the work in front of it, on all devices that are left, cannot be done in time: with D devices, some
stage of it takes at least 1 / (M · D) of it a microbatch.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from dse.parallel.hybrid.problem import HybridProblem
from dse.run.progress import StopSignal, ask


class Point(NamedTuple):
    """What a stage can take: passes and backward pass of a microbatch, closing, and what stands behind it."""

    passes_s: float
    backward_s: float
    closing_s: float
    choice: Any


class Link(NamedTuple):
    """A stage of a chain: pieces from ``begin`` up to ``end``, its first device and their number, and its point."""

    begin: int
    end: int
    first: int
    width: int
    behind: int
    point: Point


class Chain(NamedTuple):
    """The shortest chain: its time, infinite where there is none, and its stages."""

    step_s: float
    links: tuple[Link, ...]


PointsOf = Callable[[int, int, int, int, float], Sequence[Point]]
"""(begin, end, width, stages behind, limit) → what such a stage can take; none where it cannot be.

A step takes at least the passes of all microbatches and the closing of any one of its stages, so that points where
these are above the limit may be left out.
"""

_Label = tuple[float, float, float, Link | None, Any]
"""through, slowest and exposed, the first stage, and the label behind it"""


_State = tuple[int, int, int]
"""(first device, stages, devices of the first stage)"""


class ChainSearch:
    """The cuts and devices of a problem, with what does not depend on points.

    Args:
        problem: of the hybrid plan.
        stop: asked at each cut.
    """

    def __init__(self, problem: HybridProblem, stop: StopSignal) -> None:
        self._problem, self._stop = problem, stop
        base = problem.base
        self._ends = (0, *problem.cuts, problem.steps.points)
        work = np.concatenate(([0.0], np.cumsum(sum(base.passes_s(1)))))
        self._work_s = work[list(self._ends)]
        self._slack_s = problem.rounding_s / base.microbatches
        variables = np.concatenate(([0], np.cumsum(base.profile.variables)))
        self._variables = variables[list(self._ends)]
        self._send_s = lru_cache(maxsize=None)(self._sent_s)

    @cached_property
    def least_s(self) -> float:
        """No chain is shorter: all devices busy all the time."""
        base = self._problem.base
        return max(0.0, float(self._work_s[-1]) - self._slack_s) / base.devices * base.microbatches

    def shortest(self, points_of: PointsOf, limit_s: float) -> Chain:
        """The shortest chain of less than ``limit_s``.

        Raises:
            StoppedError: ``stop`` gave a reason.
        """
        last = len(self._ends) - 1
        open_: list[dict[_State, list[_Label]]] = [defaultdict(list) for _ in self._ends]
        open_[last][self._problem.base.devices, 0, 0] = [(0.0, 0.0, 0.0, None, None)]
        for end in range(last, 0, -1):
            ask(self._stop)
            for state, labels in open_[end].items():
                self._extend(open_, end, state, labels, points_of, limit_s)
            open_[end].clear()
        final = [label for labels in open_[0].values() for label in labels]
        best = min(final, key=self._step_s, default=None)
        if best is None or self._step_s(best) >= limit_s:
            return Chain(np.inf, ())
        step_s, links = self._step_s(best), []
        while best is not None and best[3] is not None:
            links.append(best[3])
            best = best[4]
        return Chain(step_s, tuple(links))

    def _step_s(self, label: _Label) -> float:
        later = self._problem.base.microbatches - 1
        return label[0] + later * label[1] + max(0.0, label[2])

    def _extend(
        self, open_: list[dict[_State, list[_Label]]], end: int, state: _State, labels: list[_Label],
        points_of: PointsOf, limit_s: float,
    ) -> None:  # fmt: skip
        """Put a stage in front of each label of a state, in all ways that can be in time."""
        stop, behind, next_width = state
        if behind == self._problem.base.stages:
            return
        later = self._problem.base.microbatches - 1
        fastest_s = min(label[0] + later * label[1] for label in labels)
        for width in self._problem.widths:
            first = stop - width
            if first < 0 or first % min(width, self._problem.server):
                continue
            send_s = self._send_s(end, first, stop, stop + next_width)
            for begin in range(end - 1, -1, -1):
                own_s = max(0.0, self._work_s[end] - self._work_s[begin] - self._slack_s) / width
                if fastest_s + own_s > limit_s or later * own_s > limit_s:
                    break
                if (first == 0) != (begin == 0) or not self._is_possible(begin, end, first, limit_s):
                    continue
                points = points_of(begin, end, width, behind, limit_s)
                grown = self._grown(labels, points, send_s, (begin, end, first, width, behind), limit_s)
                if grown:
                    key = (first, behind + 1, width)
                    open_[begin][key] = _pareto(open_[begin][key] + grown)

    def _is_possible(self, begin: int, end: int, first: int, limit_s: float) -> bool:
        """Whether the stage reads a trained tensor, and what is in front of it can be done in time."""
        if self._variables[begin] == self._variables[end]:
            return False
        if begin == 0:
            return True
        return self._ahead_s(begin, first) * self._problem.base.microbatches <= limit_s

    def _ahead_s(self, begin: int, first: int) -> float:
        """What some stage in front takes a microbatch at least, on all devices that are left."""
        return max(0.0, float(self._work_s[begin]) - self._slack_s) / first if begin else 0.0

    def _grown(
        self, labels: list[_Label], points: Sequence[Point], send_s: float, place: tuple[int, int, int, int, int],
        limit_s: float,
    ) -> list[_Label]:  # fmt: skip
        """The labels with a stage in front of them that can be in time."""
        begin, end, first, width, behind = place
        later = self._problem.base.microbatches - 1
        ahead_s = self._ahead_s(begin, first)
        grown: list[_Label] = []
        for point in points:
            link = Link(begin, end, first, width, behind, point)
            own_s, drain_s = point.passes_s + 2 * send_s, point.backward_s + send_s
            floor_s, closing_s = max(point.passes_s, 2 * send_s), point.closing_s
            for label in labels:
                through_s, slowest_s = label[0] + own_s, max(label[1], floor_s)
                exposed_s = max(closing_s, label[2] - drain_s)
                # Each stage in front adds as much to ``through`` as it can take off ``exposed``, or more.
                least_s = through_s + max(exposed_s, ahead_s) + later * max(slowest_s, ahead_s)
                if least_s < limit_s:
                    grown.append((through_s, slowest_s, exposed_s, link, label))
        return grown

    def _sent_s(self, end: int, first: int, stop: int, behind: int) -> float:
        """The transfer behind a stage, one way."""
        base = self._problem.base
        if stop == behind:
            return 0.0
        size = int(base.profile.cut_bytes[self._ends[end]]) / base.microbatches
        return base.network.stage_transfer_s(size, range(first, stop), range(stop, behind))


def _pareto(labels: list[_Label]) -> list[_Label]:
    """Those labels that no other is at most as large as in all three."""
    found: list[_Label] = []
    for label in sorted(labels, key=lambda each: each[:3]):
        if not any(each[1] <= label[1] and each[2] <= label[2] for each in found):
            found.append(label)
    return found
