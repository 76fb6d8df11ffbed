"""The shortest chain of stages, when it is known what each stage can take: a dynamic program over cuts and devices.

Chains grow from the last stage to the first. A label of a chain that begins at a cut and a device has

    through = Σ (F + B + 2 X)                           of its stages
    slowest = max(F + B, 2 X)
    exposed = max over s of (C_s - Σ (B_t + X_t))       over its stages t before s

and with all stages the step takes ``through + (M - 1) · slowest + max(0, exposed)``, which falls in none of them. So a
label is dropped where another one of the same state (cut, device, stages, devices of the first stage) is no larger in
all three; and where what is before it, on the D devices that are left, cannot be done in time. Of each piece
between neighbouring cuts it is known what any stage takes at least, by its devices: some stage in front takes 1 / D of
the least device seconds of all pieces in front, and all of them together take the sum of the least seconds.

Where labels of bounds are many, those are dropped too whose slowest and exposed times another one exceeds by a
tolerance at most; the bound is less by as much for each stage.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from dse.parallel.hybrid.chain_kernels import undominated
from dse.parallel.hybrid.problem import HybridProblem
from dse.parallel.pipeline.problem import Floats, Integers
from dse.run.progress import StopSignal, ask


class Point(NamedTuple):
    """What a stage can take: passes and backward pass of a microbatch, closing, and what follows it."""

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
    """The shortest chain: its time, infinite where there is none, what no chain is below, and its stages."""

    step_s: float
    bound_s: float
    links: tuple[Link, ...]


PointsOf = Callable[[int, int, int, int, float], Sequence[Point]]
"""(begin, end, width, stages behind, limit) → what such a stage can take; none where it cannot be.

A step takes at least the passes of all microbatches and the closing of any one of its stages, so that points where
these are above the limit may be left out.
"""

_State = tuple[int, int, int]
"""(first device, stages, devices of the first stage)"""


class _Place(NamedTuple):
    """Where a stage is put before labels: :class:`Link` without its point, and the points that it can take.

    ``times_s``: their passes, backward passes and closing, [3, points].
    """

    begin: int
    end: int
    first: int
    width: int
    behind: int
    points: Sequence[Point]
    times_s: Floats


class _Labels(NamedTuple):
    """Labels of one state, one per column.

    Attributes:
        times_s: through, slowest and exposed, [3, labels].
        origin: the place, the number of its point, and the label behind it, [3, labels].
    """

    times_s: Floats
    origin: Integers

    def only(self, chosen: Integers) -> "_Labels":
        """Some of them."""
        return _Labels(self.times_s[:, chosen], self.origin[:, chosen])


class _Grown:
    """Everything that one program makes: places, and labels that are kept for good."""

    def __init__(self, stages: int, points_of: PointsOf, limit_s: float) -> None:
        self.stages, self.limit_s = stages, limit_s
        self._points_of = points_of
        self._places: dict[tuple[int, int, int, int], tuple[Sequence[Point], Floats]] = {}
        self.places: list[_Place] = []
        self.settled: list[Integers] = []
        self.count = 0

    def place(self, begin: int, end: int, first: int, width: int, behind: int) -> _Place:
        """A stage at a place; its points are the same wherever its devices begin, and before any other stage."""
        key = begin, end, width, behind
        if key not in self._places:
            points = self._points_of(*key, self.limit_s)
            self._places[key] = points, np.array([each[:3] for each in points]).reshape(-1, 3).T
        return _Place(begin, end, first, width, behind, *self._places[key])

    def settle(self, labels: _Labels) -> Integers:
        """Keep labels, and number them, [labels]."""
        numbers = np.arange(self.count, self.count + labels.times_s.shape[1])
        self.settled.append(labels.origin)
        self.count += len(numbers)
        return numbers

    def links(self, number: int) -> tuple[Link, ...]:
        """The stages of a settled label, from the first on."""
        origin, links = np.concatenate(self.settled, axis=1), list[Link]()
        while origin[0, number] >= 0:
            place, point, number = origin[:, number].tolist()
            of = self.places[place]
            links.append(Link(of.begin, of.end, of.first, of.width, of.behind, of.points[point]))
        return tuple(links)


class ChainSearch:
    """The cuts and devices of a problem, with what does not depend on points.

    Args:
        problem: of the hybrid plan.
        stop: checked at each cut.
    """

    def __init__(self, problem: HybridProblem, stop: StopSignal) -> None:
        self._problem, self._stop = problem, stop
        base = problem.base
        self._ends = (0, *problem.cuts, problem.steps.points)
        work = np.concatenate(([0.0], np.cumsum(sum(base.passes_s(1)))))
        self._work_s = work[list(self._ends)]
        self._slack_s = problem.rounding_s / base.microbatches
        self._later = base.microbatches - 1
        self._ahead: dict[int, tuple[Floats, Floats]] = {}
        pieces_s = np.maximum(0.0, np.diff(self._work_s) - self._slack_s)
        self.passes_s = {width: pieces_s / width for width in problem.widths}
        variables = np.concatenate(([0], np.cumsum(base.profile.variables)))
        self._variables = variables[list(self._ends)]
        self._send_s = lru_cache(maxsize=None)(self._sent_s)

    @property
    def passes_s(self) -> Mapping[int, Floats]:
        """By the devices of a stage, what it takes at least a microbatch of each piece between neighbouring cuts.

        At first their work, evenly shared.
        """
        return self._passes_s

    @passes_s.setter
    def passes_s(self, passes_s: Mapping[int, Floats]) -> None:
        self._passes_s = passes_s
        self._ahead.clear()

    @cached_property
    def min_s(self) -> float:
        """No chain is shorter: all devices busy all the time."""
        base = self._problem.base
        return max(0.0, float(self._work_s[-1]) - self._slack_s) / base.devices * base.microbatches

    def shortest(self, points_of: PointsOf, limit_s: float, tolerance_s: float = 0.0) -> Chain:
        """The shortest chain of less than ``limit_s``, or one whose bound is lower by the tolerance for each stage.

        Raises:
            StoppedError: ``stop`` gave a reason.
        """
        last, stages = len(self._ends) - 1, self._problem.base.stages
        grown = _Grown(stages, points_of, limit_s)
        open_: list[dict[_State, list[_Labels]]] = [defaultdict(list) for _ in self._ends]
        start = _Labels(np.zeros((3, 1)), np.full((3, 1), -1))
        open_[last][self._problem.base.devices, 0, 0].append(start)
        best_s, best = np.inf, -1
        for end in range(last, -1, -1):
            ask(self._stop)
            for state, parts in open_[end].items():
                labels = self._undominated(parts, tolerance_s if end < last else 0.0)
                numbers = grown.settle(labels)
                if end > 0:
                    self._extend(open_, end, state, labels.times_s, numbers, grown)
                elif (steps_s := self._steps_s(labels.times_s)).min(initial=np.inf) < best_s:
                    best_s, best = float(steps_s.min()), int(numbers[steps_s.argmin()])
            open_[end].clear()
        slack_s = tolerance_s * stages
        if best_s >= limit_s:
            return Chain(np.inf, limit_s - slack_s, ())
        return Chain(best_s, best_s - slack_s, grown.links(best))

    def _steps_s(self, times_s: Floats) -> Floats:
        through_s, slowest_s, exposed_s = times_s
        steps_s: Floats = through_s + self._later * slowest_s + np.maximum(0.0, exposed_s)
        return steps_s

    def _undominated(self, parts: list[_Labels], tolerance_s: float) -> _Labels:
        """Those labels that no other is at most as large as in all three, give or take the tolerance."""
        labels = _Labels(*(np.concatenate(arrays, axis=1) for arrays in zip(*parts, strict=True)))
        order = np.lexsort(labels.times_s[::-1])
        _, slowest_s, exposed_s = np.ascontiguousarray(labels.times_s[:, order])
        of_slowest_s = tolerance_s / 2 / self._later if self._later else 0.0
        return labels.only(order[undominated(slowest_s, exposed_s, of_slowest_s, tolerance_s / 2)])

    def _extend(
        self, open_: list[dict[_State, list[_Labels]]], end: int, state: _State, times_s: Floats, numbers: Integers,
        grown: _Grown,
    ) -> None:  # fmt: skip
        """Put a stage before each label of a state, in all ways that can be in time."""
        (stop, behind, next_width), limit_s = state, grown.limit_s
        if behind == grown.stages:
            return
        fastest_s = float((times_s[0] + self._later * times_s[1]).min())
        for width in self._problem.widths:
            first = stop - width
            if first < 0 or first % min(width, self._problem.server):
                continue
            send_s = self._send_s(end, first, stop, stop + next_width)
            for begin in range(end - 1, -1, -1):
                own_s = max(0.0, self._work_s[end] - self._work_s[begin] - self._slack_s) / width
                if fastest_s + own_s > limit_s or self._later * own_s > limit_s:
                    break
                if (first == 0) != (begin == 0) or not self._is_possible(begin, end, first, limit_s):
                    continue
                place = grown.place(begin, end, first, width, behind)
                labels = self._with_stage(times_s, numbers, send_s, place, len(grown.places), limit_s)
                if labels is not None:
                    grown.places.append(place)
                    open_[begin][first, behind + 1, width].append(labels)

    def _is_possible(self, begin: int, end: int, first: int, limit_s: float) -> bool:
        """Whether the stage reads a trained tensor, and what is before it can be done in time."""
        if self._variables[begin] == self._variables[end]:
            return False
        if begin == 0:
            return True
        slowest_s, together_s = self._ahead_s(begin, first)
        return self._later * slowest_s + together_s <= limit_s

    def _ahead_s(self, begin: int, first: int) -> tuple[float, float]:
        """What some stage before a piece takes a microbatch at least on the devices that are left; all of them."""
        if begin == 0:
            return 0.0, 0.0
        if first not in self._ahead:
            rows = {width: each for width, each in self._passes_s.items() if width <= first}
            device_s = np.min([width * each for width, each in rows.items()], axis=0)
            slowest_s = np.cumsum(device_s) / first
            self._ahead[first] = slowest_s, np.maximum(slowest_s, np.cumsum(np.min(list(rows.values()), axis=0)))
        slowest_s, together_s = self._ahead[first]
        return float(slowest_s[begin - 1]), float(together_s[begin - 1])

    def _with_stage(
        self, times_s: Floats, numbers: Integers, send_s: float, place: _Place, number: int, limit_s: float
    ) -> _Labels | None:
        """The labels with a stage before them that can be in time; None where there are none."""
        if not place.points:
            return None
        passes_s, backward_s, closing_s = place.times_s[:, :, None]
        slowest_ahead_s, ahead_s = self._ahead_s(place.begin, place.first)
        through_s = times_s[0] + passes_s + 2 * send_s
        slowest_s = np.maximum(times_s[1], np.maximum(passes_s, 2 * send_s))
        exposed_s = np.maximum(closing_s, times_s[2] - backward_s - send_s)
        # Each stage in front adds as much to ``through`` as it can take off ``exposed``, or more.
        min_s = through_s + np.maximum(exposed_s, ahead_s) + self._later * np.maximum(slowest_s, slowest_ahead_s)
        points, labels = np.nonzero(min_s < limit_s)
        if len(points) == 0:
            return None
        times = np.array([each[points, labels] for each in (through_s, slowest_s, exposed_s)])
        return _Labels(times, np.array([np.full(len(points), number), points, numbers[labels]]))

    def _sent_s(self, end: int, first: int, stop: int, behind: int) -> float:
        """The transfer behind a stage, one way."""
        base = self._problem.base
        if stop == behind:
            return 0.0
        size = int(base.profile.cut_bytes[self._ends[end]]) / base.microbatches
        return base.network.stage_transfer_s(size, range(first, stop), range(stop, behind))
