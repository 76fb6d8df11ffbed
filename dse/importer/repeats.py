"""The longest repetition in a sequence of steps, by comparing the sequence with itself at every distance."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Repetition:
    """``repeats`` equal bodies of ``period`` steps from ``start`` on; the body may be rotated by up to ``slack``."""

    start: int
    period: int
    repeats: int
    slack: int

    @property
    def covered(self) -> int:
        """Steps in the repetition."""
        return self.period * self.repeats


def equal_at_distance(signature: Integers, producers: Integers, period: int) -> NDArray[np.bool_]:
    """Where step i and step i + period do the same with corresponding operands.

    Args:
        signature: what a step does, operands aside; shape [N].
        producers: positions of the steps that write its operands, −1 for operands from outside; shape [N, K].
        period: the distance.

    Operands correspond when their producers are as far away, or are the same step (a value that all repeats read).
    """
    first, second = producers[:-period], producers[period:]
    matching = (second - first == period) | (second == first)
    return np.asarray((signature[:-period] == signature[period:]) & matching.all(axis=1))


def longest_repetition(signature: Integers, producers: Integers, anchors: Sequence[bool]) -> Repetition | None:
    """The repetition that covers the most steps; of several, the one with the shortest body, then the first.

    Its bodies hold an anchor (a step with weights) each, and each reads what the one before it wrote. None where
    nothing repeats. Costs O(N K) for each distance between two anchors that do the same: few, where layers repeat.
    """
    count = len(signature)
    anchored = np.concatenate([[0], np.cumsum(np.asarray(anchors, dtype=np.int64))])
    best: Repetition | None = None
    for period in _periods(signature, anchors):
        if best is not None and count // period * period < best.covered:
            continue
        equal = equal_at_distance(signature, producers, period)
        for start, length in _stretches(equal, period):
            repeats = length // period + 1
            repetition = Repetition(start, period, repeats, length - (repeats - 1) * period)
            if best is not None and repetition.covered <= best.covered:
                continue
            has_anchor = anchored[start + period] > anchored[start]
            if has_anchor and _chained(producers, repetition):
                best = repetition
    return best


def _periods(signature: Integers, anchors: Sequence[bool]) -> list[int]:
    """The distances, at most half of all steps, between two anchors that do the same: no other repetition holds one."""
    positions = np.flatnonzero(np.asarray(anchors, dtype=np.bool_))
    distances: set[int] = set()
    for kind in np.unique(signature[positions]):
        alike = positions[signature[positions] == kind]
        for number, first in enumerate(alike):
            distances.update((alike[number + 1 :] - first).tolist())
    return sorted(period for period in distances if period <= len(signature) // 2)


def possible_starts(signature: Integers, producers: Integers, repetition: Repetition) -> tuple[int, ...]:
    """Where the bodies of ``repetition`` may begin: as many of them as fit, at any rotation, ascending.

    The first body gets from elsewhere what every later one gets from the body before it, so that the repetition may
    begin up to one period before the steps start to correspond: there an operand from outside stands for one that the
    first body writes, the same one throughout.
    """
    period = repetition.period
    stop = repetition.start + repetition.covered + repetition.slack
    first = repetition.start
    while first > max(0, repetition.start - period) and signature[first - 1] == signature[first - 1 + period]:
        first -= 1
    starts = [start for start in range(first, repetition.start) if _entered(producers, start, repetition)]
    starts.extend(range(repetition.start, repetition.start + repetition.slack + 1))
    repeats = max((stop - start) // period for start in starts)
    return tuple(start for start in starts if (stop - start) // period == repeats)


def _entered(producers: Integers, start: int, repetition: Repetition) -> bool:
    """Whether a repetition may begin at ``start``, in front of the steps that correspond."""
    stands_for: dict[int, int] = {}
    for step in range(start, repetition.start):
        for ours, next_ones in zip(producers[step], producers[step + repetition.period], strict=True):
            if next_ones - ours == repetition.period or next_ones == ours:
                continue
            carried = ours < start <= next_ones < start + repetition.period
            if not carried or stands_for.setdefault(int(ours), int(next_ones)) != next_ones:
                return False
    return True


def _stretches(equal: NDArray[np.bool_], shortest: int) -> list[tuple[int, int]]:
    """(start, length) of the stretches of True that are at least ``shortest`` long."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], equal, [False]]).astype(np.int8)))
    starts, lengths = edges[::2], edges[1::2] - edges[::2]
    long = lengths >= shortest
    return [(int(start), int(length)) for start, length in zip(starts[long], lengths[long], strict=True)]


def _chained(producers: Integers, repetition: Repetition) -> bool:
    """Whether the second body reads something that the first one writes."""
    start = repetition.start + repetition.period
    body = producers[start : start + repetition.period]
    return bool(((body >= repetition.start) & (body < start)).any())
