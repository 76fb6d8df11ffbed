"""Layers without naming conventions: repeated runs of steps, and the stretches between them.

Only steps that carry features (that depend on a weight, trained or frozen) are compared; the others (masks, position
tables) belong to whichever layer they are in. A repeated body may begin anywhere in its period: it begins where the
fewest bytes cross.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dse.graph.trace import Step, Trace
from dse.importer.repeats import Integers, longest_repetition, possible_starts
from dse.importer.work import tensor_flops

_MAX_REPEATS = 128
"""More repeats than this (time steps) are taken together, several to a layer."""

_SHARE_OF_A_SECTION = 32
"""A stretch without repeats is cut where it can be, into sections of at least this part of the model's FLOPs."""


@dataclass(frozen=True, slots=True)
class Section:
    """The steps of one layer: positions ``start`` to ``stop`` of the trace."""

    name: str
    start: int
    stop: int

    def steps(self, trace: Trace) -> tuple[Step, ...]:
        """Its steps of ``trace``."""
        return trace.steps[self.start : self.stop]


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Visited steps ``start`` to ``stop`` that form one layer; ``run`` numbers the repeated run it is part of."""

    start: int
    stop: int
    run: int | None


class _Visited:
    """The steps that depend on a weight, as arrays."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        features = trace.features
        self.positions = [i for i, step in enumerate(trace.steps) if features.intersection(step.outputs)]
        self.number = {position: index for index, position in enumerate(self.positions)}
        steps = [trace.steps[position] for position in self.positions]
        kinds: dict[object, int] = {}
        self.signature: Integers = np.array(
            [kinds.setdefault(_signature(trace, step), len(kinds)) for step in steps], dtype=np.int64
        )
        width = max((len(step.inputs) for step in steps), default=1)
        self.producers: Integers = np.full((len(steps), max(1, width)), -1, dtype=np.int64)
        for index, step in enumerate(steps):
            for slot, value in enumerate(step.inputs):
                if value in features and value in trace.producer:
                    self.producers[index, slot] = self.number[trace.producer[value]]
        self.flops = [tensor_flops(trace, step) for step in steps]
        self.anchors = [_has_weights(trace, step) for step in steps]
        self.crossing_elements, self.crossing_values = self._crossing(len(steps))

    def _crossing(self, count: int) -> tuple[Integers, Integers]:
        """Elements and number of the values that are written before step i and read by it or later, for each i."""
        elements, values = (np.zeros(count + 2, dtype=np.int64) for _ in range(2))
        features = self.trace.features
        for index, position in enumerate(self.positions):
            for value in self.trace.steps[position].outputs:
                readers = [self.number[i] for i in self.trace.consumers.get(value, ()) if i in self.number]
                if value in features and readers:
                    for total, amount in ((elements, self.trace.values[value].elements), (values, 1)):
                        total[index + 1] += amount
                        total[max(readers) + 1] -= amount
        return np.cumsum(elements), np.cumsum(values)


def sections(trace: Trace) -> tuple[Section, ...]:
    """The layers of ``trace`` in order, every step in exactly one.

    They are ``embedding``, ``layer0`` … and ``head`` where one run of repeats has a stretch on both sides that are not
    cut, else ``section0`` … for what does not repeat, and ``layer0`` …, ``layer1.0`` … for the repeats of each run.
    """
    visited = _Visited(trace)
    if not visited.positions:
        return (Section("section0", 0, len(trace.steps)),)
    stretches = _split(visited, 0, len(visited.positions), [0])
    names = _names(stretches)
    cuts = [0, *(visited.positions[stretch.start] for stretch in stretches[1:]), len(trace.steps)]
    return tuple(Section(name, *cut) for name, cut in zip(names, pairwise(cuts), strict=True))


def _split(visited: _Visited, start: int, stop: int, counter: list[int]) -> list[_Stretch]:
    """Steps ``start`` to ``stop`` as layers; ``counter`` holds the number of repetitions so far."""
    if stop <= start:
        return []
    producers = visited.producers[start:stop] - start
    producers[visited.producers[start:stop] < 0] = -(2**40)
    signature = visited.signature[start:stop]
    repetition = longest_repetition(signature, producers, visited.anchors[start:stop])
    if repetition is None:
        return _cut(visited, start, stop)
    starts = possible_starts(signature, producers, repetition)
    first = start + _narrowest(visited, starts, repetition.period, start)
    repeats = (repetition.start + repetition.covered + repetition.slack - (first - start)) // repetition.period
    number = counter[0]
    counter[0] += 1
    together = -(-repeats // _MAX_REPEATS) * repetition.period
    last = first + repeats * repetition.period
    layers = [_Stretch(i, min(i + together, last), number) for i in range(first, last, together)]
    return [*_split(visited, start, first, counter), *layers, *_split(visited, last, stop, counter)]


def _narrowest(visited: _Visited, starts: Sequence[int], period: int, offset: int) -> int:
    """The one of ``starts`` at which the fewest elements cross from the first body to the second."""
    return min(starts, key=lambda start: int(visited.crossing_elements[offset + start + period]))


def _cut(visited: _Visited, start: int, stop: int) -> list[_Stretch]:
    """A stretch without repeats, cut where a single value crosses into sections of enough FLOPs."""
    min_flops = max(1, sum(visited.flops) // _SHARE_OF_A_SECTION)
    cuts, flops = [start], 0
    for index in range(start, stop):
        if flops >= min_flops and visited.crossing_values[index] == 1 and sum(visited.flops[index:stop]) >= min_flops:
            cuts.append(index)
            flops = 0
        flops += visited.flops[index]
    return [_Stretch(first, last, None) for first, last in zip(cuts, [*cuts[1:], stop], strict=True)]


def _names(stretches: Sequence[_Stretch]) -> list[str]:
    runs = list(dict.fromkeys(stretch.run for stretch in stretches if stretch.run is not None))
    numbered = {run: f"{index}." if len(runs) > 1 else "" for index, run in enumerate(runs)}
    shape = [stretch.run is None for stretch in stretches]
    usual = len(runs) == 1 and shape.count(True) == 2 and shape[0] and shape[-1]
    counts: dict[str, int] = {}
    names = []
    for position, stretch in enumerate(stretches):
        prefix = "section" if stretch.run is None else f"layer{numbered[stretch.run]}"
        number = counts.get(prefix, 0)
        counts[prefix] = number + 1
        if usual and stretch.run is None:
            names.append("head" if position else "embedding")
        else:
            names.append(f"{prefix}{number}")
    return names


def _signature(trace: Trace, step: Step) -> object:
    """What a step does, operands' identities aside."""
    gradient, features = trace.needs_gradient, trace.features

    def operand(index: int) -> object:
        value = trace.values[index]
        return value.role == "parameter", value.role == "frozen", index in gradient, index in features, value.shape

    return (
        step.kind,
        _frozen(step.attributes),
        tuple(operand(index) for index in step.inputs),
        tuple(trace.values[index].shape for index in step.outputs),
    )


def _frozen(attributes: Mapping[str, object]) -> tuple[tuple[str, object], ...]:
    return tuple(sorted(attributes.items()))


def _has_weights(trace: Trace, step: Step) -> bool:
    weighted = any(trace.values[index].role in ("parameter", "frozen") for index in step.inputs)
    return weighted and step.kind in ("matmul", "convolution", "other")
